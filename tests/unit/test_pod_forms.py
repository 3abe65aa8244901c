"""Every form of a pod answers like the whole pod, and equal values are one."""

from typing import Any

import msgspec
import pytest

from annotator.placements import hot_counts, pod_index
from descheduler.snapshot import interned_pods
from extender.state import usage_estimates
from kube import objects
from kube.pods import compact, pod_view
from runtime import clock
from tests import builders

FORMS: tuple[type[pod_view.PodView], ...] = (compact.Pod, interned_pods.Pod)
FIELDS = (
    "uid",
    "key",
    "namespace",
    "priority",
    "node_name",
    "finished",
    "deleting",
    "is_daemonset",
    "is_from_node",
    "owner",
    "scheduled_at_seconds",
    "ready_since_seconds",
    "running_since_seconds",
    "pending",
    "failing",
    "nominated_node",
)
FUNCTIONS = (
    pod_view.is_placeholder,
    pod_view.counts_as_load,
    usage_estimates.estimate_key,
    hot_counts.binding,
    pod_view.is_placed_by_load,
    pod_index.owner_key,
)
SOAK = {"evenload.io/placeholder-preset": "soak", "other": "x"}
CLAIM = {compact.PLACEHOLDER_LABEL: "true"}
MIRROR, SOURCE = {"kubernetes.io/config.mirror": "x"}, {"kubernetes.io/config.source": "file"}


def two_containers(body: builders.Body) -> None:
    """Three containers, an init container, a sidecar, and overhead."""
    requests = [{"cpu": "100m", "memory": "64Mi"}, {"cpu": 1}, {"memory": "1Gi", "nvidia.com/gpu": "1"}]
    body["spec"]["containers"] = [
        {"name": str(at), "resources": {"requests": each}} for at, each in enumerate(requests)
    ]
    starts = [{"name": "big", "resources": {"requests": {"cpu": "3"}}}]
    starts += [{"name": "side", "restartPolicy": "Always", "resources": {"requests": {"memory": "1Gi"}}}]
    body["spec"].update(initContainers=starts, overhead={"cpu": "50m"})


def resized(body: builders.Body) -> None:
    """Two containers and a sidecar of which the kubelet has not all as the spec asks."""
    two_containers(body)
    body["spec"]["resources"] = {"requests": {"memory": "2Gi"}}
    names = ("0", "1", "2", "side", "big", "unknown")
    held = [{"cpu": "1", "memory": "3Gi"}, {"cpu": "1000m"}, {"memory": "2Gi"}, {"memory": "2Gi"}, {"cpu": "9"}, {}]
    statuses = [
        {"name": name, "allocatedResources": amounts, "resources": {"requests": amounts}}
        for name, amounts in zip(names, held, strict=True)
    ]
    amounts = {"memory": "5Gi"}
    body["status"].update(containerStatuses=statuses[:3], initContainerStatuses=statuses[3:])
    body["status"].update(resources={"requests": amounts}, allocatedResources=amounts)


def infeasible(body: builders.Body) -> None:
    """It asks for more than its node has, and no amount is granted of what it has at the level of the pod."""
    resized(body)
    body["status"]["conditions"].append({"type": "PodResizePending", "status": "True", "reason": "Infeasible"})
    body["status"].update(resources={"requests": {}}, allocatedResources={})


def forged(body: builders.Body) -> None:
    """A kind of that name in a group of one's own."""
    body["metadata"]["ownerReferences"][0]["apiVersion"] = "x.example/v1"


def states(*containers: builders.Body, init: builders.Body | None = None, phase: str = "Pending") -> builders.Body:
    """A bound pod whose kubelet reports these states of containers."""
    statuses = {"containerStatuses": list(containers), "initContainerStatuses": [init] if init else []}
    return builders.pod_body("p", node="n", phase=phase, status=statuses)


FIRST_RUN = {"startedAt": "2026-11-21T03:01:00Z"}


def waits(reason: str, restarts: int = 0, **last: str) -> builders.Body:
    """A container that does not run."""
    return {"restartCount": restarts, "state": {"waiting": {"reason": reason}}, "lastState": {"terminated": last}}


def runs(restarts: int = 0, minute: int = 4) -> builders.Body:
    """A container that runs since a minute of the hour."""
    state = {"running": {"startedAt": f"2026-11-21T03:{minute:02}:00Z"}}
    return {"restartCount": restarts, "state": state, "lastState": {"terminated": FIRST_RUN} if restarts else {}}


