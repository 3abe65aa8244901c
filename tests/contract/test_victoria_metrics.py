"""The Prometheus door against a real VictoriaMetrics, which scrapes what the Prometheus of the control plane scrapes;
and partial answers: of VictoriaMetrics, and of a real Prometheus whose remote read does not answer.

It is the single-node server, whose answers are whole. Its cluster version says `isPartial` beside the same answer when
a vmstorage is gone; that word is put into real answers here, because the cluster version is no Go module to be had.
"""

import collections.abc
import contextlib
import pathlib
import random
import socket

import pytest
import requests
import yaml

from lab.cluster import Cluster, binaries, ports, processes
from promql import errors, readings
from promql.http import client, proxied_transport
from promql.queries import identity, node_queries
from promql.queries.node_queries import Window
from tests import prometheus_suite
from tests.e2e import waiting

pytestmark = pytest.mark.cluster
WINDOW_SECONDS = 5.0
LOAD_EXPORTER = 'job="load-exporter"'
AVERAGE = node_queries.expression(Window("cpu", "avg", WINDOW_SECONDS, WINDOW_SECONDS), selector=LOAD_EXPORTER)


@contextlib.contextmanager
def running(
    name: str, command: collections.abc.Callable[[int], list[str]], ready: str, directory: pathlib.Path
) -> collections.abc.Iterator[str]:
    """A server on a loopback port; its address."""
    chosen = ports.Ports(random.Random())

    def url() -> str:
        return f"http://127.0.0.1:{chosen.of(name)}"

    def is_ready() -> bool:
        try:
            return requests.get(url() + ready, timeout=10).status_code == 200
        except requests.RequestException:
            return False

    component = processes.Component(name, lambda: command(chosen.of(name)), is_ready, (name,))
    process = processes.Process(component, directory / f"{name}.log", chosen, lambda: None)
    try:
        process.start()
        yield url()
    finally:
        process.kill()


@pytest.fixture(scope="module")
def victoria_metrics(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[str]:
    """Scrapes by the configuration of the control plane's Prometheus."""
    (binary,) = binaries.find_or_build([tool for tool in binaries.TOOLS if tool.name == "victoria-metrics"]).values()
    directory = tmp_path_factory.mktemp("victoria-metrics")

    def command(port: int) -> list[str]:
        return [
            str(binary),
            f"-httpListenAddr=127.0.0.1:{port}",
            f"-storageDataPath={directory / 'data'}",
            f"-promscrape.config={control_plane.directory / 'configuration' / 'prometheus.yaml'}",
            "-promscrape.config.strictParse=false",  # an evaluation_interval, which is of vmalert here
            "-search.latencyOffset=0s",  # it answers of the moment, as Prometheus does
            "-search.disableCache",
            "-loggerLevel=WARN",
        ]

    with running("victoria-metrics", command, "/health", directory) as url:
        yield url


@pytest.fixture(scope="module")
def door(victoria_metrics: str) -> collections.abc.Iterator[client.Client]:
    with contextlib.closing(client.connect(victoria_metrics, timeout_seconds=60.0)) as made:
        yield made


class TestVictoriaMetrics(prometheus_suite.Suite):
    """What every door must do."""

    @pytest.fixture
    def stage(self, door: client.Client) -> prometheus_suite.Stage:
        """The nodes that the load exporter plays."""
        return prometheus_suite.Stage(door, 3, WINDOW_SECONDS, waiting.until, LOAD_EXPORTER)

    @pytest.mark.parametrize(("end_seconds", "step_seconds"), [(1100.0, 0.0), (100_000.0, 1.0)])
    def test_an_impossible_range_is_a_bad_query(
        self, stage: prometheus_suite.Stage, end_seconds: float, step_seconds: float
    ) -> None:
        """As in the suite, but for a range that ends before it begins: VictoriaMetrics lets it end later."""
        super().test_an_impossible_range_is_a_bad_query(stage, end_seconds, step_seconds)


def test_a_real_answer_is_partial_by_one_word_and_its_values_stay(victoria_metrics: str, door: client.Client) -> None:
    whole = prometheus_suite.Stage(door, 3, WINDOW_SECONDS, waiting.until, LOAD_EXPORTER).answered(AVERAGE)

    def without_a_store(path: str, query: tuple[tuple[str, str], ...]) -> proxied_transport.ProxyResponse:
        answer = requests.get(victoria_metrics + path, params=list(query), timeout=60)
        assert answer.content.startswith(b'{"status":"success",')
        body = answer.content.replace(b'"status":"success",', b'"status":"success","isPartial":true,', 1)
        return proxied_transport.ProxyResponse(answer.status_code, body)

    with contextlib.closing(client.connect(victoria_metrics, fetch=without_a_store)) as partial:
        with pytest.raises(errors.Partial, match="isPartial is true") as caught:
            partial.query(AVERAGE)
        assert len(caught.value.answer.samples) == len(whole.samples) == 3
        at_seconds = whole.samples[0].at_seconds
        ranged = partial.query_range(AVERAGE, start_seconds=at_seconds - 5, end_seconds=at_seconds, step_seconds=1)
        assert ranged.warnings


@pytest.fixture(scope="module")
def half(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[str]:
    """A Prometheus that reads half of its data from a store that does not answer."""
    (binary,) = binaries.find_or_build([tool for tool in binaries.TOOLS if tool.name == "prometheus"]).values()
    directory = tmp_path_factory.mktemp("prometheus")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and does not listen
        store = f"http://127.0.0.1:{silent.getsockname()[1]}/api/v1/read"
        text = yaml.safe_load((control_plane.directory / "configuration" / "prometheus.yaml").read_text("utf-8"))
        text["remote_read"] = [{"url": store, "read_recent": True}]
        (directory / "prometheus.yaml").write_text(yaml.safe_dump(text), encoding="utf-8")

        def command(port: int) -> list[str]:
            return [
                str(binary),
                f"--config.file={directory / 'prometheus.yaml'}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ]

        with running("prometheus", command, "/-/ready", directory) as url:
            yield url


def test_a_prometheus_whose_remote_read_does_not_answer_answers_in_part(half: str) -> None:
    with contextlib.closing(client.connect(half, timeout_seconds=60.0)) as made:
        with pytest.raises(errors.Partial, match=r"only a part of the answer to .*remote_read: .*connection refused"):
            made.query(AVERAGE)
        assert made.query("vector(1)").samples[0].value == 1.0  # which asks no store
        (series,) = made.query_range("vector(1)", start_seconds=1e9, end_seconds=1e9, step_seconds=1).series
        assert series.points == ((1e9, 1.0),)


@pytest.mark.parametrize("of_pair", ["victoria_metrics", "prometheus"])
def test_the_series_of_an_ha_pair_are_one_reading(control_plane: Cluster, victoria_metrics: str, of_pair: str) -> None:
    url = victoria_metrics if of_pair == "victoria_metrics" else control_plane.prometheus_url
    labelled = [f'label_replace({AVERAGE}, "prometheus_replica", "{name}", "", "")' for name in "ab"]
    with contextlib.closing(client.connect(url, timeout_seconds=60.0)) as made:
        stage = prometheus_suite.Stage(made, 6, WINDOW_SECONDS, waiting.until, LOAD_EXPORTER)
        answer = stage.answered(" or ".join(labelled))
    names = {sample.labels["instance"] for sample in answer.samples}
    directory = identity.build(identity.NodeAddress(name) for name in names)
    found = readings.by_node(answer, directory, label="instance", judge=lambda _: None)
    assert (len(found.values), found.refused) == (3, {})
