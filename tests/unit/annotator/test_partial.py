"""A partial answer over HTTP, as the server sends it: no value of it reaches a node, of any metric, and all say so."""

import collections.abc
import json

import pytest
import pytest_httpserver
import werkzeug

from annotator.sync_outcome import Outcome
from kube.pods.compact import Pod
from policy.contract import load_annotation
from promql.http import client
from promql.queries import identity
from tests.unit.annotator import test_node_sync
from tests.unit.annotator.test_node_sync import LABELS, POLICY

WHOLE = '{"status":"success","data":{"resultType":"vector","result":[%s]}%s}'
ROW = '{"metric":{"instance":"10.0.0.%d:9100"},"value":[1700000000,"%s"]}'


class Bench(test_node_sync.Bench):
    """An annotator over a real client; every query of a node window is answered by `ratios` and what stands beside."""

    def __init__(self, httpserver: pytest_httpserver.HTTPServer, labels: identity.SeriesLabels = LABELS) -> None:
        super().__init__()
        self.ratios, self.beside = {1: 0.9, 2: 0.3}, ""
        self.partial_for = "\n"  # queries with this text; none has a line break
        httpserver.expect_request("/api/v1/query").respond_with_handler(self._answer)
        self.door = client.connect(httpserver.url_for("/"), timeout_seconds=5.0)
        self.begin(self.door, labels)

    def _answer(self, request: werkzeug.Request) -> werkzeug.Response:
        of_nodes = "node_" in request.args["query"]
        rows = [ROW % (number, ratio) for number, ratio in self.ratios.items()] if of_nodes else []
        beside = ',"isPartial":true' if self.partial_for in request.args["query"] else self.beside
        return werkzeug.Response(WHOLE % (",".join(rows), beside), content_type="application/json")

    def sync(self, *pods: Pod, after_seconds: float = 0.0) -> Outcome:
        """One, and the pause after it."""
        outcome = super().sync(*pods, after_seconds=after_seconds)
        self.clock.advance(30)
        return outcome


@pytest.fixture
def bench(httpserver: pytest_httpserver.HTTPServer) -> collections.abc.Iterator[Bench]:
    made = Bench(httpserver)
    yield made
    made.door.close()


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param(',"isPartial":true', id="VictoriaMetrics without one of its stores"),
        pytest.param(',"warnings":["receive series from Addr: store-2: connection refused"]', id="Thanos without one"),
        pytest.param(',"warnings":["remote_read: connection refused"]', id="Prometheus without its remote read"),
        pytest.param(',"warnings":["3 more warning annotations omitted"]', id="warnings that nobody could read"),
    ],
)
def test_values_of_a_partial_answer_reach_no_node(bench: Bench, beside: str) -> None:
    bench.sync()
    before = dict(bench.texts)
    assert json.loads(before["node-1"])["m"]["cpu_avg_5m"] == 0.9
    bench.ratios, bench.beside = {1: 0.69}, beside  # three CPUs' user time lay on the store that is gone
    outcome = bench.sync()
    assert bench.texts == before
    assert not outcome.whole
    assert "only a part of" in outcome.problems()[0]
    assert outcome.partly_answered


def test_last_good_values_age_while_answers_are_partial_and_then_go(bench: Bench) -> None:
    bench.sync()
    bench.beside = ',"isPartial":true'
    bench.sync()
    assert bench.metric("evenload_node_metric_age_seconds", metric="cpu_avg_5m") == 60.0
    assert bench.metric("evenload_prometheus_query_failures_total", metric="cpu_avg_5m") == 1
    bench.clock.advance(POLICY.sync.stale_after_seconds)
    assert bench.sync().read_nothing
    assert bench.metric_nodes("cpu_avg_5m")[1] == 2, "stale"


def test_one_metric_that_is_answered_in_part_keeps_its_values_beside_those_that_are_whole(bench: Bench) -> None:
    bench.sync()
    bench.ratios, bench.partial_for = {1: 0.4, 2: 0.3}, "86400s"
    bench.sync()
    values = load_annotation.decode(bench.texts["node-1"]).values
    assert (values["cpu_avg_5m"], values["cpu_max_1d"]) == (0.4, 0.9)


def test_pods_of_another_cluster_are_not_asked_about(httpserver: pytest_httpserver.HTTPServer) -> None:
    bench = Bench(httpserver, identity.SeriesLabels(node_selector='cluster="a"', pod_selector='cluster="a",job="k"'))
    bench.sync()
    bench.door.close()
    queries = [request.args["query"] for request, _ in httpserver.log]
    of_pods = [text for text in queries if "container_" in text]
    assert len(of_pods) == 2
    assert all('container!="POD",cluster="a",job="k"}' in text for text in of_pods)
    assert all('cluster="a"' in text for text in queries)
