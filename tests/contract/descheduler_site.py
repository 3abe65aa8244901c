"""A real control plane with two deschedulers on it, every wire of theirs behind a gate, and a watcher of its own."""

import contextlib
import functools
import json
import pathlib
import random
import threading
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from descheduler.ledger.rows import DONE
from descheduler.wiring import LEASE
from kube import config, errors, kinds
from kube.cache import reflector
from kube.door import KubeDoor
from kube.objects import Pod
from lab import cluster
from lab.cluster.demo import permissions
from runtime import clock
from tests import gate, starting
from tests.contract import shifted
from tests.e2e import bodies, policies, services, waiting

NAMESPACE = "shop"
NODES = 4
REPLICAS = 4
PER_HOUR = 6
HEAVY: bodies.PodOptions = {"cpu_millicores": 100, "memory_bytes": 2 * 2**30, "memory_request": "64Mi"}
HOT = "node-0"
RUNS = "evenload_descheduler_run_duration_seconds_count"  # that ended well, whatever the time was
FAILED_RUNS = "evenload_descheduler_failures_total"
LIMIT = waiting.LIMIT_SECONDS
passing = gate.passing


class Replica(NamedTuple):
    """A descheduler and the gate between it and the apiserver."""

    service: services.Service
    kube: gate.Gate

    def evictions(self) -> list[gate.Call]:
        """What it asked for."""
        return [call for call in self.kube.calls if is_eviction(call)]

    def more_runs(self, count: int) -> None:
        """Wait until so many further runs have ended well."""
        for _ in range(count):
            self.service.grows(RUNS)

    def more_failed_runs(self, count: int) -> None:
        """Wait until so many further runs have been given up."""
        least = self.service.metric(FAILED_RUNS) + count
        waiting.until(lambda: self.service.metric(FAILED_RUNS) >= least, f"{count} failed runs")


class Once(NamedTuple):
    """The plan that one run printed, and its words on standard error."""

    plan: dict[str, Any]
    words: str


