"""Mean use of the running replicas of each owner: the text of the `evenload-usage` ConfigMap.

The annotator measures and writes it, the extender estimates recent pods by it; owned by neither. One data key per
namespace and one line per owner, so that people can read it and a line costs some 40 bytes:

    v: "1"      at: 2026-11-21T04:00:00Z
    ns.shop: |
      ReplicaSet/web 120m 256Mi 7
      StatefulSet/db 900m - 3

docs/decisions/0004-owners-mean-usage.md says why it is published so, and what that costs.
"""

import collections.abc
import dataclasses
import functools
import re
from typing import Final, NamedTuple

from policy.contract import freshness, timestamps
from policy.schema import load_policy

CONFIG_MAP: Final = "evenload-usage"
VERSION: Final = "1"
# Of the 1 MiB that an apiserver takes, with room for metadata and the JSON around it: about 18,000 owners.
MOST_BYTES: Final = 768 * 1024
MOST_CPU_MILLICORES: Final = 1e6
MOST_MEMORY_BYTES: Final = 2.0**44
# Means of many replicas move slowly and only fill the gap until a window shows the pod itself.
_STALE_PER_READING: Final = 12
_RENEWALS_UNTIL_STALE: Final = 3
_PREFIX: Final = "ns."
_MEBIBYTE: Final = 2.0**20
_NUMBER: Final = r"([0-9]{1,9}(?:\.[0-9])?)"
_LINE: Final = re.compile(rf"([^ ]*) (?:{_NUMBER}m|-) (?:{_NUMBER}Mi|-) ([0-9]{{1,7}})")
_MOST_FIGURES_BYTES: Final = 29  # of a line behind the owner, as in " 1000000m 16777216Mi 9999999", and its end
_UNKNOWN: Final = "-"
# What a Deployment's controller appends to its name (8 to 10 of k8s.io/apimachinery's safe letters), and the minutes a
# CronJob's controller appends.
_HASH: Final = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{8,10}\Z")
_MINUTES: Final = re.compile(r"-[0-9]{8,10}\Z")
_SUFFIXES: Final = {"ReplicaSet": _HASH, "Job": _MINUTES}


class UsageError(ValueError):
    """Data that is unusable as a whole; `reason` is version or no_time."""

    def __init__(self, reason: str, what: object) -> None:
        super().__init__(f"ConfigMap {CONFIG_MAP} is unusable ({reason}): {what!r:.60}; expected version {VERSION}")
        self.reason = reason


class Mean(NamedTuple):
    """The mean use of an owner's replicas and how many were measured; None where nothing is known of the resource."""

    cpu_millicores: float | None
    memory_bytes: float | None
    replicas: int


Means = collections.abc.Mapping[str, Mean]
"""Means by owner key."""


@dataclasses.dataclass(frozen=True, slots=True)
class PublishedUsage:
    """The ConfigMap's content: the means, when they were measured (Unix seconds), how many lines could not be read."""

    at_seconds: float
    means: Means
    refused: int = 0


NOTHING: Final = PublishedUsage(0.0, {})


@functools.lru_cache(maxsize=16384)  # asked of every pod at every look; of bounded names: 1 KB each at the most
def owner_key(namespace: str, kind: str, name: str) -> str:
    """`shop/ReplicaSet/web` for the controlling owner of a pod.

    The same for all ReplicaSets of a Deployment and all Jobs of a CronJob, whose names differ in what the controller
    appended: the first pods of a new version are then estimated by the running ones of the old.
    """
    suffix = _SUFFIXES.get(kind)
    match = None if suffix is None else suffix.search(name)
    plain = name[: match.start()] if match is not None and match.start() else name
    return f"{namespace}/{kind}/{plain}"


def invalid_reason(amount: float, most: float) -> str | None:
    """Why an amount is none that a pod can use: nan, negative or over_range (infinite too); None when it is one."""
    if amount != amount:
        return "nan"
    if amount < 0:
        return "negative"
    return "over_range" if amount > most else None


def encode(at_seconds: float, means: Means) -> dict[str, str]:
    """The ConfigMap's data; owners in the order of their keys, amounts to a tenth under 10 and whole above."""
    lines: dict[str, list[str]] = {}
    for key in sorted(means):
        namespace, _, owner = key.partition("/")
        lines.setdefault(_PREFIX + namespace, []).append(_line(owner, means[key]))
    return {"v": VERSION, "at": timestamps.encode(at_seconds)} | {name: "\n".join(rows) for name, rows in lines.items()}


