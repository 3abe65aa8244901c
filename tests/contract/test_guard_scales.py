"""The guard of scales on the real apiserver: the descheduler's account changes none without the component surge, and
with it that of a labelled Deployment by one.

RBAC gives the account every verb on workloads but where a test says otherwise, so that the guard alone refuses.
"""

import contextlib
import uuid
from collections.abc import Iterator

import pytest
import yaml

from descheduler import surges
from kube import kinds
from kube.door import KubeDoor
from kube.http import client
from lab import cluster
from lab.cluster.demo import permissions
from lab.cluster.demo.installing import PATHS
from tests.contract import test_guard
from tests.contract.test_guard import COMPONENTS, DRY_RUN, RBAC, Call, Document, assert_forbidden, refusal
from tests.e2e import bodies, waiting

pytestmark = pytest.mark.cluster
LABEL = {"labels": {"evenload.io/surge": "true"}}
SHIPPED = list(yaml.safe_load_all((test_guard.GUARD / "scales.yaml").read_text(encoding="utf-8")))
COMPONENT, ADDED, RIGHTS = (
    list(yaml.safe_load_all((COMPONENTS / "surge" / f"{name}.yaml").read_text(encoding="utf-8")))
    for name in ("kustomization", "guard", "rights")
)
NO_SCALE = "the descheduler changes no workload, and no scale without the component surge: UPDATE of deployments/scale"
NOTHING_ELSE = "the descheduler changes no workload but the scale of Deployments: "
EVERYTHING = [{"apiGroups": ["apps"], "resources": ["deployments", "*", "*/scale", "*/status"], "verbs": ["*"]}]
BY_ONE, ZERO = "a scale changes by one: ", "a scale of 0 is neither left nor reached: "


def changed(path: str, **body: object) -> Call:
    """A dry run of a change of a workload or a part of it."""
    return Call("PATCH", path, body, DRY_RUN)


def scaled(name: str, to: int) -> Call:
    """A dry run of another scale of a Deployment."""
    return changed(f"deployments/{name}/scale", spec={"replicas": to})


def put(to: int) -> Call:
    """The same as a PUT."""
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "surging"}, "spec": {"replicas": to}}
    return Call("PUT", "deployments/surging/scale", body, DRY_RUN)


ALLOWED = (scaled("surging", 3), scaled("surging", 1), put(3))
SURGING = "deployments/surging"
BY_TWO, UNLABELLED = f"{BY_ONE}2 to 4", 'the Deployment is not labelled evenload.io/surge: "true"'
ITSELF = f"{NOTHING_ELSE}UPDATE of deployments is"
REFUSED = (
    (BY_TWO, scaled("surging", 4)),
    (BY_TWO, put(4)),
    (BY_TWO, Call("PATCH", f"{SURGING}/scale", [{"op": "replace", "path": "/spec/replicas", "value": 4}])),
    (f"{BY_ONE}2 to 2", scaled("surging", 2)),
    (f"{ZERO}2 to 0", scaled("surging", 0)),
    (f"{ZERO}2 to 0", put(0)),
    (f"{ZERO}1 to 0", scaled("single", 0)),
    (f"{ZERO}0 to 1", scaled("stopped", 1)),
    (UNLABELLED, scaled("plain", 3)),
    (UNLABELLED, scaled("plain", 1)),
    (UNLABELLED, scaled("refusing", 3)),
    (ITSELF, changed(SURGING, spec={"replicas": 3})),
    (ITSELF, changed(SURGING, spec={"paused": True})),
    (ITSELF, changed("deployments/plain", metadata=LABEL)),
    (f"{NOTHING_ELSE}UPDATE of deployments/status", changed(f"{SURGING}/status", status={"observedGeneration": 99})),
    (f"{NOTHING_ELSE}CREATE of deployments is", Call("POST", "deployments", bodies.deployment("new", 1), DRY_RUN)),
    (f"{NOTHING_ELSE}DELETE of deployments is", Call("DELETE", SURGING, query=DRY_RUN)),
    (f"{NOTHING_ELSE}DELETE of deployments is", Call("DELETE", "deployments", query=DRY_RUN)),
    (f"{NOTHING_ELSE}UPDATE of statefulsets/scale", changed("statefulsets/stateful/scale", spec={"replicas": 2})),
)


