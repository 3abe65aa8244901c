"""The past of a cluster becomes a scenario, and whatever was not recorded is said, never guessed."""

import dataclasses
import pathlib
from collections.abc import Iterable

import numpy as np
import pytest

from promql import door, errors
from simulator import world
from simulator.contention import Load
from simulator.history import nodes, pods, reader, rebuilding
from simulator.history.queries import Selectors, Subject, expressions
from simulator.history.reader import Cache, RecordedSeries, Span
from simulator.results import outcome

SPAN = Span(start_seconds=1_800_000.0, step_seconds=300.0, steps=12)
GIB = 2.0**30
EVERY = tuple(range(SPAN.steps))


def series(value: float, steps: Iterable[int] = EVERY, **labels: str) -> door.Series:
    """A constant series that stands at the ends of these steps."""
    return door.Series(labels, tuple((SPAN.start_seconds + (step + 1) * SPAN.step_seconds, value) for step in steps))


def node(name: str, address: str, steps: Iterable[int] = EVERY) -> dict[Subject, list[door.Series]]:
    """A node of 8 CPUs and 32 GiB at 40 % CPU and 50 % memory."""
    return {
        Subject.NODES: [series(1.0, steps, node=name, internal_ip=address)],
        Subject.SIZES: [
            series(value, steps, node=name, resource=resource)
            for resource, value in (("cpu", 8.0), ("memory", 32 * GIB), ("pods", 50.0))
        ],
        Subject.NODE_CPU: [series(0.4, steps, instance=f"{address}:9100", job="node")],
        Subject.NODE_MEMORY: [series(0.5, steps, instance=f"{address}:9100", job="node")],
    }


def pod(
    name: str, uid: str, where: str, steps: Iterable[int] = EVERY, *, owner: str = "web-5d8f7c9b6d", **labels: str
) -> dict[Subject, list[door.Series]]:
    """A pod of a ReplicaSet that asks for half a CPU and 1 GiB and uses 1.6 CPUs and 8 GiB."""
    own = {"namespace": "shop", "pod": name, "uid": uid}
    given = {"node": where, "created_by_kind": "ReplicaSet", "created_by_name": owner} | labels
    return {
        Subject.PODS: [series(1.0, steps, **own, **given)],
        Subject.ALIVE: [series(1.0, steps, **own)],
        Subject.REQUESTS: [
            series(0.5, steps, **own, resource="cpu"),
            series(GIB, steps, **own, resource="memory"),
        ],
        Subject.POD_CPU: [series(1.6, steps, namespace="shop", pod=name)],
        Subject.POD_MEMORY: [series(8 * GIB, steps, namespace="shop", pod=name)],
    }


def recorded(*parts: dict[Subject, list[door.Series]], without: Iterable[Subject] = ()) -> RecordedSeries:
    """All parts together, less the subjects that nobody exports."""
    found: dict[Subject, list[door.Series]] = {subject: [] for subject in Subject}
    for part in parts:
        for subject, several in part.items():
            found[subject].extend(several)
    return RecordedSeries(SPAN, {subject: () if subject in without else tuple(found[subject]) for subject in Subject})


TWO = (node("a", "10.0.0.1"), node("b", "10.0.0.2"))


