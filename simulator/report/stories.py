"""Single events in words: who was evicted, why and what came of it; why a pod went where it went, node by node.

`page` shows what is made here. A decision is what the extender itself explained at that moment (POST /explain); this
module only picks the nodes that a reader wants beside each other: the chosen one, the best others, and how many of the
rest were rejected for which reason.
"""

import collections
from typing import Final, NamedTuple

import msgspec

from policy.schema.load_policy import LoadPolicy
from simulator.report import charts, drawing
from simulator.results.outcome import EvictedPod, Outcome, ScheduledPod, Timeline

MOST_DECISIONS: Final = 8
MOST_NODES: Final = 6
LATER_SECONDS: Final = 1800.0


class Eviction(NamedTuple):
    """One line of the table of evictions; `anchor` is what the mark on the chart links to."""

    evicted: EvictedPod
    anchor: str
    at: str
    why: str
    later: str


class Row(msgspec.Struct, frozen=True):
    """The extender's answer about one node, as far as the page shows it."""

    name: str
    values: dict[str, float] = {}
    expected: dict[str, float] = {}
    terms: dict[str, float | None] = {}
    base: float | None = None
    penalty: float = 0.0
    score: int | None = None
    allowed: bool = True
    rejected: str | None = None


class _Body(msgspec.Struct, frozen=True):
    nodes: tuple[Row, ...] = ()
    exempt: str | None = None
    degraded: tuple[str, ...] = ()


class Decision(NamedTuple):
    """One decision: the nodes shown, the chosen first, and why the others were not; `metrics` are the columns."""

    at: str
    pod: str
    node: str
    metrics: tuple[str, ...]
    rows: tuple[Row, ...]
    allowed: int
    rejected: tuple[tuple[str, int], ...]
    remarks: tuple[str, ...]


def evictions(outcome: Outcome, key: str, policy: LoadPolicy | None) -> tuple[Eviction, ...]:
    """The first evictions, as many as the page has lines for; `key` tells variants apart in ids."""
    resources = {metric.name: metric.resource for metric in policy.metrics_in_force} if policy else {}
    return tuple(
        Eviction(
            evicted,
            charts.anchor(key, number),
            drawing.written(evicted.at_seconds),
            _why(evicted),
            _later(evicted, outcome.timeline, resources.get(evicted.metric, "")),
        )
        for number, evicted in enumerate(outcome.moved[: charts.MOST_EVICTIONS])
    )


def _why(evicted: EvictedPod) -> str:
    """The load against its line; relief goes on below the line until the target."""
    load, line = f"{evicted.metric} {charts.percent(evicted.value)}", charts.percent(evicted.threshold)
    if evicted.value > evicted.threshold:
        return f"{load}, over {line}"
    return f"{load}, relieving until {charts.percent(evicted.target)}, begun over {line}"


def _later(evicted: EvictedPod, timeline: Timeline, resource: str) -> str:
    """The relieved node's load half an hour later; a dash where the run was over or the node gone."""
    step = int((evicted.at_seconds + LATER_SECONDS - timeline.start_seconds) // timeline.step_seconds)
    ratios = {"cpu": timeline.cpu_ratio, "memory": timeline.memory_ratio}.get(resource)
    if ratios is None or evicted.node not in timeline.nodes or step >= len(ratios):
        return "-"
    return charts.percent(float(ratios[step, timeline.nodes.index(evicted.node)]))


def decisions(explained: tuple[ScheduledPod, ...]) -> tuple[Decision, ...]:
    """At most MOST_DECISIONS: the one that says most first, then others evenly spread over the run."""
    every = -(-len(explained) // MOST_DECISIONS) or 1
    telling = max(map(_decision, explained), key=_interest, default=None)
    if telling is None:
        return ()
    others = (one for one in map(_decision, explained[::every]) if one != telling)
    return (telling, *others)[:MOST_DECISIONS]


def _interest(decision: Decision) -> tuple[bool, int, int, int]:
    """A choice between nodes, some of them refused, for different reasons, and with different scores."""
    scores = {row.score for row in decision.rows if row.score is not None}
    refused = sum(count for _, count in decision.rejected)
    return decision.allowed > 1 and refused > 0, len(decision.rejected), len(scores), refused


def _decision(scheduled: ScheduledPod) -> Decision:
    body = msgspec.convert(scheduled.body, _Body)
    ranked = sorted(
        body.nodes, key=lambda row: (row.name != scheduled.node, not row.allowed, -(row.score or 0), row.name)
    )
    rows = tuple(ranked[:MOST_NODES])
    reasons = collections.Counter(row.rejected or "rejected" for row in body.nodes if not row.allowed)
    remarks = [f"not filtered: {body.exempt}"] if body.exempt else []
    return Decision(
        at=drawing.written(scheduled.at_seconds),
        pod=scheduled.pod,
        node=scheduled.node,
        metrics=tuple(dict.fromkeys(name for row in rows for name in row.terms)),
        rows=rows,
        allowed=sum(row.allowed for row in body.nodes),
        rejected=tuple(reasons.most_common()),
        remarks=(*remarks, *(f"degraded: {words}" for words in body.degraded)),
    )
