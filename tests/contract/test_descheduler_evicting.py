"""Evictions held to the real apiserver: budgets answer 429, dry runs change nothing.

Run as the descheduler's own service account under deploy/rbac/descheduler.yaml, so that the same calls prove its
rights.
"""

import contextlib
import pathlib
import random
import uuid
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import pytest

from descheduler.eviction import followup
from descheduler.eviction.eviction_events import CONTROLLER, EventPublisher
from descheduler.eviction.evictor import EvictionOutcome, Evictor, ExecutionContext
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import Query, Run
from descheduler.planning import planner
from descheduler.planning.overload import Overload
from descheduler.planning.plans import Eviction, EvictionPlan, NodePlan
from descheduler.snapshot import interned_pods, scaled_owners, usage
from descheduler.snapshot.cluster_reader import Reader
from descheduler.snapshot.cluster_watch import ClusterView, ClusterWatch
from descheduler.snapshot.eviction_history import History
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.snapshot import Snapshot
from descheduler.snapshot.usage import PodUsage
from descheduler.snapshot.workloads import Workload
from descheduler.sources.prometheus import PrometheusUsage
from kube import events, kinds, objects
from kube.door import KubeDoor, ScalesDoor
from lab import cluster
from lab.cluster import api as cluster_api
from policy.contract import relief_hint
from policy.schema import load_policy
from promql.errors import PromqlError
from promql.http import client as prometheus
from promql.queries import identity
from runtime import clock
from tests.e2e import bodies, policies, waiting

pytestmark = pytest.mark.cluster
CREW = {"plural": "crews", "singular": "crew", "kind": "Crew"}
DEFINITIONS = "apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[Ledger]:
    """An open, empty ledger."""
    opened = Ledger(tmp_path / "ledger.sqlite").open()
    yield opened
    opened.close()


class Evict(NamedTuple):
    """Carries out a plan of one eviction, made by hand so that the planner's own care is not what saves the pod."""

    descheduler: KubeDoor
    admin: KubeDoor
    ledger: Ledger

    def __call__(self, pod: objects.Pod, *, mode: str = "Enforce") -> EvictionOutcome:
        """Evicts a pod, whatever it is, with the descheduler's own last step."""
        wall = clock.WallClock()
        writer = events.EventWriter(self.descheduler, controller=CONTROLLER, instance="test", clock=wall)
        announcer = EventPublisher(writer, self.ledger, wall)
        run = Run(uuid.uuid4().hex[:8], wall.now(), mode, "9c1e")
        terms = ExecutionContext(run, 600.0, lambda _: True, lambda _: "")
        plan = by_hand(pod, self.admin.get(kinds.NODES, pod.node_name))
        (outcome,) = Evictor(self.descheduler, self.ledger, announcer, clock=wall).carry_out(plan, terms)
        return outcome


@pytest.fixture
def evict(descheduler: KubeDoor, admin: KubeDoor, ledger: Ledger) -> Evict:
    """An eviction by the descheduler's own parts, under its rights."""
    return Evict(descheduler, admin, ledger)


def by_hand(pod: objects.Pod, node: objects.Node) -> EvictionPlan:
    """A plan that evicts this pod."""
    overload = Overload(node.name, "memory_avg_5m", 0.9, 0.8, 0.6, 0.0)
    owner = pod.owner
    assert owner is not None
    workload = Workload(owner.kind, pod.namespace, owner.name, owner.uid, 3, 3)
    used = PodUsage(pod.key, 100.0, 2**30, 0.0)
    eviction = Eviction(pod, workload, overload, used, 0.9, 0.8, "elsewhere", 0.3, "")
    return EvictionPlan(0.0, (NodePlan(node, (overload,), {}),), (eviction,))


def running_pods(admin: KubeDoor, namespace: str, count: int = 3) -> list[objects.Pod]:
    """Waits until so many pods of the namespace are ready and not leaving."""

    def matching() -> list[objects.Pod]:
        pods = [pod for pod in admin.list(kinds.PODS, namespace=namespace).items if pod.ready and not pod.deleting]
        return pods if len(pods) == count else []

    return waiting.until(matching, f"{count} pods of {namespace} to be ready")


