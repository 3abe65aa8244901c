"""deploy/guard on the real apiserver: what the descheduler's ServiceAccount may not evict, it cannot evict.

The evictions come from the descheduler's own Evicter under its own ServiceAccount, but from plans made by hand: no
protection of ours stands between them and the apiserver. The limit of age is 0 but in the test about it, since all pods
here are young.
"""

import contextlib
import functools
import pathlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import yaml

import cluster
from cluster.demo import permissions
from descheduler import answers
from descheduler.evicting import Evicter, EvictionOutcome, Terms
from descheduler.ledger import Ledger
from descheduler.rows import Run
from descheduler.telling import CONTROLLER, Announcer
from kube import errors, events, kinds, objects
from kube.door import KubeDoor
from runtime import clock
from tests import patience
from tests.contract import test_descheduler_evicting as by_hand
from tests.e2e import waiting

pytestmark = pytest.mark.cluster
GUARD = pathlib.Path(__file__).parents[2] / "deploy" / "guard"
REGISTRATION = "apis/admissionregistration.k8s.io/v1"
RBAC = "apis/rbac.authorization.k8s.io/v1"
PATHS = {
    "ValidatingAdmissionPolicy": f"{REGISTRATION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{REGISTRATION}/validatingadmissionpolicybindings",
}
EVICTIONS = f"{PATHS['ValidatingAdmissionPolicy']}/evenload-guard-evictions"
CLASS = "guard-test-high"
PROTECTED = {
    "labelled": "the pod is labelled evenload.io/protected",
    "opted-out": "the pod is annotated evictable",
    "high": "the pod's priority is 1000000000, protected from 1000000000 on",
    "guarded": "pods of namespace kube-system are protected",
}
DELETE = permissions.Right(f"system:serviceaccount:{permissions.NAMESPACE}:evenload-descheduler", "delete", "", "pods")
Document = dict[str, Any]


