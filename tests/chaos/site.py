"""A real control plane with two replicas of each service, workloads with budgets, and nodes that are hot all the time.

Both extenders stand behind one address, as behind a Service; both deschedulers write one ledger. kube-scheduler asks
them as docs/reference/extender.md says.
"""

import collections
import contextlib
import json
import pathlib
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Final

import cluster
from bench import contestants
from cluster import extender_stanza
from cluster.demo import permissions
from kube import config, errors, kinds
from kube.objects import Pod
from tests import forwarding
from tests.chaos import judging, records, sabotaged
from tests.chaos.judging import Caps, Ready
from tests.e2e import bodies, policies, services, waiting

NODES: Final = 20
WORKLOADS: Final = 6
REPLICAS: Final = 5
AVAILABLE: Final = 4  # of them by their budgets
PROTECTED: Final = "kept"
HOT_NODES: Final = 3
HOT_RATIO, IDLE_RATIO = 0.75, 0.1  # of memory beside the pods'; a node with one of HOT_RATIO and two pods is over 80 %
CAPS: Final = Caps(per_run=4, per_hour=400, node_seconds=5.0)
SAMPLE_SECONDS: Final = 0.5
HEAT_SECONDS: Final = 15.0
READY_SECONDS: Final = 90.0
HEAVY: Final[bodies.PodOptions] = {"cpu_millicores": 100, "memory_bytes": 3 * 2**30, "memory_request": "128Mi"}