@pytest.fixture
def pod(admin: KubeDoor, namespace: str) -> objects.Pod:
    """One of three ready pods of a Deployment `web`."""
    admin.create(kinds.DEPLOYMENTS, bodies.deployment("web", 3), namespace=namespace)
    return running_pods(admin, namespace)[0]


def budgeted(admin: KubeDoor, namespace: str) -> None:
    """A budget that wants all of `web`, once the disruption controller has computed that it allows none to leave."""
    admin.create(kinds.BUDGETS, bodies.budget("web", 3), namespace=namespace)

    def computed() -> bool:
        (budget,) = admin.list(kinds.BUDGETS, namespace=namespace).items
        return budget.is_current and budget.status.disruptions_allowed == 0

    waiting.until(computed, "the budget to allow none")


def recorded_events(admin: KubeDoor, namespace: str, reason: str) -> list[Any]:
    """Our Events of a namespace with that reason, through events.k8s.io."""
    return list(admin.list(kinds.EVENTS, namespace=namespace, field_selector=f"reason={reason}").items)


def test_an_eviction_is_carried_out_recorded_told_and_hinted(
    admin: KubeDoor, evict: Evict, ledger: Ledger, pod: objects.Pod
) -> None:
    outcome = evict(pod)
    assert (outcome.result, outcome.answer.status) == ("evicted", 201)
    assert pod.uid not in {one.uid for one in running_pods(admin, pod.namespace)}, "three again: it was replaced"
    assert [(row.result, row.http_status) for row in ledger.rows(Query())] == [("evicted", 201)]
    by_kind = {one.regarding.kind: one for one in recorded_events(admin, pod.namespace, "NodeOverloaded")}
    assert set(by_kind) == {"Pod", "ReplicaSet"}, "and the Node, in the namespace default; by hand it has no Deployment"
    event = by_kind["Pod"]
    assert (event.regarding.name, event.regarding.uid, event.action) == (pod.name, pod.uid, "Evict")
    assert "memory_avg_5m 0.90 > 0.80" in event.note
    node_events = admin.list(kinds.EVENTS, namespace="default", field_selector="reason=NodeOverloaded").items
    assert any(pod.key in one.note for one in node_events)
    hint = relief_hint.decode(admin.get(kinds.NODES, pod.node_name).annotations.get(relief_hint.KEY))
    assert hint is not None
    assert pod.owner is not None
    assert pod.owner.uid in hint.untils_seconds


def test_the_apiservers_word_on_a_disruption_is_kept_while_the_pod_leaves(
    control_plane: cluster.Cluster,
    admin: KubeDoor,
    descheduler: ScalesDoor,
    evict: Evict,
    ledger: Ledger,
    namespace: str,
) -> None:
    admin.create(kinds.DEPLOYMENTS, bodies.deployment("web", 3, grace_seconds=30), namespace=namespace)
    pod = running_pods(admin, namespace)[0]
    kubelets = control_plane.processes["kwok"]
    kubelets.pause()
    try:
        assert evict(pod).result == "evicted"
        leaving = descheduler.list(interned_pods.PODS, namespace=namespace).items
        followup.follow(ledger, ledger.rows(Query()), leaving, now_seconds=clock.WallClock().now())
    finally:
        kubelets.resume()
    assert ledger.rows(Query())[0].disruption == "EvictionByEvictionAPI"


def test_a_budget_refuses_with_429_and_the_pod_stays(
    admin: KubeDoor, evict: Evict, ledger: Ledger, pod: objects.Pod
) -> None:
    budgeted(admin, pod.namespace)
    outcome = evict(pod)
    assert (outcome.result, outcome.answer.status) == ("refused", 429)
    assert "disruption budget" in outcome.answer.message
    assert pod.uid in {one.uid for one in running_pods(admin, pod.namespace)}
    assert [row.result for row in ledger.rows(Query())] == ["refused"]
    (event,) = recorded_events(admin, pod.namespace, "EvictionBlockedByPDB")
    assert event.type == "Warning"


