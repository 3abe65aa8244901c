"""The oracle knows what every pod will use for the next hour, until the pod is gone, and nothing beyond that."""

import math

import numpy as np
import pytest

from lab.peers import oracle
from simulator.contention import Load, SystemLoad
from simulator.kernel import VirtualClock
from simulator.scenario import Machine, Owner, Replica, Scenario, Usage
from tests import builders

STEP = 300.0
STEPS = 40
CPU = np.full(STEPS, 1000.0, np.float32)
CPU[20:] = 6000.0  # the only replica wants six cores from step 20 on
MACHINES = tuple(Machine(name, Load(8000.0, 1e9), system=SystemLoad(0.0, 0.0)) for name in "ab")


def world(leaves_step: float = math.inf, cpu: np.ndarray = CPU) -> tuple[oracle.Oracle, VirtualClock]:
    """Replica 0 is filled by pod here-1, replica 1 (the same use) by pod coming-1; memory is nothing."""
    replicas = tuple(Replica(0, at, 0.0, leaves_step * STEP, 0) for at in range(2))
    usage = Usage(cpu, np.zeros(STEPS, np.float32))
    owners = (Owner("default", "web", Load(100.0, 1e6)),)
    scenario = Scenario("known", 0.0, STEP, STEPS, MACHINES, owners, replicas, usage)
    clock = VirtualClock(0.0)
    known = {"default/here-1": 0, "default/coming-1": 1}
    return oracle.Oracle(scenario, known.get, clock), clock


def place(knowing: oracle.Oracle, node: str) -> None:
    """Pod here-1 is bound to a node."""
    knowing.pod_changed(builders.pod("here-1"), builders.pod("here-1", node=node))


def scores(knowing: oracle.Oracle) -> list[float]:
    found: list[float] = knowing.prioritize(builders.pod("coming-1"), ["a", "b"]).tolist()
    return found


def test_the_next_hour_is_known_and_what_is_behind_it_is_not() -> None:
    """What the incoming pod adds to (use / capacity) ^ 4 within the hour: more on a, where the other one is."""
    knowing, clock = world()
    place(knowing, "a")
    clock.move_to(3 * STEP)
    assert scores(knowing) == [0, 10]
    assert knowing.costs(1, np.arange(2)) == pytest.approx([12 * (0.25**4 - 0.125**4), 12 * 0.125**4])
    clock.move_to(9 * STEP)
    later = [11 * (0.25**4 - 0.125**4) + 1.5**4 - 0.75**4, 11 * 0.125**4 + 0.75**4]
    assert knowing.costs(1, np.arange(2)) == pytest.approx(later), "step 20 is within the hour now"


def test_a_pod_that_is_gone_or_will_be_uses_nothing() -> None:
    knowing, clock = world()
    place(knowing, "a")
    clock.move_to(3 * STEP)
    knowing.pod_changed(builders.pod("here-1", node="a"), None)
    assert knowing.costs(1, np.arange(2)) == pytest.approx([12 * 0.125**4] * 2)
    leaving, clock = world(leaves_step=10)
    place(leaving, "a")
    clock.move_to(8 * STEP)
    assert leaving.costs(1, np.arange(2)) == pytest.approx([2 * (0.25**4 - 0.125**4), 2 * 0.125**4])
    clock.move_to(10 * STEP)
    assert leaving.costs(1, np.arange(2)).tolist() == [0, 0], "both were to leave by now"


def test_a_finished_pod_uses_nothing_and_an_unknown_one_is_not_counted() -> None:
    knowing, _ = world()
    place(knowing, "a")
    knowing.pod_changed(builders.pod("here-1", node="a"), builders.pod("here-1", node="a", phase="Succeeded"))
    knowing.pod_changed(None, builders.pod("stranger-1", node="b"))
    assert scores(knowing) == [0, 0]
    assert knowing.costs(None, np.arange(2)).tolist() == [0, 0]


def test_use_that_is_not_known_counts_as_none() -> None:
    cpu = CPU.copy()
    cpu[:30] = np.nan
    knowing, _ = world(cpu=cpu)
    place(knowing, "a")
    assert knowing.costs(1, np.arange(2)).tolist() == [0, 0]


def test_it_rejects_nothing() -> None:
    knowing, _ = world()
    assert knowing.filter(builders.pod("coming-1"), ["a", "b"]).passed == ["a", "b"]
