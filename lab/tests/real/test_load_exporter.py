"""The exported load arrives in the real Prometheus; the annotator's queries read it and a real node_exporter alike."""

import collections.abc
import contextlib
import math
import typing

import pytest
import requests

from lab import cluster
from promql import door
from promql.http import client
from promql.queries import node_queries, pod_queries
from tests.e2e import waiting

pytestmark = pytest.mark.cluster

WINDOW_SECONDS = 4.0
ADDRESS = {"node-0": "172.16.0.1:9100", "node-1": "172.16.0.2:9100", "node-2": "172.16.0.3:9100"}
Seen = collections.abc.Callable[[], object]
IDLE = {"cpu_ratio": None, "memory_ratio": None, "hidden": None, "garbage": None, "frozen": None}


@pytest.fixture
def prometheus(control_plane: cluster.Cluster) -> collections.abc.Iterator[door.PrometheusDoor]:
    """The real Prometheus, with every control given back afterwards."""
    with contextlib.closing(
        client.connect(control_plane.prometheus_url, timeout_seconds=waiting.LIMIT_SECONDS)
    ) as made:
        yield made
    control(control_plane, "*", **IDLE)


def control(control_plane: cluster.Cluster, node: str, **values: object) -> None:
    """POST /nodes/NAME."""
    requests.post(f"{control_plane.exporter_url}/nodes/{node}", json=values, timeout=30).raise_for_status()


def expression(resource: str) -> str:
    """The annotator's query for a short window."""
    return node_queries.expression(node_queries.Window(resource, "avg", WINDOW_SECONDS, WINDOW_SECONDS))


def by_label(prometheus: door.PrometheusDoor, query: str, label: str) -> dict[str, float]:
    """The values of an instant query by one label."""
    return {sample.labels[label]: sample.value for sample in prometheus.query(query).samples}


def eventually(condition: collections.abc.Callable[[], bool], what: str, item: Seen | None = None) -> None:
    """Waits until Prometheus has seen it; `item` is what it shows instead."""
    waiting.eventually(condition, waiting.LIMIT_SECONDS, what, item)


def pod(name: str, node: str) -> dict[str, object]:
    """A pod of exact load that is bound already."""
    usage = '{"cpu_millicores": 2000, "memory_bytes": 4000000000}'
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {"load.evenload.io/usage": usage}},
        "spec": {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0},
    }


@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_the_annotators_query_reads_the_set_load_and_a_real_node_exporter(
    control_plane: cluster.Cluster, prometheus: door.PrometheusDoor, resource: str
) -> None:
    control(control_plane, "node-1", **{f"{resource}_ratio": 0.6})

    def values() -> dict[str, float]:
        return by_label(prometheus, expression(resource), "instance")

    def sample_values() -> dict[str, float]:
        """All at one moment: a scrape that comes too late makes its target disappear until the next."""
        found = values()
        set_one, idle_one = (found.pop(ADDRESS[name], math.nan) for name in ("node-1", "node-0"))
        found.pop(ADDRESS["node-2"], None)
        return found if abs(set_one - 0.6) < 0.01 and idle_one < 0.1 else {}  # NaN, of a young window, is neither

    real = waiting.eventually(
        sample_values, waiting.LIMIT_SECONDS, f"{resource} 0.6 of node-1 and the real node", values
    )
    (ratio,) = real.values()  # one real node_exporter beside the fake nodes
    assert 0 <= ratio <= 1


def test_a_pods_load_shows_on_its_node_and_ends_with_it(
    control_plane: cluster.Cluster, prometheus: door.PrometheusDoor
) -> None:
    pods = "api/v1/namespaces/default/pods"
    control_plane.api.create(pods, pod("loaded", "node-2"))

    def used(query: str) -> float:
        found = {
            (sample.labels["namespace"], sample.labels["pod"]): sample.value
            for sample in prometheus.query(query).samples
        }
        return found.get(("default", "loaded"), 0.0)

    def node() -> float:
        return by_label(prometheus, expression("cpu"), "instance").get(ADDRESS["node-2"], 0.0)

    def cores() -> float:
        return used(pod_queries.cpu_cores(WINDOW_SECONDS))

    def memory() -> float:
        return used(pod_queries.memory_bytes(WINDOW_SECONDS))

    eventually(lambda: abs(cores() - 2.0) < 0.05, "two cores of the pod", cores)
    eventually(lambda: abs(memory() - 4e9) < 1e7, "4 GB of the pod", memory)
    eventually(lambda: abs(node() - 0.28) < 0.01, "the pod's load on node-2", node)
    control_plane.api.delete(f"{pods}/loaded", typing.cast(dict[str, object], {"gracePeriodSeconds": 0}))
    eventually(lambda: memory() == 0, "the end of the pod's series", memory)
    eventually(lambda: abs(node() - 0.03) < 0.01, "node-2 idle again", node)


def test_a_hidden_node_is_missing_and_comes_back(
    control_plane: cluster.Cluster, prometheus: door.PrometheusDoor
) -> None:
    def nodes() -> set[str]:
        return set(by_label(prometheus, expression("cpu"), "instance")) & set(ADDRESS.values())

    eventually(lambda: len(nodes()) == 3, "all three nodes", nodes)
    control(control_plane, "node-0", hidden=True)
    eventually(lambda: nodes() == {ADDRESS["node-1"], ADDRESS["node-2"]}, "node-0 gone", nodes)
    control(control_plane, "node-0", hidden=False)
    eventually(lambda: len(nodes()) == 3, "node-0 back", nodes)


def test_a_node_that_says_nan_stays_nan_on_the_way_through_prometheus(
    control_plane: cluster.Cluster, prometheus: door.PrometheusDoor
) -> None:
    control(control_plane, "node-0", garbage="nan")

    def is_nan() -> bool:
        value = by_label(prometheus, expression("memory"), "instance").get(ADDRESS["node-0"], 0.0)
        return value != value

    eventually(is_nan, "NaN as the memory ratio of node-0")
