"""A pod says the same of itself, whether the annotator's watch decoded it or a simulation has it whole."""

import pytest

from annotator.placements import counted, hot_counts, pod_index
from kube import objects
from kube.pods import compact, pod_view
from tests import builders

SOAK = {"evenload.io/placeholder-preset": "soak", "other": "x"}


def meta(**values: object) -> builders.Mutator:
    return lambda body: body["metadata"].update(values)


BODIES = {
    "a running one": builders.pod_body("p", node="n"),
    "one that waits": builders.pod_body("p"),
    "a bare one": builders.pod_body("p", node="n", owner=None),
    "a DaemonSet's": builders.pod_body("p", node="n", owner=("DaemonSet", "agent")),
    "one that ended": builders.pod_body("p", node="n", phase="Failed"),
    "one that ends": builders.pod_body("p", node="n", mutate=meta(deletionTimestamp=builders.SCHEDULED)),
    "one that is not ready": builders.pod_body("p", node="n", mutate=lambda body: body["status"].update(conditions=[])),
    "the image of a static one": builders.mirror_body(),
    "a placeholder": builders.pod_body("p", node="n", mutate=builders.placeholder),
    "one that soaks": builders.pod_body("p", annotations=SOAK, mutate=builders.placeholder),
    "one that says that it is a placeholder": builders.pod_body("p", labels={"evenload.io/placeholder": "true"}),
}
ASKED = ("uid", "key", "namespace", "node_name", "finished", "deleting", "is_daemonset", "is_from_node")
TIMES = ("scheduled_at_seconds", "ready_since_seconds")


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_both_say_the_same(body: builders.Body) -> None:
    lean, whole = builders.decoded(body, compact.Pod), builders.decoded(body, objects.Pod)
    for name in (*ASKED, *TIMES):
        assert getattr(lean, name) == getattr(whole, name), name
    for ask in (pod_view.is_placeholder, counted.preset, hot_counts.binding, pod_index.owner_key):
        assert ask(lean) == ask(whole), ask
