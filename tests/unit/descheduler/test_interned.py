"""The pod of a snapshot says to every rule what the whole one says, and equal parts are one object."""

from typing import Any

import hypothesis
import msgspec
import pytest

from descheduler.snapshot import interned_pods, pod_annotations
from kube import objects
from tests import builders
from tests.unit.descheduler import scenes
from tests.unit.descheduler.test_plan_placements import Drawn, clusters, planned
from tests.unit.descheduler.test_protections import set_spec


def restarted(body: builders.Body) -> None:
    """A mutator: a pod of a Job whose containers were started again in place."""
    body["spec"]["restartPolicy"] = "OnFailure"
    body["status"].update(containerStatuses=[{"restartCount": 2}], initContainerStatuses=[{"restartCount": 1}])


def interned(name: str = "p", **fields: Any) -> interned_pods.Pod:
    """A pod as a snapshot has it; `fields` are those of builders.pod_body."""
    return builders.decoded(builders.pod_body(name, **fields), interned_pods.Pod)


LEFT_OUT = {"resource_version", "annotations", "volumes"}  # nobody's, and those of which some are kept
SAID = sorted(
    {name for name in dir(objects.Pod) if not name.startswith("_")} - LEFT_OUT - {"spec", "metadata", "status"}
)
BODIES = {
    **builders.pod_stages(),
    "a bare one with labels": builders.pod_body("p", owner=None, labels={"a": "b", "c": "d"}),
    "a mirror": builders.mirror_body(),
    "one that restarts": builders.pod_body("p", node="n", mutate=restarted),
    "one of a DaemonSet": builders.pod_body("p", node="n", owner=("DaemonSet", "agent")),
    "one of an owner that cannot be": builders.pod_body("p", node="n", owner=("Roll out", "..")),
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
            workloadRef={"name": "train"},
            restartPolicy="OnFailure",
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
    short, whole = builders.decoded(body, interned_pods.Pod), builders.decoded(body, objects.Pod)
    names = [name for name in SAID if not callable(getattr(whole, name))]
    assert len(names) > 25
    assert {name: getattr(short, name) for name in names} == {name: getattr(whole, name) for name in names}


def test_of_annotations_and_volumes_what_a_rule_reads_is_kept() -> None:
    read = {
        "evenload.io/evictable": "false",
        "descheduler.alpha.kubernetes.io/evictable": "true",
        "evenload.io/filter": "off",
        "controller.kubernetes.io/pod-deletion-cost": "3",
        "scheduling.koordinator.sh/eviction-cost": "-4",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": ",".join(f"volume-{at}" for at in range(50)),
        "batch.kubernetes.io/job-index-failure-count": "1",
        "karpenter.sh/do-not-disrupt": "2h30m",
        "descheduler.alpha.kubernetes.io/prefer-no-eviction": "",
        "descheduler.alpha.kubernetes.io/eviction-in-progress": "kubevirt",
        "kubernetes.io/config.source": "file",
        **dict.fromkeys(pod_annotations.GROUPS, "g"),
    }
    ties = [
        {"name": "a", "hostPath": {"path": "/x"}},
        {"name": "b", "emptyDir": {"medium": "Memory"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "d", "ephemeral": {}},
        {"name": "e", "kindToCome": {}},
    ]
    volumes = [*ties, {"name": "kube-api-access-x7k2p", "projected": {}}]
    pod = interned(annotations={**read, "checksum": "c" * 64}, mutate=set_spec(volumes=volumes))
    assert pod.annotations == read
    assert [volume.name for volume in pod.spec.volumes] == ["a", "b", "c", "d", "e"]
    assert [volume.name for volume in pod.spec.volumes if not volume.is_known] == ["e"]


def test_a_list_that_is_too_long_is_left_out_and_not_cut() -> None:
    key = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
    pod = interned(annotations={key: "a" * 513, "evenload.io/evictable": "false" * 50})
    assert pod.annotations == {"evenload.io/evictable": ("false" * 50)[:64]}


def test_equal_parts_are_one_object() -> None:
    first, second = (interned(name, node="n") for name in ("a", "b"))
    assert first.labels is second.labels
    assert first.metadata.owner_references is second.metadata.owner_references
    assert first.spec.containers is second.spec.containers
    assert first.requests is second.requests


@hypothesis.settings(max_examples=60)
@hypothesis.given(clusters())
def test_a_plan_is_the_same_as_by_whole_pods(drawn: Drawn) -> None:
    by_whole = scenes.judged(planned(drawn))
    drawn.scene.pods = [
        msgspec.json.decode(msgspec.json.encode(pod), type=interned_pods.Pod) for pod in drawn.scene.pods
    ]
    by_listed = scenes.judged(planned(drawn))
    assert {name: one.verdict for name, one in by_listed.items()} == {
        name: one.verdict for name, one in by_whole.items()
    }


def test_pods_of_the_same_owners_with_other_specs_are_told_apart() -> None:
    def pod_of(name: str, node: str, cpu: str) -> interned_pods.Pod:
        containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
        return interned(name, node=node, mutate=set_spec(containers=containers))

    given = [("a", "n1", "1"), ("b", "n2", "2"), ("c", "n3", "2"), ("d", "n1", "1")]
    found = [(pod.name, pod.node_name, pod.requests.cpu_millicores) for pod in (pod_of(*one) for one in given)]
    assert found == [("a", "n1", 1000.0), ("b", "n2", 2000.0), ("c", "n3", 2000.0), ("d", "n1", 1000.0)]


def test_no_part_keeps_the_text_of_the_answer() -> None:
    pod = interned(node="n", labels={"a": "b"})
    assert (bytes(pod.metadata.labels_text), bytes(pod.metadata.owners_text), pod.metadata.read) == (b"", b"", None)
    assert pod.labels["a"] == "b"


TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
SPREAD = {"maxSkew": 1, **TERM}
CLAIM = {"persistentVolumeClaim": {"claimName": "data"}}
EXPRESSION = {"key": "disk", "operator": "In", "values": ["ssd"]}


def repelling(count: int) -> builders.Body:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM] * count}}


