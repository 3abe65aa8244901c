"""The simulated scheduler held to the real kube-scheduler: the same pods, one after another, on the same nodes.

Each pod is created when the one before it is bound (or found unschedulable, and deleted). The model is asked for the
same state, and then told what the real one did, so that one difference does not lead to others. A pod whose best nodes
are equal is drawn by lot on both sides: there the real choice must be among the model's best. The controller-manager is
stopped, so that ReplicaSets are what they must be here: selectors, and nothing that makes pods.
"""

import collections
import dataclasses
import hashlib
import http.server
import json
import random
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import cluster
from kube import config, door, kinds, objects
from simulator.scheduling import extenders
from simulator.scheduling.scheduler import Placement, Scheduler

pytestmark = pytest.mark.cluster
PODS = 500
AGREEMENT_RATIO = 0.95
WATCH_SECONDS = 300
ZONE = "topology.kubernetes.io/zone"
SIZES = (("2", "4Gi"), ("4", "16Gi"), ("8", "16Gi"), ("8", "32Gi"), ("16", "64Gi"), ("3", "24Gi"))
Body = dict[str, Any]
Call = tuple[str, str, tuple[str, ...]]  # verb, pod, nodes


def shapes() -> list[cluster.NodeShape]:
    """26 nodes of six sizes in three zones and none, with taints of both kinds and labels."""
    made = []
    for number in range(26):
        cpu, memory = SIZES[number % len(SIZES)]
        labels = {"disk": ("ssd", "hdd", "nvme")[number % 3], "generation": str(number % 5)}
        if number % 13:
            labels[ZONE] = f"zone-{'aabbc'[number % 5]}"
        taints = []
        if number % 8 == 3:
            taints.append(("dedicated", "batch", "NoSchedule"))
        if number % 7 == 2:
            taints.append(("spot", "", "PreferNoSchedule"))
        if number % 9 == 4:
            taints.append(("old", "", "PreferNoSchedule"))
        pods = 12 if number % 10 == 6 else 110
        made.append(cluster.NodeShape(f"node-{number:02}", cpu, memory, pods, labels, taints))
    return made


class Owners:
    """A seeded sequence of pods: some sixty owners whose replicas come mixed, as in a real cluster."""

    def __init__(self, seed: int, prefix: str) -> None:
        self._rng = random.Random(seed)
        self._owners = [self._owner(f"{prefix}-{number:02}") for number in range(60)]
        self._made: collections.Counter[str] = collections.Counter()

    def names(self) -> list[str]:
        """Of owners that have a ReplicaSet."""
        return [body["metadata"]["labels"]["app"] for body in self._owners if "ownerReferences" in body["metadata"]]

    def pods(self, count: int) -> Iterator[Body]:
        """Pods to create, each a further replica of any owner."""
        for _ in range(count):
            body: Body = json.loads(json.dumps(self._rng.choice(self._owners)))
            name = body["metadata"]["labels"]["app"]
            self._made[name] += 1
            body["metadata"]["name"] = f"{name}-{self._made[name]}"
            yield body

    def _owner(self, name: str) -> Body:
        chance = self._rng.random
        labels = {"app": name, "tier": self._rng.choice(("web", "db", "batch"))}
        metadata: Body = {"labels": labels}
        if chance() < 0.7:
            reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"uid-{name}"}
            metadata["ownerReferences"] = [{**reference, "controller": True}]
        spec: Body = {"terminationGracePeriodSeconds": 0, "containers": self._containers()}
        if chance() < 0.15:
            spec["initContainers"] = [_container("init", {"cpu": "300m", "memory": "100Mi"})]
        if chance() < 0.25:
            spec["tolerations"] = [{"key": self._rng.choice(("dedicated", "spot")), "operator": "Exists"}]
        if chance() < 0.2:
            spec["nodeSelector"] = {"disk": self._rng.choice(("ssd", "hdd"))}
        if chance() < 0.2:
            spec["priorityClassName"] = "patient"
        if chance() < 0.3:
            spec["topologySpreadConstraints"] = self._spread(name)
        spec["affinity"] = self._affinity(name)
        return {"metadata": metadata, "spec": spec}

    def _containers(self) -> list[Body]:
        kinds_of_requests: tuple[Body, ...] = (
            {},
            {"cpu": "50m"},
            {"memory": "96Mi"},
            {"cpu": "100m", "memory": "128Mi"},
            {"cpu": "250m", "memory": "64Mi"},
            {"cpu": "30m", "memory": "700Mi"},
            {"cpu": "400m", "memory": "512Mi", "ephemeral-storage": "1Gi"},
        )
        some = self._rng.choices(kinds_of_requests, k=self._rng.choice((1, 1, 2)))
        return [_container(f"c{number}", requests) for number, requests in enumerate(some)]

    def _spread(self, name: str) -> list[Body]:
        rules = []
        for key in self._rng.sample((ZONE, "kubernetes.io/hostname", "disk"), k=self._rng.choice((1, 1, 2))):
            rules.append(
                {
                    "maxSkew": self._rng.choice((1, 2, 4)),
                    "topologyKey": key,
                    "whenUnsatisfiable": self._rng.choice(("DoNotSchedule", "ScheduleAnyway", "ScheduleAnyway")),
                    "labelSelector": {"matchLabels": {"app": name}},
                    "nodeTaintsPolicy": self._rng.choice(("Honor", "Ignore")),
                    "nodeAffinityPolicy": self._rng.choice(("Honor", "Ignore")),
                }
            )
        return rules

    def _affinity(self, name: str) -> Body:
        chance, found = self._rng.random, {}
        if chance() < 0.25:
            found["nodeAffinity"] = self._node_affinity()
        if chance() < 0.15:
            found["podAffinity"] = self._others("tier", ("web", "db", "batch"), ZONE)
        if chance() < 0.25:
            found["podAntiAffinity"] = self._others("app", (name,), "kubernetes.io/hostname")
        return found

    def _node_affinity(self) -> Body:
        wanted = {"key": "generation", "operator": "In", "values": self._rng.sample("01234", k=2)}
        liked = {"key": "disk", "operator": "In", "values": [self._rng.choice(("ssd", "nvme"))]}
        body: Body = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": self._rng.choice((1, 30, 100)), "preference": {"matchExpressions": [one]}}
                for one in (wanted, liked)
            ]
        }
        if self._rng.random() < 0.3:
            newer = {"key": "generation", "operator": "Gt", "values": ["0"]}
            required = {"nodeSelectorTerms": [{"matchExpressions": [newer]}]}
            body["requiredDuringSchedulingIgnoredDuringExecution"] = required
        return body

    def _others(self, label: str, values: Sequence[str], topology: str) -> Body:
        term = {
            "topologyKey": self._rng.choice((topology, "disk")),
            "labelSelector": {"matchExpressions": [{"key": label, "operator": "In", "values": list(values)}]},
        }
        if self._rng.random() < 0.3:
            return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        weighted = [{"weight": self._rng.choice((5, 50, 100)), "podAffinityTerm": term}]
        return {"preferredDuringSchedulingIgnoredDuringExecution": weighted}