def at(call: Call, namespace: str) -> Call:
    """A request in a namespace."""
    return call._replace(path=f"/apis/apps/v1/namespaces/{namespace}/{call.path}")


@pytest.fixture(scope="module")
def namespace(admin: KubeDoor) -> Iterator[str]:
    """A namespace of workloads whose pods nobody places; another is in kube-system."""
    name = f"scales-{uuid.uuid4().hex[:8]}"
    admin.create(kinds.NAMESPACES, {"metadata": {"name": name}})
    wanted = {"surging": (2, "true"), "single": (1, "true"), "stopped": (0, "true"), "refusing": (2, "false")}
    for app, (replicas, text) in wanted.items():
        body = unplaced(app, replicas, labels={"evenload.io/surge": text})
        admin.create(kinds.DEPLOYMENTS, body, namespace=name)
    admin.create(kinds.DEPLOYMENTS, unplaced("plain", 2), namespace=name)
    stateful = unplaced("stateful", 1, **LABEL)
    stateful["kind"], stateful["spec"]["serviceName"] = "StatefulSet", "stateful"
    admin.create(kinds.STATEFUL_SETS, stateful, namespace=name)
    admin.create(kinds.DEPLOYMENTS, unplaced("guarded-surge", 2, **LABEL), namespace="kube-system")
    yield name
    admin.delete(kinds.DEPLOYMENTS, "guarded-surge", namespace="kube-system")
    admin.delete(kinds.NAMESPACES, name)


def unplaced(name: str, replicas: int, **metadata: object) -> Document:
    """A Deployment of another scheduler."""
    body: Document = bodies.deployment(name, replicas)
    body["metadata"] |= metadata
    body["spec"]["template"]["spec"]["schedulerName"] = "nobody"
    return body


@contextlib.contextmanager
def granted(running: cluster.Cluster, rules: list[Document]) -> Iterator[None]:
    """The account has these rights for a while; other suites prove that it has none of them."""
    role, binding = ({**one, "metadata": {"name": "scales-test"}} for one in RIGHTS)
    role["rules"], binding["roleRef"] = rules, {**binding["roleRef"], "name": "scales-test"}
    rights = list(permissions.granted([role, binding]))
    with contextlib.ExitStack() as undo:
        for right in rights:
            undo.callback(permissions.await_right, running, right, allowed=False)
        for plural, body in (("clusterroles", role), ("clusterrolebindings", binding)):
            running.api.create(f"{RBAC}/{plural}", body)
            undo.callback(running.api.delete, f"{RBAC}/{plural}/scales-test")
        for right in rights:
            permissions.await_right(running, right)
        yield


@contextlib.contextmanager
def guarded(running: cluster.Cluster, objects: list[Document], door: client.Client, refused: Call) -> Iterator[None]:
    """The objects of a guard, in force: it refuses the call."""
    with contextlib.ExitStack() as undo:
        undo.callback(test_guard.wait_refused, door, refused, "")
        for body in objects:
            running.api.create(PATHS[body["kind"]], body)
            undo.callback(running.api.delete, f"{PATHS[body['kind']]}/{body['metadata']['name']}")
        test_guard.wait_refused(door, refused, "evenload-guard-scales")
        yield


def with_component() -> Document:
    """The shipped policy as the component patches it."""
    test, replace = yaml.safe_load(COMPONENT[0]["patches"][0]["patch"])
    spec = SHIPPED[0]["spec"]
    changes = {test["value"]: replace["value"]}
    return {**SHIPPED[0], "spec": {**spec, "variables": test_guard.with_expressions(spec["variables"], **changes)}}


