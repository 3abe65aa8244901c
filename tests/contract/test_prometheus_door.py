"""The Prometheus door against the real Prometheus, our queries against real node_exporter and load exporter series."""

import collections.abc
import contextlib
import math

import pytest

import cluster
from promql import client, door, errors, node_queries, pod_queries
from promql.node_queries import Window
from tests.e2e import waiting

pytestmark = pytest.mark.cluster
WINDOW_SECONDS = 5.0
LONG_SECONDS = 600.0  # no test waits until such a window has run empty
EVERY_WINDOW = [
    Window(resource, statistic, seconds, WINDOW_SECONDS)
    for resource in ("cpu", "memory")
    for statistic, seconds in (("avg", WINDOW_SECONDS), ("max", 15.0), ("p95", 15.0))
]
NODE_EXPORTER, LOAD_EXPORTER = 'job="node-exporter"', 'job="load-exporter"'


@pytest.fixture(scope="module")
def prometheus(control_plane: cluster.Cluster) -> collections.abc.Iterator[client.Client]:
    with contextlib.closing(connect(control_plane)) as made:
        yield made


def connect(running: cluster.Cluster, path: str = "") -> client.Client:
    """A client that waits for a Prometheus that is busy with something else."""
    return client.connect(running.prometheus_url + path, timeout_seconds=60.0)


def eventually(
    prometheus: door.PrometheusDoor, expression: str, count: int, low: float = -math.inf, high: float = math.inf
) -> door.Answer:
    """The answer once it has `count` series of values within low..high.

    A fresh Prometheus needs two scrapes before a rate exists, and windows may still hold what another file made the
    nodes of the common control plane say, even NaN.
    """
    answers: list[door.Answer] = []

    def enough() -> bool:
        answers.append(prometheus.query(expression))
        samples = answers[-1].samples
        return len(samples) == count and all(low <= sample.value <= high for sample in samples)

    what = f"{count} series within {low}..{high} of {expression}"
    waiting.eventually(enough, waiting.LIMIT_SECONDS, what, lambda: answers[-1])
    return answers[-1]


@pytest.mark.parametrize("window", EVERY_WINDOW, ids=lambda window: f"{window.resource} {window.statistic}")
def test_the_real_node_exporter_answers_every_window(prometheus: client.Client, window: Window) -> None:
    answer = eventually(prometheus, node_queries.expression(window, selector=NODE_EXPORTER), 1, -0.02, 1.0)
    (sample,) = answer.samples
    assert sample.labels.keys() == {"instance", "job"}
    assert not answer.partial


@pytest.mark.parametrize("window", EVERY_WINDOW, ids=lambda window: f"{window.resource} {window.statistic}")
def test_every_fake_node_answers_every_window(prometheus: client.Client, window: Window) -> None:
    answer = eventually(prometheus, node_queries.expression(window, selector=LOAD_EXPORTER), 3, -0.02, 1.0)
    assert len({sample.labels["instance"] for sample in answer.samples}) == 3


def test_a_series_younger_than_its_window_is_not_taken_for_busy(prometheus: client.Client) -> None:
    a_day = Window("cpu", "avg", 86400.0, WINDOW_SECONDS)
    against_the_clock = f'1 - avg without (cpu, mode) (rate(node_cpu_seconds_total{{mode="idle",{LOAD_EXPORTER}}}[1d]))'
    asked = [node_queries.expression(a_day, selector=LOAD_EXPORTER), against_the_clock]

    def answers() -> list[dict[str, float]]:
        """By node, without those that another file's test once made say NaN: for a day they have no rate."""
        samples = [prometheus.query(expression).samples for expression in asked]
        return [{one.labels["instance"]: one.value for one in found if one.value == one.value} for found in samples]

    def caught() -> bool:
        ours, naive = answers()
        return len(ours) >= 1 and ours.keys() == naive.keys() and max(ours.values()) < 0.5 < 0.9 < min(naive.values())

    what = "ours to show idle nodes, and against the clock the trap this guards against"
    waiting.eventually(caught, waiting.LIMIT_SECONDS, what, answers)


