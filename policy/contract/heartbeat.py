"""The heartbeat: how the annotator says "everything on the nodes still holds" without writing on any of them.

Each sync the annotator digests the annotations it believes in and puts the digest into one ConfigMap; the extender
compares its own view bucket by bucket (`EffectiveTimes`) and so renews the readings of quiet nodes.
`policy.contract.freshness` judges the result. Node names fall into 256 buckets by the first byte of their SHA-256, so
one node in flight keeps only its bucket from matching. Nodes whose patch is on its way or failed are named in the
heartbeat and left out of it on both sides: only their own readings age, and not the others of their bucket, about
twenty of 5,000 nodes.
"""

import collections.abc
import dataclasses
import functools
import hashlib
import math
import re
from typing import Final

from policy.contract import freshness, timestamps

CONFIG_MAP: Final = "evenload-heartbeat"
VERSION: Final = "1"
BUCKETS: Final = 256
EXCLUDED_MOST: Final = 1000  # names in a heartbeat: a fifth of 5,000 nodes that change at once, some 40 KB
_CHECKSUM_LENGTH: Final = 8
_PREFIX: Final = "sha256:"
_WHOLE_SHAPE: Final = re.compile(rf"{_PREFIX}[0-9a-f]{{64}}")
_CHECKSUM_SHAPE: Final = re.compile(rf"[0-9a-f]{{{_CHECKSUM_LENGTH}}}")
_COUNT_SHAPE: Final = re.compile(r"[0-9]{1,9}")


class HeartbeatError(ValueError):
    """A ConfigMap that is no usable heartbeat; `reason` is one of version, no_time, nodes, digest, buckets."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"ConfigMap {CONFIG_MAP} is not a usable heartbeat ({reason}); the annotator of this version writes it"
        )
        self.reason = reason


@dataclasses.dataclass(frozen=True, slots=True)
class Digest:
    """Checksums of a set of annotations: `whole` is `sha256:` + hex, `buckets` are 256 short ones of the same lines."""

    whole: str
    buckets: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Heartbeat:
    """One sync of the annotator: when, under which policy, over how many annotated nodes, with which checksums.

    `excluded` are the nodes it does not vouch for, whatever they carry: they are in no checksum.
    """

    at_seconds: float
    policy_hash: str
    nodes: int
    digest: Digest
    excluded: frozenset[str] = frozenset()


@functools.lru_cache(maxsize=16384)  # names of nodes, also of those that are gone: 0.2 KB each
def bucket_of(node: str) -> int:
    """The bucket (0..255) a node name falls into."""
    return hashlib.sha256(node.encode()).digest()[0]


def digest(annotations: collections.abc.Mapping[str, str]) -> Digest:
    """Checksums over the lines `name=annotation\\n`, sorted by name; `annotations` holds the raw text by node name."""
    lines = {node: _line(node, annotations[node]) for node in sorted(annotations)}
    buckets: list[list[bytes]] = [[] for _ in range(BUCKETS)]
    for node, line in lines.items():
        buckets[bucket_of(node)].append(line)
    whole = hashlib.sha256(b"".join(lines.values()))
    return Digest(_PREFIX + whole.hexdigest(), tuple(map(_checksum, buckets)))


def _line(node: str, annotation: str) -> bytes:
    return f"{node}={annotation}\n".encode(errors="surrogatepass")


def _checksum(lines: collections.abc.Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(lines)).hexdigest()[:_CHECKSUM_LENGTH]


def _checksum_of(texts: collections.abc.Mapping[str, str]) -> str:
    return _checksum([_line(node, texts[node]) for node in sorted(texts)])


def encode(
    at_seconds: float, policy_hash: str, nodes: int, checksums: Digest, *, excluded: collections.abc.Iterable[str] = ()
) -> dict[str, str]:
    """The data of the heartbeat ConfigMap. `except` is written even if empty: a merge-patch would keep the last one."""
    return {
        "v": VERSION,
        "at": timestamps.encode(at_seconds),
        "policy": policy_hash,
        "nodes": str(nodes),
        "digest": checksums.whole,
        "buckets": ",".join(checksums.buckets),
        "except": ",".join(sorted(excluded)),
    }


def decode(data: collections.abc.Mapping[str, str]) -> Heartbeat:
    """The heartbeat in a ConfigMap's data; HeartbeatError says which part cannot be used."""
    if data.get("v") != VERSION:
        raise HeartbeatError("version")
    try:
        at_seconds = timestamps.decode(data.get("at"))
    except ValueError as error:
        raise HeartbeatError("no_time") from error
    checksums = Digest(data.get("digest", ""), tuple(data.get("buckets", "").split(",")))
    if not _WHOLE_SHAPE.fullmatch(checksums.whole):
        raise HeartbeatError("digest")
    if len(checksums.buckets) != BUCKETS or not all(map(_CHECKSUM_SHAPE.fullmatch, checksums.buckets)):
        raise HeartbeatError("buckets")
    nodes = data.get("nodes", "")
    if not _COUNT_SHAPE.fullmatch(nodes):
        raise HeartbeatError("nodes")
    excluded = frozenset(filter(None, data.get("except", "").split(",")))
    return Heartbeat(at_seconds, data.get("policy", ""), int(nodes), checksums, excluded)


