"""Measures a finished phase: from the real Prometheus and from the services.

Returns the types of `figures`. Node load is measured here at one resolution for both phases (a rate over five seconds,
every second), whatever windows the policy uses, so the policy cannot flatter its own result.
"""

from collections.abc import Sequence

import numpy as np
from prometheus_client import parser

from lab.cluster.demo import services
from promql import door
from promql.queries import node_queries
from simulator.results import figures

Points = Sequence[tuple[float, float]]

STEP_SECONDS = 1.0
RATE_SECONDS = 5.0
EVICTED = ("evicted", "evicted_unconfirmed")


class MeasuringError(Exception):
    """Something needed for the table could not be measured; the message says what."""


def node_load(prometheus: door.PrometheusDoor, resource: str, start_seconds: float, end_seconds: float) -> figures.Load:
    """One resource over all nodes between two Unix times."""
    window = node_queries.Window(resource, "avg", RATE_SECONDS, RATE_SECONDS)
    answer = prometheus.query_range(
        node_queries.expression(window),
        start_seconds=start_seconds,
        end_seconds=end_seconds,
        step_seconds=STEP_SECONDS,
    )
    try:
        return load([series.points for series in answer.series], STEP_SECONDS)
    except ValueError as error:
        raise MeasuringError(f"node {resource}: {error}") from error


def load(nodes: Sequence[Points], step_seconds: float) -> figures.Load:
    """Load figures from equally spaced points (Unix seconds, ratio) per node. ValueError without any point."""
    moments = sorted({at_seconds for points in nodes for at_seconds, _ in points})
    if not moments:
        raise ValueError("no node has a single measured point; expected series from Prometheus for the whole phase")
    values = [dict(points) for points in nodes]
    ratios = np.array([[node.get(moment, np.nan) for node in values] for moment in moments])
    return figures.load_over(ratios, step_seconds)


def effectiveness(metrics_text: str) -> figures.Effectiveness:
    """The five figures from the annotator's /metrics; MeasuringError names one that is not there."""
    return figures.Effectiveness(*_exported(metrics_text, *figures.Effectiveness._fields))


def placed(metrics_text: str) -> int:
    """How many placements the annotator has seen, those it could not judge included; MeasuringError as above."""
    return round(sum(_exported(metrics_text, "total_schedule_count", "schedule_results_left_out")))


def _exported(metrics_text: str, *names: str) -> list[float]:
    families = parser.text_string_to_metric_families(metrics_text)
    values = {sample.name: sample.value for family in families for sample in family.samples if not sample.labels}
    try:
        return [values[f"evenload_{name}"] for name in names]
    except KeyError as error:
        raise MeasuringError(f"the annotator exports no {error.args[0]}") from error


def evictions(descheduler: services.Service) -> list[dict[str, object]]:
    """The ledger's rows of evictions that were made, as GET /evictions tells them."""
    answered = descheduler.json("/evictions?limit=5000").get("evictions")
    if not isinstance(answered, list):
        raise MeasuringError(f"GET /evictions answered {str(answered)[:80]!r}, expected a list under `evictions`")
    return [row for row in answered if isinstance(row, dict) and row.get("result") in EVICTED]
