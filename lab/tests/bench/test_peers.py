"""Figures of schedulers side by side, and the judge of whether each went by the loads."""

import json

import pytest

from lab.bench import contestants, fleet, peers
from lab.bench.peers import Blind, Entrant, Figures
from lab.bench.table import Row

LOADS = {"idle": {"cpu_avg_5m": 0.25, "memory_avg_5m": 0.5}, "hot": {"cpu_avg_5m": 0.75, "memory_avg_5m": 0.5}}


def test_every_peer_has_the_loads_of_the_annotations() -> None:
    watched = json.loads(peers.LoadWatcher(LOADS).body(""))["data"]["NodeMetricsMap"]
    assert [(one["type"], one["operator"], one["value"]) for one in watched["hot"]["metrics"]] == [
        ("CPU", "AVG", 75.0),
        ("Memory", "AVG", 50.0),
    ]
    deviating = {"hot": {**LOADS["hot"], "cpu_deviation": 0.125}}
    watched = json.loads(peers.LoadWatcher(deviating).body(""))["data"]["NodeMetricsMap"]
    assert [(one["type"], one["operator"], one["value"]) for one in watched["hot"]["metrics"]][2:] == [
        ("CPU", "STD", 12.5)
    ]
    _, (_, hot) = peers.node_metrics(LOADS, 0.0)
    usage = {"resources": {"cpu": "12000m", "memory": "32768Mi"}}
    assert fleet.mapping(hot["status"])["nodeMetric"] == {"nodeUsage": usage}
    assert peers.hot(LOADS) == {"hot"}


@pytest.mark.parametrize(
    ("entrant", "placed"),
    [
        pytest.param(Entrant("peer"), ["idle", "hot"], id="a peer has put a pod on a hot node"),
        pytest.param(Entrant(peers.STOCK, by_load=False), ["idle"], id="kube-scheduler has no pod on a hot node"),
    ],
)
def test_a_comparison_that_says_nothing_fails(entrant: Entrant, placed: list[str]) -> None:
    with pytest.raises(Blind, match=entrant.name):
        peers.check(entrant, placed, {"hot"})


def test_a_peer_that_leaves_hot_nodes_alone_is_reported() -> None:
    peers.check(Entrant("peer"), ["idle", "idle"], {"hot"})
    peers.check(Entrant(peers.STOCK, by_load=False), ["idle", "hot"], {"hot"})


def test_a_pod_waits_from_its_coming_to_its_node() -> None:
    def event(kind: str, name: str, **spec: str) -> dict[str, object]:
        return {"type": kind, "object": {"metadata": {"name": name}, "spec": spec}}

    events = [
        (1.0, event("MODIFIED", "from-before", nodeName="n")),
        (2.0, event("ADDED", "a")),
        (2.5, event("ADDED", "waits-for-ever")),
        (3.0, event("MODIFIED", "a")),
        (4.0, event("MODIFIED", "a", nodeName="n")),
        (5.0, event("MODIFIED", "a", nodeName="n")),
    ]
    assert peers.waits_seconds(events) == [2.0]


def test_medians_of_both_stand_beside_the_ratios_of_legs() -> None:
    ours, theirs = ([Figures(*[value] * 6) for value in values] for values in ((1.0, 2.0, 3.0), (2.0, 2.0, 2.0)))
    first, *others = peers.rows("9 nodes", {"peer": theirs, contestants.US: ours})
    assert first == Row("pods bound a second, 9 nodes, beside peer", 2.0, "pods/s", 2.0, legs=(0.5, 1.5))
    assert len(others) == 5
