import numpy as np

from kube import objects
from kube_scheduler import pod_requests
from simulator.scheduling import scoring
from simulator.scheduling.state import State
from tests import builders
from tests.unit.simulator.scheduling import cases
from tests.unit.simulator.scheduling.cases import HOST, ZONE, bound, pending, spec


def parts(
    nodes: list[objects.Node], pod: objects.Pod, pods: list[objects.Pod], *, owner: objects.ReplicaSet | None = None
) -> dict[str, list[int]]:
    state = State()
    for node in nodes:
        state.node_changed(None, node)
    for one in pods:
        state.pod_changed(None, one)
    if owner is not None:
        state.selectors[owner.namespace, "ReplicaSet", owner.name] = objects.LabelSelector({"app": "web"})
    rows = np.array([state.columns.rows[node.name] for node in nodes], np.int64)
    found = scoring.parts(state, pod, pod_requests.of_pod(pod), rows)
    return {plugin: points.tolist() for plugin, points in found.items()}


def test_the_weights_are_those_of_the_default_profile() -> None:
    assert scoring.WEIGHTS == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "NodeResourcesBalancedAllocation": 1,
    }


def test_what_is_left_counts_with_defaults_for_pods_that_name_nothing() -> None:
    def silent(body: builders.Body) -> None:
        body["spec"]["containers"] = [{"name": "main"}]

    nodes = [builders.node(name, cpu="1", memory="1000Mi") for name in ("a", "b")]
    found = parts(nodes, pending(mutate=silent), [bound("old", "b", mutate=silent)])
    # a: (90 + 80) // 2; b: (80 + 60) // 2
    assert found["NodeResourcesFit"] == [85, 70]
    assert "NodeResourcesBalancedAllocation" not in found


def test_balance_counts_what_the_pod_changes() -> None:
    nodes = [builders.node(name, cpu="1", memory="1000Mi") for name in ("a", "b")]
    found = parts(nodes, pending(cpu="400m", memory="100Mi"), [bound("old", "b", cpu="0", memory="300Mi")])
    # a: 85 with, 100 without; b: both 40 % with, 85 without
    assert found["NodeResourcesBalancedAllocation"] == [50 + (50 + 85 - 100) // 2, 50 + (50 + 100 - 85) // 2]


def test_a_node_that_lacks_a_resource_is_judged_by_the_other() -> None:
    nodes = [builders.node("a", cpu="1", memory="0")]
    found = parts(nodes, pending(cpu="400m", memory="0"), [])
    assert found["NodeResourcesFit"] == [60]
    assert found["NodeResourcesBalancedAllocation"] == [75]


def test_fewer_soft_taints_are_better() -> None:
    def taints(number: int) -> builders.Mutator:
        several = [{"key": f"old-{one}", "effect": "PreferNoSchedule"} for one in range(number)]
        return lambda body: body["spec"].update(taints=several)

    nodes = [builders.node(str(number), mutate=taints(number)) for number in range(4)]
    assert parts(nodes, pending(), [])["TaintToleration"] == [100, 67, 34, 0]
    tolerant = pending(mutate=spec(tolerations=[{"key": "old-0", "operator": "Exists"}]))
    assert parts(nodes, tolerant, [])["TaintToleration"] == [100, 100, 50, 0]


def test_preferred_node_affinity_adds_up_and_the_most_is_100() -> None:
    def likes(label: str, weight: int) -> dict[str, object]:
        return {"weight": weight, "preference": {"matchExpressions": [{"key": label, "operator": "Exists"}]}}

    empty = {"weight": 50, "preference": {}}
    preferred = [likes("ssd", 10), likes("new", 20), empty]
    pod = pending(
        mutate=spec(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})
    )
    nodes = [
        builders.node("a"),
        builders.node("b", labels={"ssd": ""}),
        builders.node("c", labels={"new": "", "ssd": ""}),
    ]
    assert parts(nodes, pod, [])["NodeAffinity"] == [0, 33, 100]
    assert "NodeAffinity" not in parts(nodes, pending(), [])


def test_preferred_neighbours_attract_and_repel_both_ways() -> None:
    nodes = [builders.node(name) for name in ("a", "b", "c")]
    db = bound("db", "a", labels={"app": "db"})
    assert parts(nodes, pending(mutate=cases.near("db", weight=5)), [db])["InterPodAffinity"] == [100, 0, 0]
    assert parts(nodes, pending(mutate=cases.near("db", weight=5, anti=True)), [db])["InterPodAffinity"] == [
        0,
        100,
        100,
    ]
    fond = bound("fond", "b", labels={"app": "db"}, mutate=cases.near("web", weight=2))
    shy = bound("shy", "c", labels={"app": "db"}, mutate=cases.near("web", weight=2, anti=True))
    tied = bound("tied", "a", labels={"app": "db"}, mutate=cases.near("web"))
    assert parts(nodes, pending(), [fond, shy, tied])["InterPodAffinity"] == [75, 100, 0]
    assert "InterPodAffinity" not in parts(nodes, pending(), [db])


def test_pods_of_an_owner_are_spread_over_hosts_and_zones_by_default() -> None:
    nodes = [builders.node(name, labels={ZONE: zone}) for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"))]
    nodes.append(builders.node("homeless"))
    pods = [bound("1", "a1"), bound("2", "a1"), bound("3", "b1")]
    owner = builders.replica_set()
    found = parts(nodes, pending(owner=("ReplicaSet", "web")), pods, owner=owner)
    # ln 6 x hosts + 2, ln 5 x zones + 4 (three domains: a, b and none): 12.8, 9.2, 9.4 and 2, rounded
    assert found["PodTopologySpread"] == [100 * (13 + 2 - raw) // 13 for raw in (13, 9, 9, 2)]
    assert "PodTopologySpread" not in parts(nodes, pending(owner=("ReplicaSet", "other")), pods, owner=owner)


def test_a_soft_rule_gives_nothing_to_nodes_without_its_label() -> None:
    nodes = [builders.node(name, labels={ZONE: name}) for name in ("a", "b")] + [builders.node("homeless")]
    found = parts(nodes, pending(mutate=cases.spread(ZONE, hard=False)), [bound("1", "a"), bound("2", "a")])
    # ln 4 x 2 = 2.77 and 0
    assert found["PodTopologySpread"] == [0, 100, 0]
    alone = parts(nodes, pending(mutate=cases.spread(ZONE, hard=False)), [])
    assert alone["PodTopologySpread"] == [100, 100, 0]


def test_a_rule_that_selects_everybody_counts_nobody() -> None:
    nodes = [builders.node("a"), builders.node("b")]
    rule = cases.spread(HOST, hard=False, labelSelector={})
    assert parts(nodes, pending(mutate=rule), [bound("1", "a")])["PodTopologySpread"] == [100, 100]
