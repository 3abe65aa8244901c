"""Plans and ledger rows as plain data for JSON: the ledger's column names, ratios as fractions, times in RFC 3339.

`http.app` answers with them and `__main__.py --once` prints them; `evenload plan` and `evenload evictions` make tables
of them.
"""

from collections.abc import Iterable

from descheduler import run_schedule
from descheduler.ledger import prediction_errors
from descheduler.ledger.rows import RecordedEvent, Row
from descheduler.planning import verdicts
from descheduler.planning.limits import BreakerState
from descheduler.planning.mean_lines import MeanLine
from descheduler.planning.plans import Eviction, Headroom, NodePlan
from descheduler.run_journal import Report
from runtime import clock

_TIMES = {name for name in Row._fields if name.endswith("_at_seconds") or name == "at_seconds"}


def rows(entries: Iterable[Row], known_since_seconds: float | None) -> dict[str, object]:
    """Ledger rows, and when a new ledger was begun within their span, which knows none of before; None if none was."""
    since = None if known_since_seconds is None else clock.to_rfc3339(known_since_seconds)
    return {"evictions": [row(entry) for entry in entries], "known_since": since}


def row(entry: Row) -> dict[str, object]:
    """A ledger row: "_at_seconds" columns become times, the rest keeps its unit in its name; beside them what
    `predictions` makes of the row.
    """
    errors = {
        f"error_{after}_ratio": prediction_errors.error_ratio(entry, after) for after in prediction_errors.PREDICTED
    }
    return {
        **dict(_cell(name, value) for name, value in (entry._asdict() | errors).items()),
        "stayed_under_line": prediction_errors.stayed_under_line(entry),
        "returned": None if entry.returned is None else bool(entry.returned),
    }


def event(event: RecordedEvent) -> dict[str, object]:
    """An Event as it was posted."""
    texts = event._asdict()
    kind = "Warning" if texts.pop("warning") else "Normal"
    return {"at": clock.to_rfc3339(texts.pop("at_seconds")), "type": kind, **texts}


def report(run: Report) -> dict[str, object]:
    """A run's plan: the evictions in order, and every overloaded node with every candidate's verdict. Nodes of pools of
    a weaker mode come last; summary and headroom are of the run's mode first.
    """
    parts = [(one.run.mode, one.plan) for one in run.parts]
    return {
        "at": clock.to_rfc3339(run.run.at_seconds),
        "mode": run.run.mode,
        "mode_reason": run.why,
        "policy": run.run.policy_hash,
        "summary": run.summary,
        "blocked": run.plan.blocked,
        "partial": run.partial,
        "headroom": headroom(run.plan.headroom),
        "pools": _pools(run.permissions),
        "mean_lines": [mean_line(line) for line in run.mean_lines],
        "evictions": [eviction(planned, mode) for mode, plan in parts for planned in plan.evictions],
        "surges": [eviction(planned, mode) for mode, plan in parts for planned in plan.surges],
        "nodes": [node(planned, mode) for mode, plan in parts for planned in plan.nodes],
    }


def _pools(permissions: run_schedule.Permissions | None) -> list[dict[str, object]]:
    """The mode of each pool of the policy, at the end that of nodes without a pool; [] for a policy without pools."""
    if permissions is None or not permissions.by_pool:
        return []
    named = (*permissions.by_pool, (None, permissions.rest))
    return [{"pool": name, "mode": one.mode, "mode_reason": one.why} for name, one in named]


def mean_line(line: MeanLine) -> dict[str, object]:
    """The lines of a metric that follow the mean of the nodes of a pool, as they are in this run."""
    return {
        "pool": line.pool or None,
        "metric": line.metric,
        "nodes": line.nodes,
        "mean_ratio": _rounded(line.mean_ratio),
        "threshold_ratio": _rounded(line.evict_above_ratio),
        "target_ratio": _rounded(line.evict_until_ratio),
    }


def eviction(choice: Eviction, mode: str) -> dict[str, object]:
    """One planned eviction with its figures."""
    return {
        "namespace": choice.pod.namespace,
        "pod": choice.pod.name,
        "uid": choice.pod.uid,
        "workload": str(choice.workload) if choice.workload is not None else "",
        "node": choice.overload.node,
        "pool": choice.pool or None,
        "mode": mode,
        "metric": choice.overload.metric,
        "value_ratio": _rounded(choice.overload.value_ratio),
        "threshold_ratio": _rounded(choice.overload.evict_above_ratio),
        "target_ratio": _rounded(choice.overload.evict_until_ratio),
        "before_ratio": _rounded(choice.before_ratio),
        "projected_ratio": _rounded(choice.projected_ratio),
        "expected_5m_ratio": _rounded(choice.expected_5m_ratio),
        "expected_30m_ratio": _rounded(choice.expected_30m_ratio),
        "pod_cpu_millicores": round(choice.used.cpu_millicores, 1),
        "pod_memory_bytes": round(choice.used.memory_bytes),
        "destination": choice.destination,
        "destination_ratio": _rounded(choice.destination_ratio),
        "budget": choice.budget,
    }


def node(relief: NodePlan, mode: str) -> dict[str, object]:
    """One overloaded node: readings, projection, and the verdicts of its pods."""
    return {
        "node": relief.node.name,
        "pool": relief.pool or None,
        "mode": mode,
        "summary": relief.summary,
        "left_alone": relief.left_alone,
        "overloads": [
            {
                "metric": over.metric,
                "value_ratio": _rounded(over.value_ratio),
                "threshold_ratio": _rounded(over.evict_above_ratio),
                "target_ratio": _rounded(over.evict_until_ratio),
                "since": None if over.since_seconds is None else clock.to_rfc3339(over.since_seconds),
                "projected_ratio": _rounded(relief.projected[over.metric]),
            }
            for over in relief.overloads
        ],
        "candidates": [
            {
                "namespace": judged.pod.namespace,
                "pod": judged.pod.name,
                "workload": str(judged.workload) if judged.workload is not None else "",
                "cpu_millicores": None if judged.used is None else round(judged.used.cpu_millicores, 1),
                "memory_bytes": None if judged.used is None else round(judged.used.memory_bytes),
                "verdict": str(judged.verdict.cause),
                "rule": judged.verdict.cause.rule,
                "detail": judged.verdict.detail,
                "needs": verdicts.NEEDS[judged.verdict.cause.group],
            }
            for judged in relief.candidates
        ],
    }


def headroom(left: Headroom) -> dict[str, object]:
    """Returns the caps and budgets that a plan leaves, and the distance of every node that takes pods from its target
    lines.
    """
    return {
        "run": left.run,
        "hour": left.hour,
        "budgets": [budget._asdict() for budget in left.budgets],
        "destinations": [
            {"node": name, "headroom_ratio": {metric: _rounded(ratio) for metric, ratio in ratios.items()}}
            for name, ratios in left.destinations
        ],
    }


def breaker(state: BreakerState) -> dict[str, object]:
    """A workload whose evictions failed, and how its breaker stands."""
    return {
        "workload": state.workload,
        "namespace": state.namespace,
        "workload_uid": state.uid,
        "failures": state.failures,
        "last_at": clock.to_rfc3339(state.last_at_seconds),
        "state": state.state,
        "until": None if state.until_seconds is None else clock.to_rfc3339(state.until_seconds),
    }


def _cell(column: str, value: float | int | str | None) -> tuple[str, object]:
    if column in _TIMES:
        return column.removesuffix("_seconds"), clock.to_rfc3339(value) if isinstance(value, float) else value
    return column, _rounded(value) if column.endswith("_ratio") and isinstance(value, float) else value


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 4)
