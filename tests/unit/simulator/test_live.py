"""A simulated day that goes on while services are asked, and ends when nobody looks any more."""

import dataclasses
import json
import threading

import pytest

from kube import kinds
from policy.schema import load_policy
from simulator import world
from simulator.commands import simulated_console as simulated
from simulator.workloads import generator
from simulator.world import live

SHAPE = dataclasses.replace(generator.DEMO, nodes=4, pods=60, days=0.25)
SCENARIO = generator.GeneratedScenarios(SHAPE).scenario(3)
CONDITIONS = world.Setup(load_policy.defaults(), seed=3, policy_hash="simulated")
HOUR_SECONDS = 3600.0
NOON = SCENARIO.start_seconds + 2 * HOUR_SECONDS


def arrived(day: live.LiveDay, at_seconds: float) -> None:
    """Waits until the day is as far; fails after two minutes."""
    never = threading.Event()
    for _ in range(1200):
        if day.clock.now() >= at_seconds:
            return
        never.wait(0.1)
    raise AssertionError(f"the day stands at {day.clock.now()}, {at_seconds} was expected within two minutes")


def test_services_answer_between_two_steps() -> None:
    with live.opened(SCENARIO, CONDITIONS, quick_until_seconds=NOON, pause_seconds=600) as day:
        assert day.clock.now() == NOON
        doors = simulated.doors(day, "a day")
        (extender,), (descheduler,) = doors.extenders(), doors.deschedulers()
        nodes = json.loads(extender.get("/nodes"))
        names = day.read(lambda around: [node.name for node in around.kube.list(kinds.NODES).items])
        assert [node["name"] for node in nodes["nodes"]] == names
        assert nodes["heartbeat"]["matches"]
        assert {node["state"] for node in nodes["nodes"]} == {"usable"}
        assert json.loads(extender.get("/decisions", limit="5"))["decisions"]
        assert json.loads(descheduler.get("/plan"))["mode"] == "Enforce"
        assert "evictions" in json.loads(descheduler.get("/evictions"))
        assert doors.pods is not None
        pods = [pod for name in names for pod in doors.pods(name)]
        assert any(pod.workload.startswith("Deployment/") for pod in pods)
        assert any((pod.cpu_used_millicores or 0) > 0 and (pod.memory_used_bytes or 0) > 0 for pod in pods)
        assert doors.story is not None
        told = doors.story(SCENARIO.start_seconds, NOON)
        assert set(told["notKnown"]) == {"alerts", "leaders"}  # type: ignore[call-overload]
        assert doors.effectiveness is not None
        assert doors.effectiveness(86400.0)["moments"]


def test_a_day_goes_on_while_nobody_asks() -> None:
    with live.opened(SCENARIO, CONDITIONS, quick_until_seconds=NOON, pause_seconds=0.01) as day:
        arrived(day, NOON + HOUR_SECONDS)


def test_the_thread_of_a_day_ends_with_it() -> None:
    before = set(threading.enumerate())  # of which some may end meanwhile: other tests began them
    with live.opened(SCENARIO, CONDITIONS, quick_until_seconds=NOON, pause_seconds=600) as day:
        assert day.clock.now() == NOON
        begun = set(threading.enumerate()) - before
    assert begun
    assert not any(thread.is_alive() for thread in begun)


def test_a_service_that_does_not_run_is_not_there() -> None:
    without = dataclasses.replace(CONDITIONS, descheduler=False)
    with live.opened(SCENARIO, without, quick_until_seconds=0, pause_seconds=600) as day, pytest.raises(KeyError):
        day.get("descheduler", "/plan", {})