class Watcher:
    """Follows the pods: which there were, which left, and the fewest ready ones of each workload after a change."""

    def __init__(self, door: KubeDoor) -> None:
        self._door = door
        self._counting = threading.Lock()
        self._stop = threading.Event()
        self._pods = reflector.Reflector(
            door,
            kinds.PODS,
            clock=clock.WallClock(),
            rng=random.Random(0),
            namespace=NAMESPACE,
            on_change=self._changed,
        )
        self.seen: dict[str, Pod] = {}
        self.left: set[str] = set()
        self.fewest: dict[str, int] = {}

    def __enter__(self) -> "Watcher":
        self._thread = self._pods.start(self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def look(self) -> None:
        """Lists the pods: what has left by now is known when this returns, whatever the watch still has to bring."""
        with self._counting:
            before = set(self.seen)  # what is made after the list has not left
        pods = self._door.list(kinds.PODS, namespace=NAMESPACE).items
        with self._counting:
            self._count(pods)
            self.left |= before - {pod.uid for pod in pods}

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        with self._counting:
            self._count(tuple(self._pods.snapshot().values()))
            if old is not None and (new is None or new.uid != old.uid):
                self.left.add(old.uid)

    def _count(self, pods: Collection[Pod]) -> None:
        self.seen |= {pod.uid: pod for pod in pods}
        self.left |= {pod.uid for pod in pods if pod.deleting}
        for app in {pod.labels["app"] for pod in self.seen.values()}:
            ready = sum(pod.ready and not pod.deleting for pod in pods if pod.labels["app"] == app)
            self.fewest[app] = min(self.fewest.get(app, REPLICAS), ready)


class Site:
    """The cluster, the gate before Prometheus, and two replicas with one ledger, of which one usually runs."""

    def __init__(
        self, running: cluster.Cluster, prometheus: gate.Gate, gates: list[gate.Gate], directory: pathlib.Path
    ) -> None:
        self.cluster = running
        self.prometheus = prometheus
        self.door = config.connect(running.kubeconfig)
        self._directory = directory
        self._policy = directory / "policy.yaml"
        self.obey()
        self._round = 0
        self._gates = gates
        self.first, self.second = self._replicas()

    @property
    def ledger(self) -> pathlib.Path:
        """The file that both replicas write."""
        return self._directory / f"{self._round}.sqlite"

    def renew(self) -> None:
        """As at the start of a test: nothing runs, the ledger is new, all pods are ready, all nodes are cool."""
        self.stop()
        with contextlib.suppress(errors.NotFound):  # what was killed cannot give it back: the next would wait for it
            self.door.delete(kinds.LEASES, LEASE, namespace=permissions.NAMESPACE)
        self.prometheus.rule = gate.passing
        for one in self._gates:
            one.rule = gate.passing
            one.calls.clear()
        self._round += 1
        self.obey()
        self.first, self.second = self._replicas()
        for node in self.door.list(kinds.NODES).items:
            self.load(node.name, memory_ratio=0.1)
        self.close_all_but_the_hot_node()  # and so gather every pod there, however they were spread by the test before
        waiting.until(self._gathered, f"all pods to be ready on {HOT}", self._places)
        self.open_all()

    def obey(self, **overrides: object) -> None:
        """Writes the policy file, with these keys laid over it, for replicas that are started from now on."""
        given = {"mode": "Enforce", "interval": "1s", "overloadedFor": "1s", "limits": {"perHour": PER_HOUR}}
        policies.write(self._policy, **{f"descheduler__{key}": value for key, value in given.items()} | overrides)

    def on_a_clock_of_its_own(self) -> shifted.Shift:
        """Makes the first replica one whose machine's clock can be set while it runs."""
        shift = shifted.Shift(self._directory / f"{self._round}.shift")
        shift.set(0.0)
        self.first = self._replica(0, self._gates[0], shift)
        return shift

    def stop(self) -> None:
        """Ends both replicas."""
        for one in (self.first, self.second):
            one.service.kill()

    def close(self) -> None:
        """Ends what runs."""
        self.stop()
        self.door.close()

    def ready(self) -> None:
        """Wait until every replica of every workload is there and ready, and its controller has counted it."""
        waiting.until(self._all_ready, "all pods to be ready", self._places)

    def heat(self) -> None:
        """Makes the node of all pods hot, whatever leaves it."""
        self.load(HOT, memory_ratio=0.7)

    def load(self, node: str, **values: object) -> None:
        """What a node's own system uses from now on."""
        services.set_load(self.cluster, node, **{"cpu_ratio": 0.1, "hidden": False, **values})

    def rows(self, replica: Replica) -> list[dict[str, Any]]:
        """GET /evictions."""
        return replica.service.rows("/evictions")

    def judged(self, replica: Replica, verdict: str) -> None:
        """Wait until GET /plan says so of a pod of a hot node: a node without a reading at a moment is not in it."""
        verdicts = functools.partial(self._verdicts, replica)
        waiting.until(lambda: verdict in verdicts(), f"the verdict {verdict}", verdicts)

    def plan(self, replica: Replica) -> dict[str, Any]:
        """GET /plan; of nothing while a door does not answer (503)."""
        try:
            answer: dict[str, Any] = replica.service.json("/plan")
        except urllib.error.HTTPError as refused:
            refused.close()
            return {"nodes": [], "blocked": "", "partial": False}
        return answer

    def candidates(self, replica: Replica) -> list[dict[str, Any]]:
        """What GET /plan says of the pods of hot nodes."""
        return [one for node in self.plan(replica)["nodes"] for one in node["candidates"]]

    def _verdicts(self, replica: Replica) -> set[str]:
        return {str(one["verdict"]) for one in self.candidates(replica)}

    def given_up(self, replica: Replica) -> int:
        """How many runs were given up so far."""
        return replica.service.log().count("run aborted")

    def hold(self, watcher: Watcher, replica: Replica) -> None:
        """The invariants: what left is what the ledger says, once each; caps held."""

        def event_reasons() -> list[str]:
            return sorted(str(row["pod_uid"]) for row in self.rows(replica) if row["result"] in DONE)

        self.load(HOT, memory_ratio=0.0)
        self.ready()
        replica.more_runs(1)
        watcher.look()
        waiting.until(lambda: event_reasons() == sorted(watcher.left), "ledger and apiserver to agree", event_reasons)
        assert len(watcher.left) <= PER_HOUR
        per_run = [(row["run"], row["node"]) for row in self.rows(replica) if row["result"] in DONE]
        assert len(per_run) == len(set(per_run)), f"one pod of a node in one run: {per_run}"

    def _gathered(self) -> bool:
        """Sends away what is elsewhere: also what a scheduler put there that had not heard of the cordons yet."""
        elsewhere = [name for name, node in self._places().items() if node not in ("", HOT)]
        for name in elsewhere:
            with contextlib.suppress(errors.KubeError):
                self.door.delete(kinds.PODS, name, namespace=NAMESPACE)
        return not elsewhere and self._all_ready()

    def close_all_but_the_hot_node(self) -> None:
        """Cordons them."""
        for node in self.door.list(kinds.NODES).items:
            self.door.merge_patch(kinds.NODES, node.name, {"spec": {"unschedulable": node.name != HOT or None}})

    def open_all(self) -> None:
        """Takes every cordon away."""
        for node in self.door.list(kinds.NODES).items:
            self.door.merge_patch(kinds.NODES, node.name, {"spec": {"unschedulable": None}})

    def _all_ready(self) -> bool:
        try:
            found = self.door.list(kinds.DEPLOYMENTS, namespace=NAMESPACE).items
            pods = self.door.list(kinds.PODS, namespace=NAMESPACE).items
        except errors.KubeError:  # the apiserver was killed a moment ago
            return False
        counted = bool(found) and all(one.status.ready_replicas == REPLICAS for one in found)
        whole = len(pods) == REPLICAS * len(found)  # the status may not have heard yet that one has gone
        return counted and whole and all(pod.ready and not pod.deleting for pod in pods)

    def _places(self) -> dict[str, str]:
        return {pod.name: pod.node_name for pod in self.door.list(kinds.PODS, namespace=NAMESPACE).items}

    def _replicas(self) -> list[Replica]:
        return [self._replica(number, one) for number, one in enumerate(self._gates)]

    def once(self, *more: str) -> Once:
        """Runs `descheduler --once` through the gate of the second replica, by default with a ledger of its own."""
        folder = self._folder(1)
        arguments = ("--once", *self._arguments(self._gates[1], folder), *more)
        ended = starting.run(starting.Command("descheduler", arguments, directory=folder))
        assert ended.returncode == 0, ended.stderr
        return Once(json.loads(ended.stdout), ended.stderr)

    def _folder(self, number: int) -> pathlib.Path:
        folder = self._directory / f"{self._round}-{number}"
        folder.mkdir(exist_ok=True)
        return folder

    def _arguments(self, item: gate.Gate, folder: pathlib.Path) -> list[str]:
        """All that a descheduler is given but its ledger."""
        kubeconfig = gate.kubeconfig(self.cluster, "descheduler", item, folder)
        arguments = ["--policy", str(self._policy), "--kubeconfig", str(kubeconfig)]
        return [*arguments, "--namespace", permissions.NAMESPACE, "--prometheus", self.prometheus.url]

    def _replica(self, number: int, item: gate.Gate, shift: shifted.Shift | None = None) -> Replica:
        folder = self._folder(number)
        arguments = [*self._arguments(item, folder), "--ledger", str(self.ledger)]
        if shift is None:
            return Replica(services.Service("descheduler", arguments, folder), item)
        return Replica(services.Service(shifted.__name__, [shifted.OPTION, str(shift.file), *arguments], folder), item)


@contextlib.contextmanager
def of_two_workloads(directory: pathlib.Path) -> Iterator[Site]:
    """Four nodes and two workloads; no descheduler runs."""
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(cluster.Cluster(nodes=NODES, node_exporter=False))
        for name in (permissions.NAMESPACE, NAMESPACE):
            running.api.create("api/v1/namespaces", {"metadata": {"name": name}})
        permissions.apply(running)
        prometheus, gates = stack.enter_context(gate.around(running, replicas=2))
        made = Site(running, prometheus, gates, directory)
        stack.callback(made.close)
        for app in ("web", "api"):
            made.door.create(kinds.DEPLOYMENTS, bodies.deployment(app, REPLICAS, **HEAVY), namespace=NAMESPACE)
        yield made


def is_eviction(call: gate.Call) -> bool:
    """Whether a call asks for an eviction."""
    return call.method == "POST" and call.path.partition("?")[0].endswith("/eviction")
