"""`python -m extender`: answer kube-scheduler's questions by load. Wiring only.

A policy or kubeconfig that cannot be used ends the process with code 2 before anything listens. An apiserver that
cannot be reached does not: the extender starts, answers neutrally and becomes ready once it has listed nodes and
pods.
"""

if __name__ == "__main__":
    from runtime import interrupts

    interrupts.exit_on_interrupt()

import json
import pathlib
import random

import click
import msgspec

from extender import service
from extender.http import gunicorn_server, tls
from extender.state import cluster_view
from extender.verbs import explain
from kube import config, door, errors, policy_events
from policy.loading import loader
from policy.schema import problems, units
from runtime import clock, exit_codes, logs, options, reloading

REPORTED = (problems.PolicyError, OSError, UnicodeDecodeError, tls.TlsError, errors.KubeError)
LONGEST_DEADLINE_SECONDS = 5.0  # kube-scheduler's own httpTimeout where its configuration gives none
_PEM = click.Path(exists=True, dir_okay=False, path_type=pathlib.Path)


@click.command()
@options.service_options(gunicorn_server.DEFAULT_PORT)
@click.option(
    "--deadline",
    "deadline_seconds",
    default="250ms",
    show_default=True,
    callback=lambda _context, _option, text: _deadline(text),
    metavar="DURATION",
    help="Answer neutrally rather than later than this; about half the scheduler's httpTimeout.",
)
@click.option("--tls-cert", type=_PEM, metavar="FILE", help="Serve TLS with this certificate (PEM, with its chain).")
@click.option("--tls-key", type=_PEM, metavar="FILE", help="Its key (PEM, unencrypted).")
@click.option("--client-ca", type=_PEM, metavar="FILE", help="Ask all but probes and /metrics for a certificate of it.")
@click.option(
    "--client-name", "client_names", multiple=True, metavar="CN", help="Who of that CA may ask. Default: all."
)
def main(
    *,
    options: options.ServiceOptions,
    tls_cert: pathlib.Path | None,
    tls_key: pathlib.Path | None,
    client_ca: pathlib.Path | None,
    client_names: tuple[str, ...],
    deadline_seconds: float,
) -> None:
    """Serve filter, prioritize and preempt to kube-scheduler, by the load that nodes are annotated with."""
    logs.configure(logging_format=options.logging_format, verbosity=options.verbosity)
    ticking = clock.WallClock()
    policy_file: service.PolicyFile = reloading.Reloading(
        options.policy, loader.load, clock=ticking, describe=loader.describe
    )
    with exit_codes.reported(*REPORTED):
        security = tls.chosen(tls_cert, tls_key, client_ca, client_names)
        if security is not None:
            security.load()
        policy_file.load()
        kube = config.connect(options.kubeconfig, options.context)
        if options.once:
            raise SystemExit(int(_once(kube, policy_file, options.namespace, ticking.now())))

    def make() -> service.Service:
        connected = config.connect(options.kubeconfig, options.context)  # a connection must not be shared across a fork
        news = policy_events.PolicyEventPublisher(
            policy_file, connected, policy_events.speaker("extender", options), clock=ticking
        )
        return service.Service(
            connected,
            policy_file,
            namespace=options.namespace,
            ticking=ticking,
            rng=random.Random(),  # noqa: S311 - spreads retries, guards nothing
            security=security,
            news=news,
            deadline_seconds=deadline_seconds,
            left_out=connected.undecodable,
        )

    gunicorn_server.run(options.listen, make, security=security)


def _deadline(text: str) -> float:
    """Seconds of the option's Go duration."""
    try:
        seconds = units.duration_seconds(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if not 0 < seconds <= LONGEST_DEADLINE_SECONDS:
        raise click.BadParameter(f"{text} is not more than 0s and at most {LONGEST_DEADLINE_SECONDS:g}s")
    return seconds


def _once(kube: door.KubeDoor, policy_file: service.PolicyFile, namespace: str, now_seconds: float) -> exit_codes.Exit:
    """Print what GET /nodes would answer; partial when some node has no usable reading."""
    view = cluster_view.ClusterView(policy_file.current, policy_file.content_hash, now_seconds)
    service.read_once(kube, view, namespace=namespace, now_seconds=now_seconds)
    click.echo(json.dumps(msgspec.to_builtins(explain.all_nodes(view, now_seconds)), indent=2))
    counted = explain.states(view, now_seconds)
    whole = counted["usable"] > 0 and counted["usable"] == sum(counted.values())
    return exit_codes.Exit.OK if whole else exit_codes.Exit.PARTIAL


if __name__ == "__main__":
    main()