def test_a_dry_run_asks_the_budget_and_changes_nothing(admin: KubeDoor, evict: Evict, pod: objects.Pod) -> None:
    assert evict(pod, mode="DryRun").result == "dry_run"
    assert pod.uid in {one.uid for one in running_pods(admin, pod.namespace)}
    budgeted(admin, pod.namespace)
    assert evict(pod, mode="DryRun").result == "refused"
    node = admin.get(kinds.NODES, pod.node_name)
    hint = relief_hint.decode(node.annotations.get(relief_hint.KEY))
    assert pod.owner is not None
    assert hint is None or pod.owner.uid not in hint.untils_seconds


def definition_body(group: str, *versions: str, names: dict[str, str] = CREW, **more: object) -> dict[str, object]:
    """A custom resource, `crews` without other names, of that group, with a scale, in these versions (`v1`): `v1` is
    stored.
    """
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {
        "served": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"status": {}, "scale": scale},
    }
    served = [{"name": name, "storage": name == "v1", **version} for name in versions or ("v1",)]
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": served, **more}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{group}"},
        "spec": spec,
    }


def serve(api: cluster_api.Api, group: str, *versions: str, names: dict[str, str] = CREW) -> None:
    """Makes a new kind, Crew without other names, of that API group, and waits until its `v1` is served."""

    def served() -> bool:
        """The objects, and the list of what there is: two controllers of the apiserver see to them."""
        try:
            api.get(f"apis/{group}/v1/{names['plural']}")
            return f"{names['plural']}/scale" in {one["name"] for one in api.get(f"apis/{group}/v1")["resources"]}
        except cluster_api.ApiError:  # 404, and 429 while the storage of the new kind is made
            return False

    api.create(DEFINITIONS, definition_body(group, *versions, names=names))
    waiting.until(served, "the new kind to be served")


def new_crew(api: cluster_api.Api, group: str, namespace: str, name: str) -> str:
    """Creates a Crew of three; its uid."""
    body = {"apiVersion": f"{group}/v1", "kind": "Crew", "metadata": {"name": name}, "spec": {"replicas": 3}}
    return str(api.create(f"apis/{group}/v1/namespaces/{namespace}/crews", body)["metadata"]["uid"])


@pytest.fixture
def group(control_plane: cluster.Cluster, namespace: str) -> Iterator[str]:
    """The API group of a new kind Crew."""
    name = f"{namespace}.evenload.test"
    serve(control_plane.api, name)
    yield name
    control_plane.api.delete(f"{DEFINITIONS}/crews.{name}")


def test_replicas_of_an_owner_of_somebody_elses_kind_are_counted_by_its_scale(
    control_plane: cluster.Cluster, descheduler: ScalesDoor, namespace: str, group: str
) -> None:
    uid = new_crew(control_plane.api, group, namespace, "web")
    reference = objects.OwnerReference(kind="Crew", name="web", uid=uid, api_version=f"{group}/v1", controller=True)
    gone = objects.OwnerReference(kind="Crew", name="no", uid="x", api_version=f"{group}/v1", controller=True)
    unserved = objects.OwnerReference(kind="X", name="no", uid="y", api_version="nowhere.test/v1", controller=True)
    asked = [scaled_owners.Custom(namespace, one) for one in (reference, gone, unserved)]
    matching = scaled_owners.workloads(descheduler, asked)
    expected = Workload("Crew", namespace, "web", uid, 3, 0, api_version=f"{group}/v1")
    assert matching == scaled_owners.ScaledOwner({uid: expected}, {})


def listed(door: ScalesDoor) -> ClusterView:
    """Everything in the cluster, read under the descheduler's rights."""
    watch = ClusterWatch(door, clock=clock.WallClock(), rng=random.Random(1))
    watch.begin_lists()
    return watch.view()


