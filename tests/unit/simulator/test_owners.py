"""Workload controllers: who gets a successor, when, under which name, and what the owners' objects say of it."""

from typing import Any

import pytest

from kube import errors, kinds, objects
from kube.pods import compact
from policy.contract import owner_usage
from simulator.contention import Load
from simulator.scenario import Machine, Owner
from tests.unit.simulator import cities

EVICTED = 201


def deployed(count: int = 3, **fields: Any) -> cities.City:
    return cities.City([cities.owner(**fields)], cities.replicas(0, count)).arrive(*range(count))


def test_a_deployments_pods_run_under_a_replica_set_with_what_the_owner_asks_for() -> None:
    city = deployed(labels={"app": "web"}, annotations={"a": "b"}, priority=7)
    (deployment,), (replica_set,) = city.door.list(kinds.DEPLOYMENTS).items, city.door.list(kinds.REPLICA_SETS).items
    assert replica_set.owner is not None
    assert (replica_set.owner.kind, replica_set.owner.uid) == ("Deployment", deployment.uid)
    owned = [pod.owner for pod in city.pods()]
    assert [one.uid for one in owned if one] == [replica_set.uid] * 3
    pod = city.pods()[0]
    assert Load(pod.requests.cpu_millicores, pod.requests.memory_bytes) == cities.REQUESTS
    assert (pod.ready, pod.priority, pod.labels["app"], pod.annotations["a"]) == (True, 7, "web", "b")
    assert deployment.selector is not None
    assert deployment.selector.matches(pod.labels)


def test_the_owner_of_a_replica_set_is_told_by_its_name_as_in_a_real_cluster() -> None:
    (pod, *_) = deployed().pods()
    assert pod.owner is not None
    assert owner_usage.owner_key("shop", pod.owner.kind, pod.owner.name) == "shop/ReplicaSet/web"


def test_owners_count_their_pods_as_they_come_and_go() -> None:
    city = cities.City([cities.owner()], cities.replicas(0, 2))
    city.owners.arrive(0)
    city.owners.arrive(1)

    def counts() -> list[tuple[int, int, int]]:
        found = (*city.door.list(kinds.DEPLOYMENTS).items, *city.door.list(kinds.REPLICA_SETS).items)
        return [(one.spec_replicas, one.status.replicas, one.status.ready_replicas) for one in found]

    assert counts() == [(2, 2, 0)] * 2
    city.wait(1)
    assert counts() == [(2, 2, 2)] * 2
    city.evict(city.pods()[0])
    assert counts() == [(2, 2, 1)] * 2
    city.owners.leave(0)
    assert counts() == [(1, 1, 1)] * 2


def test_an_evicted_pod_has_a_successor_in_its_place_at_once_and_is_gone_after_its_grace() -> None:
    city = deployed(1)
    (pod,) = city.pods()
    assert city.evict(pod) == EVICTED
    (successor,) = city.living()
    assert (successor.name != pod.name, successor.uid != pod.uid) == (True, True)
    assert (city.owners.replica_of(successor.key), city.owners.replica_of(pod.key)) == (0, 0)
    city.wait(cities.GRACE_SECONDS - 1)
    assert len(city.pods()) == 2
    city.wait(1)
    assert [one.name for one in city.pods()] == [successor.name]
    assert city.owners.replica_of(pod.key) is None


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_what_has_an_identity_comes_back_when_the_old_one_is_gone(kind: str) -> None:
    places = cities.replicas(0, 1, node="node-1" if kind == "DaemonSet" else "")
    city = cities.City([cities.owner("db", kind)], places).arrive(0)
    (pod,) = city.pods()
    city.evict(pod)
    assert (city.living(), len(city.pods())) == ([], 1)
    (successor,) = city.wait(cities.GRACE_SECONDS).pods()
    assert successor.uid != pod.uid
    assert successor.node_name == ("node-1" if kind == "DaemonSet" else "node-0")
    assert (successor.name == pod.name) is (kind == "StatefulSet")
    assert successor.is_daemonset is (kind == "DaemonSet")


def test_a_bare_pod_has_no_successor() -> None:
    city = cities.City([cities.owner("alone", "")], cities.replicas(0, 1)).arrive(0)
    (pod,) = city.pods()
    assert (pod.name, pod.owner) == ("alone", None)
    city.evict(pod)
    assert city.wait(cities.GRACE_SECONDS).pods() == []


