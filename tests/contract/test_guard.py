"""deploy/guard on the real apiserver: what the accounts of descheduler and annotator may not do, they cannot do.

RBAC gives both accounts every verb on pods and nodes here, so that the guard alone refuses. The evictions come from the
descheduler's own Evicter, but from plans made by hand: no protection of ours stands between them and the apiserver. The
limit of age is 0 but in the test about it, since all pods here are young.
"""

import contextlib
import functools
import pathlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest
import yaml

from annotator.publish import crane_keys
from cli.doctor import rights
from descheduler.eviction import api_results
from descheduler.ledger.ledger import Ledger
from kube import errors, kinds, objects
from kube.door import KubeDoor
from kube.http import client, transport
from kube.http.request import Request
from lab import cluster
from lab.cluster.demo import permissions
from lab.cluster.demo.installing import PATHS
from tests import patience
from tests.contract.test_descheduler_evicting import Evict
from tests.e2e import bodies, waiting

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("guard")]
DEPLOY = pathlib.Path(__file__).parents[2] / "deploy"
GUARD = DEPLOY / "guard"
COMPONENTS = DEPLOY / "kustomize" / "components"
RBAC = "apis/rbac.authorization.k8s.io/v1"
EVICTIONS = f"{PATHS['ValidatingAdmissionPolicy']}/evenload-guard-evictions"
SCALES = f"{PATHS['ValidatingAdmissionPolicy']}/evenload-guard-scales"
NODES = f"{PATHS['ValidatingAdmissionPolicy']}/evenload-guard-nodes"
CLASS = "guard-test-high"
PROTECTED = {
    "labelled": "the pod is labelled evenload.io/protected",
    "opted-out": "the pod is annotated evictable",
    "high": "the pod's priority is 1000000000, protected from 1000000000 on",
    "guarded": "pods of namespace kube-system are protected",
}
ACCOUNTS = ("annotator", "descheduler")
EVERYTHING = {
    "apiGroups": [""],
    "resources": [
        *("nodes", "nodes/status", "nodes/proxy", "bindings", "pods", "pods/status", "pods/binding", "pods/eviction"),
        *("pods/ephemeralcontainers", "pods/exec", "pods/resize"),
    ],
    "verbs": ["*"],
}
OTHER_WRITE = "the descheduler evicts pods and does nothing else to them"
OTHER_FIELD = "no spec, status, label, owner or finalizer"
OTHER_ANNOTATION = "only annotations evenload.io/* of nodes may be changed"
OTHER_VERB = "only annotations of nodes may be changed by this account: "
FOREIGN = "guard-test.example.com/owner"
CRANE = "cpu_usage_avg_5m"
Document = dict[str, Any]


