"""From options to doors, policy, ledger and one service; then one run or the loop. Wiring only.

`__main__` calls `run` when the command line is read. It is a module of its own because it brings every library of the
process: the first list of a run has begun by then.
"""

import contextlib
import dataclasses
import gc
import math
import random
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec
from prometheus_client import CollectorRegistry

from descheduler.eviction.eviction_events import CONTROLLER, EventPublisher
from descheduler.eviction.evictor import Evictor
from descheduler.http import views
from descheduler.ledger import decisions
from descheduler.ledger.database import LedgerError
from descheduler.ledger.ledger import Ledger
from descheduler.metrics import Telemetry
from descheduler.service import Parts, Service
from descheduler.snapshot import cluster_reader
from descheduler.snapshot.cluster_watch import ClusterWatch, WatchConnection
from descheduler.snapshot.usage import UsageSource
from descheduler.sources.extender_replicas import Replicas
from descheduler.sources.metrics_server import MetricsServerUsage
from descheduler.sources.prometheus import PrometheusUsage
from kube import config, events, lease, policy_events
from kube import errors as kube_errors
from kube.door import ScalesDoor
from kube.http import client_metrics as kube_telemetry
from policy.loading import loader
from policy.schema.load_policy import LoadPolicy
from policy.schema.problems import PolicyError
from promql import errors as promql_errors
from promql.http import circuit_breaker
from promql.http import options as promql_options
from promql.queries import identity
from runtime import clock, exit_codes, health, logs, loop, terminal
from runtime import options as service_options
from runtime.exit_codes import Exit
from runtime.reloading import POLL_SECONDS, Reloading

if TYPE_CHECKING:
    from promql.http import client

log = logs.get(__name__)

LEASE = "evenload-descheduler"
LATE_SECONDS = 300.0
EXTENDER_PORT = 8900
REPORTED = (PolicyError, OSError, UnicodeDecodeError, LedgerError, kube_errors.KubeError, promql_errors.PromqlError)
CODES: dict[type[Exception], Exit] = {promql_errors.Partial: Exit.PARTIAL}


@dataclasses.dataclass(frozen=True, slots=True)
class CommandLine:
    """The command line."""

    options: service_options.ServiceOptions
    source: str
    connection: promql_options.Connection
    ledger_path: Path
    ledger_named: bool
    ledger_days: int
    labels: identity.SeriesLabels
    leader_elect: bool
    default_port: int
    extender: str = ""
    extender_server_name: str = ""
    extender_tls: Path | None = None


class Usage(NamedTuple):
    """The source of usage, its line in /readyz?verbose, and what keeps its windows, where this process does."""

    source: UsageSource
    check: health.Check
    sample: Callable[[], None] | None = None


def run(command_line: CommandLine, begun: WatchConnection | None) -> None:
    """The whole life of the process; SystemExit with what CODES says."""
    options = command_line.options
    wall, rng, registry = clock.WallClock(), random.Random(), CollectorRegistry()  # noqa: S311 - jitter and run names
    with exit_codes.reported(*REPORTED, codes=CODES), contextlib.closing(Ledger(command_line.ledger_path)) as ledger:
        policy = Reloading(options.policy, loader.load, clock=wall, describe=loader.describe)
        policy.load()
        by_prometheus = command_line.source == service_options.PROMETHEUS
        asking = command_line.connection.connect(options.prometheus) if by_prometheus else None
        door, watch = begun or _connected(options, wall, rng)
        if asking is None:
            used = _of_metrics_server(door, watch, policy, options.namespace, ticking=wall)
        else:
            used = _of_prometheus(asking, command_line.labels, policy, wall, rng=rng, registry=registry)
        registry.register(kube_telemetry.DoorCollector(door.undecodable, watch.watches))
        moved_to = ledger.open_or_set_aside(wall.now())
        if moved_to is not None:
            log.error("ledger is corrupt and was set aside, a new one begun", moved_to=str(moved_to))
        stop = loop.stop_on_signals(signal.SIGTERM) if options.once else loop.stop_on_signals()
        identity = lease.identity(rng)
        election = lease.Election(door, namespace=options.namespace, name=LEASE, identity=identity, clock=wall, rng=rng)
        enforces = policy.current.evicts
        elects = command_line.leader_elect and (enforces or not options.once or bool(ledger.surges(math.inf)))
        leader = election if elects else None
        writer = events.EventWriter(door, controller=CONTROLLER, instance=identity, clock=wall)
        announcer = EventPublisher(writer, ledger, wall)
        speaker = policy_events.speaker("descheduler", options)
        parts = Parts(
            policy=policy,
            reader=cluster_reader.Reader(watch.view, door, used.source),
            ledger=ledger,
            evicter=Evictor(door, ledger, announcer, clock=wall),
            announcer=announcer,
            telemetry=Telemetry(registry),
            door=door,
            clock=wall,
            rng=rng,
            leads=election.is_leader if elects else lambda: True,
            holds_lease=election.holds if elects else lambda: True,
            stopping=stop,
            kept_days=command_line.ledger_days,
            news=policy_events.PolicyEventPublisher(policy, door, speaker, clock=wall),
        )
        parts.telemetry.leader.set_function(lambda: float(parts.leads()))
        parts.telemetry.set_aside.set(ledger.set_aside_at_seconds() or 0.0)
        if options.once:
            code = once(parts, leader, ledger_named=command_line.ledger_named or not enforces)
            gc.freeze()  # or Python looks for garbage among all that it knows, three times, before it ends
            raise SystemExit(code)
        doors = [used.check, door.undecodable.check()]
        _serve(parts, registry, command_line, leader, watch=watch, used=used, doors=doors)