def test_nodes_owners_replicas_and_use_come_back() -> None:
    deployment = {
        Subject.REPLICA_SETS: [
            series(1.0, namespace="shop", replicaset="web-5d8f7c9b6d", owner_kind="Deployment", owner_name="web")
        ],
        Subject.BUDGETS: [series(1.0, namespace="shop", poddisruptionbudget="web")],
    }
    past = rebuilding.rebuild(
        recorded(*TWO, pod("web-1", "u1", "a"), pod("web-2", "u2", "b", range(3, 8)), deployment), "x"
    )
    scenario = past.scenario
    assert [(one.name, one.capacity.cpu_millicores, one.max_pods) for one in scenario.machines] == [
        ("a", 8000.0, 50),
        ("b", 8000.0, 50),
    ]
    (owner,) = scenario.owners
    assert (owner.kind, owner.name, owner.requests.cpu_millicores, owner.min_available) == (
        "Deployment",
        "web",
        500.0,
        1,
    )
    first, second = scenario.replicas
    assert (first.node, first.arrives_seconds) == ("a", SPAN.start_seconds)
    assert (second.node, second.arrives_seconds) == ("", SPAN.start_seconds + 900.0)
    assert second.leaves_seconds == SPAN.start_seconds + 8 * 300.0
    for replica, step in ((first, 0), (first, 11), (second, 3), (second, 7)):
        assert scenario.usage.cpu_millicores[replica.offset + step] == pytest.approx(1600.0)
        assert scenario.usage.memory_bytes[replica.offset + step] == pytest.approx(8 * GIB)
    assert past.measured.cpu_ratio.shape == (12, 2)
    # 40 % of 8 CPUs less 1.6 CPUs of the pod: 20 % is the machine's own
    assert scenario.machines[0].system.cpu_ratio == pytest.approx(0.2)
    assert scenario.machines[0].system.memory_ratio == pytest.approx(0.25)


def test_a_pod_without_measured_use_is_unknown_there_and_that_is_said() -> None:
    part = pod("web-1", "u1", "a")
    part[Subject.POD_CPU] = [series(1.6, range(0, 6), namespace="shop", pod="web-1")]
    found = pods.build(recorded(*TWO, part), {})
    assert np.isnan(found.usage.cpu_millicores[6:]).all()
    assert not np.isnan(found.usage.cpu_millicores[:6]).any()
    assert any("pod-cpu is unknown for 50.0% of all steps" in note for note in found.notes)


def test_a_name_that_comes_again_is_another_pod_with_its_own_stretch_of_use() -> None:
    lives = pod("db-0", "u1", "a", range(0, 4)), pod("db-0", "u2", "b", range(6, 12))
    found = pods.build(recorded(*TWO, *lives), {})
    assert [(one.arrives_seconds - SPAN.start_seconds) / 300.0 for one in found.replicas] == [0, 6]
    assert found.nodes == ("a", "b")
    assert not np.isnan(found.usage.cpu_millicores).any()


def played(*parts: dict[Subject, list[door.Series]]) -> outcome.Outcome:
    """What comes of a past under kube-scheduler alone."""
    return world.run(rebuilding.rebuild(recorded(*parts), "x").scenario, world.Setup(None))


def test_loads_are_of_the_whole_machine_and_pods_ask_for_what_is_allocatable() -> None:
    parts = node("a", "10.0.0.1")
    parts[Subject.SIZES] = [series(6.0, node="a", resource="cpu"), series(24 * GIB, node="a", resource="memory")]
    parts[Subject.CPUS] = [series(8.0, instance="10.0.0.1:9100")]
    parts[Subject.MEMORY] = [series(32 * GIB, instance="10.0.0.1:9100")]
    both = pod("web-1", "u1", "a"), pod("web-2", "u2", "a")  # which use 3.2 CPUs and 16 GiB: all that was measured
    (machine,) = nodes.build(recorded(parts)).machines
    assert (machine.capacity, machine.allocatable) == (Load(8000.0, 32 * GIB), Load(6000.0, 24 * GIB))
    figures = played(parts, *both).figures
    assert figures.cpu.mean_ratio == pytest.approx(0.4, abs=0.005)
    assert figures.memory.mean_ratio == pytest.approx(0.5, abs=0.005)
    large = tuple(pod(f"large-{number}", f"u{number}", "", range(3, 12)) for number in range(7))
    for one in large:
        one[Subject.REQUESTS] = [series(1.0, EVERY, resource="cpu", **one[Subject.ALIVE][0].labels)]
    assert played(parts, *large).figures.pods_bound == 6


