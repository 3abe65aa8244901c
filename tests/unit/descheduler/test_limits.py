"""Caps, cool-downs, one in flight, the breaker, and budgets."""

import math
from typing import Any

import pytest

from descheduler.planning import limits
from descheduler.snapshot import workloads
from descheduler.snapshot.eviction_history import History, PendingReplacement
from kube import objects
from tests import builders
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW, Scene, crowd

WIDE = {"perNode": 10, "perNamespace": 10, "perRun": 10, "perWorkload": 10}


@pytest.mark.parametrize(
    ("caps", "history", "chosen", "cause"),
    [
        pytest.param({**WIDE, "perRun": 2}, History(), 2, "run_cap", id="per run"),
        pytest.param({**WIDE, "perNode": 3}, History(), 3, "node_cap", id="per node"),
        pytest.param({**WIDE, "perNamespace": 2}, History(), 2, "namespace_cap", id="per namespace"),
        pytest.param({**WIDE, "perHour": 5}, History(in_last_hour=3), 2, "hour_cap", id="per hour, with the ledger's"),
        pytest.param({**WIDE, "perHour": 5}, History(in_last_hour=7), 0, "hour_cap", id="the hour is spent"),
    ],
)
def test_a_cap_holds(caps: dict[str, object], history: History, chosen: int, cause: str) -> None:
    plan = crowd().plan(scenes.policy(limits=caps), history)
    assert len(plan.evictions) == chosen
    assert list(scenes.causes(plan).values()).count(cause) == 4 - chosen


def awaited(*workloads: str, age_seconds: float = 600.0, namespace: str = "default") -> tuple[PendingReplacement, ...]:
    """An eviction of each of these ReplicaSets whose replacement was not seen Ready."""
    return tuple(
        PendingReplacement(namespace, f"ReplicaSet/{name}", f"uid-{name}", NOW - age_seconds) for name in workloads
    )


def missing(*names: str, **fields: Any) -> Scene:
    """The crowd, and further workloads that miss one of three replicas each."""
    scene = crowd("uvwxyz")
    for name in names:
        scene.workload(name, on=["cool", "cool2"], replicas=3, **fields)
    return scene


FIVE = ("a", "b", "c", "d", "e")


def test_at_the_cap_of_unreplaced_evictions_nothing_more_leaves() -> None:
    plan = missing(*FIVE).plan(scenes.policy(limits=WIDE), History(awaited=awaited(*FIVE)))
    assert (plan.evictions, set(scenes.causes(plan).values())) == ((), {"unreplaced"})
    assert [one.workload for one in plan.unreplaced or ()] == [f"ReplicaSet/{name}" for name in FIVE]
    assert plan.blocked == (
        "5 evictions wait for a Ready replacement, 5 allowed (limits.unreplaced): ReplicaSet/a in default, "
        "ReplicaSet/b in default, ReplicaSet/c in default and 2 more"
    )


def test_what_a_run_chooses_counts_as_unreplaced() -> None:
    limits = {**WIDE, "unreplacedPerNamespace": 9}
    plan = missing("a", "b").plan(scenes.policy(limits=limits), History(awaited=awaited("a", "b")))
    assert (len(plan.evictions), plan.blocked) == (3, "")
    assert list(scenes.causes(plan).values()).count("unreplaced") == 3


@pytest.mark.parametrize(("namespace", "chosen"), [("default", 1), ("other", 3)])
def test_a_namespace_has_a_cap_of_its_own(namespace: str, chosen: int) -> None:
    scene = missing("a", "b", namespace=namespace)
    plan = scene.plan(scenes.policy(limits=WIDE), History(awaited=awaited("a", "b", namespace=namespace)))
    assert len(plan.evictions) == chosen


@pytest.mark.parametrize(
    ("scene", "waiting"),
    [
        pytest.param(crowd().workload("a", on=["cool"], replicas=3), 2, id="it misses two, and three were evicted"),
        pytest.param(crowd().workload("a", on=["cool", "cool2"]), 0, id="it misses none: rolled out, or scaled down"),
        pytest.param(crowd(), 0, id="it was deleted"),
    ],
)
def test_an_eviction_waits_only_for_what_its_workload_misses(scene: Scene, waiting: int) -> None:
    plan = scene.plan(scenes.policy(limits=WIDE), History(awaited=awaited("a", "a", "a")))
    assert len(plan.unreplaced or ()) == waiting


def test_what_the_plan_leaves_of_its_caps() -> None:
    caps = {**WIDE, "perRun": 3, "perHour": 9, "perNode": 2}
    left = crowd().plan(scenes.policy(limits=caps), History(in_last_hour=4)).headroom
    assert (left.run, left.hour) == (1, 3)
    assert crowd().plan(scenes.policy(limits=caps), History(in_last_hour=12)).headroom.hour == 0


def test_one_pod_of_a_workload_at_a_time() -> None:
    scene = Scene().node("hot", memory=0.99).node("cool").workload("web", on=["hot"] * 3 + ["cool"] * 9, gib=2)
    plan = scene.plan(scenes.policy(limits=WIDE))
    assert [str(cause) for cause in plan.causes] == ["chosen", "in_flight", "in_flight"]


