"""A past that was saved is the same when it is read, and whatever else is read is refused by name."""

import dataclasses
import pathlib

import numpy as np
import pytest

from simulator import scenario as scenarios
from simulator import world
from simulator.contention import Load
from simulator.history import past_file, rebuilding
from simulator.results.outcome import Timeline
from simulator.workloads import splitting

GIB = 2.0**30


def past() -> rebuilding.Past:
    """Two machines, one of which goes; two replicas, one of which stays."""
    usage = scenarios.Usage(np.arange(20, dtype=np.float32), np.full(20, np.nan, np.float32))
    scenario = scenarios.Scenario(
        name="x",
        start_seconds=3000.0,
        step_seconds=300.0,
        steps=10,
        machines=(
            scenarios.Machine("a", Load(8000.0, GIB), labels={"zone": "z"}, taints=({"key": "k", "effect": "X"},)),
            scenarios.Machine("b", Load(4000.0, GIB), leaves_seconds=4500.0),
        ),
        owners=(
            scenarios.Owner("shop", "web", Load(100.0, GIB), min_available=1),
            scenarios.Owner("kube-system", "agent", Load(), "DaemonSet"),
        ),
        replicas=(
            scenarios.Replica(0, 0, 3300.0, 4800.0, 0, 1.1, "a"),
            scenarios.Replica(1, 0, 3000.0, scenarios.NEVER, 10, node="b"),
        ),
        usage=usage,
        assumptions=("said",),
    )
    measured = np.linspace(0, 1, 20, dtype=np.float32).reshape(10, 2)
    return rebuilding.Past(scenario, Timeline(3000.0, 300.0, ("a", "b"), measured, measured))


def test_what_was_saved_is_read(tmp_path: pathlib.Path) -> None:
    past_file.save(past(), tmp_path / "past.npz")
    found, wanted = past_file.load(tmp_path / "past.npz"), past()
    for name in ("name", "start_seconds", "steps", "machines", "owners", "replicas", "assumptions"):
        assert getattr(found.scenario, name) == getattr(wanted.scenario, name)
    np.testing.assert_array_equal(found.scenario.usage.cpu_millicores, wanted.scenario.usage.cpu_millicores)
    np.testing.assert_array_equal(found.scenario.usage.memory_bytes, wanted.scenario.usage.memory_bytes)
    np.testing.assert_array_equal(found.measured.cpu_ratio, wanted.measured.cpu_ratio)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a history", b"\x93NUMPY"])
def test_what_is_no_history_is_refused_by_name(tmp_path: pathlib.Path, content: bytes) -> None:
    path = tmp_path / "other.npz"
    path.write_bytes(content)
    with pytest.raises(past_file.HistoryError, match=r"other.npz: not a recorded history .*evenload whatif --save"):
        past_file.load(path)


def test_a_truncated_file_and_one_of_another_kind_are_refused(tmp_path: pathlib.Path) -> None:
    past_file.save(past(), tmp_path / "past.npz")
    whole = (tmp_path / "past.npz").read_bytes()
    (tmp_path / "half.npz").write_bytes(whole[: len(whole) // 2])
    np.savez(tmp_path / "trace.npz", cpu=np.zeros(3))
    for name in ("half.npz", "trace.npz"):
        with pytest.raises(past_file.HistoryError, match=name):
            past_file.load(tmp_path / name)


def test_a_file_with_a_damaged_byte_is_refused_by_name_wherever_it_is(tmp_path: pathlib.Path) -> None:
    past_file.save(past(), tmp_path / "past.npz")
    whole, damaged = (tmp_path / "past.npz").read_bytes(), tmp_path / "damaged.npz"
    refused = []
    for at in range(0, len(whole), 7):
        damaged.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            past_file.load(damaged)
        except past_file.HistoryError as error:
            refused.append(str(error))
    assert len(refused) > 100
    assert all("damaged.npz: not a recorded history" in said for said in refused)


@pytest.mark.parametrize("wrong", [{"owner": 7}, {"offset": 15}, {"offset": -2}])
def test_a_file_whose_replicas_point_nowhere_is_refused(tmp_path: pathlib.Path, wrong: dict[str, int]) -> None:
    good = past()
    replicas = (dataclasses.replace(good.scenario.replicas[0], **wrong), good.scenario.replicas[1])  # type: ignore[arg-type]
    bad = dataclasses.replace(good, scenario=dataclasses.replace(good.scenario, replicas=replicas))
    past_file.save(bad, tmp_path / "bad.npz")
    with pytest.raises(past_file.HistoryError, match="points outside of the file"):
        past_file.load(tmp_path / "bad.npz")


def test_a_part_keeps_who_was_there_and_what_they_used() -> None:
    whole = past().scenario
    found = splitting.part(whole, 2, 8)
    assert (found.start_seconds, found.end_seconds, found.steps) == (3600.0, 5400.0, 6)
    web, agent = found.replicas
    assert (web.arrives_seconds, web.leaves_seconds, web.node) == (3600.0, 4800.0, "")
    assert (agent.node, agent.arrives_seconds) == ("b", 3600.0)
    assert found.usage.cpu_millicores[web.offset] == whole.usage.cpu_millicores[whole.replicas[0].offset + 2]
    assert found.assumptions == ("said", splitting.CUT)


@pytest.mark.parametrize(("first", "last", "names"), [(0, 5, ["a", "b"]), (5, 10, ["a"]), (6, 10, ["a"])])
def test_a_part_has_the_machines_of_its_time_and_can_be_played(first: int, last: int, names: list[str]) -> None:
    found = splitting.part(past().scenario, first, last)
    assert [machine.name for machine in found.machines] == names
    outcome = world.run(found, world.Setup(None))
    assert outcome.timeline.nodes == tuple(names)


def test_the_parts_of_a_scenario_hold_every_moment_of_every_replica_once() -> None:
    whole = past().scenario
    parts = [splitting.part(whole, first, last) for first, last in ((0, 3), (3, 7), (7, 10))]
    seconds = [
        sum(min(one.leaves_seconds, each.end_seconds) - one.arrives_seconds for one in each.replicas)
        for each in (whole, *parts)
    ]
    assert seconds[0] == sum(seconds[1:])


@pytest.mark.parametrize(("first", "last"), [(3, 3), (-1, 2), (0, 11)])
def test_what_is_no_part_is_refused(first: int, last: int) -> None:
    with pytest.raises(ValueError, match=f"steps {first} to {last} of 10 are no part of x"):
        splitting.part(past().scenario, first, last)
