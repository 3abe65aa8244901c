"""Which nodes are overloaded, confirmed over time: one reading over a line is noise, the same line crossed for minutes
is load.

`service.py` keeps a `Memory` between runs and asks `observe` for the next one; `planning.planner` gets the confirmed
overloads. The two lines make a hysteresis: a node enters at `evictAbove` held for `overloadedFor`, and once a pod was
evicted from it for that metric it is relieved down to `evictUntil`, so that it does not come to rest on the very line
that triggers.
"""

import collections.abc
import dataclasses

from descheduler.snapshot import usage
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.usage import NodeUsage
from policy.schema.load_policy import LoadPolicy

Key = tuple[str, str]  # node name, metric name


@dataclasses.dataclass(frozen=True, slots=True)
class Streak:
    """Readings above the line without one in between: the first and the last of them (Unix seconds of the data)."""

    since_seconds: float
    last_seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """State between two runs: streaks above the line, and the nodes being relieved for a metric with the time of their
    last reading.
    """

    streaks: collections.abc.Mapping[Key, Streak] = dataclasses.field(default_factory=dict)
    relieving: collections.abc.Mapping[Key, float] = dataclasses.field(default_factory=dict)

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes over a line that triggers, and those being relieved."""
        return frozenset(node for node, _ in (*self.streaks, *self.relieving))


@dataclasses.dataclass(frozen=True, slots=True)
class Overload:
    """A node confirmed over one metric's line: the reading, both lines, and since when (None: relief of an earlier
    overload goes on).
    """

    node: str
    metric: str
    value_ratio: float
    evict_above_ratio: float
    evict_until_ratio: float
    since_seconds: float | None

    @property
    def excess_ratio(self) -> float:
        """How far the reading is above the target line."""
        return self.value_ratio - self.evict_until_ratio


def observe(
    memory: Memory,
    usages: collections.abc.Mapping[str, NodeUsage],
    policies: NodePolicies,
    *,
    now_seconds: float,
) -> Memory:
    """The memory after one more round of readings, each node judged by its own lines.

    A fresh reading above the line starts or continues a streak, a fresh one at or under it ends the streak; without
    a fresh reading nothing is learnt, and a streak or a relief not continued for `staleAfter` (or 1.5 intervals) is
    forgotten: another node may have that name. Relief ends at or under `evictUntil`. Of a node that is neither
    remembered nor over the line nothing is learnt.
    """
    streaks: dict[Key, Streak] = {}
    relieving: dict[Key, float] = {}
    policy = policies.whole
    for metric in policy.descheduler.thresholds:
        remembered = {node for node, name in (*memory.streaks, *memory.relieving) if name == metric}
        for node in sorted(remembered.union(_over(usages, metric, policies))):
            key, reading, band = (node, metric), usages.get(node), policies.bands(node)[metric]
            value = usage.fresh_ratios(reading, now_seconds, policy).get(metric)
            before = memory.streaks.get(key)
            broken = (
                before is not None
                and reading is not None
                and _too_long_ago(before.last_seconds, reading.at_seconds, policy)
            )
            streak = _next_streak(None if broken else before, reading, value, band.evict_above_ratio)
            if streak is not None and not _too_long_ago(streak.last_seconds, now_seconds, policy):
                streaks[key] = streak
            relieved = memory.relieving.get(key)
            if relieved is not None and value is not None and reading is not None:
                over = usage.over(value, band.evict_until_ratio)
                relieved = max(relieved, reading.at_seconds) if over else None
            if relieved is not None and not _too_long_ago(relieved, now_seconds, policy):
                relieving[key] = relieved
    return Memory(streaks=streaks, relieving=relieving)


def confirmed(
    memory: Memory,
    usages: collections.abc.Mapping[str, NodeUsage],
    policies: NodePolicies,
    *,
    now_seconds: float,
) -> tuple[Overload, ...]:
    """The overloads to act on, sorted by node and the policy's order of metrics; each has a fresh reading over its
    target line. Only nodes that are remembered can be among them.
    """
    overloads, policy = [], policies.whole
    for node in sorted(memory.nodes.intersection(usages)):
        for metric, band in policies.bands(node).items():
            value = usage.fresh_ratios(usages[node], now_seconds, policy).get(metric)
            if value is None or not usage.over(value, band.evict_until_ratio):
                continue
            streak, since = memory.streaks.get((node, metric)), None
            entered = (node, metric) in memory.relieving
            if streak is not None:
                since = streak.since_seconds
                entered = entered or streak.last_seconds - since >= policy.descheduler.overloaded_for_seconds
            if entered:
                overloads.append(Overload(node, metric, value, band.evict_above_ratio, band.evict_until_ratio, since))
    return tuple(overloads)


def over_a_line(usages: collections.abc.Mapping[str, NodeUsage], policies: NodePolicies) -> bool:
    """Whether some node shows more than its line that triggers."""
    return any(_over(usages, metric, policies) for metric in policies.whole.descheduler.thresholds)


def bridged_seconds(policy: LoadPolicy) -> float:
    """How long a reading holds without a newer one: runs may be further apart than `staleAfter`."""
    return max(policy.sync.stale_after_seconds, 1.5 * policy.descheduler.interval_seconds)


def with_relief(memory: Memory, keys: collections.abc.Iterable[Key], *, now_seconds: float) -> Memory:
    """The memory after pods were evicted from these nodes for these metrics: relief goes on down to the target line."""
    return dataclasses.replace(memory, relieving={**memory.relieving, **dict.fromkeys(keys, now_seconds)})


def _over(usages: collections.abc.Mapping[str, NodeUsage], metric: str, policies: NodePolicies) -> list[str]:
    """The nodes that show more than their line, whatever it is worth: few, so that few are looked at more closely."""
    every = (policies.whole, *policies.whole.of_pools)  # nodes at or under the lowest line need no closer look
    above = min(one.descheduler.thresholds[metric].evict_above_ratio for one in every) + usage.ROUNDING
    hot = [node for node, reading in usages.items() if metric in reading.ratios and reading.ratios[metric] > above]
    if not policies.whole.pools:
        return hot
    return [
        node for node in hot if usage.over(usages[node].ratios[metric], policies.bands(node)[metric].evict_above_ratio)
    ]


def _too_long_ago(last_seconds: float, at_seconds: float, policy: LoadPolicy) -> bool:
    """Returns whether the last reading is so old that it proves nothing."""
    return at_seconds - last_seconds > bridged_seconds(policy)


def _next_streak(
    streak: Streak | None, reading: NodeUsage | None, value: float | None, line_ratio: float
) -> Streak | None:
    if value is None or reading is None:
        return streak
    if not usage.over(value, line_ratio):
        return None
    if streak is None:
        return Streak(reading.at_seconds, reading.at_seconds)
    return Streak(streak.since_seconds, max(streak.last_seconds, reading.at_seconds))