def _of_prometheus(
    asking: "client.Client",
    labels: identity.SeriesLabels,
    policy: Reloading[LoadPolicy],
    ticking: clock.Clock,
    *,
    rng: random.Random,
    registry: CollectorRegistry,
) -> Usage:
    period_seconds = lambda: policy.current.descheduler.interval_seconds  # noqa: E731
    prometheus = circuit_breaker.CircuitBreaker(asking, clock=ticking, rng=rng, longest_pause_seconds=period_seconds)
    registry.register(circuit_breaker.DoorCollector(prometheus, asking.traffic))
    check = health.Check("circuit to Prometheus", lambda: None, lambda: prometheus.line)
    return Usage(PrometheusUsage(prometheus, labels), check)


def _of_metrics_server(
    door: ScalesDoor, watch: ClusterWatch, policy: Reloading[LoadPolicy], namespace: str, *, ticking: clock.Clock
) -> Usage:
    source = MetricsServerUsage(watch.view, door, lambda: policy.current, namespace=namespace, clock=ticking)
    return Usage(source, health.Check("metrics-server", lambda: None, lambda: source.line), source.sample)


def _connected(options: service_options.ServiceOptions, ticking: clock.Clock, rng: random.Random) -> WatchConnection:
    door = config.connect(options.kubeconfig, options.context)
    return WatchConnection(door, ClusterWatch(door, clock=ticking, rng=rng))


def _serve(
    parts: Parts,
    registry: CollectorRegistry,
    options: CommandLine,
    election: lease.Election | None,
    *,
    watch: ClusterWatch,
    used: Usage,
    doors: Sequence[health.Check],
) -> None:
    from descheduler.http import app  # brings Flask: an eighth of all imports, which `--once` need not wait for
    from runtime import ops_server

    running, heartbeat, ticking, rng = Service(parts), health.Heartbeat(), parts.clock, parts.rng
    host, port = service_options.listen_address(options.extender, EXTENDER_PORT)
    replicas = Replicas(host, port, options.extender_server_name, options.extender_tls)
    copying = decisions.DecisionSync(replicas, parts.ledger, parts.leads, ticking)
    copied = health.Check("decisions", lambda: None, copying.line)
    limit_seconds = lambda: LATE_SECONDS + 3 * parts.policy.current.descheduler.interval_seconds  # noqa: E731
    late = heartbeat.check("run loop", ticking, limit_seconds=limit_seconds)
    pages = app.create_app(
        running,
        parts.ledger,
        parts.policy,
        clock=ticking,
        livez=[late],
        registry=registry,
        details=[*doors, *watch.watches.checks(), *([copied] if host else [])],
    )
    threads = [("policy", running.poll, lambda: POLL_SECONDS)]
    if used.sample is not None:
        threads.append(("samples", used.sample, lambda: parts.policy.current.sync.period_seconds))
    if host:
        threads.append(("decisions", copying.sync, lambda: decisions.PERIOD_SECONDS))
    runs = loop.Loop(
        "run", running.cycle, period_seconds=running.period_seconds, clock=ticking, rng=rng, heartbeat=heartbeat
    )
    with (
        ops_server.serve(pages, options.options.listen, default_port=options.default_port),
        lease.campaigning(election),
    ):
        watch.start(parts.stopping)
        for name, work, period_seconds in threads:
            beside = loop.Loop(name, work, period_seconds=period_seconds, clock=ticking, rng=rng)
            loop.start_thread(name, beside.run, parts.stopping)
        runs.run(parts.stopping)


def once(parts: Parts, election: lease.Election | None, *, ledger_named: bool) -> Exit:
    """Makes one run and prints its plan.

    Enforce needs a ledger by name and the Lease: without them the run observes and says why.
    """
    why = ""
    if not ledger_named:
        why = "--once in Enforce needs --ledger: caps and cool-downs are counted from the file of the runs before"
    elif election is not None and not election.acquire(parts.stopping):
        why = f"the Lease {LEASE} is held by {election.holder or 'an unknown process'}"
    if why:
        election = None
        parts = dataclasses.replace(parts, why_observe=why, leads=lambda: True, holds_lease=lambda: True)
    with lease.campaigning(election):
        report = Service(parts).run()
    if report is None:
        click.echo("paused by the policy, nothing done", err=True)
        return Exit.OK
    answer = msgspec.json.format(msgspec.json.encode(views.report(report)), indent=2).decode()
    click.echo(terminal.escaped_lines(answer))
    click.echo(terminal.escaped(f"{report.summary} ({report.why})" if report.why else report.summary), err=True)
    return Exit.OK
