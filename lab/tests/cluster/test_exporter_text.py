"""The page is what node_exporter and cAdvisor would say, parsed by Prometheus' own client library."""

import math

import pytest
from prometheus_client import parser
from prometheus_client.samples import Sample

from lab.cluster import exporter_fleet, exporter_load, exporter_text
from simulator import contention

START = 1000.0


def fleet_of(control: exporter_fleet.Control | None = None) -> exporter_fleet.Fleet:
    """One half-busy node of 4 CPUs and 16 GB with one pod of two containers, a hundred seconds old."""
    fleet = exporter_fleet.Fleet(exporter_load.Clock(START), exporter_load.curves())
    facts = exporter_fleet.NodeFacts(
        "node-0", "10.0.0.1", contention.Load(4000.0, 16e9), contention.SystemLoad(0.25, 0.25)
    )
    fleet.set_node(facts, START)
    containers = (("app", "img"), ('side"car', "img"))
    profile = exporter_load.Profile(1000.0, 4e9)
    fleet.place(exporter_fleet.PodFacts("shop", "web-0", "u1", "web", "node-0", profile, containers), START)
    if control:
        fleet.control("node-0", control, START)
    fleet.advance(START + 100)
    return fleet


def samples(fleet: exporter_fleet.Fleet, page: exporter_text.Page | None = None) -> list[Sample]:
    """Every sample of the page."""
    text = exporter_text.render(fleet, page or exporter_text.Page())
    return [sample for family in parser.text_string_to_metric_families(text) for sample in family.samples]


def values(entries: list[Sample], name: str, **labels: str) -> list[float]:
    """The values of one metric with these labels."""
    return [s.value for s in entries if s.name == name and labels.items() <= s.labels.items()]


def test_the_idle_counters_say_exactly_how_busy_the_node_is() -> None:
    found = samples(fleet_of())
    idle = values(found, "node_cpu_seconds_total", mode="idle", instance="10.0.0.1:9100")
    assert len(idle) == 4
    assert 1 - sum(idle) / 4 / 100 == pytest.approx(0.5, abs=1e-4)
    assert len(set(idle)) > 1, "CPUs of one node differ"


def test_all_modes_of_a_cpu_add_up_to_the_time_it_was_seen() -> None:
    found = samples(fleet_of())
    for cpu in "0123":
        modes = values(found, "node_cpu_seconds_total", cpu=cpu)
        assert len(modes) == 8
        assert sum(modes) == pytest.approx(100, abs=0.05)


def test_memory_available_is_what_is_not_used() -> None:
    found = samples(fleet_of())
    assert values(found, "node_memory_MemTotal_bytes") == [16e9]
    assert values(found, "node_memory_MemAvailable_bytes") == [pytest.approx(8e9)]


def test_a_pod_is_said_per_container_and_once_more_as_a_whole() -> None:
    found = samples(fleet_of())
    of_pod = [s for s in found if s.name == "container_cpu_usage_seconds_total" and s.labels["pod"] == "web-0"]
    by_container = {s.labels["container"]: s.value for s in of_pod}
    assert by_container == {"app": 50.0, 'side"car': 50.0, "POD": 0.0, "": 100.0}
    assert all(s.labels["namespace"] == "shop" and s.labels["node"] == "node-0" for s in of_pod)
    memory = values(found, "container_memory_working_set_bytes", pod="web-0", container="app")
    assert memory == [pytest.approx(2e9)]


def test_the_root_cgroup_says_the_whole_node_again() -> None:
    found = samples(fleet_of())
    assert values(found, "container_cpu_usage_seconds_total", id="/") == [pytest.approx(0.5 * 4 * 100)]
    assert values(found, "container_memory_working_set_bytes", id="/") == [pytest.approx(8e9)]


def test_families_carry_type_and_help() -> None:
    families = {f.name: f for f in parser.text_string_to_metric_families(exporter_text.render(fleet_of(), _PAGE))}
    assert families["node_cpu_seconds"].type == "counter"
    assert families["container_memory_working_set_bytes"].type == "gauge"
    assert all(family.documentation for family in families.values())


_PAGE = exporter_text.Page()


def test_the_node_label_is_an_option_of_the_node_series() -> None:
    plain = samples(fleet_of())
    labelled = samples(fleet_of(), exporter_text.Page(node_label=True))
    assert values(plain, "node_memory_MemTotal_bytes", node="node-0") == []
    assert values(labelled, "node_memory_MemTotal_bytes", node="node-0") == [16e9]


def test_fewer_cpus_on_request_say_the_same_ratio() -> None:
    idle = values(samples(fleet_of(), exporter_text.Page(max_cpus=1)), "node_cpu_seconds_total", mode="idle")
    assert idle == [pytest.approx(50)]


def test_a_hidden_node_has_no_series_at_all() -> None:
    assert samples(fleet_of(exporter_fleet.Control(hidden=True))) == []


def test_hidden_pods_leave_the_node_series() -> None:
    found = samples(fleet_of(exporter_fleet.Control(hidden_pods=True)))
    assert {s.name for s in found if s.name.startswith("container_")} == set()
    assert values(found, "node_memory_MemTotal_bytes") == [16e9]


@pytest.mark.parametrize(
    ("garbage", "use"),
    [
        pytest.param("nan", math.nan, id="nan: nobody knows"),
        pytest.param("negative", -1.0, id="negative: more available than there is"),
        pytest.param("over", 2.0, id="over: less than nothing available"),
    ],
)
def test_garbage_makes_memory_use_nonsense(garbage: str, use: float) -> None:
    found = samples(fleet_of(exporter_fleet.Control(garbage=garbage)))
    available, total = (values(found, f"node_memory_Mem{name}_bytes")[0] for name in ("Available", "Total"))
    assert 1 - available / total == pytest.approx(use, nan_ok=True)


def test_infinite_garbage_leaves_nothing_to_divide_by() -> None:
    found = samples(fleet_of(exporter_fleet.Control(garbage="infinite")))
    assert values(found, "node_memory_MemTotal_bytes") == [0]


def test_a_node_with_two_exporters_has_each_series_twice() -> None:
    once, found = (samples(fleet_of(exporter_fleet.Control(garbage=garbage))) for garbage in (None, "twice"))
    for name in ("node_memory_MemTotal_bytes", "node_cpu_seconds_total"):
        assert len(values(found, name)) == 2 * len(values(once, name))
        assert set(values(found, name)) == set(values(once, name))


@pytest.mark.parametrize(
    ("address", "expected"),
    [("10.0.0.1", "10.0.0.1:9100"), ("fd00::7", "[fd00::7]:9100"), ("node-0", "node-0:9100")],
)
def test_an_instance_is_host_and_port(address: str, expected: str) -> None:
    assert exporter_text.instance(address, 9100) == expected