STATES: dict[str, builders.Body] = {
    "not reported by its kubelet": builders.pod_body("p", node="n", phase="Pending"),
    "creating": states(waits("ContainerCreating")),
    "in an init container": states(waits("PodInitializing"), init=runs()),
    "init in a crash loop": states(waits("PodInitializing"), init=waits("CrashLoopBackOff", 2)),
    "without its image": states(runs(), waits("ImagePullBackOff")),
    "running": states(runs(), runs(minute=9), phase="Running"),
    "restarted": states(runs(1), phase="Running"),
    "restarted again": states(runs(2), phase="Running"),
    "in a crash loop": states(waits("CrashLoopBackOff", 1, **FIRST_RUN), phase="Running"),
    "with one container in a crash loop": states(runs(), waits("CrashLoopBackOff", 5, **FIRST_RUN), phase="Running"),
    "waiting for a reason of another kubelet": states(waits("Provisioning")),
    "done": states({"state": {"terminated": FIRST_RUN}}, phase="Succeeded"),
    "nominated": builders.pod_body("p", status={"nominatedNodeName": "n"}),
}
MINUTE = 60.0
STARTS = {  # minutes of the hour, and whether it fails
    "not reported by its kubelet": (None, False),
    "creating": (None, False),
    "in an init container": (None, False),
    "init in a crash loop": (None, True),
    "without its image": (4, False),
    "running": (9, False),
    "restarted": (1, False),
    "restarted again": (None, False),
    "in a crash loop": (1, True),
    "with one container in a crash loop": (4, False),
    "waiting for a reason of another kubelet": (None, False),
    "done": (1, False),
    "nominated": (None, False),
}
BODIES: dict[str, builders.Body] = {
    **STATES,
    **builders.pod_stages(),
    "bound": builders.pod_body("p", node="n"),
    "pending": builders.pod_body("p"),
    "of a DaemonSet": builders.pod_body("p", node="n", owner=("DaemonSet", "agent")),
    "with a forged owner": builders.pod_body("p", node="n", owner=("DaemonSet", "agent"), mutate=forged),
    "bare": builders.pod_body("p", node="n", owner=None),
    "a mirror of a static pod": builders.mirror_body(),
    "an annotation of static pods": builders.pod_body("p", node="n", annotations=SOURCE),
    "an annotation of mirrors": builders.pod_body("p", node="n", annotations=MIRROR),
    "an owner and annotations of mirrors": builders.pod_body(
        "p", node="n", owner=("Node", "n"), annotations=MIRROR | SOURCE
    ),
    "a placeholder": builders.pod_body("p", node="n", mutate=builders.placeholder),
    "a placeholder of the preset soak": builders.pod_body("p", annotations=SOAK, mutate=builders.placeholder),
    "a placeholder's label only": builders.pod_body("p", node="n", labels=CLAIM),
    "no placeholder, says the label": builders.pod_body("p", node="n", labels={compact.PLACEHOLDER_LABEL: "false"}),
    "failed": builders.pod_body("p", node="n", phase="Failed"),
    "succeeded": builders.pod_body("p", node="n", phase="Succeeded"),
    "being deleted": builders.pod_body("p", node="n", metadata={"deletionTimestamp": builders.SCHEDULED}),
    "without conditions": builders.pod_body("p", node="n", status={"conditions": []}),
    "several containers": builders.pod_body("p", node="n", mutate=two_containers),
    "resized": builders.pod_body("p", node="n", mutate=resized),
    "resized, which is infeasible": builders.pod_body("p", node="n", mutate=infeasible),
    "pod-level requests": builders.pod_body("p", spec={"resources": {"requests": {"cpu": "7"}}}),
    "with an estimate of its own": builders.pod_body(
        "p", node="n", annotations={"evenload.io/expected-usage": "cpu=2"}
    ),
    "with a long estimate": builders.pod_body("p", annotations={"evenload.io/expected-usage": "cpu=1" + " " * 99}),
    "no requests": builders.pod_body("p", spec={"containers": [{"name": "main"}]}),
}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__module__)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_form_answers_like_the_whole_pod(form: type[Any], body: builders.Body) -> None:
    pod, whole = builders.decoded(body, form), builders.decoded(body, objects.Pod)
    assert {name: getattr(pod, name) for name in FIELDS} == {name: getattr(whole, name) for name in FIELDS}
    assert [function(pod) for function in FUNCTIONS] == [function(whole) for function in FUNCTIONS]


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_compact_pod_has_the_version_and_the_preset(body: builders.Body) -> None:
    pod, whole = builders.decoded(body, compact.Pod), builders.decoded(body, objects.Pod)
    assert (pod.resource_version, pod_view.preset(pod)) == (whole.resource_version, pod_view.preset(whole))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__module__)