class EffectiveTimes:
    """Which heartbeat last confirmed each node's annotation, kept up bucket by bucket as texts and heartbeats arrive.

    The owner calls `put` for every node seen, `accept` for every heartbeat, and `settle` before it reads; the order
    in which a node patch and the heartbeat about it arrive does not matter. A confirmation belongs to the very text
    confirmed: a new text starts with none, so an old annotation put back by hand is not taken for fresh. All whole
    matches are matches of every bucket. Not thread-safe: one owner.
    """

    def __init__(self) -> None:
        self._texts: list[dict[str, str]] = [{} for _ in range(BUCKETS)]
        self._checksums: list[str | None] = [_checksum(())] * BUCKETS  # of all texts; None where one changed since
        self._matched: dict[str, float] = {}
        self._dirty: set[int] = set()
        self._differing: set[int] = set()
        self.last: Heartbeat | None = None

    def put(self, node: str, annotation: str | None) -> None:
        """The raw annotation a node carries now; None when it carries none or is gone."""
        bucket = bucket_of(node)
        texts = self._texts[bucket]
        if texts.get(node) == annotation:
            return
        self._matched.pop(node, None)
        if annotation is None:
            texts.pop(node, None)
        else:
            texts[node] = annotation
        self._checksums[bucket] = None
        self._dirty.add(bucket)

    def accept(self, heartbeat: Heartbeat, now_seconds: float) -> bool:
        """Take a heartbeat into account; False when it is more than 1 min ahead of `now_seconds` or older than the
        last.

        A last one that is itself too far ahead of now was taken before a clock was set back: it holds nothing off.
        """
        latest_seconds = now_seconds + freshness.MAX_AHEAD_SECONDS
        if heartbeat.at_seconds > latest_seconds:
            return False
        if self.last is not None and heartbeat.at_seconds < self.last.at_seconds <= latest_seconds:
            return False
        self.last = heartbeat
        self._dirty = set(range(BUCKETS))
        return True

    def settle(self) -> frozenset[str]:
        """Compare what changed with the last heartbeat; returns the nodes that it confirmed again."""
        if self.last is None:
            return frozenset()
        at_seconds, excluded = self.last.at_seconds, self.last.excluded
        dirty, self._dirty = self._dirty, set()
        differing = self._unlike(self.last, dirty)
        self._differing = (self._differing - dirty) | differing
        matched = self._matched
        confirmed = [
            node
            for bucket in dirty - differing
            for node in self._texts[bucket]
            if node not in excluded and (node not in matched or matched[node] != at_seconds)
        ]
        for node in confirmed:
            matched[node] = at_seconds
        return frozenset(confirmed)

    def _unlike(self, heartbeat: Heartbeat, dirty: set[int]) -> set[int]:
        """Which of these buckets are not as the heartbeat says, without the nodes that it leaves out."""
        for bucket in [bucket for bucket in dirty if self._checksums[bucket] is None]:
            self._checksums[bucket] = _checksum_of(self._texts[bucket])
        theirs, ours = heartbeat.digest.buckets, self._checksums
        differing = {bucket for bucket in dirty if ours[bucket] != theirs[bucket]}
        excluded = heartbeat.excluded
        for bucket in [bucket for bucket in dirty if not excluded.isdisjoint(self._texts[bucket])] if excluded else ():
            vouched = {node: text for node, text in self._texts[bucket].items() if node not in excluded}
            (differing.discard if _checksum_of(vouched) == theirs[bucket] else differing.add)(bucket)
        return differing

    def matched_seconds(self, node: str) -> float:
        """The time of the last heartbeat that confirmed the node's annotation as it is now; -inf when none did."""
        return self._matched.get(node, -math.inf)

    def effective_seconds(self, node: str, at_seconds: float) -> float:
        """A reading's effective time: the later of its own `at` and the last heartbeat that confirmed it."""
        return max(at_seconds, self.matched_seconds(node))

    def differing_nodes(self) -> tuple[str, ...]:
        """The nodes of all buckets that did not match the last heartbeat, and those it excludes, sorted.

        Where to look for the difference.
        """
        differing = {node for bucket in self._differing for node in self._texts[bucket]}
        return tuple(sorted(differing | self._unvouched()))

    def _unvouched(self) -> set[str]:
        excluded = self.last.excluded if self.last is not None else frozenset[str]()
        return {node for node in excluded if node in self._texts[bucket_of(node)]}

    def matches(self) -> bool:
        """Whether the whole set matched the last heartbeat when last settled."""
        return self.last is not None and not self._differing and not self._dirty and not self._unvouched()
