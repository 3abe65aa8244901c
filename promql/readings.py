"""Answers become one value per node or pod here, and what cannot be trusted is refused by name of the reason.

Used by the annotator's collecting and the descheduler's usage. The judge of a value's range comes from the caller
(`policy.contract.load_annotation.invalid_reason`: nan, infinite, negative, over_range); this module adds `double`:
several series for one node, of which none is believed, unless they are one target's by the replicas of one Prometheus,
or by two pods of its exporter (of a query that keeps their labels). What those say is one reading while they agree, and
else `replicas_disagree`. Refused and absent values are simply not
in the result, so they can never be read as 0.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from promql import door
from promql.queries import identity

# Why a value must not be used; None when it is good.
Judge = Callable[[float], str | None]
Merger = Callable[[Sequence[float]], float | None]  # one value of what several replicas say; None where they disagree
DOUBLE = "double"
REPLICAS_DISAGREE = "replicas_disagree"
# Replicas scrape the same node at other moments: half a minute apart, averages over five minutes differ by a tenth of
# the node when all its CPUs begin to work at once.
AGREEING_RATIO: Final = 0.10
# A query of an operator's own, 1 - rate(idle), comes out below 0 on an idle CPU because scrape times jitter: zero load.
ZERO_NOISE_RATIO = 0.02


@dataclass(frozen=True, slots=True)
class NodeValues:
    """One answer by node: good values, refused ones with their reason, labels that match no node; and when a value was
    measured (Unix seconds), where the source says it of each.
    """

    values: Mapping[str, float]
    refused: Mapping[str, str]
    unmatched: tuple[str, ...] = ()
    at_seconds: Mapping[str, float] | None = None

    def of(self, nodes: Sequence[str]) -> npt.NDArray[np.float64]:
        """In the order of these nodes, NaN where one has no good value."""
        return np.array([self.values.get(node, math.nan) for node in nodes], np.float64)

    def confirmed_seconds(self, nodes: Sequence[str], now_seconds: float) -> npt.NDArray[np.float64]:
        """When the value of each of these nodes was measured, and not later than now."""
        if self.at_seconds is None:
            return np.full(len(nodes), now_seconds)
        return np.array([min(self.at_seconds.get(node, now_seconds), now_seconds) for node in nodes], np.float64)

    @property
    def refused_by_reason(self) -> Mapping[str, int]:
        """How many nodes were refused per reason."""
        return Counter(self.refused.values())


def largest(ratios: Sequence[float]) -> float | None:
    """The largest of the ratios that replicas give of one node: it must not look idler than one of them saw it. None
    where they are further apart than AGREEING_RATIO; NaN where one is no number.
    """
    if math.isnan(sum(ratios)):
        return math.nan
    return max(ratios) if max(ratios) - min(ratios) <= AGREEING_RATIO else None


def oldest(times_seconds: Sequence[float]) -> float | None:
    """The oldest of the times of data that replicas give of one node."""
    return math.nan if math.isnan(sum(times_seconds)) else min(times_seconds)


def by_node(
    answer: door.Answer,
    directory: identity.Directory,
    *,
    label: str,
    judge: Judge,
    of_replicas: Merger = largest,
) -> NodeValues:
    """Utilisation ratios per node; -0.02..0 is the noise of a rate and reads as 0. `of_replicas` makes one value of
    what several replicas say of the same target, or None where they disagree.
    """
    names = [labels.get(label, "") for labels in answer.labels]
    nodes = directory.resolved(names)
    noise = (answer.values < 0) & (answer.values >= -ZERO_NOISE_RATIO)
    ratios = np.where(noise, 0.0, answer.values).tolist()
    unmatched = {text for text, node in zip(names, nodes, strict=True) if node is None}
    known = [node for node in nodes if node is not None]
    if unmatched:
        ratios = [ratio for ratio, node in zip(ratios, nodes, strict=True) if node is not None]
    duplicates: dict[str, str] = {}
    if len(set(known)) < len(known):
        labels = [each for each, node in zip(answer.labels, nodes, strict=True) if node is not None]
        apart = _APART if label == identity.INSTANCE else _APART | {identity.INSTANCE}
        known, ratios, duplicates = _united(known, ratios, labels, of_replicas=of_replicas, apart=apart)
    values, refused = judged(known, ratios, judge)
    return NodeValues(values, refused | duplicates, tuple(sorted(unmatched)))


def _united(
    nodes: Sequence[str],
    values: Sequence[float],
    labels: Sequence[Mapping[str, str]],
    *,
    of_replicas: Merger,
    apart: frozenset[str],
) -> tuple[list[str], list[float], dict[str, str]]:
    """One value for each node, in two lists, and why others have none. `apart` are labels by which series of one target
    may differ.
    """
    by_node: dict[str, list[int]] = {}
    for place, node in enumerate(nodes):
        by_node.setdefault(node, []).append(place)
    single: dict[str, float] = {}
    refused: dict[str, str] = {}
    for node, places in by_node.items():
        if len(places) == 1:
            single[node] = values[places[0]]
        elif not _are_replicas([labels[place] for place in places], apart):
            refused[node] = DOUBLE
        elif (value := of_replicas([values[place] for place in places])) is None:
            refused[node] = REPLICAS_DISAGREE
        else:
            single[node] = value
    return list(single), list(single.values()), refused


_APART: Final = frozenset((*identity.REPLICA_LABELS, *identity.EXPORTER_LABELS))


def _are_replicas(series: Sequence[Mapping[str, str]], apart: frozenset[str]) -> bool:
    """Whether these labels are all by which the series differ: one target, scraped by several, or under two pods."""
    targets = {frozenset(item for item in labels.items() if item[0] not in apart) for labels in series}
    return len(targets) == 1 and len({frozenset(labels.items()) for labels in series}) == len(series)


def by_pod(answer: door.Answer, *, judge: Judge) -> tuple[dict[str, float], dict[str, str]]:
    """Values and refusals by "namespace/name" for the answers of `promql.queries.pod_queries` (cores or bytes)."""
    named = [
        (f"{labels['namespace']}/{labels['pod']}", value)
        for labels, value in zip(answer.labels, answer.values.tolist(), strict=True)
        if labels.get("namespace") and labels.get("pod")
    ]
    return judged([key for key, _ in named], [value for _, value in named], judge)


def judged(keys: Sequence[str], values: Sequence[float], judge: Judge) -> tuple[dict[str, float], dict[str, str]]:
    """Split into (value per key, reason per refused key); two values for one key are refused as a double."""
    good: dict[str, float] = {}
    refused: dict[str, str] = {}
    for key, value in zip(keys, values, strict=True):
        if key in good or key in refused:
            good.pop(key, None)
            refused[key] = DOUBLE
        elif (reason := judge(value)) is None:
            good[key] = value
        else:
            refused[key] = reason
    return good, refused
