"""The order of things: a scenario happens to a simulated cluster, and the services live in it.

`run` is what `runs` and tests call. A `World` puts everything on the kernel: at the end of each step the truth of use
is closed, the annotator syncs and the descheduler runs, in this order; replicas arrive and leave at their times, and
what waits for a node is scheduled at the moment it waits, pod by pod, with the extender's watches caught up before
each. Between two events nothing moves.
"""

import contextlib
import functools
import gc
import logging
import pathlib
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from wsgiref import types as wsgi

import numpy as np

from descheduler.ledger.ledger import Ledger
from descheduler.service import Service as Descheduler
from kube import kinds
from kube.objects import Pod
from runtime import interrupts
from simulator.apiserver import ApiServer
from simulator.controllers.budgets import Budgets
from simulator.controllers.kubelet import Kubelet
from simulator.controllers.nodes import Nodes
from simulator.controllers.owners import Owners
from simulator.kernel import Kernel
from simulator.prometheus.door import SimulatedPrometheus
from simulator.prometheus.expressions import own
from simulator.results.outcome import Outcome, Progress
from simulator.scenario import Scenario
from simulator.scheduling.extenders import ExtenderPort
from simulator.usage.node_usage import UsageBook
from simulator.world import handing, recording, services, setup
from simulator.world.extender_http_port import ExtenderHttpPort
from simulator.world.extender_port import DirectExtender
from simulator.world.placing import Placing
from simulator.world.setup import Setup

Report = Callable[[Progress], None]

# At one time: a step is closed, machines come and go, the services look at it, replicas leave, others arrive (0), and
# then pods are scheduled (`placing.RANK`).
STEP, MACHINES, SYNC, RELIEF, LEAVING = -5, -4, -3, -2, -1


def run(scenario: Scenario, conditions: Setup, report: Report | None = None) -> Outcome:
    """Let a scenario happen under a setup, and say what came of it.

    `report` is told after each step; what it raises ends the run.
    """
    with calm(), opened(scenario, conditions, report) as world:
        world.kernel.run(scenario.end_seconds)
        return world.outcome()


@contextlib.contextmanager
def opened(scenario: Scenario, conditions: Setup, report: Report | None = None) -> Iterator["World"]:
    """A world before its first step, whose ledger and directory end with the block."""
    with (
        directory_of_a_run() as directory,
        contextlib.closing(Ledger(directory / "ledger.db", alone=True).open()) as ledger,
        contextlib.closing(World(scenario, conditions, directory, ledger, report=report)) as world,
    ):
        yield world


@contextlib.contextmanager
def calm() -> Iterator[None]:
    """Services log errors only, and there is no garbage collector: what is made here stays or is freed by counting."""
    enabled, disabled_level = gc.isenabled(), logging.root.manager.disable
    gc.disable()
    logging.disable(max(disabled_level, logging.WARNING))
    try:
        yield
    finally:
        logging.disable(disabled_level)
        if enabled:
            gc.enable()


@contextlib.contextmanager
def directory_of_a_run() -> Iterator[pathlib.Path]:
    """A directory for the files of one run, in memory where the system has such a place."""
    memory = "/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None  # noqa: S108 - TemporaryDirectory makes its own
    with (
        tempfile.TemporaryDirectory(prefix="evenload-", dir=memory) as name,
        interrupts.cleaned_up(lambda: shutil.rmtree(name, ignore_errors=True)),
    ):
        yield pathlib.Path(name)