def documents() -> list[Document]:
    """Every object of the kustomization, with a least age of 0."""
    listed = yaml.safe_load((GUARD / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    every = [each for name in listed for each in yaml.safe_load_all((GUARD / name).read_text(encoding="utf-8"))]
    for one in every:
        if one["kind"] == "ValidatingAdmissionPolicy" and one["metadata"]["name"] == "evenload-guard-evictions":
            one["spec"]["variables"] = with_expressions(one["spec"]["variables"], minPodAge='duration("0s")')
    return every


def with_expressions(entries: list[Document], **expressions: str) -> list[Document]:
    """Variables of which some have another expression."""
    return [one | {"expression": expressions.get(one["name"], one["expression"])} for one in entries]


def variables(**expressions: str) -> list[Document]:
    """The variables of the policy of evictions, with a least age of 0 and these expressions."""
    (policy,) = [
        one
        for one in documents()
        if one["metadata"]["name"] == "evenload-guard-evictions" and "Bind" not in one["kind"]
    ]
    return with_expressions(policy["spec"]["variables"], **expressions)


@pytest.fixture(scope="module")
def doors(permitted: cluster.Cluster) -> Iterator[dict[str, client.Client]]:
    """A door of each account, with every right on nodes and pods on top of the shipped ones."""
    api = permitted.api
    users = [f"system:serviceaccount:{permissions.NAMESPACE}:evenload-{name}" for name in ACCOUNTS]
    extra = [permissions.Right(user, "delete", "", "nodes") for user in users]
    subjects = [
        {"kind": "ServiceAccount", "name": f"evenload-{name}", "namespace": permissions.NAMESPACE} for name in ACCOUNTS
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "guard-test"}
    api.create(f"{RBAC}/clusterroles", {"metadata": {"name": "guard-test"}, "rules": [EVERYTHING]})
    bound = {"metadata": {"name": "guard-test"}, "roleRef": role, "subjects": subjects}
    api.create(f"{RBAC}/clusterrolebindings", bound)
    for right in extra:
        permissions.await_right(permitted, right)
    opened = {name: patience.connect(permissions.kubeconfig(permitted, name)) for name in ACCOUNTS}
    yield opened
    for door in opened.values():
        door.close()
    for plural in ("clusterrolebindings", "clusterroles"):
        api.delete(f"{RBAC}/{plural}/guard-test")
    for right in extra:
        permissions.await_right(permitted, right, allowed=False)  # other suites prove that they have none


@pytest.fixture(scope="module")
def descheduler(doors: Mapping[str, client.Client]) -> client.Client:
    """The descheduler's door."""
    return doors["descheduler"]


@pytest.fixture(scope="module")
def evict(admin: KubeDoor, descheduler: KubeDoor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evict]:
    """Evicts a pod, whatever it is."""
    with contextlib.closing(Ledger(tmp_path_factory.mktemp("guard") / "ledger.sqlite").open()) as ledger:
        yield Evict(descheduler, admin, ledger)


@pytest.fixture(scope="module")
def namespace(admin: KubeDoor, control_plane: cluster.Cluster) -> Iterator[str]:
    """A namespace with a pod for each rule and one that none protects; another pod is in kube-system."""
    name = f"guard-{uuid.uuid4().hex[:8]}"
    admin.create(kinds.NAMESPACES, {"metadata": {"name": name}})
    admin.create(kinds.PRIORITY_CLASSES, {"metadata": {"name": CLASS}, "value": 1_000_000_000})
    apps: dict[str, bodies.PodOptions] = {
        "plain": {"labels": {"evenload.io/protected": "false"}},
        "labelled": {"labels": {"evenload.io/protected": "true"}},
        "opted-out": {"annotations": {"evenload.io/evictable": "False"}},
        "high": {"priority_class": CLASS},
        "guarded": {},
    }
    for app, options in apps.items():
        admin.create(kinds.DEPLOYMENTS, bodies.deployment(app, 1, **options), namespace=where(app, name))
    yield name
    admin.delete(kinds.DEPLOYMENTS, "guarded", namespace="kube-system")
    admin.delete(kinds.NAMESPACES, name)
    admin.delete(kinds.PRIORITY_CLASSES, CLASS)


@pytest.fixture(scope="module")
def guard(
    control_plane: cluster.Cluster, evict: Evict, admin: KubeDoor, descheduler: client.Client, namespace: str
) -> Iterator[None]:
    """The guard, in force: the apiserver takes up each policy and each pod that is judged by it some moments later."""
    pods = {app: guarded_pod(admin, where(app, namespace), app) for app in ("plain", *PROTECTED)}
    with contextlib.ExitStack() as undo:
        labelled = Call("PATCH", a_node(admin), {"metadata": {"labels": {"guard-test": "on"}}}, DRY_RUN)
        undo.callback(lambda: refused(evict, pods["labelled"], ""))  # other suites use this control plane, too
        undo.callback(wait_refused, descheduler, labelled, "")
        for body in documents():
            control_plane.api.create(PATHS[body["kind"]], body)
            undo.callback(control_plane.api.delete, f"{PATHS[body['kind']]}/{body['metadata']['name']}")
        for app, why in PROTECTED.items():
            refused(evict, pods[app], why)
        wait_refused(descheduler, Call("DELETE", f"{pod_path(pods['labelled'])}", query=DRY_RUN), OTHER_WRITE)
        wait_refused(descheduler, Call("PATCH", a_node(admin), body=TAINT, query=DRY_RUN), OTHER_FIELD)
        yield


DRY_RUN = (("dryRun", "All"),)
MERGE_PATCH, STRATEGIC_MERGE_PATCH = "application/merge-patch+json", "application/strategic-merge-patch+json"
TAINT: Document = {"spec": {"taints": [{"key": "guard-test", "effect": "NoExecute"}]}}


class Call(NamedTuple):
    """A request by hand; a PATCH is a merge patch unless another type is named, a list is a JSON patch."""

    method: str
    path: str
    body: Document | list[Document] | None = None
    query: tuple[tuple[str, str], ...] = ()
    content_type: str = ""


def refusal(door: client.Client, call: Call) -> str:
    """The apiserver's status and message, "" if it did what was asked."""
    if isinstance(call.body, list):
        return refusal_of_operations(door, call.path, call.body)
    content_type = call.content_type or (MERGE_PATCH if call.method == "PATCH" else "application/json")
    asked = Request(call.method, call.path, call.query, call.body, content_type, waiting.LIMIT_SECONDS)
    try:
        door._transport.send(asked)
    except errors.ApiError as error:
        return f"{error.status} {error.message}"
    return ""


def assert_forbidden(door: client.Client, call: Call, why: str) -> None:
    """The apiserver refuses a call for that reason."""
    answer = refusal(door, call)
    assert answer.startswith("403 "), answer
    assert why in answer


def refusal_of_operations(door: client.Client, path: str, operations: list[Document]) -> str:
    """The status and message of a JSON patch (RFC 6902), "" if it was accepted; KubeDoor sends merge patches only."""
    headers = {"Content-Type": "application/json-patch+json", "Accept": "application/json"}
    api = door._transport._api
    prepared = api.param_serialize(
        "PATCH", path, header_params=headers, body=operations, auth_settings=transport.AUTHENTICATION
    )
    answer = door._transport._sent(prepared, waiting.LIMIT_SECONDS).response
    return "" if answer.status < 300 else f"{answer.status} {answer.data.decode()}"


def wait_refused(door: client.Client, call: Call, why: str) -> None:
    """Wait until a call is refused for that reason; for "", until it is not refused."""
    answer = functools.partial(refusal, door, call)
    waiting.until(lambda: why in answer() if why else not answer(), why or f"{call} to be free", answer)


def pod_path(pod: objects.Pod) -> str:
    """The path of a pod."""
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def a_node(admin: KubeDoor) -> str:
    """The path of a node."""
    return f"/api/v1/nodes/{min(node.name for node in admin.list(kinds.NODES).items)}"


def refused(evict: Evict, pod: objects.Pod, why: str) -> None:
    """Wait until an eviction of the pod is refused for that reason; for "", until it is not refused."""

    def refusal_text() -> tuple[str, int | None, str]:
        outcome = evict(pod, mode="DryRun")
        return outcome.result, outcome.answer.status, outcome.answer.message

    def as_expected() -> bool:
        result, status, message = refusal_text()
        return status == 403 and why in message if why else result == "dry_run"

    waiting.until(as_expected, why or f"{pod.key} to be free to go", refusal_text)


def where(app: str, namespace: str) -> str:
    """The namespace of a Deployment."""
    return "kube-system" if app == "guarded" else namespace


def guarded_pod(admin: KubeDoor, namespace: str, app: str) -> objects.Pod:
    """The running pod of a Deployment."""

    def running() -> objects.Pod | None:
        pods = admin.list(kinds.PODS, namespace=namespace, label_selector=f"app={app}").items
        return next((pod for pod in pods if pod.ready and not pod.deleting), None)

    return waiting.until(running, f"a pod of {app} in {namespace}")


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
    pod = guarded_pod(admin, where(app, namespace), app)
    outcome = evict(pod)
    assert (outcome.accepted, outcome.answer.status) == (False, 403)
    assert PROTECTED[app] in outcome.answer.message
    assert api_results.refused_by(outcome.answer) == "guard"
    assert guarded_pod(admin, where(app, namespace), app).uid == pod.uid


def test_a_pod_is_refused_while_it_is_younger_than_the_limit_and_leaves_when_it_is_not(
    control_plane: cluster.Cluster, admin: KubeDoor, evict: Evict, namespace: str
) -> None:
    plain = guarded_pod(admin, namespace, "plain")
    assert evict(plain, mode="DryRun").result == "dry_run"
    control_plane.api.patch(EVICTIONS, {"spec": {"variables": variables(minPodAge='duration("1h")')}})
    refused(evict, plain, "less than 3600s")
    assert "less than 3600s" in evict(plain).answer.message
    assert guarded_pod(admin, namespace, "plain").uid == plain.uid
    control_plane.api.patch(EVICTIONS, {"spec": {"variables": variables()}})
    refused(evict, plain, "")
    assert evict(plain).result == "evicted"


def test_annotations_keep_no_pod_where_the_guard_is_told_to_ignore_them(
    control_plane: cluster.Cluster, admin: KubeDoor, evict: Evict, namespace: str
) -> None:
    pods = {app: guarded_pod(admin, namespace, app) for app in ("opted-out", "labelled")}
    in_another = variables(optOutIgnored='request.namespace in ["another"]')
    control_plane.api.patch(EVICTIONS, {"spec": {"variables": in_another}})
    refused(evict, pods["opted-out"], PROTECTED["opted-out"])
    here = variables(optOutIgnored=f'request.namespace in ["another", "{namespace}"]')
    control_plane.api.patch(EVICTIONS, {"spec": {"variables": here}})
    refused(evict, pods["opted-out"], "")
    refused(evict, pods["labelled"], PROTECTED["labelled"])
    assert ignores_opt_out(control_plane)
    control_plane.api.patch(EVICTIONS, {"spec": {"variables": variables()}})
    refused(evict, pods["opted-out"], PROTECTED["opted-out"])
    assert not ignores_opt_out(control_plane)


def ignores_opt_out(control_plane: cluster.Cluster) -> bool:
    """The doctor's reading of the guard."""
    with contextlib.closing(patience.connect(control_plane.kubeconfig)) as door:
        return rights.guarding(door, lambda _: door, permissions.NAMESPACE, (), nodes=()).ignores_opt_out


ORPHAN = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": "0", "controller": True}]
Change = Callable[[str], Call]  # of the object at a path


def patch(body: Document | list[Document], part: str = "", **more: Any) -> Change:
    """A patch of an object, or of a subresource of it."""
    return lambda path: Call("PATCH", path + part, body, **more)


def annotated(annotations: Mapping[str, str | None] | None, part: str = "") -> Change:
    """A patch of annotations."""
    return patch({"metadata": {"annotations": annotations}}, part)


OF_PODS: dict[str, Change] = {
    "a deletion": lambda pod: Call("DELETE", pod),
    "a dry run of a deletion": lambda pod: Call("DELETE", pod, query=DRY_RUN),
    "a deletion in the body of which the dry run stands": lambda pod: Call("DELETE", pod, {"dryRun": ["All"]}),
    "a deletion of all": lambda pod: Call("DELETE", pod.rpartition("/")[0]),
    "an owner that the garbage collector does not find": patch({"metadata": {"ownerReferences": ORPHAN}}),
    "no label of protection": patch({"metadata": {"labels": {"evenload.io/protected": None}}}),
    "no label of its budget": patch({"metadata": {"labels": {"app": "other"}}}),
    "an annotation": annotated({"evenload.io/evictable": "true"}),
    "a deadline": patch({"spec": {"activeDeadlineSeconds": 1}}),
    "a status": patch({"status": {"phase": "Failed"}}, "/status"),
    "an ephemeral container": patch(
        {"spec": {"ephemeralContainers": [{"name": "x", "image": "x", "targetContainerName": "main"}]}},
        "/ephemeralcontainers",
        content_type=STRATEGIC_MERGE_PATCH,
    ),
    "a binding": lambda pod: Call("POST", f"{pod}/binding", binding(pod)),
    "a binding of the old form": lambda pod: Call("POST", f"{pod.rsplit('/', 2)[0]}/bindings", binding(pod)),
    "a new pod": lambda pod: Call("POST", pod.rpartition("/")[0], new_pod()),
    "a JSON patch": patch([{"op": "remove", "path": "/metadata/labels"}]),
    "a command in it": lambda pod: Call("GET", f"{pod}/exec", query=(("command", "kill"), ("stdout", "true"))),
}


def binding(pod: str) -> Document:
    """A binding to the first node."""
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.rpartition("/")[2]}, "target": target}