@contextlib.contextmanager
def enforced(running: cluster.Cluster, door: client.Client, namespace: str, labelled: str) -> Iterator[None]:
    """The guard as the component has it, in force: the Deployment `labelled` is not scaled by more than one.

    The policy that reads labels stays: where the last binding with a kind of parameters is deleted, the apiserver
    never reads that kind again (kubernetes/kubernetes#130887).
    """
    for body in ADDED:
        if not running.api.exists(f"{PATHS[body['kind']]}/{body['metadata']['name']}"):
            running.api.create(PATHS[body["kind"]], body)
    with guarded(running, [with_component(), SHIPPED[1]], door, at(scaled(labelled, 5), namespace)):
        yield


def test_without_the_component_each_scale_is_refused_whatever_rights_the_account_has(
    permitted: cluster.Cluster, descheduler: client.Client, namespace: str
) -> None:
    calls = [at(call, namespace) for call in ALLOWED]
    for call in calls:
        assert_forbidden(descheduler, call, 'resource "deployments/scale"')  # by RBAC
    with granted(permitted, EVERYTHING), guarded(permitted, SHIPPED, descheduler, calls[0]):
        for call in calls:
            assert_forbidden(descheduler, call, NO_SCALE)


def test_with_the_component_a_labelled_deployment_is_scaled_by_one_and_nothing_else_is_changed(
    permitted: cluster.Cluster, admin: KubeDoor, descheduler: client.Client, namespace: str
) -> None:
    with granted(permitted, EVERYTHING), enforced(permitted, descheduler, namespace, "surging"):
        test_guard.wait_refused(descheduler, at(scaled("plain", 3), namespace), "evenload-guard-surges")
        for call in ALLOWED:
            assert not refusal(descheduler, at(call, namespace))
        for why, call in REFUSED:
            assert_forbidden(descheduler, at(call, namespace), why)
        protected = at(scaled("guarded-surge", 3), "kube-system")
        assert_forbidden(descheduler, protected, "Deployments of namespace kube-system are protected")
        assert not refusal(descheduler, at(scaled("surging", 3), namespace)._replace(query=()))
        unlabelled = {"metadata": {"labels": {"evenload.io/surge": None}}}
        admin.merge_patch(kinds.DEPLOYMENTS, "surging", unlabelled, namespace=namespace)
        test_guard.wait_refused(descheduler, at(scaled("surging", 2), namespace), "is not labelled")
        for replicas in (0, 2):  # others may do anything
            body = {"metadata": LABEL, "spec": {"replicas": replicas}}
            admin.merge_patch(kinds.DEPLOYMENTS, "surging", body, namespace=namespace)
        test_guard.wait_refused(descheduler, at(scaled("surging", 3), namespace), "")
        for name in ("scales", "surges"):
            test_guard.assert_expressions_checked(permitted, name)


def test_a_deployment_whose_replicas_are_applied_gets_no_surge(
    permitted: cluster.Cluster, admin: client.Client, descheduler: client.Client, namespace: str
) -> None:
    """The next apply of other replicas would be a conflict with the descheduler, for ever."""
    body = {"apiVersion": "apps/v1", "kind": "Deployment", **unplaced("applied", 1, **LABEL)}
    applied = Call("PATCH", "deployments/applied", body, (("fieldManager", "helm"),), "application/apply-patch+yaml")
    assert not refusal(admin, at(applied, namespace))
    one, other = (admin.get(kinds.DEPLOYMENTS, name, namespace=namespace) for name in ("applied", "single"))
    (pod, *_) = waiting.until(lambda: admin.list(kinds.PODS, namespace=namespace).items, "pods")
    with granted(permitted, RIGHTS[0]["rules"]):
        refusals = surges.refusals(descheduler, (one, other), {one.uid: pod, other.uid: pod}, {})
    assert refusals == {one.uid: "helm applies its replicas", other.uid: ""}