@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_the_data_time_is_the_scrape_not_the_evaluation(prometheus: client.Client, resource: str) -> None:
    answer = eventually(prometheus, node_queries.data_time(resource, selector=NODE_EXPORTER), 1)
    (sample,) = answer.samples
    assert sample.at_seconds - waiting.LIMIT_SECONDS < sample.value < sample.at_seconds


def test_pod_queries_are_understood(prometheus: client.Client) -> None:
    for expression in (pod_queries.cpu_cores(WINDOW_SECONDS), pod_queries.memory_bytes(WINDOW_SECONDS)):
        assert not prometheus.query(expression).partial


def test_a_range_has_a_point_at_every_step(prometheus: client.Client) -> None:
    eventually(prometheus, "vector(1)", 1)
    answer = prometheus.query_range("vector(1)", start_seconds=1000.25, end_seconds=1002.25, step_seconds=0.5)
    (series,) = answer.series
    assert series.points == tuple((1000.25 + 0.5 * step, 1.0) for step in range(5))


def test_an_instant_in_the_past_is_asked_as_such(prometheus: client.Client) -> None:
    assert prometheus.query("vector(7)", at_seconds=1234.5).samples == (door.Sample({}, 7.0, 1234.5),)


@pytest.mark.parametrize("text", ["NaN", "+Inf", "-Inf"])
def test_what_is_no_number_arrives_as_prometheus_has_it(prometheus: client.Client, text: str) -> None:
    (sample,) = prometheus.query(f"vector({text})").samples
    assert str(sample.value) == str(float(text))


@pytest.mark.parametrize(
    ("expression", "expected", "said"),
    [
        pytest.param("sum(", errors.BadQuery, "parse error", id="an expression that does not parse"),
        pytest.param("1 + 1", errors.Garbage, "a scalar, expected a vector", id="a scalar"),
        pytest.param("up[1m]", errors.Garbage, "a matrix, expected a vector", id="a range"),
    ],
)
def test_what_is_no_vector_is_refused_in_its_own_words(
    prometheus: client.Client, expression: str, expected: type[errors.PromqlError], said: str
) -> None:
    with pytest.raises(expected, match=said):
        prometheus.query(expression)


def test_a_wrong_path_prefix_is_named(control_plane: cluster.Cluster) -> None:
    with (
        contextlib.closing(connect(control_plane, "/prefix")) as made,
        pytest.raises(errors.BadQuery, match="path prefix"),
    ):
        made.query("up")


def test_a_frozen_prometheus_is_given_up_and_asked_again_later(control_plane: cluster.Cluster) -> None:
    frozen = control_plane.processes["prometheus"]
    with contextlib.closing(client.connect(control_plane.prometheus_url, timeout_seconds=0.5)) as made:
        frozen.pause()
        try:
            with pytest.raises(errors.Unreachable, match="did not answer within"):
                made.query("up")
        finally:
            frozen.resume()
    with contextlib.closing(connect(control_plane)) as patient:
        assert patient.query("vector(1)").samples[0].value == 1.0


def test_a_dead_exporter_is_missing_at_once_although_its_windows_are_full() -> None:
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(cluster.Cluster(nodes=0, scheduler=False, exporter=False))
        made = stack.enter_context(contextlib.closing(connect(running)))
        longer = [window._replace(window_seconds=LONG_SECONDS) for window in EVERY_WINDOW]
        expressions = [node_queries.expression(window) for window in longer]
        for expression in expressions:
            eventually(made, expression, 1)
        running.processes["node-exporter"].stop()
        waiting.eventually(
            lambda: not any(made.query(expression).samples for expression in expressions),
            waiting.LIMIT_SECONDS,
            "a target that is gone to answer no more",
        )
