"""A real control plane with two annotators on it, every wire of theirs behind a gate, seen as an extender sees it."""

import itertools
import pathlib
import subprocess
from collections.abc import Mapping
from typing import NamedTuple

from lab import cluster
from lab.cluster.demo import permissions
from policy.contract import freshness, heartbeat, load_annotation
from runtime import clock
from tests import gate, starting
from tests.e2e import lent, policies, services, waiting

NODES = ("node-0", "node-1", "node-2")
NAMESPACE = permissions.NAMESPACE
STALE_AFTER_SECONDS = 10.0
HEARTBEAT = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{heartbeat.CONFIG_MAP}"
LIMIT = waiting.LIMIT_SECONDS
QUERIES, SYNCS = "evenload_prometheus_queries_total", "evenload_annotator_syncs_total"
LOADS = itertools.cycle((0.62, 0.3, 0.46))  # of node-0, one after another: far enough apart to be worth a patch


class Replica(NamedTuple):
    """An annotator and the gate between it and the apiserver."""

    service: services.Service
    kube: gate.Gate

    def writes(self) -> list[gate.Call]:
        """What it sent to nodes and the heartbeat."""
        return [one for one in self.kube.calls if one.writes and (is_patch_of(one) or HEARTBEAT in one.path)]

    def leads(self) -> bool:
        """Whether it says that it publishes."""
        return self.service.metric("evenload_annotator_leader") == 1

    def kill(self) -> None:
        """A crash. Returns when what it had sent has arrived: the gate forwards a dead client's last patch, too."""
        self.service.kill()
        waiting.until(self.kube.settled, "the last calls of a killed annotator to end")


class Site:
    """The cluster, the gate before Prometheus, and two replicas of which one usually runs."""

    def __init__(
        self, running: cluster.Cluster, prometheus: gate.Gate, gates: list[gate.Gate], directory: pathlib.Path
    ):
        self.cluster = running
        self.prometheus = prometheus
        self.played = dict.fromkeys(NODES, 0.2)
        self._clock = clock.WallClock()
        policy = policies.write(
            directory / "policy.yaml", sync__staleAfter=f"{STALE_AFTER_SECONDS:g}s", sync__minChange=0.05
        )
        self.replicas = []
        for number, one in enumerate(gates):
            folder = directory / str(number)
            folder.mkdir()
            kubeconfig = gate.kubeconfig(running, "annotator", one, folder)
            arguments = ["--policy", str(policy), "--kubeconfig", str(kubeconfig)]
            arguments += ["--namespace", NAMESPACE, "--prometheus", prometheus.url, "--prometheus-timeout", "3"]
            self._arguments = arguments
            self.replicas.append(Replica(services.Service("annotator", arguments, folder), one))
        self.first, self.second = self.replicas

    def dry_run(self) -> subprocess.CompletedProcess[str]:
        """What became of `--once --dry-run -o json`, as a process of its own."""
        arguments = (*self._arguments, "--once", "--dry-run", "-o", "json")
        return starting.run(starting.Command("annotator", arguments))

    def load(self, node: str, memory_ratio: float) -> None:
        """What a node uses from now on."""
        self.played[node] = memory_ratio
        services.set_load(self.cluster, node, cpu_ratio=0.3, memory_ratio=memory_ratio, hidden=False)

    def texts(self) -> dict[str, str]:
        """The raw annotation by node, as the apiserver has it."""
        return lent.texts(self.cluster.api)

    def values(self) -> dict[str, Mapping[str, float]]:
        """What stands on the nodes, by node and metric."""
        return {node: reading(text).values for node, text in self.texts().items()}

    def memory(self, node: str) -> float | None:
        """A node's annotated memory average."""
        return reading(self.texts().get(node)).values.get("memory_avg_5m")

    def usable(self) -> set[str]:
        """The nodes whose reading an extender would use at this moment, by the rules that it reads by."""
        now_seconds, texts = self._clock.now(), self.texts()
        times = heartbeat.EffectiveTimes()
        for node, text in texts.items():
            times.put(node, text)
        for one in self.cluster.api.items(f"api/v1/namespaces/{NAMESPACE}/configmaps"):
            if one["metadata"]["name"] == heartbeat.CONFIG_MAP:
                times.accept(heartbeat.decode(one["data"]), now_seconds)
        times.settle()
        found = set()
        for node, text in texts.items():
            carried = reading(text)
            effective_seconds = times.effective_seconds(node, carried.at_seconds)
            state = freshness.usable(effective_seconds, now_seconds, STALE_AFTER_SECONDS)
            if carried.values and state == "usable":
                found.add(node)
        return found

    def whole(self) -> None:
        """Wait until every node is usable and shows the load that it plays from now on; as at the start of a test."""
        self.prometheus.rule = gate.passing
        for one in self.replicas:
            one.kube.rule = gate.passing
        if not self.first.service.running:
            self.first.service.start()
        changing, *others = NODES  # the first goes on with what it plays: nobody waits for it to be as it was
        self.load(changing, self.played[changing])
        for node in others:
            self.load(node, 0.2)
        self.shows(self.played[changing], changing)
        self.shows(0.2, *others)
        waiting.until(self._read_in_full, "a sync that read all nodes, and six values on each", self.texts)

    def _read_in_full(self) -> bool:
        """Whether this process has read the nodes itself, and not only found on them what another one wrote."""
        looked_for = self.first.service.metric("evenload_annotator_nodes")  # with values or without
        return looked_for == len(NODES) and all(len(reading(text).values) == 6 for text in self.texts().values())

    def shows(self, memory_ratio: float, *nodes: str) -> None:
        """Wait until nodes are usable and show a load."""

        def view_state() -> Mapping[str, object]:
            return {"usable": self.usable(), **{node: self.memory(node) for node in nodes}}

        def there() -> bool:
            texts = self.texts()  # once for all nodes: it is asked five times a second
            found = [reading(texts.get(node)).values.get("memory_avg_5m") for node in nodes]
            return all(near(value, memory_ratio) for value in found) and set(nodes) <= self.usable()

        waiting.until(there, f"{nodes} to be usable and to show {memory_ratio}", view_state)

    def missing(self, *nodes: str) -> None:
        """Wait until no extender would use these nodes' readings any more."""
        waiting.until(lambda: not set(nodes) & self.usable(), f"{nodes} to be missing", self.usable)


def is_patch_of(call: gate.Call, node: str = "") -> bool:
    """Whether a call patches a node, or that node."""
    return call.method == "PATCH" and call.path.partition("?")[0].startswith(f"/api/v1/nodes/{node}")


def reading(text: str | None) -> load_annotation.Reading:
    """What an extender makes of a text: nothing of one that is absent or unreadable."""
    try:
        return load_annotation.decode(text or "")
    except load_annotation.AnnotationError:
        return load_annotation.Reading(0.0, {})


def near(value: float | None, expected: float) -> bool:
    """Within what may stand unwritten."""
    return value is not None and abs(value - expected) <= 0.051
