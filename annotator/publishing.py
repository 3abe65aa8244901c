"""What is held -> the fewest merge-patches of nodes, then the heartbeat that renews all the quiet ones.

`plan` is pure: it compares what is held with the text each node carries and leaves out every change too small to be
worth a write. `write` carries a plan out in parallel; `Standing` remembers our own writes until the watch shows them,
so that the digest is over the texts as they now stand in the cluster. How nothing is presented fresher than it is:

* a reading's `at` is the oldest confirmation among its values, and the heartbeat's `at` the oldest among all nodes';
* a node whose patch failed is named in the heartbeat as not vouched for: its old text ages in the extender instead of
  being renewed, and the texts of all others are renewed as ever;
* nothing at all is written by a sync in which no query succeeded (`annotator.cycle`).
"""

import concurrent.futures
import dataclasses
import functools
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from annotator import collecting, crane, writing
from kube import errors, kinds
from kube.door import KubeDoor
from kube.objects import Node
from policy import annotations, freshness, heartbeat, node_thresholds
from policy.annotations import Reading
from policy.schema import LoadPolicy

WRITERS: Final = 8  # enough to write 5,000 nodes in seconds, few enough not to crowd out other clients' fair share
PENDING_SECONDS: Final = 30.0  # a watch that has not shown our write after so long is believed instead of our memory
STOPPING: Final = (errors.Unreachable, errors.Unauthorized, errors.TooManyRequests, writing.NotAllowedError)
WRITTEN, GONE, FAILED, SKIPPED = "written", "gone", "failed", "skipped"


class Patch(NamedTuple):
    """One node's new annotation; `extra` are further annotations, None removes one."""

    node: str
    uid: str
    text: str
    extra: Mapping[str, str | None]

    @property
    def body(self) -> dict[str, object]:
        """The merge-patch. The uid is a precondition: a new machine must not inherit its namesake's load."""
        return {"metadata": {"uid": self.uid, "annotations": {annotations.KEY: self.text, **self.extra}}}


@dataclass(frozen=True, slots=True)
class Rules:
    """When a change is worth a write: minChange, the thresholds whose crossing always is, and crane's keys or not.

    `hot_above` are the filter's thresholds alone: pods are refused by nodes over one of them. `own` are the rules of
    the nodes that have filter thresholds of their own (`policy.node_thresholds`).
    """

    min_change_ratio: float
    crossings: annotations.Crossings
    hot_above: Mapping[str, float]
    crane: bool = False
    own: Mapping[str, "Rules"] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, policy: LoadPolicy, nodes: Iterable[Node] = (), *, crane: bool) -> "Rules":
        """The rules of a policy for these nodes."""
        own = {}
        for node in nodes:
            given = node_thresholds.decode(node.annotations.get(node_thresholds.KEY))
            if given is not None and given.limits:
                own[node.name] = cls._with(policy, given.limits, crane=crane)
        return dataclasses.replace(cls._with(policy, {}, crane=crane), own=own)

    @classmethod
    def _with(cls, policy: LoadPolicy, limits: Mapping[str, float], *, crane: bool) -> "Rules":
        thresholds = {**policy.filter.thresholds, **limits}
        hot_above = {name: limit for name, limit in thresholds.items() if limit > 0}
        return cls(policy.sync.min_change_ratio, policy.crossings(limits), hot_above, crane)

    def on(self, node: str) -> "Rules":
        """The rules for one node."""
        return self.own.get(node, self)


