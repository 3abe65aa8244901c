"""The Prometheus door against the real Prometheus: prometheus_suite, and HTTP, PromQL and exporters that die."""

import collections.abc
import contextlib

import pytest

from lab import cluster
from promql import errors
from promql.http import client
from promql.queries.node_queries import Window
from tests import prometheus_suite
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


class TestReal(prometheus_suite.Suite):
    """What every door must do, of the three fake nodes."""

    @pytest.fixture
    def stage(self, prometheus: client.Client) -> prometheus_suite.Stage:
        """The nodes that the load exporter plays.

        A fresh Prometheus needs two scrapes before a rate exists, and windows may still hold what another file made the
        nodes of the common control plane say, even NaN.
        """
        return prometheus_suite.Stage(prometheus, 3, WINDOW_SECONDS, waiting.until, LOAD_EXPORTER)


@pytest.mark.parametrize("window", EVERY_WINDOW, ids=lambda window: f"{window.resource} {window.statistic}")
def test_the_real_node_exporter_answers_every_window(prometheus: client.Client, window: Window) -> None:
    stage = prometheus_suite.Stage(prometheus, 1, WINDOW_SECONDS, waiting.until, NODE_EXPORTER)
    (sample,) = stage.answered(stage.text(window), -0.02, 1.0).samples
    assert sample.labels.keys() == {"instance", "job"}


@pytest.mark.parametrize("text", ["NaN", "+Inf", "-Inf"])
def test_what_is_no_number_arrives_as_prometheus_has_it(prometheus: client.Client, text: str) -> None:
    (sample,) = prometheus.query(f"vector({text})").samples
    assert str(sample.value) == str(float(text))


@pytest.mark.parametrize(
    ("expression", "expected", "expected_text"),
    [
        pytest.param("sum(", errors.BadQuery, "parse error", id="an expression that does not parse"),
        pytest.param("1 + 1", errors.Garbage, "a scalar, expected a vector", id="a scalar"),
        pytest.param("up[1m]", errors.Garbage, "a matrix, expected a vector", id="a range"),
    ],
)
def test_what_is_no_vector_is_refused_in_its_own_words(
    prometheus: client.Client, expression: str, expected: type[errors.PromqlError], expected_text: str
) -> None:
    with pytest.raises(expected, match=expected_text):
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
    with cluster.Cluster(kubernetes=False) as running, contextlib.closing(connect(running)) as door:
        longer = [window._replace(window_seconds=LONG_SECONDS) for window in EVERY_WINDOW]
        stage = prometheus_suite.Stage(door, 1, WINDOW_SECONDS, waiting.until)
        expressions = [stage.text(window) for window in longer]
        for expression in expressions:
            stage.answered(expression)
        running.processes["node-exporter"].stop()
        try:
            waiting.until(
                lambda: not any(door.query(expression).samples for expression in expressions),
                "a target that is gone to answer no more",
            )
        finally:
            running.processes["node-exporter"].start()