def test_a_job_that_is_done_ends_with_success_and_takes_its_objects_along() -> None:
    city = cities.City([cities.owner("batch", "Job")], cities.replicas(0, 1)).arrive(0)
    phases: list[str] = []
    city.api.subscribe(compact.PODS, lambda _old, new: phases.append(new.status.phase if new else "gone"))
    city.owners.leave(0)
    assert phases == ["Succeeded", "gone"]
    assert city.door.list(kinds.JOBS).items == ()


def test_a_replica_that_leaves_takes_its_pod_and_the_last_one_its_owner_along() -> None:
    city = deployed(2, min_available=1)
    city.owners.leave(0)
    assert (len(city.living()), len(city.door.list(kinds.DEPLOYMENTS).items)) == (1, 1)
    city.owners.leave(1)
    assert city.living() == []
    above: tuple[kinds.Kind[Any], ...] = (kinds.DEPLOYMENTS, kinds.REPLICA_SETS, kinds.BUDGETS)
    assert [city.door.list(kind).items for kind in above] == [(), (), ()]
    assert city.wait(cities.GRACE_SECONDS).pods() == []
    assert len(city.arrive(0).pods()) == 1


def test_replicas_of_one_name_that_ask_for_different_amounts_are_versions_of_one_deployment() -> None:
    new = Owner("shop", "web", Load(500.0, 2.0**30))
    places = (*cities.replicas(0, 1), *cities.replicas(1, 1))
    city = cities.City([cities.owner(), new], places).arrive(0, 1)
    (deployment,) = city.door.list(kinds.DEPLOYMENTS).items
    assert (deployment.spec_replicas, len(city.door.list(kinds.REPLICA_SETS).items)) == (2, 2)
    city.owners.leave(0)
    assert len(city.door.list(kinds.REPLICA_SETS).items) == 1


def test_a_custom_kind_is_served_with_its_scale() -> None:
    city = cities.City([cities.owner("fleet", "GameServerSet")], cities.replicas(0, 2)).arrive(0, 1)
    (pod, _) = city.pods()
    assert pod.owner is not None
    served = city.door.resources(pod.owner.api_version)
    plural = next(one.name for one in served if one.kind == "GameServerSet" and "/" not in one.name)
    kind = kinds.Kind(f"apis/{pod.owner.api_version}", plural, "GameServerSet", objects.Scale)
    scale = city.door.scale(kind, "fleet", namespace="shop")
    assert (scale.spec.replicas, scale.status.replicas, scale.uid) == (2, 2, pod.owner.uid)


def test_pods_go_with_their_node_and_come_back_elsewhere_but_a_daemons_with_the_node_only() -> None:
    owning = [cities.owner(), cities.owner("agent", "DaemonSet")]
    places = (*cities.replicas(0, 2), *cities.replicas(1, 1, node="node-0"))
    city = cities.City(owning, places).arrive(0, 1, 2)
    assert {pod.node_name for pod in city.pods()} == {"node-0"}
    city.nodes.leave("node-0")
    assert [pod.node_name for pod in city.wait(1).pods()] == ["node-1"] * 2
    city.nodes.join(Machine("node-0", Load(8000.0, 32 * 2.0**30)))
    assert sorted(pod.node_name for pod in city.wait(1).pods()) == ["node-0", "node-1", "node-1"]


def test_a_machine_is_a_ready_node_of_its_size_with_its_labels_and_taints() -> None:
    city = cities.City([], [], machines=0)
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    machine = Machine("big", Load(64_000.0, 2.0**38), 200, {"zone": "a"}, (taint,))
    city.nodes.join(machine)
    node = city.door.get(kinds.NODES, "big")
    assert (node.allocatable.cpu_millicores, node.allocatable.memory_bytes, node.allocatable.pods) == (
        64e3,
        2.0**38,
        200,
    )
    assert (node.ready, node.labels["zone"], node.taints[0].key) == (True, "a", "gpu")
    assert node.addresses[0].address == "172.16.0.1"
    with pytest.raises(errors.Conflict):
        city.nodes.join(machine)