def plan(
    nodes: Sequence[Node],
    book: collecting.Book,
    hot: Mapping[str, Mapping[str, int]],
    *,
    standing: Mapping[str, str],
    rules: Rules,
    now_seconds: float,
    again: str = "",
) -> tuple[Patch, ...]:
    """The patches that bring the nodes' texts (`standing`, raw by name) to what is held, and no more than that.

    `again` names a node that is written even if nothing moved (see `cooled`). `hot` is placements per window text and
    node. A node that never had a value gets no annotation; one that lost its values gets an empty reading, because its
    old one would otherwise be renewed by every heartbeat.
    """
    patches: list[Patch] = []
    for node in nodes:
        reading = _reading(book.get(node.name, {}), hot.get(node.name, {}), now_seconds)
        text = standing.get(node.name)
        if text is None and not reading.values:
            continue
        if node.name == again or _worth_writing(text, reading, rules.on(node.name), now_seconds):
            extra = crane.annotations(reading) if rules.crane else {}
            patches.append(Patch(node.name, node.uid, annotations.encode(reading), extra))
    return tuple(patches)


def _reading(held: Mapping[str, collecting.Held], hot: Mapping[str, int], now_seconds: float) -> Reading:
    oldest = collecting.oldest_confirmation(held)
    at_seconds = now_seconds if oldest is None else oldest
    return Reading(at_seconds, {name: value.ratio for name, value in held.items()}, hot)


def _worth_writing(text: str | None, reading: Reading, rules: Rules, now_seconds: float) -> bool:
    previous = _decoded(text)
    if previous is None or previous.invalid:
        return True
    if previous.at_seconds > now_seconds + freshness.MAX_AHEAD_SECONDS:
        return True  # stamped by a clock ahead of ours: unusable until replaced, whatever its values are
    if rules.crane and reading.at_seconds - previous.at_seconds >= crane.REFRESH_SECONDS:
        return True
    return annotations.must_write(previous, reading, rules.min_change_ratio, rules.crossings)


@functools.lru_cache(maxsize=16384)  # every node's text is asked for at every sync, and most have not changed
def _decoded(text: str | None) -> Reading | None:
    if text is None:
        return None
    try:
        return annotations.decode(text)
    except annotations.AnnotationError:
        return None


def cooled(patches: Sequence[Patch], standing: Mapping[str, str], rules: Rules) -> str:
    """The first node that these patches take from over some filter threshold to under all of them; "" for none.

    Its patch wakes the pods that were refused, but kube-scheduler may ask the extender again before the extender's own
    watch has shown it the patch, and the pod would then wait for the next write anywhere. So the sync after writes this
    node once more: one patch, after every watch has caught up, and none after that, as nothing crossed.
    """
    return next(
        (
            patch.node
            for patch in patches
            if _is_hot(standing.get(patch.node), rules.on(patch.node)) and not _is_hot(patch.text, rules.on(patch.node))
        ),
        "",
    )


def _is_hot(text: str | None, rules: Rules) -> bool:
    reading = _decoded(text)
    if reading is None:
        return False
    return any(reading.values.get(name, 0.0) > limit for name, limit in rules.hot_above.items())


class _Pending(NamedTuple):
    old_text: str | None
    new_text: str
    uid: str
    at_seconds: float


class Standing:
    """The annotation texts as they stand in the cluster: what the watch shows, overlaid with our own writes.

    Without the overlay a sync that follows a write at once would compare with, and digest, texts that are already gone.
    Used by one thread.
    """

    def __init__(self) -> None:
        self._pending: dict[str, _Pending] = {}

    def texts(self, nodes: Sequence[Node], *, now_seconds: float) -> dict[str, str]:
        """Raw text by node name, only nodes that carry the annotation."""
        found: dict[str, str] = {}
        pending: dict[str, _Pending] = {}
        for node in nodes:
            text = node.annotations.get(annotations.KEY)
            ours = self._pending.get(node.name)
            if ours is not None and _still_unseen(ours, node.uid, text, now_seconds):
                pending[node.name] = ours
                text = ours.new_text
            if text is not None:
                found[node.name] = text
        self._pending = pending
        return found

    def wrote(self, patch: Patch, old_text: str | None, *, now_seconds: float) -> None:
        """Note a write that the apiserver accepted."""
        self._pending[patch.node] = _Pending(old_text, patch.text, patch.uid, now_seconds)


def _still_unseen(ours: _Pending, uid: str, text: str | None, now_seconds: float) -> bool:
    return ours.uid == uid and text == ours.old_text and now_seconds - ours.at_seconds < PENDING_SECONDS


