"""The order of things: a scenario happens to a simulated cluster, and the services live in it.

`run` is what `runs` and tests call. A `World` puts everything on the kernel: at the end of each step the truth of use
is closed, the annotator syncs and the descheduler runs, in this order; replicas arrive and leave at their times, and
what waits for a node is scheduled at the moment it waits, pod by pod, with the extender's watches caught up before
each. Between two events nothing moves.
"""

import contextlib
import functools
import gc
import pathlib
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from wsgiref import types as wsgi

import numpy as np

from annotator.service import Service as Annotator
from descheduler.ledger.ledger import Ledger
from descheduler.service import Service as Descheduler
from extender.service import Service as Extender
from kube import kinds
from kube.objects import Pod
from policy.schema import node_pools
from promql import errors
from runtime import interrupts, logs
from simulator.apiserver import ApiServer
from simulator.controllers.budgets import Budgets
from simulator.controllers.delays import Delays
from simulator.controllers.kubelet import Kubelet
from simulator.controllers.nodes import Nodes
from simulator.controllers.owners import Owners
from simulator.kernel import Kernel
from simulator.prometheus.door import Fault, SimulatedPrometheus
from simulator.prometheus.expressions import own
from simulator.results import figures
from simulator.results.outcome import Outcome, Progress, Timeline
from simulator.scenario import Scenario
from simulator.scheduling.extenders import ExtenderPort
from simulator.usage.node_usage import CPU, MEMORY, UsageBook
from simulator.world import handing, recording, services, setup
from simulator.world.extender_http_port import ExtenderHttpPort
from simulator.world.extender_port import DirectExtender
from simulator.world.placing import Placing
from simulator.world.setup import Setup

Report = Callable[[Progress], None]

# At one time: a step is closed, machines come and go, the services look at it, replicas leave, others arrive (0), and
# then pods are scheduled.
STEP, MACHINES, SYNC, RELIEF, LEAVING, PLACING = -5, -4, -3, -2, -1, 1


def run(scenario: Scenario, conditions: Setup, report: Report | None = None) -> Outcome:
    """Let a scenario happen under a setup, and say what came of it.

    `report` is told after each step; what it raises ends the run.
    """
    with calm(), directory_of_a_run() as directory:
        ledger = Ledger(directory / "ledger.db", alone=True).open()
        with (
            contextlib.closing(ledger),
            contextlib.closing(World(scenario, conditions, directory, ledger, report=report)) as world,
        ):
            world.kernel.run(scenario.end_seconds)
            return world.outcome()


