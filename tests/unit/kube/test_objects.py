from typing import Any

import pytest

from kube import kinds, objects
from kube.pods import compact, pod_view
from tests import builders

SINCE = 1795230001.0  # builders.SCHEDULED


@pytest.mark.parametrize(
    ("mutation", "flags"),
    [
        ({}, (False, False, False)),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, (True, False, False)),
        ({"annotations": {"kubernetes.io/config.source": "file"}}, (False, True, False)),
        ({"annotations": {"kubernetes.io/config.source": "api"}}, (False, False, False)),
    ],
    ids=["ordinary", "mirror", "static", "from the API"],
)
def test_what_a_pod_says_of_itself_is_known_and_no_proof(
    mutation: dict[str, Any], flags: tuple[bool, bool, bool]
) -> None:
    pod = builders.pod(node="n", metadata=mutation)
    assert (pod.is_mirror, pod.is_static, pod.is_from_node) == flags


def owner(**fields: Any) -> builders.Mutator:
    return lambda body: body["metadata"]["ownerReferences"][0].update(fields)


def affinity(*terms: dict[str, Any]) -> builders.Mutator:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return lambda body: body["spec"].update(affinity={"nodeAffinity": required})


def named(*names: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": list(names)}]}


LABELLED = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}


@pytest.mark.parametrize(
    ("mutate", "expected"),
    [
        pytest.param(None, True, id="as the controller makes it"),
        pytest.param(affinity({**named("n"), **LABELLED}, named("n")), True, id="with terms of its template"),
        pytest.param(owner(apiVersion="x.example/v1"), False, id="a kind of another group"),
        pytest.param(owner(apiVersion=""), False, id="a kind of no group"),
        pytest.param(owner(controller=False), False, id="an owner that does not control it"),
        pytest.param(lambda body: body["spec"].pop("affinity"), False, id="free to go anywhere"),
        pytest.param(affinity(named("n", "m")), False, id="with two nodes to choose from"),
        pytest.param(affinity(named("n"), named("m")), False, id="with a term for each of two nodes"),
        pytest.param(affinity(named("n"), LABELLED), False, id="with another way out"),
        pytest.param(affinity(), False, id="without a term"),
    ],
)
@pytest.mark.parametrize("form", [objects.Pod, compact.Pod])
def test_a_pod_of_a_daemonset_is_owned_by_one_and_has_one_node(
    form: type[objects.Pod] | type[compact.Pod], mutate: builders.Mutator | None, expected: bool
) -> None:
    body = builders.pod_body("agent-n", node="n", owner=("DaemonSet", "agent"), mutate=mutate)
    assert builders.decoded(body, form).is_daemonset is expected


@pytest.mark.parametrize(
    ("mutate", "expected"),
    [
        pytest.param(lambda body: None, True, id="as a kubelet makes it"),
        pytest.param(owner(name="another"), False, id="of another node"),
        pytest.param(owner(apiVersion="x.example/v1"), False, id="of a kind of another group"),
        pytest.param(lambda body: body["metadata"].pop("ownerReferences"), False, id="without an owner"),
        pytest.param(lambda body: body["spec"].pop("nodeName"), False, id="without a node"),
        pytest.param(
            lambda body: body["metadata"]["annotations"].pop("kubernetes.io/config.mirror"), False, id="no mirror"
        ),
    ],
)
@pytest.mark.parametrize("form", [objects.Pod, compact.Pod])
def test_the_image_of_a_static_pod_is_its_nodes_own(
    form: type[objects.Pod] | type[compact.Pod], mutate: builders.Mutator, expected: bool
) -> None:
    body = builders.mirror_body(node="n")
    mutate(body)
    assert builders.decoded(body, form).is_from_node is expected


@pytest.mark.parametrize(("priority", "expected"), [(-10, True), (-1, True), (0, False), (None, False), (1000, False)])
@pytest.mark.parametrize("form", [objects.Pod, compact.Pod])
def test_a_placeholder_is_labelled_and_below_every_ordinary_pod(
    form: type[objects.Pod] | type[compact.Pod], priority: int | None, expected: bool
) -> None:
    spec = {} if priority is None else {"priority": priority}
    labels = {"evenload.io/placeholder": "true"}
    pod = builders.decoded(builders.pod_body(labels=labels, spec=spec), form)
    assert pod_view.claims_placeholder(pod)
    assert pod_view.is_placeholder(pod) is expected


