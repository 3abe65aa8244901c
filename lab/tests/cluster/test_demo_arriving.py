"""Batches are created once, when they are due; who leaves takes the budget away first."""

from collections.abc import Mapping

from kube import errors
from lab.cluster.demo import arrival_plan, arriving


class Recorder:
    """A Kubernetes door that notes what it is asked to create and delete."""

    def __init__(self) -> None:
        self.created: list[str] = []
        self.deleted: list[str] = []

    def create(self, kind: object, body: Mapping[str, object], **_: object) -> None:
        """Notes kind and name."""
        metadata = body["metadata"]
        assert isinstance(metadata, dict)
        self.created.append(f"{body['kind']} {metadata['name']}")

    def delete(self, kind: object, name: str, **_: object) -> None:
        """Notes kind and name; the first object is gone already."""
        self.deleted.append(f"{getattr(kind, 'name', '')} {name}")
        if len(self.deleted) == 1:
            raise errors.NotFound("gone", status=404, reason="NotFound", message="")


def player(plan: arrival_plan.Plan) -> tuple[arriving.Player, Recorder]:
    """A player over a recorder."""
    recorder = Recorder()
    return arriving.Player(recorder, plan, "demo"), recorder  # type: ignore[arg-type]


def test_only_what_is_due_is_created_and_only_once() -> None:
    plan = arrival_plan.plan(1)
    played, recorder = player(plan)
    first = len(plan.arrivals[0].owners)
    assert played.play(0.0) == first
    created = len(recorder.created)
    assert played.play(0.1) == first
    assert len(recorder.created) == created
    assert {name.split()[1] for name in recorder.created} == {owner.name for owner in plan.arrivals[0].owners}


def test_a_late_look_catches_up_with_everything() -> None:
    plan = arrival_plan.plan(1)
    played, recorder = player(plan)
    assert played.play(10_000.0) == len(plan.owners)
    deployments = [name for name in recorder.created if name.startswith("Deployment")]
    assert len(deployments) == len(plan.owners)
    assert {name.split()[1] for name in recorder.deleted} == {each.owner.name for each in plan.departures}


def test_a_budget_leaves_before_its_deployment() -> None:
    plan = arrival_plan.plan(1)
    played, recorder = player(plan)
    played.play(10_000.0)
    owner = next(each.owner for each in plan.departures if each.owner.min_available is not None)
    kinds = [name.split()[0] for name in recorder.deleted if name.split()[1] == owner.name]
    assert kinds == ["PodDisruptionBudget", "Deployment"]
