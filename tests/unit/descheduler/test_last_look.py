"""Everything that may happen between plan and call: the pod stays, and the ledger, the log and the report say why."""

import pathlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from descheduler.ledger.rows import Query
from kube import errors, kinds
from kube.door import WriteRequest
from tests import builders
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import Scene
from tests.unit.descheduler.worlds import World, two_to_evict

PLANNED = "web-0"
NOT_READY = builders.node("hot", mutate=lambda body: body["status"]["conditions"][0].update(status="False"))
TAINT = {"key": "maintenance", "effect": "NoSchedule"}


def while_the_hint_is_written(here: World, happen: Callable[[], object]) -> None:
    """Has this happen between the plan and the first call."""
    write = here.door.write

    def written(request: WriteRequest) -> None:
        write(request)
        happen()

    here.door.write = written  # type: ignore[method-assign]


def replace(here: World, kind: kinds.Kind[Any], name: str, *others: object) -> None:
    """Has the apiserver tell of these in place of an object; the watch has not heard of it yet."""
    listed = here.door.objects[kind.plural]
    here.door.objects[kind.plural] = (*(one for one in listed if one.name != name), *others)


def change(here: World, part: str = "metadata", **fields: Any) -> None:
    """Gives the pod that is about to leave other metadata, or another status."""
    (pod,) = (one for one in here.door.objects[kinds.PODS.plural] if one.name == PLANNED)
    changed = msgspec.structs.replace(getattr(pod, part), **fields)
    replace(here, kinds.PODS, PLANNED, msgspec.structs.replace(pod, **{part: changed}))


def case(name: str, happen: Callable[[World], None], message: str, result: str = "not_done") -> Any:
    """What happens meanwhile, and what the ledger says of the eviction."""
    return pytest.param(happen, message, result, id=name)


@pytest.mark.parametrize(
    ("happen", "message", "result"),
    [
        case(
            "it is labelled as protected",
            lambda here: change(here, labels={"app": "web", "evenload.io/protected": "true"}),
            'opted_out: evenload.io/protected: "true"',
        ),
        case(
            "it opts out",
            lambda here: change(here, annotations={"evenload.io/evictable": "false"}),
            'opted_out: evenload.io/evictable: "false"',
        ),
        case("it ends", lambda here: change(here, "status", phase="Succeeded"), "finished: Succeeded"),
        case(
            "it is orphaned",
            lambda here: change(here, owner_references=()),
            "unknown_owner: it has another owner than in the plan",
        ),
        case("it is gone", lambda here: replace(here, kinds.PODS, PLANNED), "", "gone"),
        case(
            "another has its name",
            lambda here: change(here, uid="uid-new"),
            "another pod has its name now: uid uid-new",
            "replaced",
        ),
        case(
            "its destination becomes hotter",  # but not hot: it would be over its target line with the pod
            lambda here: here.prometheus.show(Scene().node("hot", memory=0.9).node("cool", memory=0.5)),
            "no_destination: cool has become hotter: memory_avg_5m 0.62 > 0.60 with it",
        ),
        case(
            "its destination is cordoned",
            lambda here: replace(here, kinds.NODES, "cool", builders.node("cool", spec={"unschedulable": True})),
            "no_destination: cool takes no pods any more",
        ),
        case(
            "its destination is tainted",
            lambda here: replace(here, kinds.NODES, "cool", builders.node("cool", spec={"taints": [TAINT]})),
            "no_destination: cool does not take it any more: taint",
        ),
        case(
            "its node cools down",
            lambda here: here.prometheus.show(Scene().node("hot", memory=0.6).node("cool", memory=0.1)),
            "not_needed: hot is relieved: memory_avg_5m 0.60 <= 0.60",
        ),
        case(
            "its node has no readings",
            lambda here: here.prometheus.show(Scene().node("cool", memory=0.1)),
            "not_needed: hot has no fresh memory_avg_5m any more",
        ),
        case(
            "its node is cordoned",
            lambda here: replace(here, kinds.NODES, "hot", builders.node("hot", spec={"unschedulable": True})),
            "not_needed: hot is left alone: it is cordoned",
        ),
        case(
            "its node is not ready",
            lambda here: replace(here, kinds.NODES, "hot", NOT_READY),
            "not_needed: hot is left alone: it is not ready",
        ),
        case("its node goes", lambda here: replace(here, kinds.NODES, "hot"), "not_needed: hot has gone"),
        case("its destination goes", lambda here: replace(here, kinds.NODES, "cool"), "no_destination: cool has gone"),
    ],
)
def test_a_pod_that_changes_between_plan_and_call_stays_and_the_ledger_says_why(
    world: World, happen: Callable[[World], None], message: str, result: str
) -> None:
    while_the_hint_is_written(world, lambda: happen(world))
    report = world.report()
    assert scenes.evicted(report.plan) == [PLANNED]
    assert world.door.evictions == []
    (row,) = world.ledger.rows(Query())
    assert row.result == result
    assert message in row.message