def new_pod() -> Document:
    """A pod that wants to be evicted for its priority."""
    spec = {"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}, "spec": spec}


@pytest.mark.parametrize("name", OF_PODS)
def test_the_descheduler_does_nothing_to_a_pod_but_evict_it(
    admin: KubeDoor, descheduler: client.Client, namespace: str, name: str
) -> None:
    before = guarded_pod(admin, namespace, "labelled")
    assert_forbidden(descheduler, OF_PODS[name](pod_path(before)), OTHER_WRITE)
    assert guarded_pod(admin, namespace, "labelled").uid == before.uid


def test_the_descheduler_gives_a_pod_no_other_size(
    control_plane: cluster.Cluster, admin: KubeDoor, descheduler: client.Client, namespace: str
) -> None:
    path = pod_path(guarded_pod(admin, namespace, "plain"))
    statuses = control_plane.api.get(path)["status"]["containerStatuses"]
    resizable = [one | {"resources": {}} for one in statuses]  # a kubelet that can resize says so by this
    control_plane.api.patch(f"{path}/status", {"status": {"containerStatuses": resizable}})
    answer = refusal(descheduler, Call("PATCH", f"{path}/resize", {"spec": {}}))
    served = {resource["name"] for resource in control_plane.api.get("api/v1")["resources"]}
    if "pods/resize" in served:
        assert answer.startswith("403 "), answer
        assert OTHER_WRITE + ": UPDATE of pods/resize" in answer
    else:  # an older Kubernetes, by `make -C lab compat`
        assert answer.startswith("404 "), answer


def eviction(pod: objects.Pod, **changes: Any) -> Call:
    """An eviction as our door writes it, with other parts."""
    body: Document = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "labels": dict(client.EVICTED_BY)},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
    return Call("POST", f"{pod_path(pod)}/eviction", body | changes)


