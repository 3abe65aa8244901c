"""Small clusters for the descheduler's tests: nodes with loads, workloads with pods, and the snapshot of all of it.

    scene = scenes.Scene().node("hot", memory=0.9).node("cool", memory=0.2).workload("web", on=["hot", "hot", "cool"])
    plan = scene.plan()

Everything is fresh at NOW, pods are old enough, and nodes have 8 cores and 32 GiB, unless the scene says otherwise.
"""

import dataclasses
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from descheduler.planning import overload, planner
from descheduler.planning.overload import Memory, Overload
from descheduler.planning.plans import ConsideredPod, EvictionPlan
from descheduler.snapshot import workloads
from descheduler.snapshot.eviction_history import History
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.snapshot import Snapshot
from descheduler.snapshot.usage import NodeUsage, PodUsage
from kube import objects
from policy.schema.load_policy import LoadPolicy
from runtime import clock
from tests import builders, clocks

NOW = clocks.START_SECONDS
GIB = float(2**30)
CORES, NODE_GIB = 8.0, 32.0
UNCAPPED = dict.fromkeys(
    ("perRun", "perNode", "perNamespace", "perWorkload", "unreplaced", "unreplacedPerNamespace"), 20
)
READING = dict[str, float]
T = TypeVar("T", bound=objects.IdentifiedObject)


def policy(**descheduler: object) -> LoadPolicy:
    """The default policy with these keys of the `descheduler` section, in the file's own shape."""
    return LoadPolicy.of({"descheduler": descheduler})


@dataclasses.dataclass
class Scene:
    """A cluster in the making; every method adds and returns the scene."""

    nodes: dict[str, objects.Node] = dataclasses.field(default_factory=dict)
    readings: dict[str, READING] = dataclasses.field(default_factory=dict)
    pods: list[objects.Pod] = dataclasses.field(default_factory=list)
    used: dict[str, PodUsage] = dataclasses.field(default_factory=dict)
    owners: list[objects.ReplicaSet] = dataclasses.field(default_factory=list)
    controllers: list[workloads.Controller] = dataclasses.field(default_factory=list)  # of other kinds
    custom: dict[str, workloads.Workload] = dataclasses.field(default_factory=dict)
    budgets: list[objects.DisruptionBudget] = dataclasses.field(default_factory=list)
    volumes: dict[str, objects.PersistentVolume] = dataclasses.field(default_factory=dict)
    attach_limits: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)
    struct: type[objects.Pod] = objects.Pod  # or that of `interned_pods`, as a run has them

    def node(self, name: str, *, memory: float = 0.1, cpu: float = 0.1, **fields: Any) -> "Scene":
        """A node with its 5-minute readings, as high for an hour; `fields` are those of builders.node."""
        self.nodes[name] = builders.node(name, **fields)
        self.readings[name] = {"memory_avg_5m": memory, "cpu_avg_5m": cpu, "memory_max_1h": memory, "cpu_max_1h": cpu}
        return self

    def reading(self, node: str, **ratios: float) -> "Scene":
        """Further readings of a node."""
        self.readings[node].update(ratios)
        return self

    def workload(
        self,
        name: str,
        *,
        on: Sequence[str],
        gib: float = 4.0,
        cores: float = 0.5,
        replicas: int | None = None,
        ready: int | None = None,
        **fields: Any,
    ) -> "Scene":
        """A ReplicaSet with a pod "<name>-<i>" on each node named, using so much; `fields` go to builders.pod."""
        labels = {"app": name}
        namespace = fields.get("namespace", "default")
        wanted = len(on) if replicas is None else replicas
        self.owners.append(builders.replica_set(name, namespace=namespace, replicas=wanted, ready=ready, labels=labels))
        given = {"labels": labels, "owner": ("ReplicaSet", name), **fields}
        for number, node in enumerate(on):
            self.pod(f"{name}-{number}", node, gib=gib, cores=cores, **given)
        return self

    def pod(self, name: str, node: str, *, gib: float = 4.0, cores: float = 0.5, **fields: Any) -> "Scene":
        """One pod with its usage."""
        made = builders.decoded(builders.pod_body(name, node=node, **fields), self.struct)
        self.pods.append(made)
        self.used[made.key] = PodUsage(made.key, cores * 1000, gib * GIB, NOW - 10)
        return self

    def controller(self, controller: workloads.Controller) -> "Scene":
        """A controller of another kind than ReplicaSet, whose pods are added one by one."""
        self.controllers.append(controller)
        return self

    def budget(self, name: str, *, allowed: int, **fields: Any) -> "Scene":
        """A budget over app=<name>."""
        self.budgets.append(builders.budget(name, allowed=allowed, labels={"app": name}, **fields))
        return self

    def shuffled(self, rng: random.Random) -> "Scene":
        """The same cluster listed in another order."""
        nodes, readings = list(self.nodes.items()), list(self.readings.items())
        pods, owners, budgets = list(self.pods), list(self.owners), list(self.budgets)
        for listed in (nodes, readings, pods, owners, budgets):
            rng.shuffle(listed)
        return dataclasses.replace(
            self, nodes=dict(nodes), readings=dict(readings), pods=pods, owners=owners, budgets=budgets
        )

    def snapshot(self) -> Snapshot:
        """The scene at NOW."""
        return Snapshot(
            at_seconds=NOW,
            nodes=tuple(self.nodes.values()),
            pods=tuple(self.pods),
            budgets=tuple(self.budgets),
            workloads=workloads.Index([*self.owners, *self.controllers], self.custom),
            node_usage={name: NodeUsage(name, ratios, NOW - 10) for name, ratios in self.readings.items()},
            pod_usage=dict(self.used),
            volumes=self.volumes,
            attach_limits=self.attach_limits,
            namespaces=self.namespaces,
        )

    def overloads(self, obeyed: LoadPolicy) -> tuple[Overload, ...]:
        """Every node over a line, as if it had been so for as long as the policy asks."""
        usages, policies = self.snapshot().node_usage, NodePolicies(obeyed, self.nodes.values())
        over = {
            (node, name)
            for node in usages
            for name, band in policies.bands(node).items()
            if self.readings[node].get(name, 0.0) > band.evict_above_ratio
        }
        return overload.confirmed(Memory(relieving=dict.fromkeys(over, NOW)), usages, policies, now_seconds=NOW)

    def plan(self, obeyed: LoadPolicy | None = None, history: History | None = None, **snapshot: Any) -> EvictionPlan:
        """The plan for the scene, of whose snapshot these fields are others."""
        obeyed, taken = obeyed or policy(), dataclasses.replace(self.snapshot(), **snapshot)
        return planner.plan(taken, self.overloads(obeyed), NodePolicies(obeyed, taken.nodes), history or History())


