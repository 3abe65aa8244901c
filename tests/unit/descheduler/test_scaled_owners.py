"""Owners of other kinds: found by their scale, asked for sparingly, and left out where nothing is known."""

import pathlib

import pytest

from descheduler.snapshot import scaled_owners, workloads
from descheduler.snapshot.scaled_owners import Custom
from descheduler.snapshot.workloads import Workload
from kube import errors, kinds, objects
from kube.objects import ApiResource
from tests import builders
from tests.unit.descheduler import doors, scenes
from tests.unit.descheduler.worlds import World

VERSION = "argoproj.io/v1alpha1"
SERVED = (
    ApiResource("rollouts", "Rollout"),
    ApiResource("rollouts/scale", "Scale"),
    ApiResource("analyses", "Analysis"),
)
UNAVAILABLE = errors.ServerError("GET x", status=503, reason="ServiceUnavailable", message="service unavailable")
SERVER_ERROR = errors.ServerError("GET x", status=500, reason="InternalError", message="conversion webhook: EOF")


def owned(
    kind: str = "Rollout", name: str = "web", uid: str = "uid-rollout", version: str = VERSION
) -> builders.Mutator:
    """A mutator: owned by the Rollout, or by what its author wrote."""
    return scenes.owned_by(kind, name, uid, version)


def door(*, replicas: int = 3) -> doors.FakeDoor:
    """An apiserver that serves Rollouts, with one called `web`."""
    made = doors.FakeDoor()
    made.served = {VERSION: SERVED}
    made.objects["rollouts"] = (scenes.controller(objects.Scale, "web", replicas=replicas, uid="uid-rollout"),)
    return made


def custom(kind: str = "Rollout", *, version: str = VERSION, uid: str = "uid-rollout", name: str = "web") -> Custom:
    """An owner to ask for."""
    return Custom("default", objects.OwnerReference(kind=kind, name=name, uid=uid, api_version=version))


def test_an_owner_with_a_scale_is_a_workload() -> None:
    found = scaled_owners.workloads(door(), [custom(), custom()]).workloads
    rollout = Workload("Rollout", "default", "web", "uid-rollout", 3, 3, api_version=VERSION)
    assert found == {"uid-rollout": rollout}
    assert str(rollout) == "Rollout/web"


def test_an_owner_of_a_kind_that_kubernetes_has_too_is_named_with_its_group() -> None:
    owner = Workload("StatefulSet", "default", "db", "uid-db", 3, 3, api_version="apps.kruise.io/v1beta1")
    assert str(owner) == "StatefulSet.apps.kruise.io/db"
    assert str(owner._replace(api_version="")) == "StatefulSet/db"


@pytest.mark.parametrize(
    "owners_asked",
    [
        pytest.param(custom("Analysis"), id="a kind without a scale"),
        pytest.param(custom("Other"), id="a kind that is not served"),
        pytest.param(custom(version="gone.io/v1"), id="a version that is not served"),
        pytest.param(custom(name="other"), id="an owner that has gone"),
        pytest.param(custom(uid="uid-before"), id="another owner of the same name"),
    ],
)
def test_what_is_not_known_is_left_out(owners_asked: Custom) -> None:
    namesake = owners_asked._replace(namespace="other")
    assert scaled_owners.workloads(door(), [owners_asked, namesake]) == scaled_owners.ScaledOwner({}, {})


@pytest.mark.parametrize(
    ("reference", "failure", "text"),
    [
        pytest.param({"version": "../healthz"}, None, "apiVersion '../healthz'", id="a path in the apiVersion"),
        pytest.param({"kind": "Roll/out"}, None, "kind 'Roll/out'", id="no kind"),
        pytest.param({"name": ".."}, None, "name '..'", id="no name"),
        pytest.param({}, SERVER_ERROR, "conversion webhook", id="500 of a conversion webhook"),
        pytest.param({}, UNAVAILABLE, "503", id="503 of an aggregated API"),
        pytest.param({}, errors.Unreachable("GET x: timed out"), "timed out", id="an API that never answers"),
        pytest.param({}, errors.Undecodable("GET x: expected Kubernetes JSON"), "expected", id="no JSON"),
    ],
)
def test_an_owner_that_cannot_be_looked_up_keeps_its_own_pod_and_no_other(
    tmp_path: pathlib.Path, reference: dict[str, str], failure: errors.KubeError | None, text: str
) -> None:
    here = World(scenes.hot_and_cool().pod("odd", "hot"), tmp_path, mode="Enforce")
    here.door.served = {VERSION: SERVED}
    here.door.scale_failure = failure
    odd = builders.pod("odd", node="hot", mutate=owned(**reference))
    here.door.objects[kinds.PODS.plural] = (*here.door.objects[kinds.PODS.plural][:-1], odd)
    report = here.report()
    assert scenes.evicted(report.plan) == ["web-0"]
    verdict = scenes.judged(report.plan)["odd"].verdict
    assert str(verdict.cause) == "owner_lookup_failed"
    assert text in verdict.detail
    name = "evenload_owner_lookup_failures_total"
    assert sum(here.metric(name, reason=one) or 0.0 for one in scaled_owners.REASONS) == 1