def choosing(count: int) -> builders.Body:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [EXPRESSION] * count}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


OVERSIZED = {
    "anti-affinity": (set_spec(affinity=repelling(5000)), "10000 rules about other pods"),
    "spread constraints": (set_spec(topologySpreadConstraints=[SPREAD] * 5000), "10000 rules about other pods"),
    "node affinity": (set_spec(affinity=choosing(5000)), "5001 rules about nodes"),
    "node selector": (set_spec(nodeSelector={f"k{at}": "v" for at in range(5000)}), "5000 rules about nodes"),
    "tolerations": (set_spec(tolerations=[{"operator": "Exists"}] * 5000), "5000 tolerations"),
    "volumes": (set_spec(volumes=[{"name": f"v{at}", **CLAIM} for at in range(5000)]), "5000 volumes"),
    "long values": (set_spec(nodeSelector={"k": "v" * 100_000}), "spec of "),
    "labels": (lambda body: body["metadata"].update(labels={f"k{at}": "v" for at in range(5000)}), "labels"),
    "an owner": (lambda body: body["metadata"]["ownerReferences"][0].update(name="x" * 1000), "owner"),
}


@pytest.mark.parametrize(("mutate", "left_out"), OVERSIZED.values(), ids=OVERSIZED)
def test_a_pod_that_says_too_much_stays_where_it_is_and_costs_the_others_nothing(
    mutate: builders.Mutator, left_out: str
) -> None:
    scene = scenes.hot_and_cool()
    greedy = interned("greedy", node="hot", cpu="300m", labels={"app": "web"}, mutate=mutate)
    assert greedy.left_out.startswith(left_out)
    assert greedy.requests.cpu_millicores == 300
    assert len(repr(greedy)) < 40_000
    scene.pods.append(greedy)
    found = scenes.judged(scene.plan())
    assert str(found["greedy"].verdict).startswith(f"oversized: {left_out}")
    assert str(found["web-0"].verdict.cause) == "chosen"


def test_rules_of_usual_numbers_are_taken_in() -> None:
    many = set_spec(affinity={**repelling(60), **choosing(100)}, tolerations=[{"operator": "Exists"}] * 100)
    pod = interned(node="n", mutate=many)
    assert pod.left_out == ""
    assert len(pod.tolerations) == 100


def test_pods_with_more_containers_than_a_node_starts_request_nothing_that_is_added_up() -> None:
    many = set_spec(containers=[{"name": f"c{at}", "resources": {"requests": {"cpu": "1"}}} for at in range(5000)])
    pod = interned(node="n", mutate=many)
    assert (pod.left_out[:8], pod.requests, pod.spec.containers) == ("spec of ", objects.NOTHING, ())