def bound_ago(seconds: float) -> builders.Mutator:
    """A mutator that binds a pod so long before NOW."""
    at = clock.to_rfc3339(NOW - seconds)
    return lambda body: body["status"]["conditions"][0].update(lastTransitionTime=at)


def owned_by(kind: str, name: str, uid: str = "", api_version: str = "apps/v1") -> builders.Mutator:
    """A mutator that has this control an object."""
    owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid or f"uid-{name}", "controller": True}
    return lambda body: body["metadata"].update(ownerReferences=[owner])


def controller(
    kind: type[T], name: str, *, replicas: int, ready: int | None = None, uid: str = "", **spec: object
) -> T:
    """A Deployment, StatefulSet or Scale, all replicas ready unless said otherwise."""
    serving = replicas if ready is None else ready
    body: builders.Body = {
        "metadata": {"name": name, "namespace": "default", "uid": uid or f"uid-{name}"},
        "spec": {"replicas": replicas, **spec},
        "status": {
            **dict.fromkeys(("replicas", "updatedReplicas"), replicas),
            **dict.fromkeys(("readyReplicas", "availableReplicas"), serving),
        },
    }
    return builders.decoded(body, kind)


def hot_and_cool(**workload: Any) -> Scene:
    """A node at 90 % memory with two of three pods of `web`, and a cool one with the third."""
    return Scene().node("hot", memory=0.9).node("cool").workload("web", on=["hot", "hot", "cool"], **workload)


def beside_two(**pod: Any) -> Scene:
    """A pod "it" of `web` on a hot node, and the two others on a cool one."""
    scene = Scene().node("hot", memory=0.9).node("cool").workload("web", on=["cool", "cool"], replicas=3)
    return scene.pod("it", "hot", owner=("ReplicaSet", "web"), **pod)


def crowd(names: Iterable[str] = "wxyz", *, gib: float = 2.0, **fields: Any) -> Scene:
    """A node at 99 % memory with a pod of each workload, and two cool nodes, one with the second pod of each."""
    scene = Scene().node("hot", memory=0.99).node("cool").node("cool2")
    for name in names:
        scene.workload(name, on=["hot", "cool"], gib=gib, **{"memory": "1Gi", **fields})
    return scene


def judged(plan: EvictionPlan) -> Mapping[str, ConsideredPod]:
    """Every candidate of the plan by pod name."""
    return {one.pod.name: one for node in plan.nodes for one in node.candidates}


def causes(plan: EvictionPlan) -> dict[str, str]:
    """Every candidate's cause by pod name."""
    return {name: str(one.verdict.cause) for name, one in judged(plan).items()}


def evicted(plan: EvictionPlan) -> list[str]:
    """The names of the pods to evict, in order."""
    return [one.pod.name for one in plan.evictions]
