"""The pod of a snapshot says to every rule what the whole one says, and equal parts are one object."""

import hypothesis
import msgspec
import pytest

from descheduler import listed
from kube import objects
from tests import builders
from tests.unit.descheduler import scenes
from tests.unit.descheduler.test_plan_placements import Drawn, clusters, planned
from tests.unit.descheduler.test_protections import set_spec

LEFT_OUT = {"resource_version", "annotations", "volumes"}  # nobody's, and those of which some are kept
SAID = sorted(
    {name for name in dir(objects.Pod) if not name.startswith("_")} - LEFT_OUT - {"spec", "metadata", "status"}
)
BODIES = {
    **builders.pod_stages(),
    "a bare one with labels": builders.pod_body("p", owner=None, labels={"a": "b", "c": "d"}),
    "a mirror": builders.pod_body("p", node="n", annotations={"kubernetes.io/config.mirror": "x"}),
    "one of many rules": builders.pod_body(
        "p",
        node="n",
        mutate=set_spec(
            priority=7,
            priorityClassName="high",
            preemptionPolicy="Never",
            nodeSelector={"disk": "ssd"},
            tolerations=[{"operator": "Exists"}],
            resourceClaims=[{"name": "gpu"}],
            overhead={"cpu": "10m"},
            topologySpreadConstraints=[{"maxSkew": 2, "labelSelector": {"matchLabels": {"a": "b"}}}],
            affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
            initContainers=[{"name": "first", "restartPolicy": "Always", "ports": [{"hostPort": 81}]}],
            containers=[{"name": "gpu", "resources": {"requests": {"nvidia.com/gpu": 1}, "limits": {"cpu": "2"}}}],
        ),
    ),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_it_says_what_the_whole_pod_says(body: builders.Body) -> None:
    short, whole = builders.decoded(body, listed.Pod), builders.decoded(body, objects.Pod)
    names = [name for name in SAID if not callable(getattr(whole, name))]
    assert len(names) > 25
    assert {name: getattr(short, name) for name in names} == {name: getattr(whole, name) for name in names}


def test_of_annotations_and_volumes_what_a_rule_reads_is_kept() -> None:
    read = {
        "evenload.io/evictable": "false",
        "descheduler.alpha.kubernetes.io/evictable": "true",
        "evenload.io/filter": "off",
        "controller.kubernetes.io/pod-deletion-cost": "3",
        "kubernetes.io/config.source": "file",
    }
    ties = [
        {"name": "a", "hostPath": {"path": "/x"}},
        {"name": "b", "emptyDir": {"medium": "Memory"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "d", "ephemeral": {}},
    ]
    volumes = [*ties, {"name": "kube-api-access-x7k2p", "projected": {}}]
    body = builders.pod_body("p", annotations={**read, "checksum": "c" * 64}, mutate=set_spec(volumes=volumes))
    pod = builders.decoded(body, listed.Pod)
    assert pod.annotations == read
    assert [volume.name for volume in pod.volumes] == ["a", "b", "c", "d"]


def test_equal_parts_are_one_object() -> None:
    first, second = (builders.decoded(builders.pod_body(name, node="n"), listed.Pod) for name in ("a", "b"))
    assert first.labels is second.labels
    assert first.metadata.owner_references is second.metadata.owner_references
    assert first.spec.containers is second.spec.containers
    assert first.requests is second.requests


@hypothesis.settings(max_examples=60)
@hypothesis.given(clusters())
def test_a_plan_is_the_same_as_by_whole_pods(drawn: Drawn) -> None:
    by_whole = scenes.judged(planned(drawn))
    drawn.scene.pods = [msgspec.json.decode(msgspec.json.encode(pod), type=listed.Pod) for pod in drawn.scene.pods]
    by_listed = scenes.judged(planned(drawn))
    assert {name: one.verdict for name, one in by_listed.items()} == {
        name: one.verdict for name, one in by_whole.items()
    }


def test_pods_of_the_same_owners_with_other_specs_are_told_apart() -> None:
    def made(name: str, node: str, cpu: str) -> listed.Pod:
        containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
        return builders.decoded(builders.pod_body(name, node=node, mutate=set_spec(containers=containers)), listed.Pod)

    given = [("a", "n1", "1"), ("b", "n2", "2"), ("c", "n3", "2"), ("d", "n1", "1")]
    found = [(pod.name, pod.node_name, pod.requests.cpu_millicores) for pod in (made(*one) for one in given)]
    assert found == [("a", "n1", 1000.0), ("b", "n2", 2000.0), ("c", "n3", 2000.0), ("d", "n1", 1000.0)]


def test_no_part_keeps_the_text_of_the_answer() -> None:
    pod = builders.decoded(builders.pod_body("p", node="n", labels={"a": "b"}), listed.Pod)
    assert (bytes(pod.metadata.labels_text), bytes(pod.metadata.owners_text), pod.metadata.read) == (b"", b"", None)
    assert pod.labels["a"] == "b"
