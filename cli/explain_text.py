"""Words for `evenload explain`: a story of one decision as a table of nodes, or a line for each node and metric.

`cli.explain` makes the story from the extender's answers and prints what this module returns. Verdicts carry metric,
value, limit and age; scores their six terms, the base, the hot penalty and the points they are worth to the scheduler.
"""

import collections.abc
import functools
from typing import Any, Final, Literal

import msgspec

from cli import eviction_rows, plan, scheduler_config
from cli.common import api_types as answers
from cli.common import output
from descheduler.planning.verdicts import Cause
from extender.verbs import documents
from kube.pods.compact import EXPECTED_USAGE_ANNOTATION
from runtime import clock

HEADERS: Final = ("node", "score", "base", "hot", "verdict and terms")
_SCORE: Final = "score = base - hot, rounded; the base comes from the lowest of the sums of terms that a node has"
FOREMOST: Final = 5  # of the nodes that passed, and of those that did not
WIDE_HEADERS: Final = ("node", "metric", "reading", "expected", "incoming", "limit", "term", "age", "verdict")


class Story(msgspec.Struct, frozen=True):
    """A past decision about a pod (`source` decision; ledger, of which only the best nodes are known) or a present one;
    `steps` are the answers it was put together from, `means` the metrics whose terms make up each of the means, of
    which the lowest is the base.
    """

    pod: str
    at: str
    policy: str
    source: Literal["decision", "ledger", "now"]
    nodes: tuple[documents.NodeRow, ...]
    exempt: str | None = None
    degraded: tuple[str, ...] = ()
    omitted: int = 0
    ties: int = 0  # nodes with the best score, 0 where all nodes are here
    steps: tuple[str, ...] = ()
    bound_to: str = ""
    estimate: documents.Estimate | None = None
    means: list[list[str]] = []
    shadow: bool = False
    pod_class: str | None = None


def ranked(nodes: collections.abc.Iterable[documents.NodeRow]) -> tuple[documents.NodeRow, ...]:
    """The nodes by what speaks for them: those that may take the pod, the best score first, then the names."""
    return tuple(
        sorted(nodes, key=lambda node: (not node.allowed, -(node.raw_score or 0.0), answers.natural(node.name)))
    )


def eviction(
    pod: str,
    judged: plan.Plan,
    policy: dict[str, Any],
    *,
    ledger: eviction_rows.Evictions,
    events: collections.abc.Sequence[eviction_rows.PostedEvent],
) -> str:
    """The verdict on a pod, the limit with its value in the policy, what the pod needs to leave; then its evictions and
    the Events that say when it, or any pod of its node, had to stay.
    """
    head = [f"pod {pod}: {judged.summary if judged.partial else 'no node has it now'}"]
    for node, one in ((each, one) for each in judged.nodes for one in each.candidates):
        goes = "stays" if one.verdict != "chosen" else "leaves" if node.mode == "Enforce" else "would leave"
        why = f"{one.verdict}: {one.detail}" if one.detail else one.verdict
        head = [f"pod {pod} of {one.workload or 'no workload'} {goes}: {why}", plan.node_line(node)]
        if one.verdict == Cause.NOT_NEEDED:
            span = f"for {policy['overloadedFor']} (descheduler.thresholds, overloadedFor)"
            head.append(f"it leaves only if a metric is over its line {span} and other pods do not relieve the node")
            continue
        if one.rule:
            value: Any = functools.reduce(lambda section, key: section[key], one.rule.split("."), policy)
            text = "" if node.pool or isinstance(value, dict | list) else f" = {msgspec.json.encode(value).decode()}"
            head.append(f"limit: descheduler.{one.rule}{text}")
        head += [f"to leave it needs {one.needs}"] if goes != "leaves" else []
    reason = f" ({judged.mode_reason})" if judged.mode_reason else ""
    head.append(f"at {judged.at}, mode {judged.mode}{reason}, policy {judged.policy}")
    now_seconds = clock.from_rfc3339(judged.at)
    cells = [(*eviction_rows.cells(row, now_seconds), row.message or answers.MISSING) for row in ledger.evictions]
    columns = list(zip((*eviction_rows.HEADERS, "message"), *cells, strict=True))
    idle = {("pod", pod), ("message", answers.MISSING)}  # a pod's whole name leaves no room for the rest
    columns = [each for each in columns if (each[0], *set(each[1:])) not in idle]
    headers, *lines = zip(*columns, strict=True)
    since = f" since {ledger.known_since}, when it was begun anew" if ledger.known_since else ""
    table = (
        output.wrapped_table(headers, lines, names=eviction_rows.NAMES)
        if lines
        else f"no eviction in the ledger{since}"
    )
    stays = [one.cells(now_seconds) for one in events]
    warnings = output.wrapped_table(eviction_rows.EVENT_HEADERS, stays, names={"object"})
    return "\n".join((*head, "", table, *(("", warnings) if events else ())))


