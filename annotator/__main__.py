"""`python -m annotator`: wiring only. Options -> doors, policy, one annotator; then one cycle or the service.

Exit codes: 0 done, 2 bad input (policy, kubeconfig, Prometheus settings), 3 apiserver, Prometheus or metrics-server out
of reach, 4 the one cycle of `--once` saw or wrote only part.
"""

if __name__ == "__main__":
    from runtime import interrupts

    interrupts.exit_on_interrupt()

import random
import threading

import click
from prometheus_client import CollectorRegistry

from annotator import node_sync, service, sync_outcome
from annotator.collect import metrics_server
from annotator.metrics import Telemetry
from annotator.publish import node_writer
from kube import config, kinds, lease, policy_events
from kube import errors as kube_errors
from kube.door import KubeReader
from kube.pods import compact
from policy.loading import loader
from policy.schema.load_policy import LoadPolicy
from policy.schema.problems import PolicyError
from promql import errors as promql_errors
from promql.http import circuit_breaker
from promql.http import options as promql_options
from promql.queries import identity
from runtime import clock, exit_codes, logs, loop, ops_server, options, terminal
from runtime.exit_codes import Exit
from runtime.options import PROMETHEUS
from runtime.reloading import Reloading

DEFAULT_PORT = 8901
LEASE = "evenload-annotator"
REPORTED = (PolicyError, OSError, UnicodeDecodeError, kube_errors.KubeError, promql_errors.ConfigError)


@click.command()
@options.service_options(DEFAULT_PORT)
@options.source_option
@promql_options.connection_options
@promql_options.series_options
@click.option("--crane-annotations", is_flag=True, help="Also write crane's keys (cpu_usage_avg_5m and so on).")
@click.option("--dry-run", is_flag=True, help="With --once: the apiserver checks every write and stores none.")
@click.option(
    "-o", "output", type=click.Choice(sync_outcome.OUTPUTS), default="text", show_default=True, help="With --once."
)
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True, help="One replica publishes.")
def main(
    *,
    options: options.ServiceOptions,
    source: str,
    connection: promql_options.Connection,
    labels: identity.SeriesLabels,
    crane_annotations: bool,
    dry_run: bool,
    output: str,
    leader_elect: bool,
) -> None:
    """Write what nodes really use on the Node objects, from Prometheus or metrics-server."""
    if (dry_run or output != "text") and not options.once:
        raise click.UsageError("--dry-run and -o say what one sync does: give them together with --once")
    logs.configure(logging_format=options.logging_format, verbosity=options.verbosity)
    wall, registry = clock.WallClock(), CollectorRegistry()
    with exit_codes.reported(*REPORTED):
        policy = Reloading(options.policy, loader.load, clock=wall, describe=loader.describe)
        policy.load()
        rng = random.Random()  # noqa: S311 - jitter, not secrets
        asking = connection.connect(options.prometheus) if source == PROMETHEUS else None
        door = config.connect(options.kubeconfig, options.context)
        stop = threading.Event() if options.once else loop.stop_on_signals()
        prometheus = None
        if asking is not None:
            longest = lambda: policy.current.sync.period_seconds  # noqa: E731
            prometheus = circuit_breaker.CircuitBreaker(
                asking, clock=wall, rng=rng, longest_pause_seconds=longest, stop=stop
            )
            registry.register(circuit_breaker.DoorCollector(prometheus, asking.traffic))
        settings = node_sync.Settings(options.namespace, labels, crane_annotations, once=options.once)
        telemetry = Telemetry(registry, wall.now)
        election = None
        if leader_elect and not options.once:
            own = lease.identity(rng)
            election = lease.Election(door, namespace=options.namespace, name=LEASE, identity=own, clock=wall, rng=rng)
        leads = election.is_leader if election else lambda: True
        writer = node_writer.Writer(door, telemetry, clock=wall, stop=stop, leads=leads, dry_run=dry_run)
        load = None if prometheus else metrics_server.MetricsServerSource(door, clock=wall)
        annotator = node_sync.Annotator(
            prometheus, door, writer, settings, clock=wall, telemetry=telemetry, source=load
        )
        if options.once:
            raise SystemExit(_once(annotator, door, writer, policy, output=output))
        telemetry.leader.set_function(lambda: float(leads()))
        news = policy_events.PolicyEventPublisher(policy, door, policy_events.speaker("annotator", options), clock=wall)
        running = service.Service(
            annotator,
            door,
            policy,
            leads=leads,
            led_until=lambda: election.led_until_seconds if election else None,
            clock=wall,
            rng=rng,
            news=news,
            circuit=(lambda: prometheus.line) if prometheus else None,
            left_out=door.undecodable,
        )
        app = running.app(registry)
        with ops_server.serve(app, options.listen, default_port=DEFAULT_PORT), lease.campaigning(election):
            running.run(stop)


def _once(
    annotator: node_sync.Annotator,
    door: KubeReader,
    writer: node_writer.Writer,
    policy: Reloading[LoadPolicy],
    *,
    output: str,
) -> Exit:
    pods = {pod.key: pod for pod in door.list(compact.PODS).items}
    world = node_sync.World(door.list(kinds.NODES).items, pods)
    outcome = annotator.sync(world, node_sync.Rulebook(policy.current, policy.content_hash))
    for text in sync_outcome.lines(outcome, writer, output):
        click.echo(terminal.escaped_lines(text))
    for problem in outcome.problems():
        click.echo(f"error: {terminal.escaped(problem)}", err=True)
    return Exit.OK if outcome.whole else Exit.PARTIAL if outcome.partly_answered else Exit.UNREACHABLE


if __name__ == "__main__":
    main()