def test_versions_of_a_stateful_set_are_all_replayed_side_by_side() -> None:
    labels = {"created_by_kind": "StatefulSet", "created_by_name": "db"}
    parts = pod("db-0", "u1", "a", EVERY, **labels), pod("db-1", "u2", "b", range(0, 5), **labels)
    tried = pod("db-1", "u3", "b", range(5, 12), **labels)
    tried[Subject.REQUESTS] = [series(0.7, namespace="shop", pod="db-1", uid="u3", resource="cpu")]
    found = pods.build(recorded(*TWO, *parts, tried), {})
    assert len(found.owners) == 2
    assert sorted(replica.ordinal for replica in found.replicas) == [0, 1, 2]
    figures = played(*TWO, *parts, tried).figures
    assert figures.pods_bound == 3
    assert figures.cpu.mean_ratio == pytest.approx(0.4, abs=0.005)


@pytest.mark.parametrize("kind", ["Pod", "Event", "Workflow"])
def test_pods_of_any_kind_of_owner_are_replayed(kind: str) -> None:
    executor = pod("run-1-exec-1", "u1", "a", created_by_kind=kind, created_by_name="run-1")
    driver = pod("run-1", "u0", "a", created_by_kind="<none>", created_by_name="<none>")
    assert played(*TWO, driver, executor).figures.pods_bound == 2


def test_names_longer_than_a_label_are_replayed() -> None:
    where = f"node-{'x' * 60}.example.com"
    bare = pod(f"dag-{'y' * 70}", "u1", where, created_by_kind="<none>", created_by_name="<none>")
    assert played(node(where, "10.0.0.1"), bare).figures.pods_bound == 1


@pytest.mark.parametrize("others", [(3.0,), (3.0, 4.0), (3.0, 1.6)])
def test_several_values_for_one_step_are_a_contradiction_and_unknown(others: tuple[float, ...]) -> None:
    part = pod("web-1", "u1", "a")
    part[Subject.POD_CPU] += [series(other, [5], namespace="shop", pod="web-1") for other in others]
    found = pods.build(recorded(*TWO, part), {})
    assert np.flatnonzero(np.isnan(found.usage.cpu_millicores)).tolist() == [5]
    assert any("1 contradicted" in note for note in found.notes)


@pytest.mark.parametrize("wrong", [-1.0, float("inf"), float("nan")])
def test_impossible_use_is_unknown(wrong: float) -> None:
    part = pod("web-1", "u1", "a", range(0, 11))
    part[Subject.POD_CPU].append(series(wrong, [11], namespace="shop", pod="web-1"))
    part[Subject.PODS].append(series(1.0, [11], **part[Subject.PODS][0].labels))
    part[Subject.ALIVE].append(series(1.0, [11], **part[Subject.ALIVE][0].labels))
    found = pods.build(recorded(*TWO, part), {})
    assert np.flatnonzero(np.isnan(found.usage.cpu_millicores)).tolist() == [11]


def test_missing_requests_are_said_and_ask_for_nothing() -> None:
    bare = pod("web-1", "u1", "a")
    del bare[Subject.REQUESTS]
    found = pods.build(recorded(*TWO, bare, pod("web-2", "u2", "b")), {})
    assert sorted(owner.requests.cpu_millicores for owner in found.owners) == [0.0, 500.0]
    assert "1 pods had no requests recorded and ask for nothing" in found.notes
    (message,) = [note for note in pods.build(recorded(*TWO, bare), {}).notes if "requests" in note]
    assert "every pod is replayed without requests" in message


def test_a_renamed_node_is_one_machine_and_a_replaced_one_is_two() -> None:
    same = node("old", "10.0.0.1", range(0, 5)), node("new", "10.0.0.1", range(5, 12))
    found = nodes.build(recorded(*same, node("b", "10.0.0.2", range(0, 5)), node("c", "10.0.0.3", range(6, 12))))
    assert [one.name for one in found.machines] == ["b", "c", "new"]
    assert found.renamed == {"old": "new"}
    assert "node old went on as new (same address): replayed as one machine" in found.notes
    b, c, new = found.machines
    assert (b.leaves_seconds, c.joins_seconds) == (SPAN.start_seconds + 1500.0, SPAN.start_seconds + 1800.0)
    assert (new.joins_seconds, new.leaves_seconds) == (float("-inf"), float("inf"))
    assert not np.isnan(found.cpu_ratio[2]).any()
    placed = pods.build(recorded(*same, pod("web-1", "u1", "old", range(0, 5))), found.renamed)
    assert placed.nodes == ("new",)