def documents() -> list[Document]:
    """Every object of the kustomization."""
    listed = yaml.safe_load((GUARD / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    return [each for name in listed for each in yaml.safe_load_all((GUARD / name).read_text(encoding="utf-8"))]


def variables(least_age: str) -> list[Document]:
    """The variables of the policy of evictions, with another least age."""
    (policy,) = [
        one
        for one in documents()
        if one["metadata"]["name"] == "evenload-guard-evictions" and "Bind" not in one["kind"]
    ]
    given: list[Document] = policy["spec"]["variables"]
    return [one | ({"expression": f'duration("{least_age}")'} if one["name"] == "minPodAge" else {}) for one in given]


@pytest.fixture(scope="module")
def descheduler(control_plane: cluster.Cluster) -> Iterator[KubeDoor]:
    """A door of the descheduler's ServiceAccount, which somebody has given the right to delete pods on top."""
    api = control_plane.api
    if not api.exists(f"api/v1/namespaces/{permissions.NAMESPACE}"):
        api.create("api/v1/namespaces", {"metadata": {"name": permissions.NAMESPACE}})
        permissions.apply(control_plane)
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete", "deletecollection"]}
    subject = {"kind": "ServiceAccount", "name": "evenload-descheduler", "namespace": permissions.NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "guard-test"}
    api.create(f"{RBAC}/clusterroles", {"metadata": {"name": "guard-test"}, "rules": [rule]})
    bound = {"metadata": {"name": "guard-test"}, "roleRef": role, "subjects": [subject]}
    api.create(f"{RBAC}/clusterrolebindings", bound)
    permissions.await_right(control_plane, DELETE)
    door = patience.connect(permissions.kubeconfig(control_plane, "descheduler"))
    yield door
    door.close()
    for plural in ("clusterrolebindings", "clusterroles"):
        api.delete(f"{RBAC}/{plural}/guard-test")
    permissions.await_right(control_plane, DELETE, allowed=False)  # other suites prove that it has none


Evict = Callable[..., EvictionOutcome]


@pytest.fixture(scope="module")
def evict(admin: KubeDoor, descheduler: KubeDoor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evict]:
    """Evicts a pod, whatever it is, with the descheduler's own last step."""
    wall = clock.WallClock()
    announcer = Announcer(events.EventWriter(descheduler, controller=CONTROLLER, instance="test", clock=wall))
    ledger = Ledger(tmp_path_factory.mktemp("guard") / "ledger.sqlite").open()

    def carry_out(pod: objects.Pod, *, mode: str = "Enforce") -> EvictionOutcome:
        terms = Terms(Run(uuid.uuid4().hex[:8], wall.now(), mode, "9c1e"), 600.0, lambda: True)
        plan = by_hand.by_hand(pod, admin.get(kinds.NODES, pod.node_name))
        (outcome,) = Evicter(descheduler, ledger, announcer, clock=wall).carry_out(plan, terms)
        return outcome

    yield carry_out
    ledger.close()


def deployment(name: str, annotations: Mapping[str, str], priority_class: str, **labels: str) -> Document:
    """A Deployment of one pod."""
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    spec: Document = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    template = {
        "metadata": {"labels": {"app": name, **labels}, "annotations": dict(annotations)},
        "spec": spec | ({"priorityClassName": priority_class} if priority_class else {}),
    }
    wanted = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": wanted}


@pytest.fixture(scope="module")
def namespace(admin: KubeDoor, control_plane: cluster.Cluster) -> Iterator[str]:
    """A namespace with a pod for each rule and one that none protects; another pod is in kube-system."""
    name = f"guard-{uuid.uuid4().hex[:8]}"
    admin.create(kinds.NAMESPACES, {"metadata": {"name": name}})
    admin.create(kinds.PRIORITY_CLASSES, {"metadata": {"name": CLASS}, "value": 1_000_000_000})
    bodies = [
        deployment("plain", {}, "", **{"evenload.io/protected": "false"}),
        deployment("labelled", {}, "", **{"evenload.io/protected": "true"}),
        deployment("opted-out", {"evenload.io/evictable": "False"}, ""),
        deployment("high", {}, CLASS),
    ]
    for body in bodies:
        admin.create(kinds.DEPLOYMENTS, body, namespace=name)
    admin.create(kinds.DEPLOYMENTS, deployment("guarded", {}, ""), namespace="kube-system")
    yield name
    admin.delete(kinds.DEPLOYMENTS, "guarded", namespace="kube-system")
    admin.delete(kinds.NAMESPACES, name)
    admin.delete(kinds.PRIORITY_CLASSES, CLASS)


@pytest.fixture(scope="module")
def guard(
    control_plane: cluster.Cluster, evict: Evict, admin: KubeDoor, descheduler: KubeDoor, namespace: str
) -> Iterator[None]:
    """The guard, in force: the apiserver takes up each policy and each pod that is judged by it some moments later."""
    pods = {app: found(admin, where(app, namespace), app) for app in ("plain", *PROTECTED)}
    with contextlib.ExitStack() as undo:
        undo.callback(lambda: refused(evict, pods["labelled"], ""))  # other suites use this control plane, too
        for body in documents():
            if "variables" in body["spec"]:
                body["spec"]["variables"] = variables("0s")
            control_plane.api.create(PATHS[body["kind"]], body)
            undo.callback(control_plane.api.delete, f"{PATHS[body['kind']]}/{body['metadata']['name']}")
        for app, why in PROTECTED.items():
            refused(evict, pods[app], why)
        deletions = functools.partial(deletion, descheduler, pods["labelled"])
        waiting.eventually(lambda: NEVER_DELETES in deletions(), waiting.LIMIT_SECONDS, "no deletions", deletions)
        yield


NEVER_DELETES = "evicts pods, it never deletes them"


def deletion(door: KubeDoor, pod: objects.Pod) -> str:
    """Why the pod could not be deleted, "" if it could."""
    try:
        door.delete(kinds.PODS, pod.name, namespace=pod.namespace, uid=pod.uid, dry_run=True)
    except errors.Forbidden as error:
        return str(error)
    return ""


def refused(evict: Evict, pod: objects.Pod, why: str) -> None:
    """Wait until an eviction of the pod is refused for that reason; for "", until it is not refused."""

    def told() -> tuple[str, int | None, str]:
        outcome = evict(pod, mode="DryRun")
        return outcome.result, outcome.http_status, outcome.message

    def as_expected() -> bool:
        result, status, message = told()
        return status == 403 and why in message if why else result == "dry_run"

    waiting.eventually(as_expected, waiting.LIMIT_SECONDS, why or f"{pod.key} to be free to go", told)


def where(app: str, namespace: str) -> str:
    """The namespace of a Deployment."""
    return "kube-system" if app == "guarded" else namespace


def found(admin: KubeDoor, namespace: str, app: str) -> objects.Pod:
    """The running pod of a Deployment."""

    def running() -> objects.Pod | None:
        pods = admin.list(kinds.PODS, namespace=namespace, label_selector=f"app={app}").items
        return next((pod for pod in pods if pod.ready and not pod.deleting), None)

    pod = waiting.eventually(running, waiting.LIMIT_SECONDS, f"a pod of {app} in {namespace}")
    assert pod is not None
    return pod


@pytest.mark.usefixtures("guard")
@pytest.mark.parametrize(
    "app",
    [
        pytest.param("labelled", id="a label"),
        pytest.param("opted-out", id="the annotation that opts out"),
        pytest.param("high", id="its priority"),
        pytest.param("guarded", id="its namespace"),
    ],
)
def test_what_is_protected_is_refused_by_the_apiserver(admin: KubeDoor, evict: Evict, namespace: str, app: str) -> None:
    pod = found(admin, where(app, namespace), app)
    outcome = evict(pod)
    assert (outcome.accepted, outcome.http_status) == (False, 403)
    assert PROTECTED[app] in outcome.message
    assert answers.refused_by(outcome.told) == "guard"
    assert found(admin, where(app, namespace), app).uid == pod.uid


@pytest.mark.usefixtures("guard")
def test_a_pod_is_refused_while_it_is_younger_than_the_limit_and_leaves_when_it_is_not(
    control_plane: cluster.Cluster, admin: KubeDoor, evict: Evict, namespace: str
) -> None:
    plain = found(admin, namespace, "plain")
    assert evict(plain, mode="DryRun").result == "dry_run"
    control_plane.api.patch(EVICTIONS, {"spec": {"variables": variables("1h")}})
    refused(evict, plain, "less than 3600s")
    assert "less than 3600s" in evict(plain).message
    assert found(admin, namespace, "plain").uid == plain.uid
    control_plane.api.patch(EVICTIONS, {"spec": {"variables": variables("0s")}})
    refused(evict, plain, "")
    assert evict(plain).result == "evicted"


@pytest.mark.usefixtures("guard")
def test_nothing_is_deleted_by_the_descheduler_and_others_are_not_concerned(
    admin: KubeDoor, descheduler: KubeDoor, namespace: str
) -> None:
    labelled = found(admin, namespace, "labelled")
    with pytest.raises(errors.Forbidden, match=NEVER_DELETES):
        descheduler.delete(kinds.PODS, labelled.name, namespace=namespace)
    answer = admin.evict(namespace=namespace, name=labelled.name, uid=labelled.uid, dry_run=True)
    assert answer.accepted


@pytest.mark.usefixtures("guard")
def test_the_apiserver_found_nothing_wrong_with_the_expressions(control_plane: cluster.Cluster) -> None:
    def checked() -> list[dict[str, object]]:
        """Of the expressions as they are now: another test changes one."""
        policy = control_plane.api.get(EVICTIONS)
        status = policy.get("status", {})
        known = status.get("observedGeneration") == policy["metadata"]["generation"] and "typeChecking" in status
        return [status["typeChecking"]] if known else []

    (found_wrong,) = waiting.eventually(checked, waiting.LIMIT_SECONDS, "the expressions to be checked")
    assert not found_wrong.get("expressionWarnings"), found_wrong
