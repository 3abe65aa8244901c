"""The three services of a simulated cluster: their own modules over the simulated doors.

`world.world` lets them work at their times; nothing else does: no thread, no socket, no Lease (this is the only
replica). Each is told of time by the virtual clock and draws from generators of its own, so that runs repeat
themselves.
"""

import dataclasses
import functools
import pathlib
import random
import threading
from collections.abc import Callable

import msgspec
from prometheus_client import CollectorRegistry

from annotator import node_sync
from annotator.metrics import Telemetry as AnnotatorTelemetry
from annotator.publish import node_writer
from annotator.service import Service as Annotator
from descheduler.eviction import eviction_events
from descheduler.eviction.evictor import Evictor
from descheduler.ledger.ledger import Ledger
from descheduler.metrics import Telemetry as DeschedulerTelemetry
from descheduler.service import Parts
from descheduler.service import Service as Descheduler
from descheduler.snapshot import cluster_reader
from descheduler.snapshot.cluster_watch import ClusterView, ClusterWatch
from descheduler.sources.prometheus import PrometheusUsage
from extender.service import Service as Extender
from extender.state import node_cache
from kube import events
from kube.door import ScalesDoor
from policy.schema import load_policy
from policy.schema.load_policy import LoadPolicy
from promql.door import PrometheusDoor
from promql.http import circuit_breaker
from promql.queries import identity
from runtime.clock import Clock
from runtime.reloading import Reloading
from simulator.world import handing

NAMESPACE = "evenload-system"


@dataclasses.dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts that all services of a run share: the doors, the clock, the policy file, the seed, a directory for
    files.
    """

    kube: ScalesDoor
    prometheus: PrometheusDoor
    clock: Clock
    policy: Reloading[LoadPolicy]
    seed: int
    directory: pathlib.Path

    def rng(self, who: str) -> random.Random:
        """A generator of its own for each service, the same in every run of a seed."""
        return random.Random(f"{self.seed}/{who}")  # noqa: S311 - jitter and names, not secrets


def policy_file(policy: LoadPolicy, content_hash: str, directory: pathlib.Path, clock: Clock) -> Reloading[LoadPolicy]:
    """A policy as the services get theirs: from a file, which here is written once and named by the given hash."""
    path = directory / "policy.json"
    path.write_bytes(msgspec.json.encode(policy.as_file()))
    held = Reloading(path, lambda text, _source: load_policy.LoadPolicy.model_validate_json(text), clock=clock)
    held.load()
    held.content_hash = content_hash
    return held


def annotator(around: Surroundings, publisher: handing.HandoverPublisher | None) -> Annotator:
    """The annotator, leading; it writes one node after the other, unless a `publisher` hands the readings over."""
    telemetry = AnnotatorTelemetry(CollectorRegistry(), around.clock.now)
    settings = node_sync.Settings(NAMESPACE, identity.SeriesLabels(), writers=1)
    writer = node_writer.Writer(around.kube, telemetry, clock=around.clock, stop=threading.Event())
    prometheus = _guarded(around, "annotator", lambda: around.policy.current.sync.period_seconds)
    inner = node_sync.Annotator(
        prometheus,
        around.kube,
        writer,
        settings,
        clock=around.clock,
        telemetry=telemetry,
        publisher=publisher,
    )
    return Annotator(
        inner,
        around.kube,
        around.policy,
        leads=_always,
        clock=around.clock,
        rng=around.rng("annotator service"),
    )


def extender(around: Surroundings, publisher: handing.HandoverPublisher | None) -> Extender:
    """The extender; it takes readings from a `publisher`, if there is one."""
    handover = None if publisher is None else functools.partial(handing.HandoverTable, publisher)
    return Extender(
        around.kube,
        around.policy,
        namespace=NAMESPACE,
        ticking=around.clock,
        rng=around.rng("extender"),
        table=handover or node_cache.NodeTable,
    )


def descheduler(around: Surroundings, ledger: Ledger) -> Descheduler:
    """The descheduler, leading."""
    clock, door = around.clock, around.kube
    writer = events.EventWriter(door, controller=eviction_events.CONTROLLER, instance="simulated", clock=clock)
    announcer = eviction_events.EventPublisher(writer, ledger, clock)
    prometheus = _guarded(around, "descheduler", lambda: around.policy.current.descheduler.interval_seconds)
    watch = ClusterWatch(door, clock=clock, rng=around.rng("descheduler watches"))

    def view() -> ClusterView:
        watch.catch_up()
        return watch.view()

    reader = cluster_reader.Reader(view, door, PrometheusUsage(prometheus, identity.SeriesLabels()))
    return Descheduler(
        Parts(
            policy=around.policy,
            reader=reader,
            ledger=ledger,
            evicter=Evictor(door, ledger, announcer, clock=clock),
            announcer=announcer,
            telemetry=DeschedulerTelemetry(CollectorRegistry()),
            door=door,
            clock=clock,
            rng=around.rng("descheduler runs"),
            leads=_always,
            holds_lease=_always,
            stopping=threading.Event(),
        )
    )


def _guarded(around: Surroundings, who: str, period_seconds: Callable[[], float]) -> circuit_breaker.CircuitBreaker:
    return circuit_breaker.CircuitBreaker(
        around.prometheus, clock=around.clock, rng=around.rng(who), longest_pause_seconds=period_seconds
    )


def _always() -> bool:
    return True
