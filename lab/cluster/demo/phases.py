"""One phase of the demo: a fresh control plane, the services, the arrivals, a settled end, and its figures.

`__main__` runs two: `plain` (stock kube-scheduler; the annotator only measures) and `evenload` (extender and
descheduler too); `bench.peers_evenness` has others. Each has a cluster of its own, because a fresh one takes five
seconds and remembers nothing: no pods, no history in Prometheus, no ledger. The trace's clock starts at zero with the
arrivals, so all see the same load.
"""

import contextlib
import math
import pathlib
import random
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import requests

from kube import config, door, kinds
from kube.cache import reflector
from lab import cluster
from lab.cluster import ports
from lab.cluster.demo import (
    arrival_plan,
    arriving,
    budgets,
    display,
    installing,
    interrupting,
    measuring,
    permissions,
    services,
    watching,
)
from promql.http import client
from runtime import clock as clocks
from simulator.results import figures

NAMESPACE = "demo"
TICK_SECONDS = 0.2
VIEW_SECONDS = 1.0
READINGS_SECONDS = 150.0
SPEED = 60  # a step of the trace, five minutes, lasts five seconds: the averaging window of deploy/policies/demo.yaml
PLACING_SECONDS = 60.0
REQUEST_SECONDS = 60.0
NEEDED_METRICS = 6
SERVICES = {"plain": (), "evenload": ("extender", "descheduler")}  # beside the annotator
Scheduling = Callable[[cluster.Cluster, watching.Watcher], contextlib.AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of both phases."""

    plan: arrival_plan.Plan
    policy: pathlib.Path
    settle_seconds: float
    min_pod_age_seconds: float
    directory: pathlib.Path | None = None
    interrupted: threading.Event = field(default_factory=threading.Event)

    @property
    def total_seconds(self) -> float:
        """From the first arrival to the end of the observation."""
        return self.plan.shape.span_seconds + self.settle_seconds


class PhaseError(Exception):
    """A phase could not be run to its end."""


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """A cluster that was left running, with what is needed to look around."""

    directory: pathlib.Path
    kubeconfig: pathlib.Path
    prometheus_url: str
    policy: pathlib.Path
    observed_seconds: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a phase."""

    figures: figures.Figures
    violations: tuple[str, ...]
    running: PhaseResult | None = None


class Phase:
    """One phase on one cluster; `run` once.

    services: those beside the annotator, by default the name's. scheduling: entered before the first arrival, when
    every node has its reading; it may start another scheduler.
    """

    def __init__(
        self, name: str, settings: Settings, views: display.Display, clock: clocks.Clock,
        *, services: Sequence[str] | None = None, scheduling: Scheduling | None = None,
    ) -> None:  # fmt: skip
        self._name, self._settings, self._display, self._clock = name, settings, views, clock
        self._services = SERVICES[name] if services is None else services
        self._scheduling = scheduling or (lambda running, watcher: contextlib.nullcontext())
        self._stop = threading.Event()

    def run(self, *, keep: bool = False) -> Outcome:
        """Runs the phase and gives its figures; with `keep` cluster and services stay when it went well."""
        self._display.say(f"{self._name}: starting a control plane with {self._settings.plan.shape.nodes} nodes")
        with contextlib.ExitStack() as undo:
            running = undo.enter_context(self._cluster(keep=keep))
            host = ports.own_address() if keep else "127.0.0.1"
            with services.Services(running, self._settings.policy, _ports(), self._clock, host=host) as own:
                undo.callback(self._stop.set)
                outcome = self._on(running, own)
                if not keep:
                    return outcome
                installing.services(running, {name: one.url for name, one in own.by_name.items()})
                own.left_running = True
            undo.pop_all()
            self._stop.set()
            settings = self._settings
            result = PhaseResult(
                running.directory, running.kubeconfig, running.prometheus_url, settings.policy, settings.total_seconds
            )
            return Outcome(outcome.figures, outcome.violations, result)

    def _cluster(self, *, keep: bool) -> cluster.Cluster:
        directory = (
            self._settings.directory or pathlib.Path(tempfile.mkdtemp(prefix="evenload-demo-")) if keep else None
        )
        return cluster.Cluster(
            self._settings.plan.shape.nodes,
            directory=directory,
            exporter=["--speed", str(SPEED)],
            node_exporter=False,
            detached=keep,
        )

    def _on(self, running: cluster.Cluster, own: services.Services) -> Outcome:
        kube = config.connect(str(running.kubeconfig), None, clock=self._clock)
        self._prepare(running, kube, own)
        watcher = watching.Watcher(kube, own, NAMESPACE)
        guard = self._guard(kube)
        self._await_readings(watcher)
        with self._scheduling(running, watcher):
            start_seconds = self._restart_trace(running)
            player = arriving.Player(kube, self._settings.plan, NAMESPACE)
            end_seconds = start_seconds + self._play(player, watcher, own, guard, start_seconds=start_seconds)
            return Outcome(
                self._figures(running, own, watcher, guard, start_seconds=start_seconds, end_seconds=end_seconds),
                guard.violations,
            )

    def _prepare(self, running: cluster.Cluster, kube: door.KubeDoor, own: services.Services) -> None:
        for name in (permissions.NAMESPACE, NAMESPACE):
            kube.create(kinds.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        permissions.apply(running)
        installing.guard(running, self._settings.min_pod_age_seconds)
        own.start("annotator", *self._services)
        if "extender" in self._services:
            running.start_scheduler(extenders=[own.extender_stanza()])
        own.record()
        running.scrape([one.address for one in own.by_name.values()])
        account = f"api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
        self._await(lambda: running.api.exists(account), f"the ServiceAccount of namespace {NAMESPACE}")

    def _guard(self, kube: door.KubeDoor) -> budgets.Watcher:
        """A thread of its own watches the budgets, so that no violation falls between two looks."""
        guard = budgets.Watcher()
        rng = random.Random(self._settings.plan.seed)
        watched = reflector.Reflector(kube, kinds.BUDGETS, clock=self._clock, rng=rng, on_change=guard.on_change)
        watched.start(self._stop)
        return guard

    def _await_readings(self, watcher: watching.Watcher) -> None:
        nodes = self._settings.plan.shape.nodes

        def all_there() -> bool:
            readings = watcher.readings()
            return len(readings) == nodes and all(len(each.values) >= NEEDED_METRICS for each in readings.values())

        self._display.say(f"{self._name}: waiting for a reading on every node")
        self._await(all_there, f"a reading of {NEEDED_METRICS} metrics on each of {nodes} nodes")

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        limit = self._clock.monotonic() + READINGS_SECONDS
        while not condition():
            if self._clock.monotonic() > limit:
                raise PhaseError(
                    f"{self._name}: no {what} after {READINGS_SECONDS:g} s; look at the logs of the services"
                )
            interrupting.pause(self._clock, self._settings.interrupted, TICK_SECONDS)

    def _restart_trace(self, running: cluster.Cluster) -> float:
        answer = requests.post(f"{running.exporter_url}/clock", json={"trace_seconds": 0}, timeout=REQUEST_SECONDS)
        answer.raise_for_status()
        return self._clock.now()

    def _play(
        self, player: arriving.Player, watcher: watching.Watcher, own: services.Services, guard: budgets.Watcher,
        *, start_seconds: float,
    ) -> float:  # fmt: skip
        """How long it was: longer than planned where the last batch came late, which then gets its time to settle."""
        shown_at, end_seconds, owners = -VIEW_SECONDS, math.inf, len(self._settings.plan.owners)
        while (elapsed_seconds := self._clock.now() - start_seconds) < end_seconds:
            if player.play(elapsed_seconds) == owners and end_seconds == math.inf:
                settled_seconds = self._clock.now() - start_seconds + self._settings.settle_seconds
                end_seconds = max(self._settings.total_seconds, settled_seconds)
            if elapsed_seconds - shown_at >= VIEW_SECONDS:
                shown_at = elapsed_seconds
                own.check()
                total_seconds = self._settings.total_seconds
                self._display.show(watcher.view(self._name, elapsed_seconds, total_seconds, guard.violations))
            interrupting.pause(self._clock, self._settings.interrupted, TICK_SECONDS)
        return end_seconds

    def _pending(self, watcher: watching.Watcher) -> int:
        """Pods without a node at the end that find none for a while after either: some are always on their way."""
        waiting = {pod.uid for pod in watcher.pods() if not pod.node_name}
        for _ in self._a_while():
            if not waiting:
                break
            waiting &= {pod.uid for pod in watcher.pods() if not pod.node_name}
        return len(waiting)

    def _counted(self, watcher: watching.Watcher, annotator: services.Service) -> str:
        """The annotator's metrics, once it has counted every placement: it hears of them by a watch."""
        bound = sum(bool(pod.node_name) for pod in watcher.pods())
        metrics = annotator.text("/metrics")
        for _ in self._a_while():
            if measuring.placed(metrics) >= bound:
                break
            metrics = annotator.text("/metrics")
        return metrics

    def _a_while(self) -> Iterator[None]:
        """Ticks for a minute at most, for what follows within moments unless the machine is busy."""
        limit = self._clock.monotonic() + PLACING_SECONDS
        while self._clock.monotonic() < limit:
            yield
            interrupting.pause(self._clock, self._settings.interrupted, TICK_SECONDS)

    def _figures(
        self, running: cluster.Cluster, own: services.Services, watcher: watching.Watcher, guard: budgets.Watcher,
        *, start_seconds: float, end_seconds: float,
    ) -> figures.Figures:  # fmt: skip
        prometheus = client.connect(running.prometheus_url)
        pending, metrics = self._pending(watcher), self._counted(watcher, own.by_name["annotator"])
        return figures.Figures(
            effectiveness=measuring.effectiveness(metrics),
            cpu=measuring.node_load(prometheus, "cpu", start_seconds, end_seconds),
            memory=measuring.node_load(prometheus, "memory", start_seconds, end_seconds),
            evictions=len(measuring.evictions(own.by_name["descheduler"])) if "descheduler" in self._services else 0,
            pdb_violations=len(guard.violations),
            pods_bound=measuring.placed(metrics),
            pods_pending=pending,
        )


def _ports() -> ports.Ports:
    return ports.Ports(random.SystemRandom())