def _container(name: str, requests: Body) -> Body:
    return {"name": name, "image": "pause", "resources": {"requests": requests}}


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
            best = sorted(model.scores.items(), key=lambda entry: -entry[1])[:4]
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
    """The real scheduler, and the model that follows it. `model` is made anew by `begin`."""

    def __init__(self, running: cluster.Cluster) -> None:
        self._cluster = running
        self._door = config.connect(str(running.kubeconfig), None)
        self._namespace = ""
        self.model = Scheduler((), np.random.default_rng(0))

    def close(self) -> None:
        """Close the connection."""
        self._door.close()

    def begin(self, namespace: str, owners: Owners, asked: Sequence[tuple[Body, extenders.ExtenderPort]]) -> None:
        """A namespace of its own, its ReplicaSets, and a scheduler that has seen all of it when it starts."""
        self._namespace = namespace
        for name in owners.names():
            self._door.create(kinds.REPLICA_SETS, _replica_set(name), namespace=namespace)
        self._cluster.start_scheduler(extenders=[stanza for stanza, _ in asked])
        self.model = Scheduler([port for _, port in asked], np.random.default_rng(0))
        for node in self._door.list(kinds.NODES).items:
            self.model.node_changed(None, node)
        for owner in self._door.list(kinds.REPLICA_SETS).items:
            self.model.workload_changed(None, owner)
        for pod in self._door.list(kinds.PODS).items:
            self.model.pod_changed(None, pod)

    def play(self, bodies: Iterator[Body]) -> Tally:
        """Let both decide about one pod after another."""
        tally = Tally()
        version = self._door.list(kinds.PODS, namespace=self._namespace).resource_version
        watch = self._door.watch(
            kinds.PODS, resource_version=version, namespace=self._namespace, timeout_seconds=WATCH_SECONDS
        )
        for body in bodies:
            self._door.create(kinds.PODS, body, namespace=self._namespace)
            asked, decided = _decided(watch, body["metadata"]["name"])
            tally.count(asked, decided.node_name, self.model.schedule(asked))
            if decided.node_name:
                self.model.pod_changed(None, decided)
            else:
                self._door.delete(kinds.PODS, decided.name, namespace=self._namespace)
        watch.close()
        return tally


