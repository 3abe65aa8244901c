"""A span of a cluster's past as dated happenings, and the sentences in which a person reads them.

Pure: `cli.story` asks the descheduler and Prometheus, and prints what these functions make of rows, Events and series.
Overloads are confirmed by the descheduler's own rule (`descheduler.planning.overload`), step by step.
"""

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from cli import eviction_rows
from cli.common.api_types import MISSING, age, few, percent
from cli.eviction_rows import PostedEvent, Row
from descheduler.eviction import api_results
from descheduler.ledger.rows import DONE
from descheduler.planning import mean_lines, overload
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.usage import NodeUsage
from kube.events import Reason
from kube.objects import Node
from policy.schema.load_policy import LoadPolicy
from runtime import clock

REPEATED_SECONDS: Final = 3600.0  # the same again so soon is one line; the descheduler warns every half hour
LASTING: Final = ("overload", "alert")
Rounds = Iterable[tuple[float, Mapping[str, NodeUsage]]]
Series = tuple[str, Iterable[tuple[float, float]]]  # a name and its points in time


class Span(NamedTuple):
    """From when until when, and the step by which Prometheus is asked."""

    begin_seconds: float
    end_seconds: float
    step_seconds: float


class Happening(NamedTuple):
    """A line of the story, of a node or ("") of the cluster; `about` are pods or reasons. `until_seconds` is the end of
    what lasts (None: it still does), else the last of `times`.
    """

    at_seconds: float
    kind: str
    node: str
    cause: str
    about: tuple[str, ...] = ()
    until_seconds: float | None = None
    times: int = 1

    @property
    def text(self) -> str:
        """The sentence, without time and node."""
        text = f"{self.cause}: {few(dict.fromkeys(self.about))}" if self.about else self.cause
        lasted = age((self.until_seconds or self.at_seconds) - self.at_seconds)
        if self.kind in LASTING:
            return f"{text}, still" if self.until_seconds is None else f"{text}, for {lasted}"
        return f"{text}, {self.times} times in {lasted}" if self.times > 1 else text


class NodeLoads(NamedTuple):
    """The overloads of a span, the reading nearest to its line of all nodes ("") and of each, how much of the span has
    readings of every metric, how many nodes have any, and since when.
    """

    overloads: tuple[Happening, ...]
    nearest: Mapping[str, str]
    covered_ratio: float
    nodes: int
    since_seconds: float

    def coverage(self, span: Span) -> str:
        """How much Prometheus knows: "Prometheus covers 11.9 of 12 h of 5 nodes"."""
        hours = (span.end_seconds - span.begin_seconds) / 3600
        whole, unit = (hours, "h") if hours >= 2 else (60 * hours, "min")
        return f"Prometheus covers {self.covered_ratio * whole:.3g} of {whole:.3g} {unit} of {self.nodes} nodes"


@dataclasses.dataclass(slots=True)
class Facts:
    """The answers of the sources over a span; None where one gave none."""

    span: Span
    policy: LoadPolicy | None = None
    policy_hash: str = ""
    nodes: tuple[Node, ...] = ()
    rows: tuple[Row, ...] | None = None
    events: tuple[PostedEvent, ...] = ()
    policies: list[Series] | None = None
    leaders: list[Happening] | None = None
    alerts: list[Happening] | None = None
    loads: NodeLoads | None = None
    now_seconds: float = math.inf


def story(facts: Facts, node: str = "") -> list[Happening]:
    """The happenings by time: those of the cluster and of all nodes, or of one."""
    every = [*(of_row(row, facts.now_seconds) for row in facts.rows or ()), *filter(None, map(of_event, facts.events))]
    every += changes("policy", "is the policy in force", facts.policies or ())
    every += [*(facts.leaders or ()), *(facts.alerts or ()), *(facts.loads.overloads if facts.loads else ())]
    bridged_seconds = 2 * facts.span.step_seconds
    last_seconds = facts.span.end_seconds - bridged_seconds
    return [
        one._replace(until_seconds=None) if one.kind in LASTING and (one.until_seconds or 0) >= last_seconds else one
        for one in _in_order((one for one in every if not node or one.node in ("", node)), bridged_seconds)
    ]