def graceful(pod: objects.Pod, seconds: int) -> Call:
    return eviction(pod, deleteOptions={"preconditions": {"uid": pod.uid}, "gracePeriodSeconds": seconds})


OLD: list[Document] = [
    {"manager": "x", "operation": "Update", "apiVersion": "policy/v1", "time": "2001-01-01T00:00:00Z"}
]
FORMS: dict[str, Callable[[objects.Pod], Call]] = {
    "policy/v1": eviction,
    "policy/v1beta1": lambda pod: eviction(pod, apiVersion="policy/v1beta1"),
    "a dry run": lambda pod: eviction(pod)._replace(query=DRY_RUN),
    "a dry run by the body alone": lambda pod: eviction(
        pod, deleteOptions={"preconditions": {"uid": pod.uid}, "dryRun": ["All"]}
    ),
    "a time of its own": lambda pod: eviction(
        pod, metadata={"name": pod.name, "labels": client.EVICTED_BY, "managedFields": OLD}
    ),
}
MALFORMED: dict[str, tuple[Callable[[objects.Pod], Call], str]] = {
    "without options": (lambda pod: eviction(pod, deleteOptions=None), "must name the pod by"),
    "without a uid": (lambda pod: eviction(pod, deleteOptions={}), "must name the pod by"),
    "without grace": (lambda pod: graceful(pod, 0), "or at least 30"),
    "with less grace than the guard's": (lambda pod: graceful(pod, 29), "or at least 30"),
    "without our label": (
        lambda pod: eviction(pod, metadata={"name": pod.name}),
        "must be labelled evenload.io/evicted-by=descheduler",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_no_form_of_an_eviction_takes_what_is_protected(
    admin: KubeDoor, descheduler: client.Client, namespace: str, form: str
) -> None:
    pod = guarded_pod(admin, namespace, "labelled")
    assert_forbidden(descheduler, FORMS[form](pod), PROTECTED["labelled"])
    assert guarded_pod(admin, namespace, "labelled").uid == pod.uid


@pytest.mark.parametrize("form", MALFORMED)
def test_an_eviction_that_takes_liberties_is_refused_for_any_pod(
    admin: KubeDoor, descheduler: client.Client, namespace: str, form: str
) -> None:
    make, why = MALFORMED[form]
    pod = guarded_pod(admin, namespace, "plain")
    for well_formed in (eviction(pod), graceful(pod, 30)):
        assert not refusal(descheduler, well_formed._replace(query=DRY_RUN))
    assert_forbidden(descheduler, make(pod), why)
    assert guarded_pod(admin, namespace, "plain").uid == pod.uid


def test_what_the_guard_cannot_judge_is_refused(
    control_plane: cluster.Cluster, admin: KubeDoor, descheduler: client.Client, namespace: str
) -> None:
    asked = eviction(guarded_pod(admin, namespace, "plain"))._replace(query=DRY_RUN)
    wait_refused(descheduler, asked, "")
    broken = variables(priorityAtLeast="int(request.name)")
    control_plane.api.patch(EVICTIONS, {"spec": {"variables": broken}})
    wait_refused(descheduler, asked, "'evenload-guard-evictions'")
    control_plane.api.patch(EVICTIONS, {"spec": {"variables": variables()}})
    wait_refused(descheduler, asked, "")


def test_others_are_not_concerned(admin: KubeDoor, namespace: str) -> None:
    labelled = guarded_pod(admin, namespace, "labelled")
    admin.delete(kinds.PODS, labelled.name, namespace=namespace, dry_run=True)
    answer = admin.evict(namespace=namespace, name=labelled.name, uid=labelled.uid, dry_run=True)
    assert answer.accepted


NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "guard-test"}}
# By why they are refused.
OF_NODES: dict[str, dict[str, Change]] = {
    OTHER_FIELD: {
        "a taint": patch(TAINT),
        "a dry run of a taint": patch(TAINT, query=DRY_RUN),
        "a cordon": patch({"spec": {"unschedulable": True}}),
        "a provider's id": patch({"spec": {"providerID": "x://y"}}),
        "a label": patch({"metadata": {"labels": {"pool": "x"}}}),
        "no label": patch({"metadata": {"labels": {"kubernetes.io/hostname": None}}}),
        "an owner": patch({"metadata": {"ownerReferences": ORPHAN}}),
        "a finalizer": patch({"metadata": {"finalizers": ["x.io/y"]}}),
        "a taint beside our annotation": patch({**TAINT, "metadata": {"annotations": {"evenload.io/load": "{}"}}}),
        "a strategic merge patch": patch(TAINT, content_type=STRATEGIC_MERGE_PATCH),
        "a JSON patch": patch([{"op": "add", "path": "/spec/taints", "value": TAINT["spec"]["taints"]}]),
        "an apply": lambda node: Call(
            "PATCH", node, tainted(node), (("fieldManager", "x"), ("force", "true")), "application/apply-patch+yaml"
        ),
        "an update": lambda node: Call("PUT", node, tainted(node)),
    },
    OTHER_ANNOTATION: {
        "another annotation": annotated({"x.io/y": "z"}),
        "another value": annotated({FOREIGN: "x"}),
        "no other annotation": annotated({FOREIGN: None}),
        "no annotations": annotated(None),
        "a key that begins almost like ours": annotated({"evenload.io.x/load": "z"}),
        "crane's key where crane's keys are off": annotated({CRANE: "0.1,x"}),
    },
    OTHER_VERB + "UPDATE of nodes/status": {
        "a status": patch({"status": {"capacity": {"cpu": "999"}}}, "/status"),
        "an annotation by way of the status": annotated({"evenload.io/load": "{}"}, "/status"),
    },
    OTHER_VERB + "CONNECT of nodes/proxy": {"a request to its kubelet": lambda node: Call("GET", f"{node}/proxy/pods")},
    OTHER_VERB + "CREATE of nodes": {"a creation": lambda _: Call("POST", "/api/v1/nodes", NODE)},
    OTHER_VERB + "DELETE of nodes": {
        "a deletion": lambda node: Call("DELETE", node, query=DRY_RUN),
        "a deletion of all": lambda _: Call("DELETE", "/api/v1/nodes", query=DRY_RUN),
    },
}


