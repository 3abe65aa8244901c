from typing import Any

import pytest

from kube import kinds, objects
from kube.pods import compact, pod_view
from tests import builders

SINCE = 1795230001.0  # builders.SCHEDULED


def test_a_node_reads_flat() -> None:
    taints = [{"key": "dedicated", "effect": "NoSchedule", "timeAdded": None}]
    node = builders.node("node-1", spec={"unschedulable": True, "taints": taints})
    assert (node.name, node.key) == ("node-1", "node-1")
    assert (node.ready, node.unschedulable, node.deleting) == (True, True, False)
    assert node.taints == (objects.Taint("dedicated", "NoSchedule"),)
    assert (node.allocatable.cpu_millicores, node.allocatable.memory_bytes) == (8000, 2.0**35)
    assert node.allocatable.pods == 110
    assert node.capacity == node.allocatable
    assert [(one.type, one.address) for one in node.addresses] == [("InternalIP", "10.0.0.1"), ("Hostname", "node-1")]


@pytest.mark.parametrize("status", ["False", "Unknown", None])
def test_a_node_is_ready_only_when_it_says_so(status: str | None) -> None:
    conditions = [] if status is None else [{"type": "Ready", "status": status}]
    assert not builders.node(status={"conditions": conditions}).ready


def test_a_bound_pod_reads_flat() -> None:
    pod = builders.pod("web-1", namespace="shop", node="node-1")
    assert (pod.key, pod.node_name) == ("shop/web-1", "node-1")
    assert (pod.phase, pod.ready, pod.finished) == ("Running", True, False)
    assert (pod.scheduled_at_seconds, pod.ready_since_seconds, pod.started_at_seconds) == (SINCE, SINCE, SINCE)
    assert (pod.priority, pod.priority_class, pod.status.qos_class) == (0, "", "Burstable")
    assert pod.owner is not None
    assert (pod.owner.kind, pod.owner.name) == ("ReplicaSet", "web")
    assert (pod.owner.uid, pod.owner.api_version) == ("uid-web", "apps/v1")


def test_a_pending_pod_has_no_node_and_no_times() -> None:
    pod = builders.pod()
    assert (pod.node_name, pod.ready, pod.scheduled_at_seconds, pod.started_at_seconds) == ("", False, None, None)


def test_a_pod_being_deleted_says_how_long_it_has() -> None:
    deletion = {"deletionTimestamp": builders.SCHEDULED, "deletionGracePeriodSeconds": 30}
    pod = builders.pod(metadata=deletion)
    assert (pod.deleting, pod.metadata.deletion_grace_period_seconds) == (True, 30)
    assert builders.pod().metadata.deletion_grace_period_seconds is None


@pytest.mark.parametrize(("phase", "finished"), [("Succeeded", True), ("Failed", True), ("Unknown", False)])
def test_finished_pods(phase: str, finished: bool) -> None:
    assert builders.pod(phase=phase).finished is finished


def test_only_a_controller_owns() -> None:
    job = {"kind": "Job", "name": "j", "uid": "v", "controller": False}
    references = [{"kind": "Node", "name": "n", "uid": "u"}, job]
    pod = builders.pod(metadata={"ownerReferences": references})
    assert pod.owner is None


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


def test_volumes_tell_what_ties_a_pod_to_its_node() -> None:
    volumes = [
        {"name": "a", "hostPath": {"path": "/var"}},
        {"name": "b", "emptyDir": {}},
        {"name": "c", "emptyDir": {"medium": "Memory"}},
        {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "f", "configMap": {"name": "x"}},
    ]
    pod = builders.pod(spec={"volumes": volumes})
    kinds_of = [(one.host_path, one.empty_dir, one.ephemeral) for one in pod.spec.volumes]
    ties = [tuple(source is not None for source in sources) for sources in kinds_of]
    names = [(one.medium, one.claim) for one in pod.spec.volumes]
    assert [(path, scratch, *texts, mine) for (path, scratch, mine), texts in zip(ties, names, strict=True)] == [
        (True, False, "", "", False),
        (False, True, "", "", False),
        (False, True, "Memory", "", False),
        (False, False, "", "data", False),
        (False, False, "", "", True),
        (False, False, "", "", False),
    ]


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


def test_placement_rules_are_decoded_as_required() -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone", "namespaceSelector": {}}
    in_zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    spread_rule = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    spec = {
        "nodeSelector": {"disk": "ssd"},
        "affinity": {
            "nodeAffinity": {required: in_zone},
            "podAntiAffinity": {required: [term], "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]},
        },
        "topologySpreadConstraints": [spread_rule],
        "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 300}],
    }
    pod = builders.pod(spec=spec)
    assert pod.selects("node-1", {"disk": "ssd", "zone": "a"})
    assert not pod.selects("node-1", {"disk": "ssd", "zone": "b"})
    assert not pod.selects("node-1", {"zone": "a"})
    assert pod.affinity is not None
    assert pod.affinity.pod_affinity is None
    assert pod.affinity.pod_anti_affinity is not None
    (anti,) = pod.affinity.pod_anti_affinity.required
    assert (anti.topology_key, anti.namespaces) == ("zone", ())
    assert anti.label_selector is not None
    assert anti.label_selector.matches({"app": "web"})
    assert anti.namespace_selector is not None
    (spread,) = pod.spec.topology_spread_constraints
    assert (spread.max_skew, spread.when_unsatisfiable) == (2, "ScheduleAnyway")
    assert pod.tolerations == (objects.Toleration("a", "Exists", toleration_seconds=300),)


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


def test_a_budget_reads_flat() -> None:
    disrupted = {"web-1": builders.SCHEDULED}
    budget = builders.budget(min_available="50%", status={"disruptedPods": disrupted})
    assert (budget.spec.min_available, budget.spec.max_unavailable) == ("50%", None)
    assert (budget.status.disruptions_allowed, budget.status.expected_pods) == (1, 3)
    assert (budget.status.current_healthy, budget.status.desired_healthy) == (3, 2)
    assert (budget.metadata.generation, budget.status.observed_generation) == (1, 1)
    assert budget.disrupted_pods == {"web-1": SINCE}
    assert budget.spec.unhealthy_pod_eviction_policy == ""
    assert budget.spec.selector is not None
    assert budget.spec.selector.matches({"app": "web"})


def test_an_absent_budget_selector_is_not_an_empty_one() -> None:
    assert builders.budget(mutate=lambda body: body["spec"].pop("selector")).spec.selector is None
    everything = builders.budget(spec={"selector": {}}).spec.selector
    assert everything is not None
    assert everything.matches({})


def test_an_event_of_an_old_writer_without_a_time_decodes() -> None:
    event = builders.decoded({"reason": "Scheduled", "eventTime": None, "regarding": {"kind": "Pod"}}, objects.Event)
    assert (event.event_time, event.regarding.kind) == (None, "Pod")


def test_volumes_and_claims_lead_to_nodes() -> None:
    claim = builders.decoded({"spec": {"volumeName": "pv-1"}}, objects.PersistentVolumeClaim)
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    volume = builders.decoded({"spec": {"nodeAffinity": {"required": terms}}}, objects.PersistentVolume)
    assert claim.spec.volume_name == "pv-1"
    assert volume.node_selector is not None
    assert volume.node_selector.matches("n", {"zone": "a"})
    assert builders.decoded({"spec": {}}, objects.PersistentVolume).node_selector is None


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