def summary(happenings: Collection[Happening], facts: Facts, node: str = "", *, whole: bool) -> tuple[str, str, str]:
    """How often each kind happened, the node (of all, or this) nearest to its line, and how much could be read. Of an
    answer that is not `whole` it never says that nothing happened.
    """
    counts = Counter(one.kind for one in happenings for _ in range(one.times))
    kinds: tuple[tuple[str, str, object], ...] = (
        ("overloads", "overload", facts.loads),
        ("evictions", "eviction", facts.rows),
        ("refused or failed", "refusal", facts.rows),
        ("only planned", "planned", facts.rows),
        ("changes of policy", "policy", facts.policies),
        ("changes of leader", "leader", facts.leaders),
        ("alerts", "alert", facts.alerts),
    )
    known = [f"{words} {counts[kind] if source is not None else 'not known'}" for words, kind, source in kinds]
    if facts.alerts == []:
        known[-1] += " (if Prometheus has their rules)"  # without them it has no series either
    nearest = facts.loads.nearest.get(node, "no reading") if facts.loads else "not known"
    coverage = facts.loads.coverage(facts.span) if facts.loads else "Prometheus: no load of nodes"
    mode = f"policy {facts.policy_hash}, mode {facts.policy.descheduler.mode}" if facts.policy else "policy not known"
    begin, end = map(clock.to_rfc3339, facts.span[:2])
    return (
        f"{'nothing happened: ' if whole and not happenings else ''}{', '.join(known)}",
        f"highest against its line: {nearest}",
        f"from {begin} to {end}: {coverage}; {mode}",
    )


def of_row(row: Row, now_seconds: float) -> Happening:
    """An eviction with its effect, one that a mode only planned, or one that was refused or came to nothing."""
    at_seconds, pod = row.at_seconds, f"{row.namespace}/{row.pod}"
    if row.result in DONE:
        return Happening(at_seconds, "eviction", row.node, f"evicted {pod}: {_effect(row, now_seconds)}")
    if row.result in ("observed", "dry_run"):
        return Happening(at_seconds, "planned", row.node, f"would evict, but for mode {row.mode}", (pod,))
    refuser = api_results.refused_by(api_results.EvictionResult(row.result, row.http_status, row.message))
    why = f"refused by {refuser}" if refuser in ("budget", "guard", "apiserver") else row.result
    message = f" ({row.message})" if row.message else ""
    return Happening(at_seconds, "refusal", row.node, f"not evicted, {why}{message}", (pod,))


def _effect(row: Row, now_seconds: float) -> str:
    cell = dict(zip(eviction_rows.HEADERS, eviction_rows.cells(row, row.at_seconds), strict=True))
    landed = {"came back": "came back to its node", MISSING: "no replacement yet"}
    ready = f", Ready after {cell['ready']}" if row.ready_at else ""
    loads = [f"{cell[name]} after {name}" for name in ("5m", "30m") if cell[name] != MISSING]
    yet = " yet" if eviction_rows.is_pending(row, "5m", now_seconds) else ""
    later = f"node at {', '.join(loads)}" if loads else f"later load not measured{yet}"
    return f"{cell['load']}; {landed.get(cell['landed'], 'now on ' + cell['landed'])}{ready}; {later}"


def of_event(event: PostedEvent) -> Happening | None:
    """A refused policy, a step of a surge, or a hot node that nothing could leave; None for what rows say better."""
    at_seconds = clock.from_rfc3339(event.at)
    if event.reason == Reason.POLICY_REFUSED:
        return Happening(at_seconds, "policy", "", event.note)
    if event.reason.startswith("Surge"):
        about = f"{event.namespace}/{event.name}: {event.note.partition('; run ')[0]}"
        return Happening(at_seconds, "surge", event.related.removeprefix("Node/"), about)
    if event.type != "Warning" or event.kind != "Node":
        return None
    figures, _, why = event.note.partition("; run ")[0].partition(": ")
    return Happening(at_seconds, "stuck", event.name, f"nothing could leave, {event.reason}", (why or figures,))


def hashes(rows: Iterable[Row], events: Iterable[PostedEvent]) -> list[Series]:
    """The policies that rows and PolicyAccepted name, with their times."""
    accepted = [one for one in events if one.reason == Reason.POLICY_ACCEPTED and " " in one.note]
    named = [(one.note.split()[1], clock.from_rfc3339(one.at)) for one in accepted]
    named += [(row.policy_hash, row.at_seconds) for row in rows]
    return [(name, ((at_seconds, 1.0),)) for name, at_seconds in named]