def test_what_else_the_plan_sends_to_a_destination_counts_in_the_last_look(tmp_path: pathlib.Path) -> None:
    """Both fit at 0.34 (0.59 with both), each alone still does at 0.40 (0.53), and not both (0.65)."""
    scene = Scene().node("hot", memory=0.99).node("cool", memory=0.34)
    scene.workload("a", on=["hot", "cool"]).workload("b", on=["hot", "cool"])
    here = World(scene, tmp_path, mode="Enforce", limits={"perNode": 2})
    warmer = Scene().node("hot", memory=0.99).node("cool", memory=0.40)
    while_the_hint_is_written(here, lambda: here.prometheus.show(warmer))
    report = here.report()
    assert scenes.evicted(report.plan) == ["a-0", "b-0"]
    assert [name for name, _, _ in here.door.evictions] == ["default/a-0"]
    [last, _] = here.ledger.rows(Query())
    assert last.message.startswith("no_destination: cool has become hotter: memory_avg_5m 0.65 > 0.60 with it")


def test_a_pod_under_a_budget_leaves_where_pods_without_one_stay(tmp_path: pathlib.Path) -> None:
    """The last look knows of the budgets, too."""
    scene = scenes.hot_and_cool().budget("web", allowed=1)
    here = World(scene, tmp_path, mode="Enforce", protect={"withoutBudget": True})
    report = here.report()
    assert report.summary.startswith("1 evicted")


def test_the_verdict_of_the_last_look_stands_in_the_report(world: World) -> None:
    while_the_hint_is_written(world, lambda: change(world, labels={"evenload.io/protected": "true"}))
    report = world.report()
    assert scenes.causes(report.plan)[PLANNED] == "opted_out"
    assert report.summary == "0 evicted, 1 not_done: 1 protected, 1 over a cap"


def test_the_version_that_was_looked_at_goes_with_the_call(world: World) -> None:
    while_the_hint_is_written(world, lambda: change(world, resource_version="77"))
    world.service.run()
    assert world.door.versions == ["77"]


@pytest.mark.parametrize(
    ("happen", "message"),
    [
        pytest.param(
            lambda here: setattr(here, "holds_lease", False), "the run was ended before the call", id="a lost Lease"
        ),
        pytest.param(
            lambda here: setattr(here.prometheus, "down", True),
            "the nodes could not be read again: Prometheus at http://p: connection refused",
            id="a Prometheus that fails",
        ),
    ],
)
def test_what_goes_wrong_while_the_hint_is_written_ends_the_run(
    tmp_path: pathlib.Path, happen: Callable[[World], None], message: str
) -> None:
    here = two_to_evict(tmp_path)
    while_the_hint_is_written(here, lambda: happen(here))
    here.service.run()
    assert here.door.evictions == []
    (row,) = here.ledger.rows(Query())
    assert (row.result, row.message) == ("not_done", message)


def test_a_pod_that_cannot_be_read_again_stays_and_the_others_go(tmp_path: pathlib.Path) -> None:
    here, read = two_to_evict(tmp_path), []

    def get(kind: kinds.Kind[Any], name: str, *, namespace: str = "") -> Any:
        read.append(name)
        if len(read) == 1:
            raise errors.Unreachable("GET: timed out")
        return type(here.door).get(here.door, kind, name, namespace=namespace)

    here.door.get = get  # type: ignore[method-assign]
    here.service.run()
    assert read == ["a-0", "b-0", "hot", "cool2"]
    assert [name for name, _, _ in here.door.evictions] == ["default/b-0"]
    assert [row.result for row in here.ledger.rows(Query())] == ["evicted", "not_done"]