def test_while_the_apiserver_has_gone_nothing_leaves(tmp_path: pathlib.Path) -> None:
    here = world(tmp_path)
    here.door.scale_failure = errors.Unreachable("GET x: connection refused")
    here.door.after_scale = lambda: setattr(here.door, "unreachable", True)
    report = here.report()
    assert scenes.causes(report.plan)["web-0"] == "owner_lookup_failed"
    assert here.door.evictions == []


def test_api_versions_that_do_not_answer_are_not_waited_for_one_by_one(tmp_path: pathlib.Path) -> None:
    silent = door()
    silent.unreachable = True
    asked = [custom(version=f"a{number}.io/v1", uid=f"uid-{number}") for number in range(9)]
    found = scaled_owners.workloads(silent, asked)
    assert len(found.failures) == 9
    assert len(silent.versions_asked) == scaled_owners.MOST_UNANSWERED


def world(tmp_path: pathlib.Path, *, replicas: int = 3) -> World:
    """A hot node with pods of ReplicaSets of a Rollout, a cool one with another pod of it, and a warm one."""
    scene = scenes.hot_and_cool().node("warm", memory=0.5)
    scene.owners = [builders.replica_set("web", replicas=3, mutate=owned())]
    here = World(scene, tmp_path, mode="Enforce")
    made = door(replicas=replicas)
    here.door.served = made.served
    here.door.objects |= {"rollouts": made.objects["rollouts"]}
    return here


def test_pods_of_a_replica_set_of_a_rollout_are_counted_with_the_rollout(tmp_path: pathlib.Path) -> None:
    here = world(tmp_path)
    report = here.report()
    assert [str(one.workload) for one in report.plan.evictions] == ["Rollout/web"]
    assert here.door.scales_asked == [f"apis/{VERSION}/rollouts/default/web"]


def test_too_few_replicas_of_a_rollout_are_protected(tmp_path: pathlib.Path) -> None:
    report = world(tmp_path, replicas=1).report()
    assert set(scenes.causes(report.plan).values()) == {"few_replicas"}


def test_owners_are_not_asked_for_while_no_node_can_be_relieved(tmp_path: pathlib.Path) -> None:
    here = world(tmp_path)
    cool = scenes.Scene().node("hot", memory=0.5).workload("web", on=["hot", "hot"])
    cool.owners = [builders.replica_set("web", replicas=3, mutate=owned())]
    here.show(cool)
    here.prometheus.show(cool)
    here.service.run()
    assert here.door.scales_asked == []


def test_a_controller_that_an_operator_made_replaces_its_pods_itself() -> None:
    body: builders.Body = {"metadata": {"name": "db", "uid": "uid-db"}, "spec": {"replicas": 2}}
    scenes.owned_by("Prometheus", "k8s", "u", "monitoring.coreos.com/v1")(body)
    stateful_set = builders.decoded(body, objects.StatefulSet)
    assert str(workloads.Index([stateful_set])["uid-db"]) == "StatefulSet/db"


def test_only_unfinished_pods_are_listed(tmp_path: pathlib.Path) -> None:
    here = world(tmp_path)
    here.service.run()
    assert here.door.listed[kinds.PODS.plural] == "status.phase!=Succeeded,status.phase!=Failed"


def test_a_thousand_owners_of_a_tenant_are_one_line_a_run(world: World, caplog: pytest.LogCaptureFixture) -> None:
    owners = (owned(name=f"x{number}", uid=f"u{number}") for number in range(1000))
    odd = (builders.pod(f"odd-{number}", node="hot", mutate=owner) for number, owner in enumerate(owners))
    world.door.objects[kinds.PODS.plural] = (*world.door.objects[kinds.PODS.plural], *odd)
    with caplog.at_level("INFO"):
        assert world.service.run() is not None
    lines = [
        record.getMessage() for record in caplog.records if "odd-" in record.getMessage() or "/x" in record.getMessage()
    ]
    assert len(lines) == 1, lines[:3]
    assert "'count': 1000" in lines[0]
