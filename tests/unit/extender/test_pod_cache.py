"""A watched pod says of itself what the whole pod says, as far as counting asks, and stays small."""

from typing import Any

import msgspec
import pytest

from extender.state import countable_pods, pod_cache, usage_estimates
from kube import objects
from kube.pods import compact
from tests import builders

COUNTED = ["uid", "key", "resource_version", "node_name", "finished", "deleting"]
COUNTED += ["namespace", "is_daemonset", "is_from_node", "owner", "scheduled_at_seconds"]


def two_containers(body: builders.Body) -> None:
    """Two containers, an init container, a sidecar, and overhead."""
    asks = [{"cpu": "100m", "memory": "64Mi"}, {"cpu": 1}, {"memory": "1Gi", "nvidia.com/gpu": "1"}]
    body["spec"]["containers"] = [{"name": str(at), "resources": {"requests": ask}} for at, ask in enumerate(asks)]
    starts = [{"name": "big", "resources": {"requests": {"cpu": "3"}}}]
    starts += [{"name": "side", "restartPolicy": "Always", "resources": {"requests": {"memory": "1Gi"}}}]
    body["spec"].update(initContainers=starts, overhead={"cpu": "50m"})


CASES: dict[str, dict[str, Any]] = {
    "bound": {"node": "n"},
    "pending": {},
    "of a DaemonSet": {"node": "n", "owner": ("DaemonSet", "agent")},
    "a mirror of a static pod": {
        "node": "n",
        "owner": ("Node", "n"),
        "annotations": {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"},
    },
    "bare": {"node": "n", "owner": None},
    "a placeholder": {"node": "n", "mutate": builders.placeholder},
    "one that says that it is a placeholder": {"node": "n", "labels": {compact.PLACEHOLDER_LABEL: "true"}},
    "no placeholder, says the label": {"node": "n", "labels": {compact.PLACEHOLDER_LABEL: "false"}},
    "finished": {"node": "n", "phase": "Succeeded"},
    "being deleted": {"mutate": lambda body: body["metadata"].update(deletionTimestamp=builders.SCHEDULED)},
    "several containers": {"node": "n", "mutate": two_containers},
    "pod-level requests": {"mutate": lambda body: body["spec"].update(resources={"requests": {"cpu": "7"}})},
    "no requests": {"mutate": lambda body: body["spec"].update(containers=[{"name": "main"}])},
}


@pytest.mark.parametrize("fields", CASES.values(), ids=CASES)
def test_it_counts_as_the_whole_pod_does(fields: dict[str, Any]) -> None:
    body = builders.pod_body("web-1", **fields)
    whole, kept = builders.decoded(body, objects.Pod), builders.decoded(body, pod_cache.Pod)
    assert [getattr(kept, name) for name in COUNTED] == [getattr(whole, name) for name in COUNTED]
    assert countable_pods.counts(kept) == countable_pods.counts(whole)
    assert usage_estimates.estimate_key(kept) == usage_estimates.estimate_key(whole)


def test_a_quantity_that_cannot_be_read_is_no_request() -> None:
    odd = builders.decoded(builders.pod_body("p", cpu="a lot"), pod_cache.Pod)
    assert usage_estimates.estimate_key(odd).request.cpu_millicores == 0


@pytest.mark.parametrize("name", [name for name in CASES if name != "bound"])
def test_what_is_counted_otherwise_is_not_alike(name: str) -> None:
    bound = builders.decoded(builders.pod_body("p", node="n"), pod_cache.Pod)
    assert not pod_cache.counts_alike(bound, builders.decoded(builders.pod_body("p", **CASES[name]), pod_cache.Pod))


def test_a_phase_an_annotation_and_other_conditions_leave_a_pod_alike() -> None:
    def started(body: builders.Body) -> None:
        body["metadata"]["resourceVersion"] = "77"
        body["status"]["conditions"] = [one for one in body["status"]["conditions"] if one["type"] == "PodScheduled"]

    pending = builders.decoded(builders.pod_body("p", node="n", phase="Pending", mutate=started), pod_cache.Pod)
    running = builders.decoded(builders.pod_body("p", node="n", annotations={"a": "b"}), pod_cache.Pod)
    assert pod_cache.counts_alike(pending, running)
    again = builders.decoded(
        builders.pod_body("p", node="n", mutate=lambda body: body["metadata"].update(uid="another")), pod_cache.Pod
    )
    assert not pod_cache.counts_alike(running, again)


def test_only_the_condition_that_is_read_stays() -> None:
    kept = builders.decoded(builders.pod_body("p", node="n"), pod_cache.Pod)
    assert (kept.status.conditions, kept.ready_since_seconds) == ((), None)
    assert kept.scheduled_at_seconds is not None


def test_a_field_of_the_wrong_type_is_an_error_as_in_every_kind() -> None:
    with pytest.raises(msgspec.ValidationError, match="nodeName"):
        builders.decoded({"spec": {"nodeName": 7}}, pod_cache.Pod)