def tainted(node: str) -> Document:
    """The node at a path, whole, with a taint."""
    return {**NODE, "metadata": {"name": node.rpartition("/")[2]}, **TAINT}


@pytest.fixture
def node(control_plane: cluster.Cluster, admin: KubeDoor) -> Iterator[str]:
    """The path of a node with an annotation of others."""
    path = a_node(admin)
    control_plane.api.patch(path, {"metadata": {"annotations": {FOREIGN: "others"}}})
    yield path
    control_plane.api.patch(path, {"metadata": {"annotations": {FOREIGN: None, "evenload.io/load": None, CRANE: None}}})


@pytest.mark.parametrize(
    ("why", "name"), [pytest.param(why, name, id=name) for why, changes in OF_NODES.items() for name in changes]
)
@pytest.mark.parametrize("account", ACCOUNTS)
def test_an_account_changes_nothing_of_a_node_but_our_annotations(
    control_plane: cluster.Cluster, doors: Mapping[str, client.Client], node: str, account: str, why: str, name: str
) -> None:
    before = control_plane.api.get(node)
    assert_forbidden(doors[account], OF_NODES[why][name](node), why)
    after = control_plane.api.get(node)
    assert [before.get("spec"), before["metadata"]["labels"], before["metadata"]["annotations"]] == [
        after.get("spec"),
        after["metadata"]["labels"],
        after["metadata"]["annotations"],
    ]