def test_a_field_of_the_wrong_type_is_an_error(form: type[Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match="nodeName"):
        builders.decoded({"spec": {"nodeName": 7}}, form)


def test_an_unreadable_quantity_of_a_compact_pod_is_no_request() -> None:
    odd = builders.decoded(builders.pod_body("p", cpu="a lot"), compact.Pod)
    assert odd.requests == objects.NOTHING


@pytest.mark.parametrize("value", ["true", "false"])
def test_a_compact_pod_has_no_label_but_the_placeholders(value: str) -> None:
    labels = {compact.PLACEHOLDER_LABEL: value}
    assert builders.lean_pod("p", labels={"app": "web", **labels}).labels == labels
    assert builders.lean_pod("p", labels={"app": "web"}).labels == {}


def test_compact_pods_of_one_workload_share_their_values() -> None:
    first, second = (builders.lean_pod(name, node="n") for name in ("a", "b"))
    assert first.metadata.owner_references is second.metadata.owner_references
    assert first.spec is second.spec
    assert first.requests is second.requests
    assert (first.status.conditions, first.spec.containers, first.spec.affinity) == ((), (), None)


def test_an_invalid_time_of_a_compact_pod_is_refused() -> None:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "yesterday"}
    with pytest.raises(msgspec.ValidationError):
        builders.lean_pod("p", status={"conditions": [condition]})


COUNTED_OTHERWISE = [
    "pending",
    "creating",
    "running",
    "in a crash loop",
    "of a DaemonSet",
    "bare",
    "a mirror of a static pod",
    "a placeholder",
    "a placeholder's label only",
    "succeeded",
    "being deleted",
    "several containers",
    "resized",
    "with an estimate of its own",
    "no requests",
]


@pytest.mark.parametrize("name", COUNTED_OTHERWISE)
def test_pods_that_count_otherwise_are_not_alike(name: str) -> None:
    bound = builders.decoded(BODIES["bound"], compact.Pod)
    assert not pod_view.counts_alike(bound, builders.decoded(BODIES[name], compact.Pod))


@pytest.mark.parametrize("name", STARTS)
def test_when_a_pod_began_to_run_and_whether_it_fails_is_read_from_its_containers(name: str) -> None:
    pod, (minute, fails) = builders.decoded(STATES[name], compact.Pod), STARTS[name]
    hour = clock.from_rfc3339("2026-11-21T03:00:00Z")
    assert pod.running_since_seconds == (None if minute is None else hour + minute * MINUTE)
    assert pod.failing == fails
    assert (pod.status.container_statuses, pod.status.init_container_statuses) == ((), ()), "read once"


def test_a_new_reason_why_scheduling_failed_is_another_number() -> None:
    def refused(message: str) -> compact.Pod:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        return builders.lean_pod("p", status={"conditions": [condition]})

    first, again, other = refused("0/3 nodes"), refused("0/3 nodes"), refused("0/4 nodes")
    assert pod_view.counts_alike(first, again)
    assert not pod_view.counts_alike(first, other)
    assert not pod_view.counts_alike(builders.lean_pod("p"), first)
    assert builders.lean_pod("p").scheduling_failure == 0


def test_an_annotation_and_other_conditions_leave_a_pod_alike() -> None:
    def started(body: builders.Body) -> None:
        body["metadata"]["resourceVersion"] = "77"
        body["status"]["conditions"] = [one for one in body["status"]["conditions"] if one["type"] == "PodScheduled"]

    scheduled = builders.decoded(builders.pod_body("p", node="n", mutate=started), compact.Pod)
    running = builders.decoded(builders.pod_body("p", node="n", annotations={"a": "b"}), compact.Pod)
    assert pod_view.counts_alike(scheduled, running)
    again = builders.decoded(builders.pod_body("p", node="n", metadata={"uid": "another"}), compact.Pod)
    assert not pod_view.counts_alike(running, again)
