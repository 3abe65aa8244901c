"""The rows of a run of the whole loop, and a Prometheus whose loads move."""

import random

import msgspec

from lab.bench import prepared, scale
from lab.bench.metric_pages import Page
from lab.bench.scale import Reading, Usage
from policy.schema import load_policy
from promql.queries import node_queries, pod_queries

SCHEDULER = """# TYPE scheduler_schedule_attempts counter
scheduler_schedule_attempts_total{{result="scheduled"}} {bound}
scheduler_schedule_attempts_total{{result="unschedulable"}} 7
scheduler_pending_pods{{queue="active"}} {pending}
scheduler_pending_pods{{queue="backoff"}} 1
"""
ANNOTATOR = """evenload_annotator_sync_duration_seconds_count {syncs}
evenload_annotator_sync_duration_seconds_sum {seconds}
"""


def reading(at_seconds: float, created: int, pending: int, syncs: int, seconds: float, mebibytes: float) -> Reading:
    """All pods are bound but those pending; the processes have used half of the time."""
    names = ("annotator", "descheduler", "kube-apiserver", *scale.EXTENDERS)
    pages = {name: Page("") for name in names}
    pages["kube-scheduler"] = Page(SCHEDULER.format(bound=created - pending, pending=pending))
    pages["annotator"] = Page(ANNOTATOR.format(syncs=syncs, seconds=seconds))
    return Reading(at_seconds, created, 0, pages, {"annotator": Usage(at_seconds / 2, mebibytes)})


READINGS = [reading(100, 0, 0, 1, 1.0, 100), reading(110, 500, 80, 2, 5.0, 300), reading(120, 1000, 30, 3, 6.0, 200)]


def test_rows_are_of_the_time_between_the_first_and_the_last_reading() -> None:
    found = {row.what: row.ours for row in scale.rows(scale.Settings(10, 200), READINGS)}
    assert found["pods created, 10 nodes, 200 pods"] == 50.0
    assert found["pods bound by kube-scheduler"] == (1000 - 30) / 20
    assert found["pods waiting for kube-scheduler, most at a time"] == 81
    assert found["annotator: sync, mean of 2"] == 2.5
    assert found["annotator: sync, longest"] == 4.0
    assert found["annotator: memory (PSS), highest"] == 300
    assert found["annotator: processors"] == 0.5


def values(source: prepared.StoredAnswers, expression: str) -> dict[str, str]:
    """The answer of an expression by instance or pod."""
    result = msgspec.json.decode(source.body(expression))["data"]["result"]
    return {next(iter(one["metric"].values())): one["value"][1] for one in result}


def test_the_loads_of_some_nodes_move_and_hot_nodes_stay_hot() -> None:
    source, known = prepared.StoredAnswers(0.0), [f"n{number:03}" for number in range(300)]
    loads = scale.MovingLoads(source, known, random.Random(1))
    metric = next(one for one in load_policy.defaults().metrics_in_force if one.name == "memory_avg_5m")
    expression = node_queries.of_metric(metric)
    before = values(source, expression)
    loads.move()
    after = values(source, expression)
    assert 1 <= sum(before[name] != after[name] for name in before) <= 300 * scale.MOVED_RATIO
    assert sum(float(value) > 0.8 for value in after.values()) == 15


def test_an_expression_that_names_pods_is_answered_for_those() -> None:
    source = prepared.StoredAnswers(0.0)
    pods = [{"pod": f"p-{number}", "namespace": "default"} for number in range(9)]
    source.answer(pod_queries.cpu_cores(300.0), zip(pods, map(float, range(9)), strict=True))
    named = pod_queries.cpu_cores(300.0, selector=pod_queries.naming(["p-3", "p-7", "gone"]))
    assert values(source, named) == {"p-3": "3.000000", "p-7": "7.000000"}
    assert source.unknown == 0
    assert values(source, "up") == {}
    assert source.unknown == 1