LONG_SPAN = Span(SPAN.start_seconds, SPAN.step_seconds, 40)


def over_hours(*parts: dict[Subject, list[door.Series]]) -> RecordedSeries:
    """More than three hours, so that something can be away for long."""
    return dataclasses.replace(recorded(*parts), span=LONG_SPAN)


def test_an_address_that_another_machine_has_hours_later_is_measured_of_each_in_its_time() -> None:
    found = nodes.build(over_hours(node("a", "10.0.0.1", range(0, 5)), node("b", "10.0.0.1", range(30, 40))))
    assert [one.name for one in found.machines] == ["a", "b"]
    assert found.renamed == {}
    assert np.flatnonzero(~np.isnan(found.cpu_ratio[0])).tolist() == list(range(0, 5))
    assert np.flatnonzero(~np.isnan(found.memory_ratio[1])).tolist() == list(range(30, 40))


def test_a_node_that_moved_to_another_address_is_no_other_machine_and_measured_all_the_time() -> None:
    moved = node("a", "10.0.0.1", range(0, 5)), node("a", "10.0.0.9", range(5, 12))
    found = nodes.build(recorded(*moved, node("b", "10.0.0.1", range(6, 12))))
    assert [one.name for one in found.machines] == ["a", "b"]
    assert found.renamed == {}
    assert not np.isnan(found.cpu_ratio[0]).any()
    assert np.flatnonzero(~np.isnan(found.cpu_ratio[1])).tolist() == list(range(6, 12))


def test_a_node_that_was_away_for_hours_is_named() -> None:
    there = [*range(0, 5), *range(30, 40)]
    found = nodes.build(over_hours(node("a", "10.0.0.1", range(40)), node("b", "10.0.0.2", there)))
    assert "went and came back under one name, replayed as there all the time: b (1 in all)" in found.notes
    everybody = nodes.build(over_hours(node("a", "10.0.0.1", there), node("b", "10.0.0.2", there)))
    assert everybody.notes == ()  # Prometheus was away, not they


def taint(where: str, key: str, steps: Iterable[int]) -> dict[Subject, list[door.Series]]:
    return {Subject.TAINTS: [series(1.0, steps, node=where, key=key, effect="NoSchedule")]}


def test_only_a_taint_that_lasted_is_replayed_and_each_once() -> None:
    pages = taint("a", "dedicated", range(0, 6)), taint("a", "dedicated", range(6, 12))
    passing = taint("a", "node.cloudprovider.kubernetes.io/uninitialized", [0]), taint("b", "going", range(8, 12))
    found = nodes.build(recorded(*TWO, *pages, *passing))
    assert [one.taints for one in found.machines] == [({"key": "dedicated", "value": "", "effect": "NoSchedule"},), ()]
    assert (
        "taints that stood for less than half of a node's time, not replayed: going, "
        "node.cloudprovider.kubernetes.io/uninitialized (2 in all)"
    ) in found.notes


def test_two_living_nodes_that_share_an_address_stay_two_and_neither_is_measured() -> None:
    found = nodes.build(recorded(node("a", "10.0.0.1"), node("b", "10.0.0.1")))
    assert [one.name for one in found.machines] == ["a", "b"]
    assert np.isnan(found.cpu_ratio).all()
    assert any("node-cpu was never measured: a, b" in note for note in found.notes)