@pytest.mark.parametrize("account", ACCOUNTS)
def test_our_annotations_are_written_changed_and_removed(
    control_plane: cluster.Cluster, doors: Mapping[str, client.Client], node: str, account: str
) -> None:
    for value in ("{}", '{"v":1}', None):
        doors[account].merge_patch(
            kinds.NODES, node.rpartition("/")[2], {"metadata": {"annotations": {"evenload.io/load": value}}}
        )
        annotations = control_plane.api.get(node)["metadata"]["annotations"]
        assert annotations.get("evenload.io/load") == value
        assert annotations[FOREIGN] == "others"


def test_a_status_in_a_patch_of_the_node_itself_changes_nothing(
    control_plane: cluster.Cluster, doors: Mapping[str, client.Client], node: str
) -> None:
    before = control_plane.api.get(node)["status"]["capacity"]
    body = {"metadata": {"annotations": {"evenload.io/load": "{}"}}, "status": {"capacity": {"cpu": "999"}}}
    assert not refusal(doors["annotator"], Call("PATCH", node, body))
    assert control_plane.api.get(node)["status"]["capacity"] == before


def test_cranes_keys_are_written_where_the_component_crane_is_taken(
    control_plane: cluster.Cluster, doors: Mapping[str, client.Client], node: str
) -> None:
    shipped = yaml.safe_load((COMPONENTS / "crane" / "kustomization.yaml").read_text(encoding="utf-8"))["patches"]
    (patch,) = [yaml.safe_load(one["patch"]) for one in shipped if one["target"]["kind"] != "Deployment"]
    before = control_plane.api.get(NODES)["spec"]["variables"]
    keys = [one | ({"expression": patch[1]["value"]} if one["name"] == patch[0]["value"] else {}) for one in before]
    asked = Call("PATCH", node, {"metadata": {"annotations": dict.fromkeys(crane_keys.KEYS.values(), "0.1,x")}})
    tried = asked._replace(query=DRY_RUN)
    assert OTHER_ANNOTATION in refusal(doors["annotator"], tried)
    control_plane.api.patch(NODES, {"spec": {"variables": keys}})
    wait_refused(doors["annotator"], tried, "")
    assert not refusal(doors["annotator"], asked)
    assert control_plane.api.get(node)["metadata"]["annotations"][CRANE] == "0.1,x"
    gone = dict.fromkeys(crane_keys.KEYS.values())
    assert not refusal(doors["annotator"], Call("PATCH", node, {"metadata": {"annotations": gone}}))
    control_plane.api.patch(NODES, {"spec": {"variables": before}})
    wait_refused(doors["annotator"], tried, OTHER_ANNOTATION)


@pytest.mark.parametrize("name", ["evictions", "nodes", "pods"])
def test_the_apiserver_found_nothing_wrong_with_the_expressions(control_plane: cluster.Cluster, name: str) -> None:
    assert_expressions_checked(control_plane, name)


def assert_expressions_checked(control_plane: cluster.Cluster, name: str) -> None:
    """The apiserver has checked the types of a policy of the guard, and found nothing."""

    def checked() -> list[dict[str, object]]:
        """Of the expressions as they are now: another test changes one."""
        policy = control_plane.api.get(f"{PATHS['ValidatingAdmissionPolicy']}/evenload-guard-{name}")
        status = policy.get("status", {})
        known = status.get("observedGeneration") == policy["metadata"]["generation"] and "typeChecking" in status
        return [status["typeChecking"]] if known else []

    (found_wrong,) = waiting.until(checked, "the expressions to be checked")
    assert not found_wrong.get("expressionWarnings"), found_wrong
