"""The lean pod says what the whole one says, and equal values are one."""

import msgspec
import pytest

from kube import objects
from kube.pods import compact
from tests import builders

SAID = (
    "key",
    "uid",
    "node_name",
    "finished",
    "deleting",
    "owner",
    "is_daemonset",
    "is_from_node",
    "scheduled_at_seconds",
    "ready_since_seconds",
    "resource_version",
    "priority",
)


def forged(body: builders.Body) -> None:
    """A kind of that name in a group of one's own."""
    body["metadata"]["ownerReferences"][0]["apiVersion"] = "x.example/v1"


BODIES = {
    **builders.pod_stages(),
    "one of a DaemonSet": builders.pod_body("p", node="n", owner=("DaemonSet", "agent")),
    "a bare one": builders.pod_body("p", owner=None),
    "the image of a static one": builders.mirror_body(),
    "one that says that it is static": builders.pod_body(
        "p", node="n", annotations={"kubernetes.io/config.source": "file"}
    ),
    "one that says that it is a mirror": builders.pod_body(
        "p", node="n", annotations={"kubernetes.io/config.mirror": "x"}
    ),
    "one with a forged owner": builders.pod_body("p", node="n", owner=("DaemonSet", "agent"), mutate=forged),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_the_lean_pod_says_what_the_whole_one_says(body: builders.Body) -> None:
    lean, whole = builders.decoded(body, compact.Pod), builders.decoded(body, objects.Pod)
    assert {name: getattr(lean, name) for name in SAID} == {name: getattr(whole, name) for name in SAID}


@pytest.mark.parametrize("value", ["true", "false"])
def test_of_the_labels_only_that_of_a_placeholder_is_kept(value: str) -> None:
    said = {compact.PLACEHOLDER_LABEL: value}
    assert builders.lean_pod("p", labels={"app": "web", **said}).labels == said
    assert builders.lean_pod("p", labels={"app": "web"}).labels == {}


def test_pods_of_one_workload_hold_the_same_values() -> None:
    first, second = (builders.lean_pod(name, node="n") for name in ("a", "b"))
    assert first.metadata.owner_references is second.metadata.owner_references
    assert first.spec.node_name is second.spec.node_name


def test_a_time_that_is_none_is_refused() -> None:
    def spoilt(body: builders.Body) -> None:
        body["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": "yesterday"}]

    with pytest.raises(msgspec.ValidationError):
        builders.lean_pod("p", mutate=spoilt)