def _decided(watch: door.Watch[objects.Pod], name: str) -> tuple[objects.Pod, objects.Pod]:
    """A pod as it came, and as the scheduler left it."""
    came = None
    for event in watch:
        pod = event.object
        if pod is None or pod.name != name:
            continue
        came = came or pod
        if pod.node_name or any(one.type == "PodScheduled" for one in pod.status.conditions):
            return came, pod
    raise AssertionError(f"no decision about {name} within {WATCH_SECONDS} s")


def _replica_set(name: str) -> Body:
    selector = {"app": name}
    template = {"metadata": {"labels": selector}, "spec": {"containers": [{"name": "main", "image": "pause"}]}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": 0, "selector": {"matchLabels": selector}, "template": template},
    }


class Opinionated:
    """An extender whose answers follow from the names; over HTTP for the real scheduler, in-process for the model.

    Both write down what they were asked, so that the calls can be compared.
    """

    weight = 2

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def filter(self, pod: objects.Pod, names: Sequence[str]) -> extenders.Filtered:
        """A tenth of the nodes are refused, half of these for good."""
        self.calls.append(("filter", pod.name, tuple(sorted(names))))
        drawn = {name: _drawn(pod.name, name, 20) for name in names}
        return extenders.Filtered(
            [name for name in names if drawn[name] > 1],
            {name: "not today" for name in names if drawn[name] == 0},
            {name: "never" for name in names if drawn[name] == 1},
        )

    def prioritize(self, pod: objects.Pod, names: Sequence[str]) -> Mapping[str, int]:
        """0 to 10."""
        self.calls.append(("prioritize", pod.name, tuple(sorted(names))))
        return {name: _drawn(name, pod.name, 11) for name in names}

    def preempt(self, _pod: objects.Pod, victims: Mapping[str, extenders.Victims]) -> Mapping[str, extenders.Victims]:
        """Everywhere."""
        return victims


def _drawn(one: str, other: str, sides: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{one}/{other}".encode()).digest()[:4]) % sides


class _Handler(http.server.BaseHTTPRequestHandler):
    asked: Opinionated

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        pod = objects.Pod(metadata=objects.Metadata(name=body["Pod"]["metadata"]["name"]))
        names = body["NodeNames"]
        answer: object
        if self.path == "/filter":
            passed, failed, never = self.asked.filter(pod, names)
            answer = {"nodenames": passed, "failedNodes": failed, "failedAndUnresolvableNodes": never}
        else:
            answer = [{"host": name, "score": score} for name, score in self.asked.prioritize(pod, names).items()]
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """The cluster; nothing but the scheduler acts on it once its nodes are there."""
    with cluster.Cluster(nodes=shapes(), prometheus=False, exporter=False, node_exporter=False) as running:
        body = {"metadata": {"name": "patient"}, "value": 1000, "preemptionPolicy": "Never"}
        running.api.create("apis/scheduling.k8s.io/v1/priorityclasses", body)
        running.processes["kube-controller-manager"].stop()
        found = Stage(running)
        yield found
        found.close()


@pytest.fixture
def opinionated() -> Iterator[tuple[Opinionated, str]]:
    """An extender that answers over HTTP, and its address."""
    asked = Opinionated()
    handler = type("Handler", (_Handler,), {"asked": asked})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield asked, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def _first(calls: Sequence[Call]) -> list[Call]:
    """The first call of each verb for each pod: kube-scheduler asks again for a pod that fits nowhere."""
    return list({(verb, pod): (verb, pod, names) for verb, pod, names in reversed(calls)}.values())[::-1]


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Shows a line whether the test passes or not: the figure is what one runs this file for."""

    def show(line: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{line}\n")

    return show


def test_the_model_chooses_as_kube_scheduler_does(stage: Stage, report: Callable[[str], None]) -> None:
    owners = Owners(1, "plain")
    stage.begin("default", owners, ())
    tally = stage.play(owners.pods(PODS))
    report(f"without an extender: {tally}")
    assert tally.equal >= AGREEMENT_RATIO * tally.decided, str(tally)


def test_the_model_asks_an_extender_what_kube_scheduler_asks_and_counts_its_answers_alike(
    stage: Stage, opinionated: tuple[Opinionated, str], report: Callable[[str], None]
) -> None:
    real, url = opinionated
    model = Opinionated()
    verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize"}
    stanza = {"urlPrefix": url, "weight": model.weight, "nodeCacheCapable": True, "httpTimeout": "60s", **verbs}
    owners = Owners(2, "asked")
    stage.begin("default", owners, [(stanza, model)])
    tally = stage.play(owners.pods(PODS))
    report(f"with an extender: {tally}")
    assert tally.equal >= AGREEMENT_RATIO * tally.decided, str(tally)
    assert _first(real.calls) == _first(model.calls)