def _line(owner: str, mean: Mean) -> str:
    mebibytes = None if mean.memory_bytes is None else mean.memory_bytes / _MEBIBYTE
    cpu, memory = (
        _UNKNOWN if amount is None else f"{amount:.{int(amount < 10)}f}{unit}"
        for amount, unit in ((mean.cpu_millicores, "m"), (mebibytes, "Mi"))
    )
    return f"{owner} {cpu} {memory} {mean.replicas}"


def decode(data: collections.abc.Mapping[str, str]) -> PublishedUsage:
    """Decodes a ConfigMap's data; UsageError when they are unusable as a whole. A foreign line is counted."""
    if data.get("v") != VERSION:
        raise UsageError("version", data.get("v"))
    try:
        at_seconds = timestamps.decode(data.get("at"))
    except ValueError as error:
        raise UsageError("no_time", data.get("at")) from error
    means: dict[str, Mean] = {}
    refused = 0
    for name in (name for name in data if name.startswith(_PREFIX)):
        for line in data[name].splitlines():
            owner, mean = _read(line)
            if mean is None:
                refused += 1
            else:
                means[f"{name.removeprefix(_PREFIX)}/{owner}"] = mean
    return PublishedUsage(at_seconds, means, refused)


def _read(line: str) -> tuple[str, Mean | None]:
    match = _LINE.fullmatch(line)
    if match is None:
        return "", None
    owner, cpu, memory, replicas = match.groups()
    millicores = None if cpu is None else float(cpu)
    size_bytes = None if memory is None else float(memory) * _MEBIBYTE
    if (millicores or 0.0) > MOST_CPU_MILLICORES or (size_bytes or 0.0) > MOST_MEMORY_BYTES:
        return "", None
    return owner, Mean(millicores, size_bytes, int(replicas))


def stale_after_seconds(sync: load_policy.Sync) -> float:
    """How long means may be used: twelve times `staleAfter`, 1 h with the defaults."""
    return _STALE_PER_READING * sync.stale_after_seconds


def renew_after_seconds(sync: load_policy.Sync) -> float:
    """After how long means are written again although nothing moved, so that two renewals may fail."""
    return stale_after_seconds(sync) / _RENEWALS_UNTIL_STALE


def usable(published: PublishedUsage, now_seconds: float, sync: load_policy.Sync) -> bool:
    """Whether the means may be used at this moment: neither too old nor from the future."""
    return freshness.usable(published.at_seconds, now_seconds, stale_after_seconds(sync)) == "usable"


def fitting(means: Means, recent: collections.abc.Container[str], most_bytes: int = MOST_BYTES) -> Means:
    """The means that fit into the ConfigMap: all of them, or first those of `recent` owners, then the largest.

    `recent` are the owners that had a pod placed lately: what was placed lately will be placed again. Ties by key.
    """
    if size_bytes(means) <= most_bytes:
        return means
    order = sorted(means, key=lambda key: (key not in recent, -means[key].replicas, key))
    means_that_fit: dict[str, Mean] = {}
    left_bytes = most_bytes
    for key in order:
        line_bytes = len(_line(key, means[key]).encode()) + 1
        if line_bytes <= left_bytes:  # a long name costs its own owner the place, not those behind it
            left_bytes -= line_bytes
            means_that_fit[key] = means[key]
    return means_that_fit


def size_bytes(means: Means) -> int:
    """How large the ConfigMap of these means is at the most."""
    return len("".join(means).encode()) + _MOST_FIGURES_BYTES * len(means)


def moved(before: Means, after: Means, *, tolerance_ratio: float = 0.2) -> bool:
    """Whether the means differ enough to be written: an owner came or went, or an amount moved by a fifth.

    Moves under 20 millicores or 32 MiB are noise whatever they are relatively; how many replicas there are is
    information for people.
    """
    if before.keys() != after.keys():
        return True
    return any(
        _far(before[key].cpu_millicores, mean.cpu_millicores, 20.0, tolerance_ratio)
        or _far(before[key].memory_bytes, mean.memory_bytes, 32 * _MEBIBYTE, tolerance_ratio)
        for key, mean in after.items()
    )


def _far(before: float | None, after: float | None, least: float, tolerance_ratio: float) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after - before) > max(least, tolerance_ratio * before)
