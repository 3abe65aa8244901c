"""The simulated scheduler held to the real kube-scheduler: the same pods, one after another, on the same nodes.

Each pod is created when the one before it is bound (or found unschedulable, and deleted). The model is asked for the
same state, and then told what the real one did, so that one difference does not lead to others. A pod whose best nodes
are equal is drawn by lot on both sides: there the real choice must be among the model's best. The controller-manager is
stopped, so that ReplicaSets are what they must be here: selectors, and nothing that makes pods.
"""

import concurrent.futures
import contextlib
import dataclasses
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pytest

from descheduler.placement import planned_cluster
from descheduler.placement.planned_cluster import PlannedCluster
from descheduler.snapshot.snapshot import Snapshot
from kube import config, kinds, objects
from lab import cluster
from simulator.scheduling import extenders
from simulator.scheduling.scheduler import Placement, Scheduler
from tests.contract.simulator import opinionated, scheduled_pods
from tests.e2e import bodies, waiting

pytestmark = pytest.mark.cluster
NAMESPACE = "default"
PODS = 160
AGREEMENT_RATIO = 0.95
RULES = set(planned_cluster.RULES.values()) - {"cordon"} | {
    "requests",
    "pod slots",
    "host port",
    "volume",
    "volume limit",
}
WATCH_SECONDS = 120
Changes = Generator[tuple[str, objects.Pod], None, None]  # ADDED, MODIFIED or DELETED


@dataclasses.dataclass
class Tally:
    """Decisions compared: `equal` of `decided` where the model's best is one node; `drawn` from several."""

    decided: int = 0
    equal: int = 0
    drawn: int = 0
    unplaced: int = 0
    different: list[str] = dataclasses.field(default_factory=list)

    def count(self, pod: objects.Pod, real: str, model: Placement) -> None:
        """Compare one decision; "" is nowhere."""
        tied = len(model.ties) > 1
        self.drawn += tied
        self.decided += not tied
        self.unplaced += not real
        if real not in (model.ties or ("",)):
            best = sorted(zip(model.scored, model.totals.tolist(), strict=True), key=lambda entry: -entry[1])[:4]
            self.different.append(f"{pod.name}: real {real!r}, model {model.ties}, {best} {dict(model.reasons)}")
        elif not tied:
            self.equal += 1

    def __str__(self) -> str:
        ratio = self.equal / self.decided
        return (
            f"{self.equal} of {self.decided} decisions equal ({ratio:.1%}), {self.unplaced} of them unschedulable; "
            f"{self.drawn} more were drawn among equals; {len(self.different)} different: {self.different[:5]}"
        )


