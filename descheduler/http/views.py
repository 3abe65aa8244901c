"""Plans and ledger rows as plain data for JSON: the ledger's column names, ratios as fractions, times in RFC 3339.

`http.app` answers with them and `__main__.py --once` prints them; `evenload plan` and `evenload evictions` make tables
of them.
"""

import re

from descheduler.ledger import prediction_errors
from descheduler.ledger.rows import RecordedEvent, Row
from descheduler.planning import verdicts
from descheduler.planning.breakers import Breaker
from descheduler.planning.plans import Eviction, Headroom, NodePlan
from descheduler.run_report import Report
from runtime import clock

_SPAN = re.compile(r"(?:(\d{1,5})d)?(?:(\d{1,7})h)?(?:(\d{1,7})m)?(?:(\d{1,9})s)?", re.ASCII)
_TIMES = {name for name in Row._fields if name.endswith("_at_seconds") or name == "at_seconds"}


def span_seconds(text: str) -> float:
    """Seconds of a span as "7d", "2h30m", "45m", "90s"; ValueError for anything else."""
    found = _SPAN.fullmatch(text)
    if not text or found is None:
        raise ValueError(f"{text!r} is not a duration such as 2h30m")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(days * 86400 + hours * 3600 + minutes * 60 + seconds)


def row(one: Row) -> dict[str, object]:
    """A ledger row: "_at_seconds" columns become times, the rest keeps its unit in its name; beside them what
    `predictions` makes of the row.
    """
    named = one._asdict()
    shown = {_named(name): _shown(name, value) for name, value in named.items()}
    errors = {
        f"error_{after}_ratio": prediction_errors.error_ratio(one, after) for after in prediction_errors.PREDICTED
    }
    return {
        **shown,
        **{name: _shown(name, ratio) for name, ratio in errors.items()},
        "stayed_under_line": prediction_errors.stayed_under_line(one),
        "returned": None if one.returned is None else bool(one.returned),
    }


def told(one: RecordedEvent) -> dict[str, object]:
    """An Event of ours as it was posted."""
    return {
        "at": clock.to_rfc3339(one.at_seconds),
        "type": "Warning" if one.warning else "Normal",
        "reason": one.reason,
        "kind": one.kind,
        "namespace": one.namespace,
        "name": one.name,
        "related": one.related,
        "note": one.note,
    }


def report(one: Report) -> dict[str, object]:
    """A run's plan: the evictions in order, and every overloaded node with every candidate's verdict."""
    return {
        "at": clock.to_rfc3339(one.run.at_seconds),
        "mode": one.run.mode,
        "mode_reason": one.why,
        "policy": one.run.policy_hash,
        "summary": one.summary,
        "blocked": one.plan.blocked,
        "partial": one.partial,
        "headroom": headroom(one.plan.headroom),
        "evictions": [eviction(planned) for planned in one.plan.evictions],
        "nodes": [node(planned) for planned in one.plan.nodes],
    }


def eviction(one: Eviction) -> dict[str, object]:
    """One planned eviction with its figures."""
    return {
        "namespace": one.pod.namespace,
        "pod": one.pod.name,
        "uid": one.pod.uid,
        "workload": str(one.workload) if one.workload is not None else "",
        "node": one.overload.node,
        "metric": one.overload.metric,
        "value_ratio": _rounded(one.overload.value_ratio),
        "threshold_ratio": one.overload.evict_above_ratio,
        "target_ratio": one.overload.evict_until_ratio,
        "before_ratio": _rounded(one.before_ratio),
        "projected_ratio": _rounded(one.projected_ratio),
        "expected_5m_ratio": _shown("expected_5m_ratio", one.expected_5m_ratio),
        "expected_30m_ratio": _shown("expected_30m_ratio", one.expected_30m_ratio),
        "pod_cpu_millicores": round(one.used.cpu_millicores, 1),
        "pod_memory_bytes": round(one.used.memory_bytes),
        "destination": one.destination,
        "destination_ratio": _rounded(one.destination_ratio),
        "budget": one.budget,
    }


def node(one: NodePlan) -> dict[str, object]:
    """One overloaded node: readings, projection, and the verdicts of its pods."""
    return {
        "node": one.node.name,
        "summary": one.summary,
        "left_alone": one.left_alone,
        "overloads": [
            {
                "metric": over.metric,
                "value_ratio": _rounded(over.value_ratio),
                "threshold_ratio": over.evict_above_ratio,
                "target_ratio": over.evict_until_ratio,
                "since": None if over.since_seconds is None else clock.to_rfc3339(over.since_seconds),
                "projected_ratio": _rounded(one.projected[over.metric]),
            }
            for over in one.overloads
        ],
        "candidates": [
            {
                "namespace": judged.pod.namespace,
                "pod": judged.pod.name,
                "workload": str(judged.workload) if judged.workload is not None else "",
                "cpu_millicores": None if judged.used is None else round(judged.used.cpu_millicores, 1),
                "memory_bytes": None if judged.used is None else round(judged.used.memory_bytes),
                "verdict": str(judged.verdict.cause),
                "rule": verdicts.RULES.get(judged.verdict.cause, ""),
                "detail": judged.verdict.detail,
            }
            for judged in one.candidates
        ],
    }


def headroom(left: Headroom) -> dict[str, object]:
    """What a plan leaves of caps and budgets, and how far every node that takes pods is under its target lines."""
    return {
        "run": left.run,
        "hour": left.hour,
        "budgets": [budget._asdict() for budget in left.budgets],
        "destinations": [
            {"node": name, "headroom_ratio": {metric: _rounded(ratio) for metric, ratio in ratios.items()}}
            for name, ratios in left.destinations
        ],
    }


def breaker(one: Breaker) -> dict[str, object]:
    """A workload whose evictions failed, and how its breaker stands."""
    until = None if one.until_seconds is None else clock.to_rfc3339(one.until_seconds)
    return {
        "workload": one.workload,
        "namespace": one.namespace,
        "workload_uid": one.uid,
        "failures": one.failures,
        "last_at": clock.to_rfc3339(one.last_at_seconds),
        "state": one.state,
        "until": until,
    }


def _named(column: str) -> str:
    return column.removesuffix("_seconds") if column in _TIMES else column


def _shown(name: str, value: float | int | str | None) -> object:
    if name in _TIMES and isinstance(value, float):
        return clock.to_rfc3339(value)
    return _rounded(value) if name.endswith("_ratio") and isinstance(value, float) else value


def _rounded(ratio: float) -> float:
    return round(ratio, 4)
