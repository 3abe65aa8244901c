"""Overloads of a run: nodes that are hot, or, while none is, nodes whose forecast is surely over a line.

`service.py` asks for them at the beginning of a run. A forecast is surely over a line where

    value - beforePeak.errors * error  >  line

in the node's load annotation, which the annotator writes; one that is older than an hour, whose hour is over or whose
error is not known counts as missing. It is confirmed as an overload is: for `overloadedFor`, in runs with fresh
readings of the node. A run for peaks obeys a policy in which the lines of forecasts stand beside the others, so that
its destinations stay under them, too; any other run knows nothing of them.
"""

import collections.abc
import dataclasses
from typing import Final, NamedTuple

from descheduler.planning import overload
from descheduler.planning.overload import ExpectedPeak, Key, Memory, Overload
from descheduler.snapshot import usage
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.usage import NodeUsage
from kube.objects import Node
from policy import metrics
from policy.contract import freshness
from policy.contract.load_annotation import Reading
from policy.schema.descheduler_section import Band, BeforePeak
from policy.schema.load_policy import LoadPolicy

FRESH_SECONDS: Final = 3600.0  # a forecast is of whole hours: an older one is of another
LEAST_PRESENT_RATIO: Final = 0.05  # of a node that uses less, the pods' parts say nothing about the peak

Usages = collections.abc.Mapping[str, NodeUsage]


class Forecast(NamedTuple):
    """The forecast of a node by a metric: its value, how high it surely is, and what else is known of the peak."""

    value_ratio: float
    sure_ratio: float
    peak: ExpectedPeak


class Detection(NamedTuple):
    """The known overloads, those to act on, and by which lines and usage of nodes this run acts."""

    memory: Memory
    overloads: tuple[Overload, ...]
    policies: NodePolicies
    usages: Usages


def detect(
    before: Memory,
    usages: Usages,
    policies: NodePolicies,
    nodes: collections.abc.Collection[Node],
    *,
    now_seconds: float,
) -> Detection:
    """The overloads after one more round of readings; of forecasts only while no node is over a measured line."""
    section = policies.whole.descheduler.before_peak
    if section is None:
        memory = overload.observe(before, usages, policies, now_seconds=now_seconds)
        hot = overload.confirmed(memory, usages, policies, now_seconds=now_seconds)
        return Detection(memory, hot, policies, usages)
    known = forecasts(policies.whole, section, nodes, now_seconds=now_seconds)
    both = NodePolicies(with_peaks(policies.whole, section), nodes)
    sure = _beside(usages, {key: one.sure_ratio for key, one in known.items()})
    memory = overload.observe(before, sure, both, now_seconds=now_seconds)
    every = overload.confirmed(memory, sure, both, now_seconds=now_seconds)
    hot = tuple(one for one in every if one.metric not in section.thresholds)
    ahead = tuple(_ahead(one, known) for one in every if one.metric in section.thresholds)
    if not ahead or hot or _any_hot(memory, section, {node.name for node in nodes}):
        return Detection(memory, hot, policies, usages)
    return Detection(memory, ahead, both, _beside(usages, {key: one.value_ratio for key, one in known.items()}))


def with_peaks(policy: LoadPolicy, section: BeforePeak) -> LoadPolicy:
    """The policy of a run for peaks: the lines of forecasts after those of what is measured."""
    peaks = {
        name: Band.model_validate({"evictAbove": lines.evict_above_ratio, "evictUntil": lines.evict_until_ratio})
        for name, lines in section.thresholds.items()
    }
    thresholds = {**policy.descheduler.thresholds, **peaks}
    return policy.model_copy(update={"descheduler": policy.descheduler.model_copy(update={"thresholds": thresholds})})


def forecasts(
    policy: LoadPolicy, section: BeforePeak, nodes: collections.abc.Iterable[Node], *, now_seconds: float
) -> dict[Key, Forecast]:
    """The forecasts of the nodes that may be acted on, by node and metric."""
    in_force = [metric for metric in policy.metrics_in_force if metric.name in section.thresholds]
    averages = _averages(policy)
    found: dict[Key, Forecast] = {}
    for node in nodes:
        reading = usage.annotated(node)
        if reading is None or freshness.usable(reading.at_seconds, now_seconds, FRESH_SECONDS) != "usable":
            continue
        for metric in in_force:
            one = _forecast(reading, metric.name, averages.get(metric.resource, ""), section, now_seconds)
            if one is not None:
                found[node.name, metric.name] = one
    return found


def _forecast(reading: Reading, metric: str, average: str, section: BeforePeak, now_seconds: float) -> Forecast | None:
    """The forecast in a reading; None where a part of it is missing or its hour is over."""
    value_ratio, present_ratio = reading.values.get(metric), reading.values.get(average, 0.0)
    peak = reading.peaks.get(metric)
    if value_ratio is None or present_ratio < LEAST_PRESENT_RATIO:
        return None
    if peak is None or peak.error_ratio is None or peak.until_seconds <= now_seconds:
        return None
    growth = max(1.0, value_ratio / present_ratio)
    expected = ExpectedPeak(peak.at_seconds, peak.error_ratio, reading.at_seconds, growth)
    return Forecast(value_ratio, max(0.0, value_ratio - section.errors * peak.error_ratio), expected)


def _averages(policy: LoadPolicy) -> dict[str, str]:
    """By resource the name of its average, the first in force."""
    names = [(one.resource, one.name) for one in policy.metrics_in_force if one.statistic == metrics.AVERAGE]
    return dict(reversed(names))


def _beside(usages: Usages, ratios: collections.abc.Mapping[Key, float]) -> dict[str, NodeUsage]:
    """The usage of nodes with these ratios beside the measured ones."""
    found = dict(usages)
    for (node, metric), ratio in ratios.items():
        if node in found:
            one = found[node]
            found[node] = one._replace(ratios={**one.ratios, metric: ratio})
    return found


def _ahead(sure: Overload, known: collections.abc.Mapping[Key, Forecast]) -> Overload:
    """The overload with the forecast itself, of which only the sure part confirmed it."""
    one = known[sure.node, sure.metric]
    return dataclasses.replace(sure, value_ratio=one.value_ratio, peak=one.peak)


def _any_hot(memory: Memory, section: BeforePeak, names: collections.abc.Set[str]) -> bool:
    """True if a node is over a measured line, confirmed or not, or is being relieved of that."""
    keys = (*memory.streaks, *memory.relieving)
    return any(node in names and metric not in section.thresholds for node, metric in keys)
