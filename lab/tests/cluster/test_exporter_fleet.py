"""Counters hold the exact integral of the load, a pod's load is where the pod is, and controls do what they say."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cluster import exporter_fleet, exporter_load
from simulator import contention

CAPACITY = contention.Load(8000.0, 32e9)
NO_SYSTEM = contention.SystemLoad(0.0, 0.0)
START = 1000.0


def node_facts(name: str = "node-0", system: contention.SystemLoad = NO_SYSTEM) -> exporter_fleet.NodeFacts:
    """A node of 8 CPUs without a load of its own."""
    return exporter_fleet.NodeFacts(name, "10.0.0.1", CAPACITY, system)


def pod_facts(name: str = "web-0", node: str = "node-0", **changes: object) -> exporter_fleet.PodFacts:
    """A pod that uses two CPUs and 4 GB."""
    given: dict[str, object] = {
        "namespace": "shop", "name": name, "uid": f"uid-{name}", "owner": "web", "node": node,
        "profile": exporter_load.Profile(2000.0, 4e9), "containers": (("app", "image"),),
    } | changes  # fmt: skip
    return exporter_fleet.PodFacts(**given)  # type: ignore[arg-type]


def fleet_of(*nodes: str, speed: float = 1.0) -> exporter_fleet.Fleet:
    """A fleet of idle nodes, seen for the first time at START."""
    fleet = exporter_fleet.Fleet(exporter_load.Clock(START, speed), exporter_load.curves())
    for name in nodes:
        fleet.set_node(node_facts(name), START)
    return fleet


def node_of(fleet: exporter_fleet.Fleet, name: str = "node-0") -> exporter_fleet.NodeState:
    """The state of one node."""
    return next(node for node in fleet.nodes() if node.facts.name == name)


def test_a_pods_load_counts_from_its_start_to_its_end() -> None:
    fleet = fleet_of("node-0")
    fleet.place(pod_facts(), START + 10)
    pod = node_of(fleet).pods["shop/web-0"]
    fleet.remove_pod("shop/web-0", START + 30)
    fleet.advance(START + 100)
    assert pod.cpu_seconds == pytest.approx(2 * 20)
    assert node_of(fleet).busy_seconds == pytest.approx(0.25 * 20)
    assert node_of(fleet).cpu_ratio == 0
    assert node_of(fleet).pods == {}


def test_a_pod_that_is_bound_elsewhere_takes_its_load_along() -> None:
    fleet = fleet_of("node-0", "node-1")
    fleet.place(pod_facts(), START)
    fleet.place(pod_facts(node="node-1", uid="replacement"), START + 10)
    assert node_of(fleet, "node-0").cpu_ratio == 0
    assert node_of(fleet, "node-1").cpu_ratio == 0.25
    assert node_of(fleet, "node-1").memory_ratio == pytest.approx(4 / 32)


def test_a_pod_may_be_known_before_its_node() -> None:
    fleet = fleet_of()
    fleet.place(pod_facts(), START)
    fleet.set_node(node_facts(), START + 5)
    assert node_of(fleet).cpu_ratio == 0.25


def test_a_pod_whose_annotation_changes_changes_its_load_at_once_and_keeps_its_counter() -> None:
    fleet = fleet_of("node-0")
    fleet.place(pod_facts(), START)
    fleet.place(pod_facts(profile=exporter_load.Profile(4000.0, 4e9)), START + 10)
    fleet.advance(START + 20)
    assert node_of(fleet).pods["shop/web-0"].cpu_seconds == pytest.approx(20 + 40)


def test_pods_share_a_full_node() -> None:
    fleet = fleet_of("node-0")
    for number in range(8):
        fleet.place(pod_facts(f"web-{number}"), START)
    fleet.advance(START + 10)
    node = node_of(fleet)
    assert node.cpu_ratio == pytest.approx(1)
    assert [pod.now.cpu_millicores for pod in node.pods.values()] == pytest.approx([1000] * 8)
    assert sum(pod.cpu_seconds for pod in node.pods.values()) == pytest.approx(80)


def test_a_replacement_takes_its_predecessors_place_among_the_replicas() -> None:
    fleet = fleet_of("node-0")
    profile = exporter_load.Profile(100.0, 1e9, spread=True, seed=5)
    for number in range(3):
        fleet.place(pod_facts(f"web-{number}", profile=profile), START)
    before = sorted(pod.which.level for pod in node_of(fleet).pods.values())
    fleet.remove_pod("shop/web-1", START + 1)
    fleet.place(pod_facts("web-9", profile=profile), START + 2)
    assert sorted(pod.which.level for pod in node_of(fleet).pods.values()) == before
    assert len(set(before)) == 3


def test_a_scrape_after_many_steps_counts_every_step() -> None:
    profile = exporter_load.Profile(1000.0, 1e9, series="google", seed=3, spread=False)
    rare, frequent = fleet_of("node-0", speed=30.0), fleet_of("node-0", speed=30.0)
    for fleet in (rare, frequent):
        fleet.place(pod_facts(profile=profile), START + 3)
    for second in range(4, 201):
        frequent.advance(START + second)
    rare.advance(START + 200)
    assert node_of(rare).busy_seconds == pytest.approx(node_of(frequent).busy_seconds)
    assert node_of(rare).memory_ratio == node_of(frequent).memory_ratio


def test_setting_the_clock_gives_two_runs_the_same_load() -> None:
    profile = exporter_load.Profile(1000.0, 1e9, series="google", seed=3)
    ratios = []
    for delay in (17.0, 290.0):
        fleet = fleet_of("node-0", speed=30.0)
        fleet.restart_clock(0.0, START + delay)
        fleet.place(pod_facts(profile=profile), START + delay)
        fleet.advance(START + delay + 55)
        ratios.append(node_of(fleet).cpu_ratio)
    assert ratios[0] == ratios[1]


def test_a_control_sets_and_gives_back_the_system_load() -> None:
    fleet = fleet_of("node-0")
    fleet.control("node-0", exporter_fleet.Control(cpu_ratio=0.9, memory_ratio=0.5), START)
    assert (node_of(fleet).cpu_ratio, node_of(fleet).memory_ratio) == (0.9, 0.5)
    fleet.control("node-0", exporter_fleet.Control(cpu_ratio=None), START)
    assert (node_of(fleet).cpu_ratio, node_of(fleet).memory_ratio) == (0.0, 0.5)


def test_a_control_waits_for_a_node_that_is_still_to_come() -> None:
    fleet = fleet_of()
    fleet.control("node-0", exporter_fleet.Control(cpu_ratio=0.7), START)
    fleet.set_node(node_facts(), START + 5)
    assert node_of(fleet).cpu_ratio == 0.7
    fleet.remove_node("node-0")
    fleet.set_node(node_facts(), START + 9)
    assert node_of(fleet).cpu_ratio == 0.7


def test_a_frozen_node_stands_still_and_then_goes_on() -> None:
    fleet = fleet_of("node-0")
    fleet.place(pod_facts(), START)
    fleet.control("node-0", exporter_fleet.Control(frozen=True), START + 10)
    fleet.remove_pod("shop/web-0", START + 20)
    fleet.advance(START + 50)
    assert node_of(fleet).seen_seconds == pytest.approx(10)
    assert node_of(fleet).cpu_ratio == 0.25
    fleet.control("node-0", exporter_fleet.Control(frozen=False), START + 60)
    fleet.advance(START + 70)
    assert node_of(fleet).seen_seconds == pytest.approx(20)
    assert node_of(fleet).cpu_ratio == 0


EVENTS = st.lists(st.tuples(st.floats(0, 400), st.sampled_from(["place", "remove", "hot", "cool"])), max_size=25)


@given(EVENTS)
def test_counters_only_grow_and_never_outrun_the_time(events: list[tuple[float, str]]) -> None:
    fleet = fleet_of("node-0", speed=30.0)
    profile = exporter_load.Profile(3000.0, 1e9, series="google", seed=8)
    names = itertools.count()
    now, busy = START, 0.0
    for delay, event in events:
        now += delay
        if event == "place":
            fleet.place(pod_facts(f"web-{next(names)}", profile=profile), now)
        elif event == "remove" and node_of(fleet).pods:
            fleet.remove_pod(next(iter(node_of(fleet).pods)), now)
        else:
            fleet.control("node-0", exporter_fleet.Control(cpu_ratio=0.9 if event == "hot" else None), now)
        fleet.advance(now)
        node = node_of(fleet)
        assert busy <= node.busy_seconds <= node.seen_seconds + 1e-6
        assert 0 <= node.skew_seconds <= node.busy_seconds + 1e-6
        busy = node.busy_seconds
    assert node_of(fleet).seen_seconds == pytest.approx(now - START)