def test_without_kube_state_metrics_nodes_and_pods_are_those_that_were_measured() -> None:
    hosts = {
        Subject.MEMORY: [series(32 * GIB, instance="10.0.0.1:9100")],
        Subject.CPUS: [series(8.0, instance="10.0.0.1:9100")],
        Subject.NODE_CPU: [series(0.4, instance="10.0.0.1:9100")],
        Subject.NODE_MEMORY: [series(0.5, instance="10.0.0.1:9100")],
    }
    bare = {subject: several for subject, several in pod("web-1", "u1", "a").items() if subject.startswith("pod-")}
    past = rebuilding.rebuild(recorded(hosts, bare), "x")
    assert [(one.name, one.capacity.cpu_millicores) for one in past.scenario.machines] == [("10.0.0.1", 8000.0)]
    assert [(one.kind, one.name) for one in past.scenario.owners] == [("", "web-1")]
    message = "\n".join(past.scenario.assumptions)
    for missing in ("kube_node_info", "kube_pod_info", "kube_pod_status_phase", "kube_pod_container_resource_requests"):
        assert f"{missing} is not recorded" in message


def test_daemons_stay_on_their_nodes_and_classes_without_value_are_named() -> None:
    labels = {"created_by_kind": "DaemonSet", "created_by_name": "agent", "priority_class": "system-node-critical"}
    later = pod("agent-x", "u9", "b", range(4, 12), **labels)
    other = pod("web-1", "u1", "a", priority_class="gold")
    found = pods.build(recorded(*TWO, later, other), {})
    by_name = {owner.name: owner for owner in found.owners}
    assert (by_name["agent"].kind, by_name["agent"].priority) == ("DaemonSet", 2_000_001_000)
    assert [one.node for one in found.replicas if found.owners[one.owner].name == "agent"] == ["b"]
    assert "the values of priority classes are not recorded: gold count as 0" in found.notes


def test_a_stretch_without_any_measurement_is_named() -> None:
    gap = [step for step in EVERY if step not in (4, 5, 6)]
    parts = node("a", "10.0.0.1")
    parts[Subject.NODE_CPU] = [series(0.4, gap, instance="10.0.0.1:9100")]
    message = rebuilding.rebuild(recorded(parts, pod("web-1", "u1", "a")), "x").scenario.assumptions
    assert any(
        note.startswith("nothing was measured from 1970-01-21T20:20:00Z to 1970-01-21T20:35:00Z") for note in message
    )


@pytest.mark.parametrize(("parts", "message"), [((), "no node is named"), (TWO, "no pod is named")])
def test_an_empty_past_is_an_error_that_says_what_to_check(
    parts: tuple[dict[Subject, list[door.Series]], ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        rebuilding.rebuild(recorded(*parts), "x")


def test_nodes_of_unknown_size_are_an_error_that_says_what_to_check() -> None:
    with pytest.raises(ValueError, match="how large nodes are is not recorded of any"):
        rebuilding.rebuild(recorded(*TWO, pod("web-1", "u1", "a"), without=[Subject.SIZES]), "x")


class Server:
    """A Prometheus whose every series is 1 at every step, which may fail or warn; `asked` are its pages, but for the
    question which cluster this is: one made at `born`.
    """

    def __init__(self, born: tuple[float, ...] = (1.7e9,)) -> None:
        self.born = born
        self.asked: list[tuple[str, float, float]] = []
        self.fails_after: int | None = None
        self.warnings: tuple[str, ...] = ()

    def query(self, expression: str, *, at_seconds: float | None = None) -> door.Answer:
        raise AssertionError(f"an instant query ({expression} at {at_seconds}); only ranges are asked for")

    def query_range(
        self, expression: str, *, start_seconds: float, end_seconds: float, step_seconds: float
    ) -> door.RangeAnswer:
        if self.fails_after is not None and len(self.asked) >= self.fails_after:
            raise errors.Unreachable("gone")
        if "kube_namespace_created" in expression:
            return door.RangeAnswer(tuple(door.Series({}, ((end_seconds, one),)) for one in self.born))
        self.asked.append((expression, start_seconds, end_seconds))
        moments = np.arange(start_seconds, end_seconds + 1, step_seconds).tolist()
        return door.RangeAnswer((door.Series({"node": "a"}, tuple((at, 1.0) for at in moments)),), self.warnings)


LONG = Span(0.0, 300.0, 200)
LATER = LONG.end_seconds + 86400.0


def test_pages_cover_every_step_once() -> None:
    server = Server()
    found = reader.read(server, LONG, Selectors(), Cache(None, "p"), now_seconds=LATER)
    points = [at for one in found.series[Subject.NODES] for at, _ in one.points]
    assert points == [300.0 * (step + 1) for step in range(200)]
    assert len(server.asked) == 3 * len(expressions(300.0, Selectors()))


def test_what_broke_off_goes_on_where_it_stopped(tmp_path: pathlib.Path) -> None:
    server, cache = Server(), Cache(tmp_path / "cache", "p")
    server.fails_after = 7
    with pytest.raises(errors.Unreachable):
        reader.read(server, LONG, Selectors(), cache, now_seconds=LATER)
    server.fails_after = None
    whole = reader.read(server, LONG, Selectors(), cache, now_seconds=LATER)
    assert len(server.asked) == len(set(server.asked)) == 3 * len(expressions(300.0, Selectors()))
    assert whole == reader.read(server, LONG, Selectors(), cache, now_seconds=LATER)


def test_a_page_that_is_partial_or_may_still_change_or_was_damaged_is_asked_again(tmp_path: pathlib.Path) -> None:
    server, cache = Server(), Cache(tmp_path, "p")
    server.warnings = ("a store is down",)
    assert reader.read(server, LONG, Selectors(), cache, now_seconds=LATER).warnings[0] == "nodes: a store is down"
    server.warnings = ()
    reader.read(server, LONG, Selectors(), cache, now_seconds=LONG.end_seconds)
    pages = len(expressions(300.0, Selectors()))
    assert len(server.asked) == 6 * pages
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:40])
    reader.read(server, LONG, Selectors(), cache, now_seconds=LATER)
    assert len(server.asked) == 9 * pages