class Stage:
    """The real scheduler, and the model that follows it, over an empty cluster with each `begin`."""

    def __init__(self, running: cluster.Cluster) -> None:
        self.cluster = running
        self.door = config.connect(str(running.kubeconfig), None)
        self.model = Scheduler((), np.random.default_rng(0))

    def clear(self) -> None:
        """No pods."""
        self.cluster.api.delete("api/v1/namespaces/default/pods")
        waiting.until(lambda: not self.pods(), "all pods to go")

    def pods(self) -> tuple[objects.Pod, ...]:
        """The pods there are."""
        return self.door.list(kinds.PODS, namespace=NAMESPACE).items

    def begin(self, extender_ports: Sequence[tuple[scheduled_pods.Body, extenders.ExtenderPort]] = ()) -> None:
        """A scheduler that starts with all that is there now, and a model that is told of the same."""
        self.cluster.start_scheduler(extenders=[stanza for stanza, _ in extender_ports])
        self.model = Scheduler([port for _, port in extender_ports], np.random.default_rng(0))
        for node in self.door.list(kinds.NODES).items:
            self.model.node_changed(None, node)
        for owner in self.door.list(kinds.REPLICA_SETS).items:
            self.model.workload_changed(None, owner)
        for budget in self.door.list(kinds.BUDGETS).items:
            self.model.budget_changed(None, budget)
        for pod in self.pods():
            self.model.pod_changed(None, pod)

    def changes(self) -> Changes:
        """Pods as they change from now on, with what happened; AssertionError where for long nothing does."""
        return self._changes(self.door.list(kinds.PODS, namespace=NAMESPACE).resource_version)

    def _changes(self, version: str) -> Changes:
        while True:
            silent = True
            watch = self.door.watch(
                kinds.PODS, resource_version=version, namespace=NAMESPACE, timeout_seconds=WATCH_SECONDS
            )
            with contextlib.closing(watch):
                for event in watch:
                    version = event.resource_version
                    if event.object is not None:
                        silent = False
                        yield event.type, event.object
            assert not silent, f"no pod changed for {WATCH_SECONDS} s; there are {self.pods()}"

    def play(
        self,
        owners: scheduled_pods.Owners,
        extender_ports: Sequence[tuple[scheduled_pods.Body, extenders.ExtenderPort]] = (),
    ) -> Tally:
        """Let both decide about one pod after another."""
        self.clear()
        for name in owners.names():
            self.door.create(kinds.REPLICA_SETS, scheduled_pods.replica_set(name), namespace=NAMESPACE)
        self.begin(extender_ports)
        tally, changes = Tally(), self.changes()
        for body in owners.pods(PODS):
            self.door.create(kinds.PODS, body, namespace=NAMESPACE)
            came, decided = _decided(changes, body["metadata"]["name"])
            tally.count(came, decided.node_name, self.model.schedule(came))
            if decided.node_name:
                self.model.pod_changed(None, decided)
            else:
                self.door.delete(kinds.PODS, decided.name, namespace=NAMESPACE)
        changes.close()
        return tally

    def compare(self, owners: scheduled_pods.Owners, recorder: opinionated.Recorder) -> tuple[list[str], Counter[str]]:
        """Let the real scheduler decide about one pod after another, and find the nodes that fit as the descheduler
        does; the differences, and how many nodes are refused for which rule.
        """
        different, refused, there = list[str](), Counter[str](), dict[str, objects.Pod]()
        nodes = self.door.list(kinds.NODES).items
        bound = {one.key: one.spec.volume_name for one in self.door.list(kinds.CLAIMS, namespace=NAMESPACE).items}
        known = {one.name: one for one in self.door.list(kinds.VOLUMES).items}
        namespaces = {one.name: one.labels for one in self.door.list(kinds.NAMESPACES).items}
        changes = self.changes()
        for body in owners.pods(PODS):
            self.door.create(kinds.PODS, body, namespace=NAMESPACE)
            came, decided = _decided(changes, body["metadata"]["name"])
            planned = PlannedCluster(
                Snapshot(
                    at_seconds=0.0,
                    nodes=nodes,
                    pods=tuple(there.values()),
                    namespaces=namespaces,
                    volumes={claim: known[volume] for claim, volume in bound.items()},
                    attach_limits=scheduled_pods.attach_limits(),
                )
            )
            fit = planned.fit(came)
            rules = {name: planned.why_not(fit, row) for name, row in planned.columns.rows.items()}
            refused.update(rules.values())
            real, ours = set(recorder.fitting(came.name)), {name for name, rule in rules.items() if not rule}
            if real != ours:
                differing = {name: rules[name] or "fits" for name in real ^ ours}
                different.append(f"{came.name}: {len(real)} real, {len(ours)} ours, {differing}")
            if decided.node_name:
                there[decided.name] = decided
            else:
                self.door.delete(kinds.PODS, decided.name, namespace=NAMESPACE)
        changes.close()
        return different, refused

    def fill(self) -> None:
        """Four pods on each node take most of its room; their priorities differ within a node, so that it is certain
        which of them matters least. Every third of the highest is under a budget that allows nothing.
        """
        self.clear()
        fillers = [
            scheduled_pods.filler(shape, number, place)
            for number, shape in enumerate(scheduled_pods.shapes())
            for place in range(4)
        ]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda body: self.door.create(kinds.PODS, body, namespace=NAMESPACE), fillers))
        waiting.until(self._all_run, "the pods that fill the nodes to run", self.pods)
        spec = {"minAvailable": 99, "selector": {"matchLabels": {"guarded": "yes"}}}
        self.door.create(kinds.BUDGETS, {"metadata": {"name": "guard"}, "spec": spec}, namespace=NAMESPACE)

    def _all_run(self) -> bool:
        there = self.pods()
        return len(there) == 4 * len(scheduled_pods.shapes()) and all(
            pod.ready and pod.started_at_seconds for pod in there
        )

    def preempt(self, body: scheduled_pods.Body, changes: Changes) -> tuple["Preempted", Placement]:
        """Create a pod that others must make way for; what the real scheduler did until it was placed or given up, and
        the model's view before any of it.
        """
        self.door.create(kinds.PODS, body, namespace=NAMESPACE)
        gone: list[str] = []
        nominated, model = "", None
        for kind, pod in changes:
            if pod.name != body["metadata"]["name"]:
                if kind == "DELETED" and pod.node_name:
                    gone.append(pod.name)
                    self.model.pod_changed(pod, None)
                continue
            model = model or self.model.schedule(pod)
            nominated = nominated or pod.nominated_node
            if pod.node_name:
                self.model.pod_changed(None, pod)
            elif pod.status.conditions and not nominated:
                self.door.delete(kinds.PODS, pod.name, namespace=NAMESPACE)
            else:
                continue
            return Preempted(pod.node_name, nominated, tuple(sorted(gone))), model
        raise AssertionError("the watch ended")