def taken_by(reader: Reader, policy: load_policy.LoadPolicy, overloaded: Collection[str]) -> Snapshot:
    """A snapshot of now, these nodes taken for overloaded."""
    view = reader.view()
    node_usage = reader.source.node_usage(view.nodes, policy)
    return reader.snapshot(view, node_usage, policy, overloaded, now_seconds=clock.WallClock().now())


def test_a_snapshot_of_the_real_cluster_is_fresh_and_plannable(
    control_plane: cluster.Cluster, descheduler: ScalesDoor, admin: KubeDoor, pod: objects.Pod
) -> None:
    lines = {f"{resource}_avg_5m": {"evictAbove": 0.0002, "evictUntil": 0.0001} for resource in ("cpu", "memory")}
    windows = policies.metrics({"avg_5m": 6})
    obeyed = load_policy.LoadPolicy.of({"metrics": windows, "descheduler": {"thresholds": lines}})
    with contextlib.closing(prometheus.connect(control_plane.prometheus_url)) as asked:
        reader = Reader(lambda: listed(descheduler), descheduler, PrometheusUsage(asked, identity.SeriesLabels()))

        def whole() -> Snapshot | None:
            """With usage of the pod and its node, and the Deployment's status as the controller counts it in time."""
            try:
                taken = taken_by(reader, obeyed, {pod.node_name})
            except PromqlError:
                return None
            used, workload = taken.pod_usage.get(pod.key), taken.workload_of(pod)
            fresh = used is not None and usage.fresh(used.at_seconds, taken.at_seconds, waiting.LIMIT_SECONDS)
            counted = workload is not None and workload.ready == 3
            return taken if fresh and counted and pod.node_name in taken.node_usage else None

        taken = waiting.until(whole, "fresh usage of the pod and its node, and its workload")
    workload = taken.workload_of(pod)
    assert workload is not None
    assert (workload.kind, workload.name, workload.replicas, workload.ready) == ("Deployment", "web", 3, 3)
    hot = Overload(pod.node_name, "memory_avg_5m", 0.9, 0.8, 0.6, 0.0)
    plan = planner.plan(taken, (hot,), NodePolicies(obeyed, taken.nodes), History())
    assert pod.uid in {one.pod.uid for one in plan.nodes[0].candidates}, plan.nodes[0].summary


@pytest.fixture
def claimed(admin: KubeDoor, namespace: str) -> Iterator[str]:
    """A claim `data` on a volume of a CSI driver, used by a Deployment's pods, and a node's limit: all of that name."""
    driver = f"{namespace}.csi.test"
    volume, claim = bodies.volume(namespace, namespace, driver)
    drivers = [{"name": driver, "nodeID": "node-1", "topologyKeys": [], "allocatable": {"count": 7}}]
    admin.create(kinds.VOLUMES, volume)
    admin.create(kinds.CLAIMS, claim, namespace=namespace)
    admin.create(kinds.CSI_NODES, {"metadata": {"name": namespace}, "spec": {"drivers": drivers}})
    admin.create(kinds.DEPLOYMENTS, bodies.deployment("web", 3, claim="data"), namespace=namespace)
    yield driver
    admin.delete(kinds.CSI_NODES, namespace)
    admin.delete(kinds.VOLUMES, namespace)


def test_the_volumes_of_pods_and_what_nodes_can_attach_are_read(
    control_plane: cluster.Cluster, descheduler: ScalesDoor, namespace: str, claimed: str
) -> None:
    with contextlib.closing(prometheus.connect(control_plane.prometheus_url)) as asked:
        reader = Reader(lambda: listed(descheduler), descheduler, PrometheusUsage(asked, identity.SeriesLabels()))

        def read_snapshot() -> Snapshot | None:
            try:
                taken = taken_by(reader, load_policy.LoadPolicy.of({}), ())
            except PromqlError:
                return None
            return taken if f"{namespace}/data" in taken.volumes else None

        taken = waiting.until(read_snapshot, "the pods with their volume")
    assert taken.volumes[f"{namespace}/data"].spec.csi == objects.CsiSource(claimed, "volume-1")
    assert taken.attach_limits[namespace] == {claimed: 7}
