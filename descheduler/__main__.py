"""`python -m descheduler`: the command line, and the lists of a single run; everything else is `wiring`'s.

One run of a large cluster (`--once`) waits for two things: for the apiserver to write its lists, and for our libraries
to load. So the lists begin first, with as few imports as that takes.

Exit codes: 0 done, 2 bad input (policy, kubeconfig, Prometheus settings, ledger), 3 apiserver or Prometheus out of
reach, 4 the one run of `--once` saw only part.
"""

if __name__ == "__main__":
    from runtime import interrupts

    interrupts.exit_on_interrupt()

import gc
import random
from pathlib import Path
from typing import Any

import click

from descheduler.ledger import retention
from descheduler.snapshot import cluster_watch
from kube import config, errors
from promql.http import options as promql_options
from runtime import clock, logs
from runtime import options as service_options

DEFAULT_PORT = 8902
LEDGER = "evenload-ledger.sqlite"
# A snapshot is hundreds of thousands of objects that all stay: looking through them at every 700th (Python's default)
# finds nothing and costs a fifth of reading them. One run (0: never) ends before there is garbage to speak of.
OBJECTS_BEFORE_COLLECTING, IN_ONE_RUN = 50_000, 0


@click.command()
@service_options.service_options(DEFAULT_PORT)
@service_options.source_option
@promql_options.connection_options
@click.option(
    "--ledger",
    "ledger_path",
    type=click.Path(path_type=Path),
    show_default=LEDGER,
    help="The file that caps and cool-downs are counted from; --once in Enforce observes without it.",
)
@click.option(
    "--ledger-days",
    type=click.IntRange(min=retention.FEWEST_DAYS),
    default=retention.KEPT_DAYS,
    show_default=True,
    help="How long rows of the ledger are kept.",
)
@click.option(
    "--extender",
    default="",
    metavar="HOST:PORT",
    callback=service_options.valid_address,
    help="Copy the decisions that matter from each address of the host. Default: none are copied.",
)
@click.option("--extender-server-name", default="", metavar="NAME", help="Name in its certificate. Default: HOST.")
@click.option(
    "--extender-tls",
    type=click.Path(path_type=Path),
    metavar="DIRECTORY",
    help="Ask it by TLS: ca.crt and, where it wants a client's certificate, tls.crt and tls.key.",
)
@promql_options.series_options
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True, help="One replica acts.")
def main(
    *,
    options: service_options.ServiceOptions,
    source: str,
    ledger_path: Path | None,
    **more: Any,
) -> None:
    """Relieve overloaded nodes by evicting pods that will land elsewhere."""
    if source == service_options.METRICS_SERVER and options.once:
        raise click.UsageError(
            "--once with --source metrics-server: one sample of 15 s is no window to plan by; run it without --once "
            "(mode Observe evicts nothing) and read `evenload plan`, or give --prometheus URL"
        )
    logs.configure(logging_format=options.logging_format, verbosity=options.verbosity)
    before = gc.get_threshold()
    begun: cluster_watch.WatchConnection | None = None
    gc.set_threshold(IN_ONE_RUN if options.once else OBJECTS_BEFORE_COLLECTING)
    try:
        begun = _begun(options) if options.once else None
        from descheduler import wiring  # most of the imports, during which the apiserver is at work

        command_line = wiring.CommandLine(
            options=options,
            source=source,
            ledger_path=ledger_path or Path(LEDGER),
            ledger_named=ledger_path is not None,
            default_port=DEFAULT_PORT,
            **more,
        )
        wiring.run(command_line, begun)
    finally:
        if begun is not None:
            begun.watch.wait()  # a run that ended before it needed them leaves no thread behind
        gc.set_threshold(*before)


def _begun(options: service_options.ServiceOptions) -> cluster_watch.WatchConnection | None:
    """The door and the lists that have begun; None where there is no door: `wiring` says why, in its turn."""
    try:
        door = config.connect(options.kubeconfig, options.context)
    except errors.ConfigError:
        return None
    watch = cluster_watch.ClusterWatch(door, clock=clock.WallClock(), rng=random.Random())  # noqa: S311 - only jitter
    watch.begin_lists()
    return cluster_watch.WatchConnection(door, watch)


if __name__ == "__main__":
    main()
