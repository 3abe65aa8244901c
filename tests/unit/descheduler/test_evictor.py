"""A plan carried out: the order of record and deed, every answer of the apiserver by its rule, the modes, the hint."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from descheduler.eviction import api_results, eviction_events, evictor
from descheduler.eviction.eviction_events import CONTROLLER, EventPublisher
from descheduler.eviction.evictor import Evictor, ExecutionContext
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import Query, Run
from descheduler.planning.plans import EvictionPlan
from descheduler.snapshot.workloads import Workload
from kube import errors
from kube.door import EvictionAnswer
from kube.events import EventWriter
from policy.contract import relief_hint
from policy.contract.relief_hint import Relief
from tests import builders, clocks
from tests.unit.descheduler import doors, scenes
from tests.unit.descheduler.scenes import NOW, Scene

GONE = EvictionAnswer(False, 404, "NotFound", "pods not found")
REPLACED = EvictionAnswer(False, 409, "Conflict", "the UID in the precondition does not match")
SHEDDING = EvictionAnswer(False, 429, errors.FLOW_CONTROL, "Too many requests, please try again later.", 1.0)
DENIED = EvictionAnswer(False, 429, "TooManyRequests", 'admission webhook "x" denied the request: enough', 1.0)

BEGUN = EvictionAnswer(
    False, 429, "", 'admission webhook "x" denied the request: Eviction triggered evacuation of VMI "a"'
)


def failing(status: int) -> errors.ApiError:
    """An answer with that status that is no answer about the pod."""
    return errors.class_for(status)("POST eviction", status=status, reason="R", message="m")


LOST = errors.Unreachable("POST eviction: timed out")


def evicter(door: doors.FakeDoor, ledger: Ledger) -> Evictor:
    """An evicter that posts its Events through the same door."""
    clock = clocks.ManualClock(NOW)
    writer = EventWriter(door, controller=CONTROLLER, instance="me", clock=clock)
    return Evictor(door, ledger, EventPublisher(writer, ledger, clock), clock=clock)


def terms(mode: str = "Enforce") -> ExecutionContext:
    """A run in that mode."""
    return ExecutionContext(Run("4f2a", NOW, mode, "9c1e"), 600.0, lambda _: True, lambda _: "")


def two_evictions(**budget: bool) -> EvictionPlan:
    """Two pods of two workloads from one node, under one budget if asked."""
    scene = scenes.crowd("ab", gib=4, labels={"app": "x"})
    if budget:
        scene.budget("x", allowed=2)
    plan = scene.plan(scenes.policy(limits={"perNode": 2}))
    assert scenes.evicted(plan) == ["a-0", "b-0"]
    return plan


def results(ledger: Ledger) -> list[str]:
    """The results of all rows, oldest first."""
    return [row.result for row in reversed(ledger.rows(Query()))]


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        pytest.param(doors.ACCEPTED, ["evicted", "evicted"], id="accepted"),
        pytest.param(EvictionAnswer(True, 202, "", ""), ["in_progress", "evicted"], id="202: it is carried out later"),
        pytest.param(GONE, ["gone", "evicted"], id="404: it left by itself"),
        pytest.param(REPLACED, ["replaced", "evicted"], id="409: another pod has its name"),
        pytest.param(doors.BLOCKED, ["refused", "evicted"], id="429: a budget"),
        pytest.param(SHEDDING, ["not_done"], id="429 of flow control: the run stops"),
        pytest.param(DENIED, ["failed", "evicted"], id="429 of a webhook: it denies this pod"),
        pytest.param(BEGUN, ["in_progress", "evicted"], id="429 of a webhook: it has begun in the background"),
        pytest.param(failing(410), ["gone", "evicted"], id="410: as 404"),
        pytest.param(failing(401), ["not_done"], id="401: nobody's fault but ours, the run stops"),
        pytest.param(failing(403), ["failed", "evicted"], id="403: admission forbids this one"),
        pytest.param(failing(422), ["failed", "evicted"], id="422: likewise"),
        pytest.param(failing(500), ["unknown", "evicted"], id="500: it may have taken place, the run goes on"),
        pytest.param(failing(503), ["unknown", "evicted"], id="503: likewise"),
        pytest.param(failing(504), ["unknown", "evicted"], id="504: likewise"),
        pytest.param(LOST, ["unknown", "evicted"], id="no answer: likewise"),
    ],
)
def test_every_answer_is_recorded_by_its_rule(
    ledger: Ledger, first: EvictionAnswer | Exception, expected: list[str]
) -> None:
    outcomes = evicter(doors.FakeDoor([first]), ledger).carry_out(two_evictions(), terms())
    assert results(ledger) == expected == [one.result for one in outcomes]


@pytest.mark.parametrize("answer", [LOST, failing(503), DENIED], ids=["no answer", "503", "a webhook's 429"])
def test_evictions_in_a_row_without_effect_end_the_run(ledger: Ledger, answer: EvictionAnswer | Exception) -> None:
    door = doors.FakeDoor([answer, doors.ACCEPTED, *[answer] * 9])
    evicter(door, ledger).carry_out(six_evictions(), terms())
    assert len(door.evictions) == 2 + api_results.MOST_IN_A_ROW, "an answer in between begins the count again"


@pytest.mark.parametrize(("answer", "result"), [(failing(403), "failed"), (BEGUN, "in_progress")])
def test_denials_of_single_pods_and_evictions_in_the_background_do_not_end_the_run(
    ledger: Ledger, answer: EvictionAnswer | Exception, result: str
) -> None:
    evicter(doors.FakeDoor([answer] * 6), ledger).carry_out(six_evictions(), terms())
    assert results(ledger) == [result] * 6


def six_evictions() -> EvictionPlan:
    """Six pods of as many workloads from one node."""
    plan = scenes.crowd("uvwxyz").plan(scenes.policy(limits=scenes.UNCAPPED))
    assert len(plan.evictions) == 6
    return plan


def test_a_refused_budget_is_not_asked_again_in_the_same_run(ledger: Ledger) -> None:
    door = doors.FakeDoor([doors.BLOCKED])
    evicter(door, ledger).carry_out(two_evictions(budget=True), terms())
    assert [name for name, _, _ in door.evictions] == ["default/a-0"]
    assert door.created[0]["reason"] == "EvictionBlockedByPDB"
    assert "disruption budget" in door.created[0]["note"]


def test_the_intent_is_written_before_the_call_and_the_uid_goes_with_it(ledger: Ledger) -> None:
    door = doors.FakeDoor()
    seen: list[list[str]] = []
    door.before_evict = lambda: seen.append(results(ledger))
    evicter(door, ledger).carry_out(two_evictions(), terms())
    assert seen == [["intended"], ["evicted", "intended"]]
    assert door.evictions == [("default/a-0", "uid-a-0", False), ("default/b-0", "uid-b-0", False)]


def test_a_pod_that_another_replica_asked_for_is_left_out_and_the_run_goes_on(ledger: Ledger, path: Path) -> None:
    plan = two_evictions()
    other = Ledger(path).open()
    other.intend(terms().run._replace(run="0ther"), plan.evictions[0], at_seconds=NOW)
    door = doors.FakeDoor()
    outcomes = evicter(door, ledger).carry_out(plan, terms())
    assert [name for name, _, _ in door.evictions] == ["default/b-0"]
    assert [(one.result, one.answer.message) for one in outcomes] == [
        ("not_done", "row 1 of run 0ther has this pod's eviction already (intended)"),
        ("evicted", ""),
    ]
    other.close()


def test_events_on_pod_node_and_workload_carry_the_figures(ledger: Ledger) -> None:
    door = doors.FakeDoor()
    evicter(door, ledger).carry_out(scenes.hot_and_cool().plan(), terms())
    on_pod, on_node, on_workload = door.created
    assert (on_pod["reason"], on_pod["action"], on_pod["type"]) == ("NodeOverloaded", "Evict", "Normal")
    assert on_pod["note"] == (
        "memory_avg_5m 0.90 > 0.80 on hot, until 0.60; pod uses 500m and 4.00Gi, node then at 0.78; "
        "run 4f2a, policy 9c1e"
    )
    assert (on_pod["regarding"]["kind"], on_pod["related"]["kind"]) == ("Pod", "Node")
    assert (on_node["regarding"]["name"], on_node["note"].split(":")[0]) == ("hot", "default/web-0 evicted")
    expected = {"kind": "ReplicaSet", "namespace": "default", "name": "web", "uid": "uid-web", "apiVersion": "apps/v1"}
    assert (on_workload["regarding"], on_workload["note"]) == (expected, on_node["note"])


def test_an_event_on_a_workload_of_another_group_is_not_about_kubernetes_own_of_that_kind(ledger: Ledger) -> None:
    door, scene = doors.FakeDoor(), Scene().node("hot", memory=0.9).node("cool")
    owner = Workload("StatefulSet", "default", "db", "uid-db", 3, 3, api_version="apps.kruise.io/v1beta1")
    scene.custom["uid-db"] = owner
    for number, node in enumerate(("hot", "cool", "cool")):
        scene.pod(f"db-{number}", node, owner=("StatefulSet", "db"))
    evicter(door, ledger).carry_out(scene.plan(), terms())
    reference = door.created[-1]["regarding"]
    assert (reference["kind"], reference["apiVersion"]) == ("StatefulSet", "apps.kruise.io/v1beta1")
    [row] = ledger.rows(Query())
    [*_, later] = eviction_events.unconfirmed(row)
    assert (row.workload, later.regarding.kind, later.regarding.api_version) == (
        "StatefulSet.apps.kruise.io/db",
        "StatefulSet",
        "",
    )


@pytest.mark.parametrize(
    ("mode", "calls", "result", "prefix"),
    [
        pytest.param("Observe", [], "observed", "OBSERVE ONLY: ", id="Observe makes no call"),
        pytest.param("DryRun", [("default/web-0", "uid-web-0", True)], "dry_run", "DRY RUN: ", id="DryRun asks"),
    ],
)
def test_modes_differ_in_the_last_call_only(
    ledger: Ledger, mode: str, calls: list[tuple[str, str, bool]], result: str, prefix: str
) -> None:
    door = doors.FakeDoor()
    outcomes = evicter(door, ledger).carry_out(scenes.hot_and_cool().plan(), terms(mode))
    assert door.evictions == calls
    assert [one.result for one in outcomes] == results(ledger) == [result]
    assert all(body["note"].startswith(prefix) for body in door.created)
    assert not any("evicted:" in body["note"].replace("would be evicted:", "") for body in door.created)
    assert door.patches == []


def test_the_node_gets_a_hint_with_the_owner_before_the_pod_is_evicted(ledger: Ledger) -> None:
    door = doors.FakeDoor()
    hinted: list[list[str | None]] = []
    door.before_evict = lambda: hinted.append([_hint(body) for _, body in door.patches])
    evicter(door, ledger).carry_out(two_evictions(), terms())
    first = Relief({"uid-a": NOW + 600})
    both = Relief({"uid-a": NOW + 600, "uid-b": NOW + 600})
    assert hinted == [[relief_hint.encode(first)], [relief_hint.encode(first), relief_hint.encode(both)]]


def _hint(body: Mapping[str, Any]) -> str | None:
    text: str | None = body["metadata"]["annotations"].get(relief_hint.KEY)
    return text


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param(None, {"new": NOW + 600}, id="none before"),
        pytest.param("garbage", {"new": NOW + 600}, id="a malformed one is replaced"),
        pytest.param({"old": NOW - 1}, {"new": NOW + 600}, id="one that is over"),
        pytest.param(
            {"old": NOW + 60, "older": NOW - 1},
            {"new": NOW + 600, "old": NOW + 60},
            id="each that holds keeps its own time",
        ),
        pytest.param({"old": NOW + 900}, {"new": NOW + 600, "old": NOW + 900}, id="also a later one"),
        pytest.param({"new": NOW + 60}, {"new": NOW + 600}, id="its own is prolonged"),
    ],
)
def test_hints_are_merged(before: dict[str, float] | str | None, expected: dict[str, float]) -> None:
    text = relief_hint.encode(Relief(before)) if isinstance(before, dict) else before
    assert evictor.merged(text, "new", terms(), NOW) == Relief(expected)


def test_the_hint_of_an_earlier_run_is_read_from_the_node(ledger: Ledger) -> None:
    scene = scenes.hot_and_cool()
    old = relief_hint.encode(Relief({"old": NOW + 60}))
    scene.nodes["hot"] = builders.node("hot", annotations={relief_hint.KEY: old})
    door = doors.FakeDoor()
    evicter(door, ledger).carry_out(scene.plan(), terms())
    written = door.patches[0][1]["metadata"]["annotations"][relief_hint.KEY]  # type: ignore[index]
    assert relief_hint.decode(written) == Relief({"old": NOW + 60, "uid-web": NOW + 600})


def test_a_dry_run_of_one_is_a_dry_run(ledger: Ledger) -> None:
    evicter(doors.FakeDoor([BEGUN]), ledger).carry_out(two_evictions(), terms("DryRun"))
    assert results(ledger)[0] == "dry_run"