@pytest.mark.parametrize(
    ("management", "ready", "expected"),
    [
        pytest.param({}, 4, "in_flight", id="in order, by default: the replacement would wait for the one not ready"),
        pytest.param({"podManagementPolicy": "OrderedReady"}, 5, "chosen", id="in order, all ready"),
        pytest.param({"podManagementPolicy": "Parallel"}, 4, "chosen", id="not in order"),
    ],
)
def test_a_stateful_set_that_starts_in_order_loses_no_pod_while_one_is_not_ready(
    management: dict[str, str], ready: int, expected: str
) -> None:
    scene = Scene().node("hot", memory=0.9).node("cool").workload("db", on=["hot", *["cool"] * 4])
    stateful_set = scenes.controller(objects.StatefulSet, "db", replicas=5, ready=ready, **management)
    known = workloads.Index([stateful_set])
    assert scenes.causes(scene.plan(workloads=known)) == {"db-0": expected}


@pytest.mark.parametrize(
    ("per_workload", "replicas", "cap"),
    [
        *(("bySize", *by_size) for by_size in ((1, 1), (3, 1), (4, 2), (10, 2), (11, 2), (20, 2), (21, 3), (100, 10))),
        *(("25%", 4, 1), ("25%", 5, 2), ("25%", 1, 1), ("1%", 100, 1), ("1%", 101, 2), ("100%", 7, 7), ("33%", 0, 0)),
        (7, 3, 7),
    ],
)
def test_a_cap_is_a_number_or_grows_with_the_size_or_is_a_share_rounded_up_as_budgets_do_it(
    per_workload: str | int, replicas: int, cap: int
) -> None:
    assert limits.workload_cap(per_workload, replicas) == cap


def test_the_cooldown_after_returns_doubles_up_to_its_maximum_and_without_any_is_its_own_however_short() -> None:
    grown = [limits.workload_cooldown_seconds(scenes.policy().descheduler, count) for count in (0, 1, 2, 3, 50)]
    assert grown == [600, 900, 1800, 3600, 21600]
    assert limits.workload_cooldown_seconds(scenes.policy(cooldown={"workload": "1m"}).descheduler, 0) == 60


def test_the_breaker_backs_off_more_and_more_with_jitter_and_then_stays_open() -> None:
    obeyed = scenes.policy().descheduler
    pauses = [limits.breaker_seconds(obeyed, "uid", failures) for failures in range(3, 9)]
    assert pauses[-1] == math.inf
    for step, pause_seconds in enumerate(pauses[:-1]):
        assert 120 * 2**step <= pause_seconds <= 240 * 2**step
    assert limits.breaker_seconds(obeyed, "other", 3) != pauses[0]


@pytest.mark.parametrize(
    ("names", "namespaces"),
    [
        pytest.param(("a", "b"), ("default", "default"), id="of two names"),
        pytest.param(("same", "same"), ("one", "two"), id="of one name in two namespaces"),
    ],
)
def test_two_budgets_are_spent_each_by_itself(names: tuple[str, str], namespaces: tuple[str, str]) -> None:
    scene = Scene().node("hot", memory=0.99).node("cool")
    for name, budget, namespace in zip("ab", names, namespaces, strict=True):
        scene.workload(name, on=["hot", "cool"], gib=2, namespace=namespace)
        scene.budgets.append(builders.budget(budget, namespace=namespace, allowed=1, labels={"app": name}))
    plan = scene.plan(scenes.policy(limits=WIDE))
    assert [str(cause) for cause in plan.causes] == ["chosen", "chosen"]
    assert [(left.allowed, left.reserved) for left in plan.headroom.budgets] == [(1, 1), (1, 1)]


ALWAYS = {"unhealthyPodEvictionPolicy": "AlwaysAllow"}


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        pytest.param({}, {"currentHealthy": 2}, "chosen", id="enough others are healthy"),
        pytest.param({}, {"currentHealthy": 1}, "budget", id="not enough others are healthy"),
        pytest.param({}, {"currentHealthy": 0, "desiredHealthy": 0}, "budget", id="none is known to be needed"),
        pytest.param(ALWAYS, {"currentHealthy": 1}, "chosen", id="the budget lets unready pods go"),
        pytest.param(ALWAYS, {"observedGeneration": 0}, "budget", id="but not by a status of an older spec"),
    ],
)
def test_an_unready_pod_under_a_spent_budget(spec: dict[str, str], status: dict[str, int], expected: str) -> None:
    scene = unready_on_hot().budget("web", allowed=0, spec=spec, status=status)
    assert scenes.causes(scene.plan(scenes.policy(limits=WIDE)))["it"] == expected


def unready_on_hot() -> Scene:
    """A pod "it" of a workload of three that is not Ready, on the hot node; the two others are well."""
    return scenes.beside_two(mutate=lambda body: body["status"]["conditions"].pop())
