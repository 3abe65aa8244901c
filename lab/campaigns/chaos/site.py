"""A real control plane with two replicas of each service, workloads with budgets, and nodes that are hot all the time.

Both extenders stand behind one address, as behind a Service; both deschedulers write one ledger. kube-scheduler asks
them as docs/reference/extender.md says.
"""

import collections
import contextlib
import json
import os
import pathlib
import random
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, Final, NamedTuple, TypeAlias

from kube import config, errors, kinds
from kube.objects import Pod
from lab import cluster
from lab.bench import contestants
from lab.campaigns.chaos import judging, process, records, sabotages
from lab.campaigns.chaos.judging import Caps, Jump
from lab.campaigns.chaos.pod_watch import PodWatch
from lab.cluster import extender_stanza
from lab.cluster.demo import permissions
from tests import forwarding, starting
from tests.contract import shifted
from tests.e2e import bodies, policies, services, waiting

NODES: Final = 20
WORKLOADS: Final = 6
REPLICAS, MOST_REPLICAS = 5, 6
AVAILABLE: Final = 4  # of them by their budgets
PROTECTED: Final = "kept"
HOT_NODES: Final = 3
HOT_RATIO, IDLE_RATIO = 0.75, 0.1  # of memory beside the pods'; a node with one of HOT_RATIO and two pods is over 80 %
CAPS: Final = Caps(per_run=4, per_node=1, per_namespace=3, per_hour=400, node_seconds=5.0, workload_seconds=8.0)
FEW: Final = Caps(per_run=2, per_node=1, per_namespace=2, per_hour=10, node_seconds=60.0, workload_seconds=60.0)
GROWN_SECONDS: Final = 5.0  # the most that a pause of a breaker, of a pod that came back, or without effect lasts
# A Lease runs out, the longest window, overloadedFor, a run under way and the next, and all pauses of policy.
PERIODS_SECONDS: Final = 15.0 + 7.0 + 4.0 + 2 * 2.0 + CAPS.node_seconds + CAPS.workload_seconds + GROWN_SECONDS
HEAT_SECONDS: Final = 15.0
READY_SECONDS: Final = 90.0
LOOK_SECONDS: Final = 0.2
START_SECONDS: Final = 150.0  # for the pods of the beginning, on a busy machine
_BINDINGS: Final = "apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
_ADMINISTRATOR: Final = {  # a defective descheduler has every right, so that judges see more than refused calls
    "metadata": {"name": "defective"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "ServiceAccount", "name": "evenload-descheduler", "namespace": permissions.NAMESPACE}],
}
HEAVY: Final[bodies.PodOptions] = {
    "cpu_millicores": 100,
    "memory_bytes": 3 * 2**30,
    "memory_request": "128Mi",
    "grace_seconds": 30,
    "annotations": {"cluster.evenload.io/delete-delay": "1s"},
}


Tree: TypeAlias = pathlib.Path | None


class Process(services.Service):
    """A service with a clock of its own, whose output goes through a pipe: no limit of its files holds for a log.

    `tree` is where its code is, from the next start on; with one it runs in an interpreter of its own.
    """

    def __init__(
        self, name: str, options: Sequence[str], directory: pathlib.Path, defects: Iterable[str], tree: Tree
    ) -> None:
        self.tree = tree
        self.shift = shifted.Shift(directory / "clock")
        self.shift.set(0.0)
        own = [process.SERVICE, name, shifted.OPTION, str(self.shift.file), process.SABOTAGES, ",".join(defects)]
        super().__init__(process.__name__, [*own, *options], directory)

    def spawn(self, log: IO[bytes]) -> starting.Process | subprocess.Popen[bytes]:
        """Starts it, and what writes its output into the log until it ends."""
        self._writer = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log)
        assert self._writer.stdin is not None
        with self._writer.stdin as pipe:
            return super().spawn(pipe) if self.tree is None else self._interpreter(self.tree, pipe)

    def _interpreter(self, tree: pathlib.Path, pipe: IO[bytes]) -> subprocess.Popen[bytes]:
        """Starts one, which has imported nothing of this version and shares no memory."""
        environment = {**os.environ, "NO_COLOR": "1", process.TREE: str(tree)}
        command = [sys.executable, "-m", self.name, *self.arguments]
        return subprocess.Popen(command, cwd=services.ROOT, stdout=pipe, stderr=pipe, env=environment)

    def ended(self) -> int:
        """The exit code, once all that was logged is in the file."""
        code = super().ended()
        self._writer.wait()
        return code


