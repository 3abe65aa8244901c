"""Every expression that a service builds is understood as what it was built for, and nothing else is."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy import metrics
from policy.schema import load_policy
from promql import errors
from promql.queries import node_queries, pod_queries, recording_rules
from promql.queries.node_queries import Window
from simulator.prometheus import expressions
from simulator.prometheus.expressions import Question, Subject

RESOURCES = st.sampled_from(metrics.RESOURCES)
SPANS = st.integers(4, 200_000_000).map(lambda millis: millis / 1000)
STATISTICS = st.one_of(st.sampled_from(["avg", "max"]), st.integers(1, 999).map(lambda number: f"p{number}"))


@given(RESOURCES, STATISTICS, SPANS, SPANS)
def test_a_window_is_recognised_by_the_text_that_was_built_for_it(
    resource: str, statistic: str, span: float, averaging: float
) -> None:
    window = Window(resource, statistic, span, span if statistic == "avg" else averaging)
    text = node_queries.expression(window)
    found = expressions.Book().meaning(text)
    assert isinstance(found, Window)
    assert node_queries.expression(found) == text
    assert (found.resource, found.window_seconds) == (window.resource, window.window_seconds)


@given(RESOURCES, SPANS)
def test_the_other_questions_are_recognised_too(resource: str, span: float) -> None:
    book = expressions.Book()
    pods = {"cpu": pod_queries.cpu_cores, "memory": pod_queries.memory_bytes}
    assert book.meaning(node_queries.data_time(resource)) == Question(Subject.NODE_TIME, resource)
    assert book.meaning(node_queries.scrapes(resource, span)) == Question(Subject.SCRAPES, seconds=span)
    assert book.meaning(node_queries.known_share(span)) == Question(Subject.KNOWN_SHARE, seconds=span)
    assert book.meaning(pods[resource](span)) == Question(Subject.POD_MEAN, resource, span)
    assert book.meaning(pod_queries.data_time(resource)) == Question(Subject.POD_TIME, resource)


@pytest.mark.parametrize("metric", load_policy.LoadPolicy.of({}).metrics_in_force, ids=lambda metric: metric.name)
def test_every_metric_of_the_default_policy_is_understood(metric: metrics.Metric) -> None:
    assert expressions.Book().meaning(node_queries.of_metric(metric)) == Window(
        metric.resource, metric.statistic, metric.window_seconds, metric.averaging_seconds
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("sum(", id="no PromQL"),
        pytest.param("up", id="another series"),
        pytest.param(node_queries.data_time("cpu", selector='job="other"'), id="another selector"),
        pytest.param(node_queries.data_time("cpu") + " > 0", id="more than what is built"),
        pytest.param("node_memory_MemAvailable_bytes[0s]", id="an impossible window"),
    ],
)
def test_what_no_service_builds_is_a_bad_query_that_says_what_is_known(text: str) -> None:
    shown = f"{text[:100]}…" if len(text) > 100 else text
    with pytest.raises(errors.BadQuery, match=re.escape(f"does not know `{shown}`; expected what the services build")):
        expressions.Book().meaning(text)


def test_a_query_of_the_policys_own_is_taken_for_what_its_metric_says() -> None:
    recorded = recording_rules.record("cpu_max_1h")
    entry = {"name": "cpu_max_1h", "resource": "cpu", "statistic": "max", "window": "1h", "query": recorded}
    book = expressions.Book(own=expressions.own(load_policy.LoadPolicy.of({"metrics": [entry]})))
    assert book.meaning(recorded) == Window("cpu", "max", 3600.0, 300.0)


@pytest.mark.parametrize(
    ("resource", "statistic"),
    [
        pytest.param("cpu", "trend", id="a statistic that only its author knows"),
        pytest.param("disk", "avg", id="another resource"),
        pytest.param("production-cpu", "max", id="another resource, by its maximum"),
    ],
)
def test_a_query_for_what_is_not_played_has_no_series(resource: str, statistic: str) -> None:
    entry = {"name": "own_1h", "resource": resource, "statistic": statistic, "window": "1h", "query": "my:own"}
    policy = load_policy.LoadPolicy.of({"metrics": [entry]})
    assert expressions.unknown(policy) == ("own_1h",)
    assert expressions.Book(own=expressions.own(policy)).meaning("my:own") == expressions.NOTHING
