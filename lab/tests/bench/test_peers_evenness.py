"""The table of schedulers' runs, the NodeMetrics of a second, and a thread whose failure ends the run."""

import threading

import pytest

from lab.bench import contestants, fleet, peers, peers_evenness
from simulator.results import figures
from tests import builders, clocks

LOADS = {"node-0": {"cpu_avg_5m": 0.25, "memory_avg_5m": 0.5}}


def played(spread_ratio: float) -> figures.Figures:
    """A run whose nodes lie so far apart."""
    load = figures.Load(0.5, 0.7, 1.0, 0.0, spread_ratio)
    return figures.Figures(figures.Effectiveness(0.3, 0.3, 50.0, 100.0, 0.5), load, load, 0, 0, 100, 0)


def test_each_scheduler_stands_beside_evenload_seed_by_seed() -> None:
    runs = {contestants.US: [played(0.06), played(0.08)], "peer": [played(0.09), played(0.13)]}
    heading, _, *lines = peers_evenness.table(runs, [1, 2]).splitlines()
    assert heading == "| seeds 1, 2 | evenload | peer |"
    spread = "| node CPU, spread between nodes | 7.0 % (6.0-8.0) | 11.0 % (9.0-13.0), +4.0 ± 1.0 * |"
    assert spread in lines
    assert lines[-1].startswith("| effective_schedule_ratio")


def test_a_node_metric_has_the_pods_of_its_node_that_are_measured() -> None:
    pods = [builders.pod(name, node=node) for name, node in (("web", "node-0"), ("new", "node-0"), ("else", "node-1"))]
    used = {(pod.namespace, pod.name): peers.usage(0.5, 1.0) for pod in pods if pod.name != "new"}
    [(_, body)] = peers_evenness.node_metrics(LOADS, used, pods, 0.0)
    status = fleet.mapping(body["status"])
    assert status["nodeMetric"] == {"nodeUsage": peers.usage(2.0, 16.0)}
    assert status["podsMetric"] == [{"namespace": pods[0].namespace, "name": "web", "podUsage": peers.usage(0.5, 1.0)}]


def test_a_failure_to_publish_ends_the_run() -> None:
    rounds: list[str] = []
    failing = threading.Event()

    def publish() -> None:
        rounds.append("published")
        if len(rounds) == 3:
            failing.set()
            raise OSError("no Prometheus")

    with pytest.raises(OSError, match="no Prometheus"), peers_evenness.repeated(publish, clocks.ManualClock()):
        failing.wait()
    assert len(rounds) == 3