@contextlib.contextmanager
def calm() -> Iterator[None]:
    """Services log errors only, and there is no garbage collector: what is made here stays or is freed by counting."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        with logs.errors_only():
            yield
    finally:
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
    """Everything of one run; `kernel.run` lets it happen."""

    def __init__(
        self, scenario: Scenario, conditions: Setup, directory: pathlib.Path, ledger: Ledger, *, report: Report | None
    ) -> None:
        self._scenario, self._setup, self._ledger, self._report = scenario, conditions, ledger, report
        self.kernel = Kernel(scenario.start_seconds)
        clock = self.kernel.clock
        self._api = ApiServer(clock, random.Random(f"{conditions.seed}/apiserver"))  # noqa: S311 - names
        self._api.door(waits=False).create(kinds.NAMESPACES, {"metadata": {"name": services.NAMESPACE}})
        self._book = UsageBook(scenario)
        self._policy = setup.in_force(conditions, scenario.step_seconds)
        self._record = recording.Record()
        self._remarks = recording.Remarks(conditions.explained, len(scenario.replicas))
        self._prometheus = self._made_prometheus()
        self._around = services.Surroundings(
            kube=self._api.door(waits=False),
            prometheus=self._prometheus,
            clock=clock,
            policy=services.policy_file(self._policy, conditions.policy_hash, directory, clock),
            seed=conditions.seed,
            directory=directory,
        )
        self._wire()
        self._plan()

    def _made_prometheus(self) -> SimulatedPrometheus:
        made = SimulatedPrometheus(self._book, self.kernel.clock, own=own(self._policy))
        for begin, end in self._setup.prometheus_away:
            made.inject(Fault(begin, end, errors.Unreachable))
        return made

    def _wire(self) -> None:
        """The cluster's own parts first: what a service hears of has happened."""
        given, api, clock, scenario = self._setup, self._api, self.kernel.clock, self._scenario
        later = Delays(self.kernel)
        self._nodes = Nodes(api)
        kubelet = Kubelet(api, later, start_seconds=setup.START_SECONDS, grace_seconds=setup.GRACE_SECONDS)
        self._owners = Owners(api, scenario.owners, scenario.replicas, finish=kubelet.finish)
        Budgets(api, clock)
        self._annotator = self._annotating()
        self._descheduler: Descheduler | None = None
        self._extender: Extender | None = None
        self.extender_application: wsgi.WSGIApplication | None = None  # where questions go the whole way
        self._port: ExtenderHttpPort | DirectExtender | None = None
        self._hearing: Extender | DirectExtender | None = None  # whom news reach
        self._table: handing.HandoverTable | None = None
        if given.policy is not None and given.descheduler:
            self._descheduler = services.descheduler(self._around, self._ledger)
        if given.policy is not None and given.extender and given.peer is None:
            self._extender = self._ask_evenload()
        rng = np.random.default_rng((given.seed, 7))
        self._placing = Placing(
            api, self.kernel, self._extender_ports(), rng, before=self._before, placed=self._placed, stood=self._stood
        )
        api.subscribe(kinds.PODS, self._pod_changed)
        self._filled: set[int] = set()  # replicas that had a pod
        self._news = True  # of anything but pods, for the extender's watches
        api.subscribe(kinds.NODES, self._heard)
        api.subscribe(kinds.CONFIG_MAPS, self._heard)

    def _annotating(self) -> Annotator:
        """The annotator, and how it learns what there is."""
        if self._setup.whole_way:
            return services.annotator(self._around)
        return services.annotator(self._around, self._readings_published)

    def _ask_evenload(self) -> Extender:
        """The extender, and how kube-scheduler asks it."""
        weight = self._setup.extender_weight
        if self._setup.whole_way:
            extender = services.extender(self._around)
            self.extender_application = extender.app().wsgi_app
            self._port, self._hearing = ExtenderHttpPort(self.extender_application, weight=weight), extender
        else:
            extender = services.extender(self._around, self._made_table)
            self._port = self._hearing = direct = DirectExtender(extender, self.kernel.clock, weight=weight)
            self._api.subscribe(kinds.PODS, direct.pod_changed)
        return extender

    def _made_table(self, metric_names: tuple[str, ...], pools: tuple[node_pools.Pool, ...]) -> handing.HandoverTable:
        self._table = handing.HandoverTable(metric_names, pools)
        return self._table

    def _readings_published(self, readings: handing.PublishedReadings, written: bool) -> None:
        """The annotator would have written: the extender reads it, and pods that it refused try again."""
        if self._table is not None:
            self._table.show(readings)
        if written:
            self._placing.readings_changed()

    def _heard(self, _old: object, _new: object) -> None:
        self._news = True

    def _extender_ports(self) -> list[ExtenderPort]:
        """Returns the extenders that kube-scheduler calls: Evenload's, or a peer in its place."""
        if self._setup.peer is not None:
            parts = setup.SimulatedServices(self._scenario, self._api, self._book, self.kernel.clock, self._owners)
            return [self._setup.peer(parts)]
        return [] if self._port is None else [self._port]

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
        if self._descheduler is not None:
            interval_seconds = self._policy.descheduler.interval_seconds
            relieve = functools.partial(self._relieve, self._descheduler)
            kernel.every(interval_seconds, relieve, first_seconds=start + step, rank=RELIEF)
        for index, replica in enumerate(scenario.replicas):
            if replica.leaves_seconds <= start or replica.arrives_seconds >= scenario.end_seconds:
                continue
            kernel.at(max(start, replica.arrives_seconds), functools.partial(self._owners.arrive, index))
            if replica.leaves_seconds <= scenario.end_seconds:
                kernel.at(replica.leaves_seconds, functools.partial(self._owners.leave, index), rank=LEAVING)

    @property
    def around(self) -> services.Surroundings:
        """The parts that the services share."""
        return self._around

    @property
    def annotator(self) -> Annotator:
        """The annotator."""
        return self._annotator

    @property
    def descheduler(self) -> Descheduler | None:
        """The descheduler; None where it does not run."""
        return self._descheduler

    def catch_up(self) -> None:
        """The extender hears what has happened, as its watches would have told it by now."""
        if self._hearing is not None:
            self._hearing.catch_up(others=self._news)
            self._news = False

    # what happens

    def _step(self) -> None:
        self._book.advance(self.kernel.now_seconds)
        self._placing.flush()
        if self._report is not None:
            self._report(self._progress())

    def _sync(self) -> None:
        self._annotator.nodes.catch_up()
        self._annotator.pods.catch_up()
        self._annotator.sync()

    def _relieve(self, descheduler: Descheduler) -> None:
        descheduler.cycle()
        report = descheduler.last
        if report is not None and report.run.at_seconds == self.kernel.now_seconds:
            outcomes = [one for part in report.parts for one in part.outcomes or ()]
            self._record.evicted(outcomes, self._least_ready, self._around_it)
            self._remarks.evicted(outcomes)

    def _least_ready(self, pod: Pod) -> int | None:
        index = self._owners.replica_of(pod.key)
        return None if index is None else self._scenario.owners[self._scenario.replicas[index].owner].min_available

    def _around_it(self, pod: Pod) -> Iterable[Pod]:
        return self._around.kube.list(kinds.PODS, namespace=pod.namespace).items

    def _before(self, pod: Pod) -> None:
        """A pod's turn is next: its extender hears what has happened, as its watches would have told it by now."""
        self._record.looked_for(pod)
        self.catch_up()
        if self._port is None:
            return
        if self._remarks.wanted(pod):
            self._remarks.explain(pod, self._port.explain(pod, self._node_names()), self.kernel.now_seconds)

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

    def _placed(self, pod: Pod, node: str) -> None:
        self._remarks.placed(pod, node)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._record.pod_changed(old, new)
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

    # what came of it

    def _progress(self) -> Progress:
        scenario, record = self._scenario, self._record
        done = round((self.kernel.now_seconds - scenario.start_seconds) / scenario.step_seconds)
        return Progress(
            steps_done=done,
            steps=scenario.steps,
            at_seconds=self.kernel.now_seconds,
            cpu_ratio=self._book.node_ratio(CPU)[done - 1],
            memory_ratio=self._book.node_ratio(MEMORY)[done - 1],
            pods_bound=record.pods_bound,
            pods_pending=len(record.waiting),
            evictions=record.evictions,
        )

    def outcome(self) -> Outcome:
        """Returns the outcome of a finished run."""
        scenario, record, given = self._scenario, self._record, self._setup
        timeline = Timeline(
            scenario.start_seconds,
            scenario.step_seconds,
            tuple(machine.name for machine in scenario.machines),
            self._book.node_ratio(CPU).copy(),
            self._book.node_ratio(MEMORY).copy(),
        )
        counted = figures.Figures(
            effectiveness=recording.effectiveness(self._annotator.results.tally),
            cpu=figures.load_over(timeline.cpu_ratio, scenario.step_seconds),
            memory=figures.load_over(timeline.memory_ratio, scenario.step_seconds),
            evictions=record.evictions,
            pdb_violations=len(record.violations),
            pods_bound=record.pods_bound,
            pods_pending=len(record.waiting),
        )
        return Outcome(
            variant=given.name,
            seed=given.seed,
            figures=counted,
            timeline=timeline,
            moved=recording.moved(self._ledger),
            explained=tuple(self._remarks.explained),
            unplaced=tuple(record.never_placed()),
            preempted_pods=self._placing.preempted_pods,
            violations=tuple(record.violations),
            assumptions=(*scenario.assumptions, *setup.notes(given, scenario.step_seconds), *self._unknown()),
        )

    def _unknown(self) -> tuple[str, ...]:
        pods, steps = self._book.unknown
        return (f"What {pods} pods used is not known for {steps} steps of a pod: they count as nothing then.",) * bool(
            pods
        )
