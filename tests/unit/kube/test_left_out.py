"""How many pods are not kept whole shows: in /readyz?verbose, on /metrics, once in the log."""

import pytest
from prometheus_client import CollectorRegistry

from kube.pods import compact, left_out
from tests import builders


def forged(pod: str, /, **fields: str) -> compact.Pod:
    """A pod whose owner its author made up."""
    return builders.lean_pod(pod, mutate=lambda body: body["metadata"]["ownerReferences"][0].update(fields))


FORGED = [
    pytest.param({"apiVersion": "../healthz"}, id="an apiVersion that is a path"),
    pytest.param({"kind": "x" * 64}, id="a kind too long"),
    pytest.param({"name": "a b"}, id="a name that is none"),
    pytest.param({"uid": "x" * 1_000_000}, id="a uid of a megabyte"),
]


@pytest.mark.parametrize("fields", FORGED)
def test_an_owner_that_cannot_be_is_no_owner(fields: dict[str, str]) -> None:
    pod = forged("p", **fields)
    assert (pod.owner, pod.metadata.owner_references, pod.left_out) == (None, (), "owner")


def test_of_several_owners_the_controlling_one_is_kept() -> None:
    def also(body: builders.Body) -> None:
        other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x" * 1000, "uid": "u"}
        body["metadata"]["ownerReferences"].insert(0, other)

    pod = builders.lean_pod("p", mutate=also)
    assert (len(pod.metadata.owner_references), pod.left_out) == (1, "")
    assert pod.owner is not None
    assert pod.owner.name == "web"


def test_pods_not_kept_whole_are_shown_while_they_are_there(caplog: pytest.LogCaptureFixture) -> None:
    registry, pods = CollectorRegistry(), left_out.PodsLeftOut()
    registry.register(pods)
    whole, first, second = builders.lean_pod("p"), forged("p", uid="ä"), forged("q", uid="ä")

    def value() -> float | None:
        return registry.get_sample_value("evenload_pods_left_out", {"part": "owner"})

    pods.changed(None, whole)
    assert (pods.line(), value()) == ("none", 0)
    pods.changed(whole, first)
    pods.changed(None, second)
    assert (pods.line(), value()) == ("2: default/p (owner), default/q (owner)", 2)
    pods.changed(first, whole)
    pods.changed(second, None)
    assert (pods.line(), value()) == ("none", 0)
    assert len([one for one in caplog.records if "left out" in str(one.msg)]) <= 1