class Site:
    """The cluster, the services by name ("annotator-0"), and what was seen so far."""

    def __init__(self, running: cluster.Cluster, directory: pathlib.Path, rng: random.Random, sabotage: str) -> None:
        self.cluster, self.directory, self.rng = running, directory, rng
        self.door = config.connect(str(running.kubeconfig))
        self.policy = directory / "policy.yaml"
        self.obey()
        self.ledger = directory / "ledger.sqlite"
        self._sabotage = sabotage
        self.services = {
            f"{name}-{number}": self._service(name, number)
            for name in ("annotator", "extender", "descheduler")
            for number in (0, 1)
        }
        self._heat_rng = random.Random(rng.random())  # of a thread of its own
        self.violations: list[str] = []
        self.low: list[Ready] = []
        self.others: dict[str, list[float]] = {}
        self.apiserver_gaps: list[float] = []  # when the apiserver or etcd went, so that answers have no audit line
        self.protected: set[str] = set()
        self.codes: list[tuple[str, int]] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=one) for one in (self._sample, self._heat)]

    def obey(self) -> None:
        """Writes the policy: short windows, Enforce, caps that a run of minutes can reach."""
        policies.write(
            self.policy,
            descheduler__mode="Enforce",
            descheduler__limits={"perRun": CAPS.per_run, "perHour": CAPS.per_hour, "unreplaced": 10},
            descheduler__cooldown={"workload": "2s", "node": f"{CAPS.node_seconds:g}s",
                                   "returned": {"initial": "1s", "max": "5s", "window": "1m"}},
        )  # fmt: skip

    def _service(self, name: str, number: int) -> services.Service:
        directory = self.directory / f"{name}-{number}"
        directory.mkdir()
        kubeconfig = permissions.kubeconfig(self.cluster, name)
        options = ["--policy", str(self.policy), "--kubeconfig", str(kubeconfig), "--namespace", permissions.NAMESPACE]
        if name != "extender":
            options += ["--prometheus", self.cluster.prometheus_url]
        if name == "descheduler":
            options += ["--ledger", str(self.ledger)]
        if sabotaged.is_about(self._sabotage, name):
            return services.Service(sabotaged.__name__, [sabotaged.OPTION, self._sabotage, *options], directory)
        return services.Service(name, options, directory)

    def begin(self, forwarder: forwarding.Forwarder) -> None:
        """Creates the workloads, starts everything, and waits until all pods are Ready."""
        for one in self.services.values():
            one.start()
        url = f"http://127.0.0.1:{forwarder.port}"
        self.cluster.start_scheduler(extenders=[extender_stanza.at(url)])
        for number in range(WORKLOADS):
            self._deploy(f"shop-{number}", HEAVY)
            self.door.create(kinds.BUDGETS, bodies.budget(f"shop-{number}", AVAILABLE), namespace="default")
        self.door.create(kinds.PRIORITY_CLASSES, {"metadata": {"name": "least"}, "value": -10})
        tempting: bodies.PodOptions = {**HEAVY, "priority_class": "least"}  # without protection they would go first
        self._deploy(PROTECTED, {**tempting, "annotations": {"evenload.io/evictable": "false"}})
        wanted = (WORKLOADS + 1) * REPLICAS
        waiting.eventually(
            lambda: sum(pod.ready for pod in self.pods()) == wanted, READY_SECONDS, "all pods to be Ready"
        )
        for thread in self._threads:
            thread.start()

    def _deploy(self, name: str, options: bodies.PodOptions) -> None:
        self.door.create(kinds.DEPLOYMENTS, bodies.deployment(name, REPLICAS, **options), namespace="default")

    def scale(self, name: str, replicas: int) -> None:
        """Changes how many replicas a workload has; the controller deletes what is too much."""
        self.others.setdefault(name, []).append(time.time())
        body = {"spec": {"replicas": replicas}}
        with contextlib.suppress(errors.KubeError):
            self.door.merge_patch(kinds.DEPLOYMENTS, name, body, namespace="default")

    def pods(self) -> list[Pod]:
        """The pods that are not leaving."""
        found = self.door.list(kinds.PODS, namespace="default").items
        return [pod for pod in found if not pod.deleting and not pod.finished]

    def nodes(self) -> list[str]:
        """The names of the nodes."""
        return sorted(node.name for node in self.door.list(kinds.NODES).items)

    def taken_by_others(self, pods: Sequence[Pod]) -> None:
        """Remembers that these pods go, and not by an eviction."""
        for pod in pods:
            self.others.setdefault(pod.labels.get("app", ""), []).append(time.time())

    def _sample(self) -> None:
        """Counts Ready pods all the time, while the apiserver answers."""
        while not self._stop.wait(SAMPLE_SECONDS):
            with contextlib.suppress(errors.KubeError):
                pods = self.pods()
                self.protected |= {pod.uid for pod in pods if pod.labels.get("app") == PROTECTED}
                for number in range(WORKLOADS):
                    name = f"shop-{number}"
                    count = sum(pod.ready for pod in pods if pod.labels.get("app") == name)
                    if count < AVAILABLE:
                        self.low.append(Ready(name, count, AVAILABLE, time.time()))

    def _heat(self) -> None:
        """Makes other nodes hot from time to time: those with most pods, and one with a protected pod."""
        hot: list[str] = []
        while not self._stop.is_set():
            with contextlib.suppress(errors.KubeError, urllib.error.URLError, OSError):
                pods = [pod for pod in self.pods() if pod.node_name]
                counts = collections.Counter(pod.node_name for pod in pods)
                tempting = sorted({pod.node_name for pod in pods if pod.labels.get("app") == PROTECTED})
                for node in hot:
                    self.load(node, memory_ratio=IDLE_RATIO)
                hot = [*self._heat_rng.sample(tempting, min(1, len(tempting))), *dict(counts.most_common(HOT_NODES))]
                for node in hot:
                    self.load(node, memory_ratio=HOT_RATIO)
            self._stop.wait(HEAT_SECONDS)

    def load(self, node: str, **values: object) -> None:
        """Sets what a node's own system uses."""
        body = json.dumps({"cpu_ratio": 0.1, "hidden": False, **values}).encode()
        request = urllib.request.Request(f"{self.cluster.exporter_url}/nodes/{node}", data=body, method="POST")
        urllib.request.urlopen(request, timeout=10).close()

    def recovered(self, fault: str) -> None:
        """Judges what has to be true again within a bound: every service ready, and a new pod placed."""
        limit = time.monotonic() + READY_SECONDS
        waiting_for = dict(self.services)
        while waiting_for and time.monotonic() < limit:
            waiting_for = {name: one for name, one in waiting_for.items() if not is_ready(one)}
            self._stop.wait(0.2)
        self.violations += [f"after {fault}: {name} is not ready after {READY_SECONDS:g} s" for name in waiting_for]
        if not self._placed():
            self.violations.append(f"after {fault}: a new pod is not placed after {READY_SECONDS:g} s")

    def _placed(self) -> bool:
        """Creates a pod; True if kube-scheduler binds it in time."""
        name, limit = f"canary-{self.rng.getrandbits(32):08x}", time.monotonic() + READY_SECONDS
        created = bound = False
        while not bound and time.monotonic() < limit:
            with contextlib.suppress(errors.KubeError):
                if not created:
                    self.door.create(kinds.PODS, bodies.pod(name), namespace="default")
                    created = True
                bound = bool(self.door.get(kinds.PODS, name, namespace="default").node_name)
            self._stop.wait(0.1)
        with contextlib.suppress(errors.KubeError):
            self.door.delete(kinds.PODS, name, namespace="default")
        return bound

    def memory(self) -> dict[str, float]:
        """The memory of each service in MiB."""
        return {name: contestants.pss_mebibytes(one.pid) for name, one in self.services.items() if one.running}

    def end(self) -> None:
        """Ends the threads, then every service by SIGTERM."""
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self.codes += [(name, one.stop()) for name, one in self.services.items() if one.running]

    def verdicts(self) -> list[str]:
        """All that broke an invariant."""
        audit = self.cluster.directory / "logs" / "audit.log"
        asked, rows = records.evictions(audit), records.rows(self.ledger)
        logs = {name: one.log() for name, one in self.services.items()}
        return [
            *self.violations,
            *judging.without_a_row(asked, rows),
            *judging.without_an_eviction(asked, rows, self.apiserver_gaps),
            *judging.twice(asked),
            *judging.over_caps(rows, CAPS),
            *judging.restless(rows, CAPS),
            *judging.unprotected(asked, self.protected),
            *judging.deleted(records.deletions(audit)),
            *judging.under_budget(self.low, self.others),
            *judging.tracebacks(logs),
            *judging.exit_codes(self.codes),
        ]


def is_ready(service: services.Service) -> bool:
    """True if GET /readyz answers 200."""
    try:
        return service.running and bool(service.text("/readyz"))
    except OSError:
        return False


@contextlib.contextmanager
def started(directory: pathlib.Path, rng: random.Random, *, sabotage: str = "") -> Iterator[Site]:
    """Everything runs, and all pods are Ready."""
    with contextlib.ExitStack() as undo:
        running = undo.enter_context(cluster.Cluster(nodes=NODES, node_exporter=False, audit=True))
        running.api.create("api/v1/namespaces", {"metadata": {"name": permissions.NAMESPACE}})
        permissions.apply(running)
        made = Site(running, directory, rng, sabotage)
        undo.callback(made.door.close)
        undo.callback(made.end)
        ports = [made.services[f"extender-{number}"].port for number in (0, 1)]
        made.begin(undo.enter_context(forwarding.Forwarder(*ports)))
        yield made
