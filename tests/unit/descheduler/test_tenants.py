"""Tenants who write pods, budgets and owners, or run a kubelet, cannot turn a plan against others."""

import pytest

from tests import builders
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import Scene

COST = "controller.kubernetes.io/pod-deletion-cost"
EVICTION_COST = "scheduling.koordinator.sh/eviction-cost"
LEAVING = {"deletionTimestamp": builders.CREATED}


def noisy_and_innocent() -> Scene:
    """A pod that uses far more than it requests and says that it must stay, beside one within its request."""
    scene = Scene().node("hot", memory=0.9).node("cool")
    wishes = {"evenload.io/filter": "off", "evenload.io/evictable": "false"}
    scene.workload("noisy", on=["hot", "cool"], gib=12, namespace="noisy", annotations=wishes)
    return scene.workload("innocent", on=["hot", "cool"], gib=10, memory="11Gi")


def test_a_neighbour_pays_for_no_namespace_that_may_not_opt_out() -> None:
    assert scenes.evicted(noisy_and_innocent().plan()) == ["innocent-0"]
    refusing = scenes.policy(protect={"optOut": {"exceptNamespaces": ["noisy"]}})
    assert scenes.evicted(noisy_and_innocent().plan(refusing)) == ["noisy-0"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, "over-0", id="though others fit better"),
        pytest.param({"priority": 1000}, "within-0", id="unless their priority is higher"),
    ],
)
def test_pods_over_their_request_go_first(spec: dict[str, object], expected: str) -> None:
    scene = Scene().node("hot", memory=0.9).node("cool")
    scene.workload("within", on=["hot", "cool"], gib=10, memory="10Gi")
    scene.workload("over", on=["hot", "cool"], gib=12, memory="10Gi", spec=spec)
    assert scenes.evicted(scene.plan()) == [expected]


@pytest.mark.parametrize("cost", [COST, EVICTION_COST])
def test_a_cost_says_nothing_about_pods_of_another_owner(cost: str) -> None:
    scene = Scene().node("hot", memory=0.9).node("cool")
    scene.workload("cheap", on=["hot", "cool"], gib=10, annotations={cost: "2147483646"})
    scene.workload("dear", on=["hot", "cool"], gib=12, annotations={cost: "-2147483648"})
    assert scenes.evicted(scene.plan()) == ["cheap-0"]


@pytest.mark.parametrize("others", [{}, {COST: "-9"}], ids=["beside one without", "beside one of another owner"])
@pytest.mark.parametrize(
    ("dear", "cheap"),
    [
        pytest.param({COST: "5", EVICTION_COST: "-1"}, {COST: "1"}, id="deletion cost"),
        pytest.param({COST: "5"}, {COST: "5", EVICTION_COST: "-1"}, id="then eviction cost"),
    ],
)
def test_of_one_owner_the_pod_with_the_lower_cost_goes_first(
    others: dict[str, str], dear: dict[str, str], cheap: dict[str, str]
) -> None:
    scene = (
        Scene().node("hot", memory=0.95).node("cool").node("cool2").workload("web", on=["cool", "cool2"], replicas=4)
    )
    for name, gib, costs in (("fits", 12, dear), ("spared", 14, cheap)):
        scene.pod(name, "hot", gib=gib, owner=("ReplicaSet", "web"), labels={"app": "web"}, annotations=costs)
    scene.workload("other", on=["hot", "cool"], gib=13, annotations=others)
    plan = scene.plan(scenes.policy(limits=scenes.UNCAPPED))
    assert scenes.evicted(plan) == ["spared"]


def test_an_owner_in_another_namespace_is_none() -> None:
    """The garbage collector deletes such a pod, but not at once; until then it must not count as somebody's replica."""
    scene = Scene().node("hot", memory=0.9).node("cool").workload("web", on=["cool"], replicas=2, ready=2)
    scene.pod("web-1", "cool", owner=("ReplicaSet", "web"), labels={"app": "web"}, metadata=LEAVING)
    scene.pod("forged", "hot", namespace="tenant", owner=("ReplicaSet", "web"), labels={"app": "web"})
    taken = scene.snapshot()
    standing = taken.standings()("uid-web")
    assert standing is not None
    assert standing.ready == 1
    assert scenes.causes(scene.plan()) == {"forged": "unknown_owner"}


def test_a_kubelet_that_hides_its_size_has_nobody_evicted_and_takes_nobody() -> None:
    """Its capacity is what it says; a node that says it has none is neither relieved nor a destination."""
    sizeless: dict[str, object] = {"capacity": {}, "allocatable": {}}
    scene = Scene().node("hot", memory=0.9).node("liar", memory=0.0, status=sizeless).node("cool")
    scene.workload("web", on=["hot", "cool", "cool"], gib=10)
    assert [one.destination for one in scene.plan().evictions] == ["cool"]


def test_a_kubelet_that_calls_its_pods_unready_keeps_what_remains_of_them_ready() -> None:
    """It can stop the relief of workloads that it runs replicas of; it can have none of their other pods leave."""
    unready = lambda body: body["status"]["conditions"].pop()  # noqa: E731
    scene = Scene().node("hot", memory=0.9).node("liar").node("cool").workload("web", on=["hot"], replicas=4, ready=4)
    for number in range(3):
        scene.pod(f"hidden-{number}", "liar", owner=("ReplicaSet", "web"), labels={"app": "web"}, mutate=unready)
    assert scenes.causes(scene.plan()) == {"web-0": "few_ready"}