def test_the_same_days_asked_for_later_are_asked_only_for_their_edges(tmp_path: pathlib.Path) -> None:
    server, cache = Server(), Cache(tmp_path, "p")
    days = Span(300.0 * 1000, 300.0, 2016)
    reader.read(server, days, Selectors(), cache, now_seconds=days.end_seconds + LATER)
    first = len(server.asked)
    later = Span(300.0 * 1005, 300.0, 2016)
    found = reader.read(server, later, Selectors(), cache, now_seconds=days.end_seconds + LATER)
    assert len(server.asked) - first == 2 * len(expressions(300.0, Selectors()))
    points = [at for one in found.series[Subject.NODES] for at, _ in one.points]
    assert points == [300.0 * (1005 + step + 1) for step in range(2016)]


@pytest.mark.parametrize("other", [(1.8e9,), ()])
def test_another_cluster_behind_the_same_address_has_pages_of_its_own(
    tmp_path: pathlib.Path, other: tuple[float, ...]
) -> None:
    mine, theirs = Server(), Server(born=other)
    reader.read(mine, LONG, Selectors(), Cache(tmp_path, "http://localhost:9090"), now_seconds=LATER)
    reader.read(theirs, LONG, Selectors(), Cache(tmp_path, "http://localhost:9090"), now_seconds=LATER)
    assert theirs.asked == mine.asked


def test_progress_is_told(tmp_path: pathlib.Path) -> None:
    told: list[tuple[Subject, int, int]] = []
    reader.read(
        Server(), LONG, Selectors(), Cache(tmp_path, "p"), now_seconds=LATER, progress=lambda *one: told.append(one)
    )
    assert told[:4] == [(Subject.NODES, 0, 3), (Subject.NODES, 1, 3), (Subject.NODES, 2, 3), (Subject.NODES, 3, 3)]


@pytest.mark.parametrize("since_seconds", [0.0, 299.0])
def test_a_span_without_a_whole_step_is_refused(since_seconds: float) -> None:
    with pytest.raises(ValueError, match="no whole step of 300 s"):
        Span.until(1000.0, since_seconds, 300.0)


def test_a_span_ends_with_the_last_whole_step() -> None:
    assert Span.until(1_000_100.0, 3600.0, 300.0) == Span(996_600.0, 300.0, 11)