def changes(kind: str, verb: str, series: Iterable[Series]) -> list[Happening]:
    """Where another name takes the place of the one before, which holds it while it has a point at all."""
    present = sorted((at_seconds, name) for name, points in series for at_seconds, _ in points)
    holder, result = "", []
    for at_seconds, group in itertools.groupby(present, key=lambda one: one[0]):
        names = [name for _, name in group]
        if holder not in names:
            before, holder = holder, names[0]
            result += [Happening(at_seconds, kind, "", f"{holder} {verb}, before it {before}")] if before else []
    return result


def alerts(series: Iterable[Series]) -> list[Happening]:
    """Each point at which an alert fired; `story` makes one of those without a pause, however many series it had."""
    points = {(at_seconds, name) for name, points in series for at_seconds, _ in points}
    return [Happening(at_seconds, "alert", "", f"alert {name}", (), at_seconds) for at_seconds, name in sorted(points)]


def node_loads(rounds: Rounds, policy: LoadPolicy, nodes: Collection[Node], span: Span) -> NodeLoads:
    """Overloads as the descheduler confirms them, out of the readings of each step, the oldest first."""
    memory, as_written = overload.Memory(), NodePolicies(policy, nodes)
    peaks: dict[tuple[str, str, float], tuple[float, float, float]] = {}
    nearest = dict[str, tuple[float, str]]()
    counts, measured, since_seconds = Counter[str](), set[str](), span.end_seconds
    for at_seconds, usages in rounds:
        lines = mean_lines.lines(policy, nodes, usages, now_seconds=at_seconds)
        policies = NodePolicies(mean_lines.in_run(policy, lines), nodes) if lines else as_written
        since_seconds = min(since_seconds, at_seconds)
        memory = overload.observe(memory, usages, policies, now_seconds=at_seconds)
        measured.update(usages)
        counts.update({metric for usage in usages.values() for metric in usage.ratios})
        for node, metric, ratio in ((one, *item) for one, usage in usages.items() for item in usage.ratios.items()):
            line_ratio = policies.bands(node)[metric].evict_above_ratio
            mark = ratio - line_ratio, f"{node}, {metric} {percent(ratio)} of {percent(line_ratio)}"
            for whose in ("", node):
                nearest[whose] = max(nearest.get(whose, mark), mark, key=lambda each: each[0])
            streak = memory.streaks.get((node, metric))
            if streak is not None and streak.last_seconds == at_seconds:
                key = (node, metric, streak.since_seconds)
                _, highest_ratio, first_ratio = peaks.get(key, (0.0, 0.0, line_ratio))
                peaks[key] = (at_seconds, max(highest_ratio, ratio), first_ratio)
    overloads = tuple(
        Happening(since, "overload", node, f"{metric} over {percent(line)}, at most {percent(highest)}", (), last)
        for (node, metric, since), (last, highest, line) in peaks.items()
        if last - since >= policy.descheduler.overloaded_for_seconds
    )
    steps = 1 + int((span.end_seconds - span.begin_seconds) / span.step_seconds)
    least = min((counts[metric] for metric in policy.descheduler.thresholds), default=0)
    highest_marks = {node: text for node, (_, text) in nearest.items()}
    return NodeLoads(overloads, highest_marks, least / steps, len(measured), since_seconds)


def _in_order(happenings: Iterable[Happening], bridged_seconds: float) -> list[Happening]:
    """By time; what happens again within the hour, on the same node for the same cause, is one line, and so is an alert
    without a pause longer than `bridged_seconds`.
    """
    result: list[Happening] = []
    places: dict[tuple[str, str, str], int] = {}
    for one in sorted(happenings, key=lambda each: each.at_seconds):
        key, is_alert = (one.kind, one.node, one.cause), one.kind == "alert"
        before = result[places[key]] if key in places and one.kind != "overload" else None
        pause_seconds = one.at_seconds - (before.until_seconds or before.at_seconds) if before else 0.0
        if before is None or pause_seconds > (bridged_seconds if is_alert else REPEATED_SECONDS):
            places[key] = len(result)
            result.append(one)
        else:
            about, times = before.about + one.about, 1 if is_alert else before.times + 1
            result[places[key]] = before._replace(until_seconds=one.at_seconds, about=about, times=times)
    return result