class Terms(NamedTuple):
    """Of a run: defects by name, the seconds until all has to be ready and a new pod placed, where the code is that the
    services begin with, how many nodes there are, how long a fault lasts at least and at most, and what gives the
    services their rights.
    """

    defects: tuple[str, ...] = ()
    ready_seconds: float = READY_SECONDS
    tree: Tree = None
    nodes: int = NODES
    fault_seconds: tuple[float, float] = (1.0, 8.0)
    grant: Callable[[cluster.Cluster], None] = permissions.apply

    @property
    def caps(self) -> Caps:
        """The policy's; with defects few evictions and long rests, so that too many and too soon are seen soon. On a
        busy machine a node that has no rest is relieved again after more than five seconds.
        """
        return CAPS if sabotages.SILENT.issuperset(self.defects) else FEW

    @property
    def calm_seconds(self) -> float:
        """Within how many seconds all has to happen in a calm: the periods, on a machine that may be busy."""
        return PERIODS_SECONDS + self.ready_seconds

    def complaints(self) -> list[str]:
        """Words that judges have to say of the defects."""
        return [words for name in self.defects for words in sabotages.SABOTAGES[name].complaints]


class Site:
    """The cluster, the services by name ("annotator-0"), and what was seen so far."""

    def __init__(self, running: cluster.Cluster, directory: pathlib.Path, rng: random.Random, terms: Terms) -> None:
        self.cluster, self.directory, self.rng = running, directory, rng
        self.door = config.connect(str(running.kubeconfig))
        self.policy = directory / "policy.yaml"
        self.terms = terms
        self.obey()
        self.ledger = directory / "ledger.sqlite"
        self.services = {
            f"{name}-{number}": self._service(name, number)
            for name in ("annotator", "extender", "descheduler")
            for number in (0, 1)
        }
        self.budgeted = tuple(f"{sabotages.BUDGETED}{number}" for number in range(WORKLOADS))
        self.audit = running.directory / "logs" / "audit.log"
        self.address = forwarding.Forwarder(*(self.services[f"extender-{number}"].port for number in (0, 1)))
        self._heat_rng = random.Random(rng.random())  # of a thread of its own
        self.watch = PodWatch(running.api)
        self.violations: list[str] = []
        self.others: dict[str, list[float]] = {}
        self.apiserver_gaps: list[float] = []  # when the apiserver or etcd went, so that answers have no audit line
        self.jumps: list[Jump] = []  # of deschedulers
        self.codes: list[tuple[str, int]] = []
        self.heating = threading.Lock()  # of whoever sets the loads of nodes
        self._stop = threading.Event()
        self._heating = threading.Thread(target=self._heat)

    def obey(self) -> None:
        """Writes the policy: short windows, Enforce, caps that a run of minutes can reach, and what defects change."""
        caps, grown = self.terms.caps, {"initial": "1s", "max": f"{GROWN_SECONDS:g}s"}
        limits = {"perRun": caps.per_run, "perNode": caps.per_node, "perNamespace": caps.per_namespace,
                  "perHour": caps.per_hour, "unreplaced": 10, "unreplacedPerNamespace": 10}  # fmt: skip
        cooldown = {"workload": f"{caps.workload_seconds:g}s", "node": f"{caps.node_seconds:g}s", "ineffective": grown,
                    "returned": {**grown, "window": "1m"}}  # fmt: skip
        breaker = {"backoff": "1s", "max": f"{GROWN_SECONDS:g}s", "steps": 1000}
        sections: dict[str, Any] = {"mode": "Enforce", "limits": limits, "cooldown": cooldown, "breaker": breaker}
        for name in self.terms.defects:
            for key, value in sabotages.SABOTAGES[name].policy.items():
                sections[key] = {**sections[key], **value} if isinstance(value, Mapping) else value
        policies.write(self.policy, **{f"descheduler__{key}": value for key, value in sections.items()})

    def _service(self, name: str, number: int) -> Process:
        directory = self.directory / f"{name}-{number}"
        directory.mkdir()
        kubeconfig = permissions.kubeconfig(self.cluster, name)
        options = ["--policy", str(self.policy), "--kubeconfig", str(kubeconfig), "--namespace", permissions.NAMESPACE]
        if name != "extender":
            options += ["--prometheus", self.cluster.prometheus_url]
        if name == "descheduler":
            options += ["--ledger", str(self.ledger)]
        defects = sabotages.of_service(name, self.terms.defects)
        return Process(name, options, directory, defects, self.terms.tree)

    def begin(self) -> None:
        """Creates the workloads, starts everything, and waits until all pods are Ready."""
        for one in self.services.values():
            one.start()
        self.cluster.start_scheduler(extenders=[extender_stanza.at(f"http://127.0.0.1:{self.address.port}")])
        for name in self.budgeted:
            self._deploy(name, HEAVY)
            self.door.create(kinds.BUDGETS, bodies.budget(name, AVAILABLE), namespace="default")
        self.door.create(kinds.PRIORITY_CLASSES, {"metadata": {"name": "least"}, "value": -10})
        tempting: bodies.PodOptions = {**HEAVY, "priority_class": "least"}  # without protection they would go first
        protected = {**HEAVY["annotations"], "evenload.io/evictable": "false"}
        self._deploy(PROTECTED, {**tempting, "annotations": protected})
        wanted = (WORKLOADS + 1) * REPLICAS
        waiting.eventually(
            lambda: sum(pod.ready for pod in self.pods()) == wanted, START_SECONDS, "all pods to be Ready"
        )
        self.watch.start()
        self._heating.start()

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

    def _heat(self) -> None:
        """Makes other nodes hot from time to time: those with most pods, and one with a protected pod."""
        hot: list[str] = []
        while not self._stop.is_set():
            with self.heating, contextlib.suppress(errors.KubeError, urllib.error.URLError, OSError):
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

    def deschedulers(self) -> list[Process]:
        """Both of them."""
        return [one for name, one in self.services.items() if name.startswith("descheduler")]

    def pause_seconds(self) -> float:
        """Returns how long a fault lasts."""
        return self.rng.uniform(*self.terms.fault_seconds)

    def pause(self, seconds: float | None = None) -> None:
        """Lets a fault last, by default for a time of the seed."""
        self._stop.wait(self.pause_seconds() if seconds is None else seconds)

    def within(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Waits until a condition holds; False if it does not within so many seconds."""
        limit = time.monotonic() + seconds
        while not (holds := condition()) and time.monotonic() < limit:
            self._stop.wait(LOOK_SECONDS)
        return holds

    def recovered(self, fault: str) -> None:
        """Judges what has to be true again within a bound: every service ready, and a new pod placed."""
        seconds, waiting = self.terms.ready_seconds, dict(self.services)

        def are_ready() -> bool:
            for name in [name for name, one in waiting.items() if is_ready(one)]:
                del waiting[name]
            return not waiting

        self.within(are_ready, seconds)
        late = [f"{name} is not ready" for name in waiting]
        late += [] if self._placed() else ["a new pod is not placed"]
        self.violations += [f"after {fault}: {sentence} after {seconds:g} s" for sentence in late]

    def _placed(self) -> bool:
        """Creates a pod; True if kube-scheduler binds it in time."""
        name = f"{sabotages.CANARY}{self.rng.getrandbits(32):08x}"
        is_placed = self.within(lambda: self.is_bound(name), self.terms.ready_seconds)
        with contextlib.suppress(errors.KubeError):
            self.door.delete(kinds.PODS, name, namespace="default")
        return is_placed

    def is_bound(self, name: str) -> bool:
        """True if a node has the pod of this name, which is created if there is none."""
        with contextlib.suppress(errors.KubeError):
            try:
                return bool(self.door.get(kinds.PODS, name, namespace="default").node_name)
            except errors.NotFound:
                self.door.create(kinds.PODS, bodies.pod(name), namespace="default")
        return False

    def memory(self) -> dict[str, float]:
        """The memory of each service in MiB."""
        return {name: contestants.pss_mebibytes(one.pid) for name, one in self.services.items() if one.running}

    def end(self) -> None:
        """Ends the threads, then every service by SIGTERM."""
        self._stop.set()
        self.watch.end()
        if self._heating.is_alive():
            self._heating.join()
        self.codes += [(name, one.stop()) for name, one in self.services.items() if one.running]

    def verdicts(self) -> list[str]:
        """All that broke an invariant."""
        asked, deleted = records.evictions(self.audit), records.deletions(self.audit)
        rows = judging.by_the_true_clock(records.rows(self.ledger), self.jumps)
        rows = [self.watch.corrected(row) for row in rows]
        by_us = {one.pod_uid for one in asked if one.accepted} | {one.pod for one in deleted}
        least = dict.fromkeys(self.budgeted, AVAILABLE)
        logs = {name: one.log() for name, one in self.services.items()}
        return [
            *self.violations,
            *judging.without_a_row(asked, rows),
            *judging.without_an_eviction(asked, rows, self.apiserver_gaps),
            *judging.twice(asked),
            *judging.over_caps(rows, self.terms.caps),
            *judging.restless(rows, self.terms.caps),
            *judging.unprotected(asked, self.watch.uids(PROTECTED)),
            *judging.deleted(deleted),
            *judging.under_budget(self.watch.departures, by_us, least, self.others),
            *judging.tracebacks(logs),
            *judging.exit_codes(self.codes),
        ]

    def missed(self) -> list[str]:
        """The words of complaints of defects that no judge says so far, but for those that come at the end."""
        wanted = [one for one in self.terms.complaints() if one not in sabotages.AT_THE_END]
        broken = self.verdicts() if wanted else []
        return [one for one in wanted if not any(one in sentence for sentence in broken)]


def is_ready(service: services.Service) -> bool:
    """True if GET /readyz answers 200."""
    try:
        return service.running and bool(service.text("/readyz"))
    except OSError:
        return False


@contextlib.contextmanager
def started(directory: pathlib.Path, rng: random.Random, terms: Terms) -> Iterator[Site]:
    """Everything runs, and all pods are Ready."""
    with contextlib.ExitStack() as undo:
        running = undo.enter_context(cluster.Cluster(nodes=terms.nodes, node_exporter=False, audit=True))
        running.api.create("api/v1/namespaces", {"metadata": {"name": permissions.NAMESPACE}})
        terms.grant(running)
        if terms.defects:
            running.api.create(_BINDINGS, _ADMINISTRATOR)
        made = Site(running, directory, rng, terms)
        undo.callback(made.door.close)
        undo.callback(made.end)
        undo.enter_context(made.address)
        made.begin()
        yield made
