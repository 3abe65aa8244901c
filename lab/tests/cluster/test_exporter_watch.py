"""A pod loads a node exactly while it runs there, and an annotation nobody understands costs its author only."""

import json
from typing import Any

import pytest

from kube import objects
from lab.cluster import exporter_fleet, exporter_http, exporter_load, exporter_text, exporter_watch
from simulator import contention
from tests import builders, clocks

EXACT = {exporter_load.USAGE_KEY: '{"cpu_millicores": 2000, "memory_bytes": 1024}'}


@pytest.fixture
def exporter() -> exporter_http.Exporter:
    """An exporter that knows nothing yet."""
    clock = clocks.ManualClock()
    fleet = exporter_fleet.Fleet(exporter_load.Clock(clock.now()), exporter_load.curves())
    return exporter_http.Exporter(fleet, exporter_text.Page(), clock)


@pytest.fixture
def watcher(exporter: exporter_http.Exporter) -> exporter_watch.Watcher:
    """A watcher whose nodes are idle, with node-1 of 8 CPUs seen."""
    made = exporter_watch.Watcher(exporter, contention.SystemLoad(0.0, 0.0))
    made.on_node(None, builders.node("node-1"))
    return made


def cpu_ratio(exporter: exporter_http.Exporter, node: str = "node-1") -> float:
    """The truth about one node."""
    return float(json.loads(exporter.answer_get("/nodes").body)[node]["cpu_ratio"])


def running(name: str = "web-1", **fields: Any) -> objects.Pod:
    """A pod of exactly two CPUs that runs on node-1."""
    return builders.pod(name, **{"node": "node-1", "annotations": EXACT, **fields})


@pytest.mark.parametrize(
    ("phase", "ratio"),
    [("Running", 0.25), ("Pending", 0.0), ("Succeeded", 0.0), ("Failed", 0.0)],
)
def test_only_a_running_pod_loads_its_node(
    exporter: exporter_http.Exporter, watcher: exporter_watch.Watcher, phase: str, ratio: float
) -> None:
    watcher.on_pod(None, running(phase=phase))
    assert cpu_ratio(exporter) == ratio


def test_a_pod_that_finishes_or_goes_takes_its_load_away(
    exporter: exporter_http.Exporter, watcher: exporter_watch.Watcher
) -> None:
    first, second = running("web-1"), running("web-2")
    watcher.on_pod(None, first)
    watcher.on_pod(None, second)
    assert cpu_ratio(exporter) == 0.5
    watcher.on_pod(first, running("web-1", phase="Succeeded"))
    watcher.on_pod(second, None)
    assert cpu_ratio(exporter) == 0.0


def test_a_terminating_pod_still_runs(exporter: exporter_http.Exporter, watcher: exporter_watch.Watcher) -> None:
    def deleting(body: builders.Body) -> None:
        body["metadata"]["deletionTimestamp"] = "2026-11-21T04:00:00Z"

    watcher.on_pod(None, running(mutate=deleting))
    assert cpu_ratio(exporter) == 0.25


def test_a_node_that_is_deleted_is_exported_no_longer(
    exporter: exporter_http.Exporter, watcher: exporter_watch.Watcher
) -> None:
    watcher.on_node(builders.node("node-1"), None)
    assert json.loads(exporter.answer_get("/nodes").body) == {}


def test_a_nodes_instance_is_its_internal_address(
    exporter: exporter_http.Exporter, watcher: exporter_watch.Watcher
) -> None:
    assert b'instance="10.0.0.1:9100"' in exporter.answer_get("/metrics").body


def test_a_nodes_own_annotation_says_its_system_load(
    exporter: exporter_http.Exporter, watcher: exporter_watch.Watcher
) -> None:
    watcher.on_node(None, builders.node("node-1", annotations={exporter_load.SYSTEM_KEY: '{"cpu_ratio": 0.4}'}))
    assert cpu_ratio(exporter) == 0.4


def test_an_annotation_that_is_not_understood_counts_as_absent_and_harms_nobody_else(
    exporter: exporter_http.Exporter, watcher: exporter_watch.Watcher
) -> None:
    watcher.on_node(None, builders.node("node-1", annotations={exporter_load.SYSTEM_KEY: "much"}))
    watcher.on_pod(None, running("web-1", annotations={exporter_load.USAGE_KEY: "{"}, cpu="1"))
    watcher.on_pod(None, running("web-2"))
    assert cpu_ratio(exporter) == pytest.approx((100 + 2000) / 8000)


def test_replicas_are_grouped_by_their_owner(watcher: exporter_watch.Watcher) -> None:
    facts = [watcher.pod_facts(running(name)) for name in ("web-1", "web-2")]
    assert facts[0].owner == facts[1].owner == "uid-web"
    assert watcher.pod_facts(running("bare", owner=None)).owner not in ("", "uid-web")
    assert [name for name, _ in facts[0].containers] != []