def test_host_ports_are_those_of_containers_and_sidecars() -> None:
    dns = {"hostPort": 53, "protocol": "UDP", "hostIP": "127.0.0.1"}
    spec = {
        "containers": [{"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]}],
        "initContainers": [
            {"name": "s", "restartPolicy": "Always", "ports": [dns]},
            {"name": "i", "ports": [{"hostPort": 99}]},
        ],
    }
    assert builders.pod(spec=spec).host_ports == (("TCP", "", 8081), ("UDP", "127.0.0.1", 53))


def test_a_pod_selects_nodes_by_selector_and_by_affinity_if_it_has_one() -> None:
    terms = affinity({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]})
    pod = builders.pod(spec={"nodeSelector": {"disk": "ssd"}}, mutate=terms)
    labelled: list[dict[str, str]] = [{"disk": "ssd", "zone": "a"}, {"disk": "ssd", "zone": "b"}, {"zone": "a"}]
    assert [pod.selects("node-1", labels) for labels in labelled] == [True, False, False]
    elsewhere = builders.pod(spec={"affinity": {"podAntiAffinity": {}}})
    assert elsewhere.selects("node-1", {})


@pytest.mark.parametrize(
    ("kind", "spec", "wanted"),
    [
        (objects.ReplicaSet, {"replicas": 0}, 0),
        (objects.Deployment, {}, 1),
        (objects.StatefulSet, {"replicas": 5}, 5),
        (objects.ReplicationController, {"replicas": 2, "selector": {"app": "web"}}, 2),
        (objects.Job, {"parallelism": 4}, 4),
        (objects.Job, {}, 1),
    ],
)
def test_workloads_say_how_many_they_want_and_have(kind: Any, spec: dict[str, Any], wanted: int) -> None:
    status = {"ready": 3} if kind is objects.Job else {"readyReplicas": 3, "availableReplicas": 3}
    found = builders.decoded({"metadata": {"name": "w"}, "spec": spec, "status": status}, kind)
    assert (found.spec_replicas, found.available_replicas) == (wanted, 3)


@pytest.mark.parametrize(
    ("spec", "status", "wanted"),
    [
        ({"parallelism": 4, "completions": 6}, {"succeeded": 1}, 4),
        ({"parallelism": 4, "completions": 6}, {"succeeded": 5}, 1),
        ({"parallelism": 4}, {"succeeded": 1, "active": 2}, 2),
        ({}, {"conditions": [{"type": "Complete", "status": "True"}]}, 0),
        ({}, {"conditions": [{"type": "Failed", "status": "True"}]}, 0),
        ({}, {"conditions": [{"type": "Suspended", "status": "True"}]}, 0),
        ({}, {"conditions": [{"type": "Suspended", "status": "False"}]}, 1),
    ],
)
def test_a_job_wants_no_pod_for_what_is_done(spec: dict[str, Any], status: dict[str, Any], wanted: int) -> None:
    job = builders.decoded({"metadata": {"name": "w"}, "spec": spec, "status": status}, objects.Job)
    assert job.spec_replicas == wanted


def test_a_replication_controllers_label_map_selects() -> None:
    body = {"spec": {"selector": {"app": "web"}}}
    assert builders.decoded(body, objects.ReplicationController).selector.matches({"app": "web", "tier": "1"})


def test_a_budget_says_when_pods_were_disrupted() -> None:
    assert builders.budget(status={"disruptedPods": {"web-1": builders.SCHEDULED}}).disrupted_pods == {"web-1": SINCE}
    assert builders.budget(status={"disruptedPods": {"web-1": None}}).disrupted_pods == {"web-1": 0.0}
    assert builders.budget(status={"disruptedPods": None}).disrupted_pods == {}


def test_an_event_of_an_old_writer_without_a_time_decodes() -> None:
    event = builders.decoded({"reason": "Scheduled", "eventTime": None, "regarding": {"kind": "Pod"}}, objects.Event)
    assert (event.event_time, event.regarding.kind) == (None, "Pod")


def test_a_node_tells_how_many_volumes_of_a_driver_it_can_hold() -> None:
    drivers = [{"name": "a", "allocatable": {"count": 3}}, {"name": "b"}, {"name": "c", "allocatable": {}}]
    assert builders.decoded({"spec": {"drivers": drivers}}, objects.CsiNode).limits == {"a": 3}
    assert builders.decoded({"spec": {"drivers": None}}, objects.CsiNode).limits == {}
    source = {"csi": {"driver": "a", "volumeHandle": "v-1"}}
    assert builders.decoded({"spec": source}, objects.PersistentVolume).spec.csi == objects.CsiSource("a", "v-1")


def test_what_is_absent_everywhere_decodes() -> None:
    for kind in kinds.ALL:
        found = builders.decoded({}, kind.type)
        assert (found.key, found.labels, found.owner) == ("", {}, None)
        assert (found.deleting, found.created_at_seconds) == (False, 0.0)


def test_kinds_know_their_api_version() -> None:
    assert (kinds.PODS.api_version, kinds.BUDGETS.api_version) == ("v1", "policy/v1")
    assert len({(one.path, one.plural) for one in kinds.ALL}) == len(kinds.ALL)