class Written(NamedTuple):
    """How one patch went: written, gone, failed or skipped, with the error of a failed one."""

    result: str
    error: errors.KubeError | None = None


def write(door: KubeDoor, patches: Sequence[Patch], *, writers: int = WRITERS) -> dict[str, Written]:
    """Carry a plan out, at most `writers` at a time (1: in its order, on the caller's thread); how each went, by node.

    A node that vanished or was replaced meanwhile is `gone`, which is fine. Once the apiserver cannot be reached, does
    not know us or wants fewer requests than even a patient writer sends, and once this replica must not write any more,
    the rest is `skipped`: five thousand time limits in a row would outlast any period.
    """
    if not patches:
        return {}
    stop, several = threading.Event(), min(writers, len(patches))
    if several == 1:
        return {patch.node: _write_one(door, patch, stop) for patch in patches}
    with concurrent.futures.ThreadPoolExecutor(several, thread_name_prefix="patch") as pool:
        done = pool.map(lambda patch: _write_one(door, patch, stop), patches)
        return {patch.node: written for patch, written in zip(patches, done, strict=True)}


def _write_one(door: KubeDoor, patch: Patch, stop: threading.Event) -> Written:
    if stop.is_set():
        return Written(SKIPPED)
    try:
        door.merge_patch(kinds.NODES, patch.node, patch.body)
    except errors.NotFound:
        return Written(GONE)
    except errors.Conflict as error:
        return Written(GONE) if _is_another_machine(error) else Written(FAILED, error)
    except errors.KubeError as error:
        if isinstance(error, STOPPING):
            stop.set()
        return Written(FAILED, error)
    return Written(WRITTEN)


def _is_another_machine(error: errors.Conflict) -> bool:
    """Our uid precondition, in the apiserver's words; any other conflict is a race that the next sync tries again."""
    return "uid in precondition" in error.message.lower()


class Vouched(NamedTuple):
    """What a heartbeat vouches for: the texts as they stand, and the nodes that are left out."""

    texts: Mapping[str, str]
    excluded: frozenset[str]


def vouched(standing: Mapping[str, str], patches: Sequence[Patch], results: Mapping[str, Written]) -> Vouched:
    """The texts the heartbeat digests: as they stand, without the nodes whose patch did not succeed.

    What such a node carries is out of date, or (after a broken connection) not known, so nothing may renew it; and the
    other nodes of its bucket must not age with it. Beyond the most that a heartbeat names, a node stands with the text
    it should carry: its bucket does not match, which is as safe and less precise.
    """
    texts, excluded = dict(standing), list[str]()
    for patch in patches:
        if results[patch.node].result == WRITTEN or len(excluded) >= heartbeat.EXCLUDED_MOST:
            texts[patch.node] = patch.text
        else:
            texts.pop(patch.node, None)
            excluded.append(patch.node)
    return Vouched(texts, frozenset(excluded))


def confirmed_seconds(book: collecting.Book, *, now_seconds: float) -> float:
    """The heartbeat's `at`: the oldest confirmation of any value presented on any node, or now when there is none."""
    every = (collecting.oldest_confirmation(held) for held in book.values())
    return min((oldest for oldest in every if oldest is not None), default=now_seconds)


def beat(door: KubeDoor, namespace: str, data: Mapping[str, str]) -> None:
    """Write the heartbeat ConfigMap, creating it the first time; raises KubeError."""
    try:
        door.merge_patch(kinds.CONFIG_MAPS, heartbeat.CONFIG_MAP, {"data": dict(data)}, namespace=namespace)
    except errors.NotFound:
        labels = {"app.kubernetes.io/name": "evenload", "app.kubernetes.io/component": "annotator"}
        metadata = {"name": heartbeat.CONFIG_MAP, "labels": labels}
        door.create(kinds.CONFIG_MAPS, {"metadata": metadata, "data": dict(data)}, namespace=namespace)