def table(story: Story, weight: int, *, wide: bool = False, no_headers: bool = False) -> str:
    """The nodes that matter most, or with `wide` a line for each metric of every node, under what was decided, when, by
    which policy, and what the score weighs. Without headers, for scripts, a line for each node.
    """
    nodes = story.nodes if wide or no_headers else _foremost(story)
    rows = metric_rows(story) if wide else [_row(node, story, alone=no_headers) for node in nodes]
    lines = output.table(WIDE_HEADERS if wide else HEADERS, rows, names={"node"}, no_headers=no_headers)
    rest = len(story.nodes) - len(nodes)
    more = [f"and {rest} more: -o wide has every node"] if rest else []
    return lines if no_headers else "\n".join((*_head(story, weight), "", lines, *more))


def _foremost(story: Story) -> list[documents.NodeRow]:
    """The node that the pod is on, then the best of the others, then the first of those that are rejected."""
    own, others = ([node for node in story.nodes if (node.name == story.bound_to) is here] for here in (True, False))
    best, rejected = ([node for node in others if node.allowed is allowed] for allowed in (True, False))
    return [*own, *best[:FOREMOST], *rejected[:FOREMOST]]


def verdict(node: documents.NodeRow, pod_class: str | None = None) -> output.Cell:
    """Says if the pod, of this class, may go there, with the rule that says no, or the one that is nearest to it."""
    if not node.usable and node.allowed:
        return output.Cell(f"passes unjudged: {node.state}")
    broken = [rule for rule in node.rules if rule.broken]
    if not node.allowed:
        reasons = ", ".join(_comparison(rule, node, pod_class) for rule in broken) or node.rejected or ""
        return output.Cell(f"rejected: {reasons}", "red")
    if broken:
        over = ", ".join(_comparison(rule, node, pod_class) for rule in broken)
        return output.Cell(f"passes in spite of {over}", "yellow")
    known = [rule for rule in node.rules if rule.value is not None]
    nearest = max(known, key=lambda rule: (rule.value or 0.0) - rule.limit, default=None)
    return output.Cell(f"passes: {_comparison(nearest, node, pod_class)}" if nearest is not None else "passes")


def _head(story: Story, weight: int) -> list[str]:
    past = story.source != "now"
    when = "was decided" if past else "would be decided"
    bound = f"; it is on {story.bound_to}" if story.bound_to and not past else ""
    exempt = [f"not filtered: {story.exempt}"] if story.exempt else []
    shadow = ["shadow mode: kube-scheduler is told that every node passes and scores the same"] if story.shadow else []
    of_class = [f"of class {story.pod_class}, the first that matches it"] if story.pod_class else []
    return [
        f"pod {story.pod}: what {when} at {story.at}, policy {story.policy}{bound}",
        *story.steps,
        *([_placement(story, weight)] if story.bound_to and past else []),
        *shadow,
        *of_class,
        *exempt,
        *([_expected_of(story.estimate, story)] if story.estimate else []),
        *([_SCORE] if any(node.terms for node in story.nodes) else []),
        scheduler_config.arithmetic(weight)[-1],
    ]


def _placement(story: Story, weight: int) -> str:
    """Compares the node that the pod is on with those of the best score, as kube-scheduler got them: it adds the points
    of its own plugins, and takes any of the nodes with the largest sum.
    """
    here = f"it is on {story.bound_to}"
    node = next((node for node in story.nodes if node.name == story.bound_to), None)
    scores = {each.name: each.score for each in story.nodes if each.allowed and each.score is not None}
    if node is not None and not node.allowed:
        return f"{here}, which is rejected here" + ("" if story.shadow else ": another decision placed it")
    if not scores and node is not None:
        return f"{here}, the only node that passed"
    score = scores.get(story.bound_to)
    if score is None:
        return f"{here}: " + ("its score is no longer stored" if story.omitted else "it was not asked about here")
    best = max(scores.values())
    first = [name for name, each in scores.items() if each == best]
    ties = story.ties or len(first)
    if score == best and ties == 1:
        return f"{here}, the only node with the best score, {best}"
    if score == best:
        why = "kube-scheduler chose alone" if story.shadow else "kube-scheduler's own plugins chose among them"
        return f"{here}: one of {ties} with the best score, {best}; {why}"
    others = f"{first[0]} and {ties - 1} more have" if ties > 1 else f"{first[0]} has"
    why = f"kube-scheduler's own plugins outweighed {scheduler_config.points(best - score, weight)} points"
    return f"{here} with score {score}, where {others} {best}: {'kube-scheduler chose alone' if story.shadow else why}"