class Preempted(NamedTuple):
    """Where a pod went, the first node nominated for it, and who had to leave."""

    node: str
    nominated: str
    victims: tuple[str, ...]


def _decided(changes: Changes, name: str) -> tuple[objects.Pod, objects.Pod]:
    """A pod as it came, and as the scheduler left it."""
    came = None
    for _, pod in changes:
        if pod.name == name:
            came = came or pod
            if pod.node_name or any(one.type == "PodScheduled" for one in pod.status.conditions):
                return came, pod
    raise AssertionError("the watch ended")


PRIORITIES = {"patient": 1000, "urgent": 5000, **{f"level-{one}": 10 * one for one in range(5)}}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """The cluster; nothing but the scheduler acts on it once its nodes and priority classes are there."""
    with cluster.Cluster(
        nodes=scheduled_pods.shapes(), prometheus=False, exporter=False, node_exporter=False
    ) as running:
        found = Stage(running)
        for name, value in PRIORITIES.items():
            policy = "Never" if name == "patient" else "PreemptLowerPriority"
            body = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
            running.api.create("apis/scheduling.k8s.io/v1/priorityclasses", body)
        for name in PRIORITIES:
            bodies.await_class(found.door, name)
        running.processes["kube-controller-manager"].stop()
        yield found
        found.door.close()


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Shows a line whether the test passes or not: the figure is what one runs this file for."""

    def show(line: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{line}\n")

    return show


def test_the_model_chooses_as_kube_scheduler_does(stage: Stage, report: Callable[[str], None]) -> None:
    tally = stage.play(scheduled_pods.Owners(1, "plain"))
    report(f"without an extender: {tally}")
    assert tally.equal >= AGREEMENT_RATIO * tally.decided, str(tally)


def test_the_model_asks_an_extender_what_kube_scheduler_asks_and_counts_its_answers_alike(
    stage: Stage, report: Callable[[str], None]
) -> None:
    real, model = opinionated.Opinionated(), opinionated.Opinionated()
    with opinionated.served(real) as stanza:
        scored = {**stanza, "prioritizeVerb": "prioritize", "weight": model.weight}
        tally = stage.play(scheduled_pods.Owners(2, "asked"), [(scored, model)])
    report(f"with an extender: {tally}")
    assert tally.equal >= AGREEMENT_RATIO * tally.decided, str(tally)
    assert opinionated.first(real.calls) == opinionated.first(model.calls)


def test_the_descheduler_finds_the_nodes_that_fit_as_kube_scheduler_does(
    stage: Stage, report: Callable[[str], None]
) -> None:
    stage.clear()
    claims = []
    for volume, claim in scheduled_pods.volumes(40):
        stage.cluster.api.create("api/v1/persistentvolumes", volume)
        stage.cluster.api.create("api/v1/namespaces/default/persistentvolumeclaims", claim)
        claims.append(claim["metadata"]["name"])
    for name, limits in scheduled_pods.attach_limits().items():
        stage.cluster.api.create("apis/storage.k8s.io/v1/csinodes", scheduled_pods.csi_node(name, limits))
    recorder = opinionated.Recorder()
    with opinionated.served(recorder) as stanza:
        stage.begin([(stanza, recorder)])
        different, refused = stage.compare(scheduled_pods.Owners(15, "moved", claims), recorder)
    report(f"nodes that fit: {PODS - len(different)} of {PODS} pods equal; {dict(refused)}")
    assert not different
    assert refused.keys() >= RULES, "the mixture has pods that each rule keeps off some node"


def test_pods_that_are_resized_leave_the_room_that_kube_scheduler_counts(stage: Stage) -> None:
    stage.clear()
    resized = [scheduled_pods.resized(shape, number) for number, shape in enumerate(scheduled_pods.shapes())]
    for body, _ in resized:
        stage.door.create(kinds.PODS, body, namespace=NAMESPACE)
    waiting.until(lambda: len([pod for pod in stage.pods() if pod.ready]) == len(resized), "all to run")
    for body, status in resized:
        path = f"api/v1/namespaces/{NAMESPACE}/pods/{body['metadata']['name']}/status"
        stage.cluster.api.patch(path, {"status": status})
    recorder = opinionated.Recorder()
    with opinionated.served(recorder) as stanza:
        stage.begin([(stanza, recorder)])
        changes = stage.changes()
        planned = PlannedCluster(Snapshot(0.0, nodes=stage.door.list(kinds.NODES).items, pods=stage.pods()))
        for cpu in ("800m", "1500m", "3500m", "7500m"):
            body = scheduled_pods.urgent_pod(f"asks-{cpu}", cpu, tolerations=[{"operator": "Exists"}])
            stage.door.create(kinds.PODS, body, namespace=NAMESPACE)
            came, _ = _decided(changes, body["metadata"]["name"])
            fit = planned.fit(came)
            ours = {name for name, row in planned.columns.rows.items() if not planned.why_not(fit, row)}
            real = set(recorder.fitting(came.name))
            assert ours == real, f"{cpu}: {sorted(ours ^ real)}"
            assert 0 < len(real) < len(planned.columns.rows) or cpu == "800m"
            stage.door.delete(kinds.PODS, came.name, namespace=NAMESPACE)
        changes.close()


def test_the_model_makes_the_same_pods_leave(stage: Stage, report: Callable[[str], None]) -> None:
    stage.fill()
    stage.begin()
    changes = stage.changes()
    different, drawn, urgent = [], 0, list(scheduled_pods.urgent())
    for body in urgent:
        real, model = stage.preempt(body, changes)
        drawn += len(model.ties) > 1
        victims = tuple(sorted(one.name for one in model.victims))
        same = real.victims == victims if len(model.ties) <= 1 else len(real.victims) == len(victims)
        nominated = real.node if model.nominated else ""
        if real.node not in (model.ties or ("",)) or real.nominated != nominated or not same:
            different.append(f"{body['metadata']['name']}: real {real}, model {model.ties} {victims}")
    changes.close()
    report(f"preemption: {len(urgent) - len(different)} of {len(urgent)} equal, {drawn} drawn; {different}")
    assert not different
