"""The progress that a run with faults has to show while nothing disturbs it, one function each. Pure.

Each gives a sentence by subject: why that is not so yet, "" once it is. `calm` asks until every subject was so once.
Loads come from the exporters, annotations and pods from the apiserver, views from the extenders' answers.
"""

import datetime
import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from lab.campaigns.chaos.judging import OPEN, Recorded

Findings = dict[str, str]
PODS: Final = "pods on "


class Span(NamedTuple):
    """The least and the most that something was."""

    least: float
    most: float


class Annotated(NamedTuple):
    """The load annotation of a node as text, and how many pods a replica has to count there: those bound since the
    calm began at least, all that count as load at most.
    """

    text: str | None
    pods: Span


class Metrics(NamedTuple):
    """The metrics that an annotation has to have, and by how much they may be beside the exporters' loads."""

    names: tuple[str, ...]
    tolerance_ratio: float


class Trial(NamedTuple):
    """A node that was overloaded on purpose: its load now, the line, and evictions from it since."""

    load_ratio: float
    line_ratio: float
    evictions: int


def annotations(
    nodes: Mapping[str, Annotated], loads: Mapping[str, Mapping[str, Span]], metrics: Metrics, since_seconds: float
) -> Findings:
    """Every node is annotated with what its exporters had (`loads`, by node and resource) within the window."""
    return {
        name: _annotation(name, nodes[name].text if name in nodes else None, spans, metrics, since_seconds)
        for name, spans in loads.items()
    }


def _annotation(node: str, text: str | None, spans: Mapping[str, Span], metrics: Metrics, since_seconds: float) -> str:
    if text is None:
        return f"{node} has no load annotation"
    values, at_seconds = _values(text)
    for name in metrics.names:
        span, value = spans[name.split("_")[0]], values.get(name)
        if value is None:
            return f"{node} is annotated without {name}"
        if not span.least - metrics.tolerance_ratio <= value <= span.most + metrics.tolerance_ratio:
            still = "still " if at_seconds < since_seconds else ""
            had = f"the exporters had {span.least:.4f} to {span.most:.4f}"
            return f"{node} is {still}annotated with {name} {value:.4f}, {had}"
    return ""


def _values(text: str | None) -> tuple[dict[str, float], float]:
    """The values of an annotation and its time; no values where it cannot be read."""
    try:
        body = json.loads(text or "{}")
        values = {name: value for name, value in body["m"].items() if isinstance(value, float | int)}
        return values, datetime.datetime.fromisoformat(body["at"]).timestamp()
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}, 0.0


def heartbeat(data: Mapping[str, str] | None, nodes: Mapping[str, Annotated], since_seconds: float) -> Findings:
    """The heartbeat is of a moment since, and vouches for what all nodes carry."""
    if data is None:
        return {"heartbeat": "there is no heartbeat"}
    at_seconds = datetime.datetime.fromisoformat(data["at"]).timestamp()
    if at_seconds < since_seconds:
        return {"heartbeat": f"the heartbeat is of {since_seconds - at_seconds:.0f} s before"}
    lines = (f"{name}={node.text}\n" for name, node in sorted(nodes.items()) if node.text is not None)
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    vouches = data["digest"] == f"sha256:{digest}" and not data["except"]
    return {"heartbeat": "" if vouches else "the heartbeat does not vouch for what the nodes carry"}


def view(replica: str, answer: Mapping[str, Any] | None, nodes: Mapping[str, Annotated]) -> Findings:
    """A replica of the extender knows the nodes that there are, what they are annotated with (subject: the node), and
    their new pods (subject: `PODS` and the node).
    """
    if answer is None:
        return dict.fromkeys(nodes, f"{replica} does not answer")
    rows = {row["name"]: row for row in answer["nodes"]}
    findings = {name: f"{replica} knows {name}, which is gone" for name in rows.keys() - nodes.keys()}
    for name, node in nodes.items():
        row = rows.get(name)
        findings[name] = f"{replica} does not know {name}" if row is None else _reading(replica, row, node)
        findings[f"{PODS}{name}"] = "" if row is None else _pods(replica, row, node.pods)
    return findings


def _reading(replica: str, row: Mapping[str, Any], node: Annotated) -> str:
    (values, _), name, known = _values(node.text), row["name"], row["values"]
    if values and not row["usable"]:
        return f"{replica} takes the annotation of {name} for {row['state']}"
    for metric in (*values, *known):
        if values.get(metric) != known.get(metric):
            words = f"{replica} knows {metric} {known.get(metric)} of {name}"
            return f"{words}, which is annotated with {values.get(metric)}"
    return ""


def _pods(replica: str, row: Mapping[str, Any], pods: Span) -> str:
    counted = max(row["hot"].values())
    if pods.least <= counted <= pods.most:
        return ""
    return f"{replica} counts {counted} pods on {row['name']}, {pods.least:g} to {pods.most:g} expected"


def relief(trials: Mapping[str, Trial]) -> Findings:
    """Every overloaded node is relieved: pods are evicted from it, and its load falls under the line."""
    return {f"relief of {name}": _trial(name, trial) for name, trial in trials.items()}


def _trial(name: str, trial: Trial) -> str:
    if trial.evictions and trial.load_ratio <= trial.line_ratio:
        return ""
    pods = f"{trial.evictions} pods were" if trial.evictions > 1 else "1 pod was" if trial.evictions else "no pod was"
    return f"{name} was over {trial.line_ratio:.2f} and is at {trial.load_ratio:.3f}; {pods} evicted from it"


def closed(due: Collection[int], rows: Collection[Recorded]) -> Findings:
    """Every row that is due has an outcome."""
    return {
        f"row {row.id}": f"row {row.id} of a pod on {row.node} is still {row.result}" if row.result in OPEN else ""
        for row in rows
        if row.id in due
    }