class World:
    """Everything of one run; `kernel.run` lets it happen. `around` are the parts that the services share."""

    def __init__(
        self, scenario: Scenario, conditions: Setup, directory: pathlib.Path, ledger: Ledger, *, report: Report | None
    ) -> None:
        self._scenario, self._setup, self.ledger, self._report = scenario, conditions, ledger, report
        self.kernel = Kernel(scenario.start_seconds)
        clock = self.kernel.clock
        self._api = ApiServer(clock, random.Random(f"{conditions.seed}/apiserver"))  # noqa: S311 - names
        self._api.door(waits=False).create(kinds.NAMESPACES, {"metadata": {"name": services.NAMESPACE}})
        self._book = UsageBook(scenario)
        self._policy = setup.in_force(conditions, scenario.step_seconds)
        self._recorder = recording.Recorder(scenario, conditions, self._book)
        self.prometheus = SimulatedPrometheus(self._book, clock, own=own(self._policy))
        self.around = services.Surroundings(
            kube=self._api.door(waits=False),
            prometheus=self.prometheus,
            clock=clock,
            policy=services.policy_file(self._policy, conditions.policy_hash, directory, clock),
            seed=conditions.seed,
            directory=directory,
        )
        self._wire()
        self._plan()

    def _wire(self) -> None:
        """The cluster's own parts first: what a service hears of has happened."""
        conditions, api, clock, scenario = self._setup, self._api, self.kernel.clock, self._scenario
        self._nodes = Nodes(api)
        kubelet = Kubelet(api, self.kernel, start_seconds=setup.START_SECONDS, grace_seconds=setup.GRACE_SECONDS)
        self._owners = Owners(api, scenario.owners, scenario.replicas, finish=kubelet.finish)
        Budgets(api, clock)
        handover = handing.HandoverPublisher(lambda: self._placing.readings_changed())
        self._publisher = None if conditions.all_doors else handover
        self.annotator = services.annotator(self.around, self._publisher)
        self.descheduler: Descheduler | None = None  # where it does not run
        self.extender_application: wsgi.WSGIApplication | None = None  # where questions go the whole way
        self._port: ExtenderHttpPort | DirectExtender | None = None
        if conditions.policy is not None and conditions.descheduler:
            self.descheduler = services.descheduler(self.around, self.ledger)
        ports: list[ExtenderPort] = []  # that kube-scheduler calls: Evenload's, or a peer's in its place
        if conditions.peer is not None:
            ports.append(conditions.peer(setup.SimulatedServices(scenario, api, self._book, clock, self._owners)))
        elif conditions.policy is not None and conditions.extender:
            self._port = self._ask_evenload()
            ports.append(self._port)
        rng = np.random.default_rng((conditions.seed, 7))
        self._placing = Placing(
            api,
            self.kernel,
            ports,
            rng,
            before=self._before,
            placed=self._recorder.remarks.placed,
            stood=self._stood,
        )
        api.subscribe(kinds.PODS, self._pod_changed)
        self._filled: set[int] = set()  # replicas that had a pod
        self._news = True  # of anything but pods, for the extender's watches
        api.subscribe(kinds.NODES, self._heard)
        api.subscribe(kinds.CONFIG_MAPS, self._heard)

    def _ask_evenload(self) -> ExtenderHttpPort | DirectExtender:
        """The extender, and how kube-scheduler asks it."""
        weight = self._setup.extender_weight
        extender = services.extender(self.around, self._publisher)
        if self._publisher is None:
            port = ExtenderHttpPort(extender, weight=weight)
            self.extender_application = port.application
            return port
        direct = DirectExtender(extender, self.kernel.clock, weight=weight)
        self._api.subscribe(kinds.PODS, direct.pod_changed)
        return direct

    def _heard(self, _old: object, _new: object) -> None:
        self._news = True

    def _plan(self) -> None:
        """Everything that is known to come, on the kernel."""
        kernel, scenario = self.kernel, self._scenario
        start, step = scenario.start_seconds, scenario.step_seconds
        for machine in scenario.machines:
            kernel.at(max(start, machine.joins_seconds), functools.partial(self._nodes.join, machine), rank=MACHINES)
            if machine.leaves_seconds <= scenario.end_seconds:
                kernel.at(machine.leaves_seconds, functools.partial(self._nodes.leave, machine.name), rank=MACHINES)
        kernel.every(step, self._step, first_seconds=start + step, rank=STEP)
        kernel.every(self._policy.sync.period_seconds, self._sync, first_seconds=start + step, rank=SYNC)
        if self.descheduler is not None:
            interval_seconds = self._policy.descheduler.interval_seconds
            relieve = functools.partial(self._relieve, self.descheduler)
            kernel.every(interval_seconds, relieve, first_seconds=start + step, rank=RELIEF)
        for index, replica in enumerate(scenario.replicas):
            if replica.leaves_seconds <= start or replica.arrives_seconds >= scenario.end_seconds:
                continue
            kernel.at(max(start, replica.arrives_seconds), functools.partial(self._owners.arrive, index))
            if replica.leaves_seconds <= scenario.end_seconds:
                kernel.at(replica.leaves_seconds, functools.partial(self._owners.leave, index), rank=LEAVING)

    def catch_up(self) -> None:
        """The extender hears what has happened, as its watches would have told it by now."""
        if self._port is not None:
            self._port.catch_up(others=self._news)
            self._news = False

    def _step(self) -> None:
        self._book.advance(self.kernel.now_seconds)
        self._placing.flush()
        if self._report is not None:
            self._report(self._recorder.progress(self.kernel.now_seconds))

    def _sync(self) -> None:
        self.annotator.nodes.catch_up()
        self.annotator.pods.catch_up()
        self.annotator.sync()

    def _relieve(self, descheduler: Descheduler) -> None:
        descheduler.cycle()
        report = descheduler.last
        if report is not None and report.run.at_seconds == self.kernel.now_seconds:
            outcomes = [one for part in report.parts for one in part.outcomes or ()]
            self._recorder.evicted(outcomes, self._least_ready, self._around_it)

    def _least_ready(self, pod: Pod) -> int | None:
        index = self._owners.replica_of(pod.key)
        return None if index is None else self._scenario.owners[self._scenario.replicas[index].owner].min_available

    def _around_it(self, pod: Pod) -> Iterable[Pod]:
        return self.around.kube.list(kinds.PODS, namespace=pod.namespace).items

    def _before(self, pod: Pod) -> None:
        """A pod's turn is next: its extender hears what has happened, as its watches would have told it by now."""
        self._recorder.counts.sought.add(pod.key)
        self.catch_up()
        remarks = self._recorder.remarks
        if self._port is not None and remarks.wanted(pod):
            remarks.explain(pod, self._port.explain(pod, self._node_names()), self.kernel.now_seconds)

    def _node_names(self) -> tuple[str, ...]:
        now_seconds, machines = self.kernel.now_seconds, self._scenario.machines
        return tuple(one.name for one in machines if one.joins_seconds <= now_seconds < one.leaves_seconds)

    def _stood(self, pod: Pod) -> str:
        """Where a replica was when a recorded past began, for the first pod that fills it; "" is for the scheduler."""
        index = self._owners.replica_of(pod.key)
        if index is None or index in self._filled:
            return ""
        self._filled.add(index)
        replica = self._scenario.replicas[index]
        pinned = self._scenario.owners[replica.owner].kind == "DaemonSet"
        return "" if pinned or not replica.node or replica.node not in self._node_names() else replica.node

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._recorder.counts.pod_changed(old, new)
        ran, runs = old is not None and old.phase == "Running", new is not None and new.phase == "Running"
        if ran == runs:
            return
        now_seconds = self.kernel.now_seconds
        if ran and old is not None:
            self._book.ended(old.key, now_seconds)
        elif new is not None:
            index = self._owners.replica_of(new.key)
            if index is not None:
                self._book.placed(new.key, index, new.node_name, now_seconds)

    def close(self) -> None:
        """Everything is over: it lets go of what it made, which holds on to it in turn."""
        self._api.close()
        self.kernel.close()
        vars(self).clear()

    def outcome(self) -> Outcome:
        """Returns the outcome of a finished run."""
        tally = self.annotator.results.tally
        return self._recorder.outcome(self.ledger, tally, preempted_pods=self._placing.preempted_pods)