def _expected_of(estimate: documents.Estimate, story: Story) -> str:
    """`expected of the pod: cpu 120m (owner's mean over 7 replicas), memory 140Mi (request ratio), counted in the
    score`.
    """
    counted = ", counted in the score" if any(any(node.incoming.values()) for node in story.nodes) else ""
    cpu = f"cpu {estimate.cpu_millicores:.0f}m ({estimate.cpu_by})"
    memory = f"memory {answers.mebibytes(estimate.memory_bytes)} ({estimate.memory_by})"
    ignored = f"; annotation {EXPECTED_USAGE_ANNOTATION} ignored: {estimate.ignored}" if estimate.ignored else ""
    return f"expected of the pod: {cpu}, {memory}{counted}{ignored}"


def _row(node: documents.NodeRow, story: Story, *, alone: bool) -> list[str | output.Cell]:
    """With the terms below the verdict, but for scripts, which count on one line for a node."""
    score = answers.MISSING if node.score is None else str(node.score)
    text = verdict(node, story.pod_class)
    sums = (_sum(node, mean) for mean in story.means or (tuple(node.terms),))
    packing = () if node.packing is None else (_packing(node.packing),)
    below = () if alone else (*filter(None, sums), *packing)
    return [node.name, score, answers.base(node), f"{node.penalty:g}", text._replace(below=below)]


def _packing(packing: documents.Packing) -> str:
    """`packing to 50%: load 41% gives 9.10`."""
    target, load = answers.percent(packing.target_ratio), answers.percent(packing.load_ratio)
    return f"packing to {target}: load {load} gives {answers.points(packing.base)}"


def _sum(node: documents.NodeRow, names: collections.abc.Iterable[str]) -> str:
    """`cpu_avg_5m 2.49 + cpu_max_1h 1.01 = 3.50`; a metric without a reading is left out, as in the mean."""
    terms = {name: node.terms[name] for name in names if node.terms.get(name) is not None}
    if not terms:
        return ""
    each = " + ".join(f"{name} {answers.points(term)}" for name, term in terms.items())
    return f"{each} = {answers.points(sum(filter(None, terms.values())))}"


def metric_rows(story: Story) -> list[list[Any]]:
    """The rows under WIDE_HEADERS."""
    rows: list[list[Any]] = []
    for node, name in ((each, name) for each in story.nodes for name in each.terms):
        rule = next((rule for rule in node.rules if rule.metric == name), None)
        reading = answers.percent(node.values.get(name)) if name in node.values else node.unusable.get(name)
        text = answers.MISSING if rule is None else "over" if rule.broken else "under" if rule.value is not None else ""
        loads = (part.get(name, 0.0) for part in (node.expected, node.incoming))
        added = [answers.MISSING if load is None else f"+{100 * load:.1f}%" for load in loads]
        term, age = answers.points(node.terms[name]), answers.age(node.age_seconds)
        limit = _limit(node, name, rule, story.pod_class)
        rows.append([node.name, name, reading or answers.MISSING, *added, limit, term, age, text or "not judged"])
    return rows


def _limit(node: documents.NodeRow, metric: str, rule: documents.Rule | None, pod_class: str | None) -> str:
    """`65%`, `90% (own)`, `80% (pool spot)`, `60% (class production)`, `off (own)`."""
    if metric in (*node.rules_off, *node.pool_rules_off):
        return "off (own)" if metric in node.rules_off else f"off (pool {node.pool})"
    if rule is None:
        return answers.MISSING
    whose = _whose(rule, node, pod_class)
    return f"{answers.percent(rule.limit)} ({whose})" if whose else answers.percent(rule.limit)


def _whose(rule: documents.Rule, node: documents.NodeRow, pod_class: str | None) -> str:
    """`own` for a threshold of the node's own, `pool spot`, `class production`; "" for one of the policy."""
    if rule.own:
        return "own"
    return f"pool {node.pool}" if rule.pool else f"class {pod_class}" if rule.pod_class else ""


def _comparison(rule: documents.Rule, node: documents.NodeRow, pod_class: str | None) -> str:
    """`cpu_avg_5m 97.0% > 65% (90.0% read 12s ago, 7.0% expected)`."""
    whose = "its own" if rule.own else _whose(rule, node, pod_class)
    limit = f"{100 * rule.limit:g}%" + (f" of {whose}" if whose else "")
    if rule.value is None:
        return f"{rule.metric} missing, limit {limit}"
    read = f"{100 * (rule.reading or 0.0):.1f}% read {answers.age(rule.age_seconds)} ago"
    expected = f", {100 * rule.expected:.1f}% expected" if rule.expected else ""
    return f"{rule.metric} {100 * rule.value:.1f}% {'>' if rule.broken else '<='} {limit} ({read}{expected})"
