"""The command: doors, poller and page on one port, until Ctrl-C."""

import contextlib
import functools
import pathlib
import random
from typing import Any, Final

import click
import flask
from prometheus_client import CollectorRegistry

from cli import prometheus_finding, story
from cli.common import http_client, output, services, simulation
from cli.console import live
from console import access, app, board, polling
from console.sources import Doors, Replay
from kube import config, kinds
from kube import errors as kube_errors
from promql import errors as promql_errors
from promql.http import options as promql_options
from runtime import clock, exit_codes, files, logs, loop, ops_server
from runtime import options as runtime_options

DEFAULT_PORT: Final = 8088
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=pathlib.Path)


@click.command("console", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--listen", default=f"127.0.0.1:{DEFAULT_PORT}", show_default=True, metavar="HOST:PORT")
@click.option("--prefix", default="", metavar="PATH", help="The path under which a proxy passes requests on.")
@click.option("--token-file", type=_FILE, metavar="FILE", help="People sign in with what is in this file.")
@click.option("--demo", is_flag=True, help="Show a simulated day: no cluster is needed.")
@click.option("--demo-nodes", type=click.IntRange(2, 500), default=40, show_default=True)
@click.option("--demo-hours", type=click.FloatRange(0, 23), default=4.0, show_default=True, help="Over at once.")
@click.option("--demo-pause", type=click.FloatRange(0.1), default=3.0, show_default=True, metavar="SECONDS",
    help="Between five simulated minutes.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=9, show_default=True, help="Of the simulated day.")
@click.option("--history", type=_FILE, metavar="FILE", help="Replay this day (evenload whatif --save).")
@click.option("--pool-label", default="", metavar="LABEL", help="The node label that names pools.")
@click.option("--prometheus", default="", metavar="URL", help="For the figures of effectiveness.")
@promql_options.connection_options
@click.option("--selector", default="", metavar="MATCHERS", help="""Further matchers of these, e.g. 'cluster="a"'.""")
@services.url_option(services.EXTENDER)
@services.url_option(services.DESCHEDULER)
@services.place_options
def main(
    *, listen: str, prefix: str, token_file: pathlib.Path | None, demo: bool, demo_nodes: int, demo_hours: float,
    demo_pause: float, seed: int, **options: Any,
) -> None:  # fmt: skip
    """Show a cluster in the browser, live: load, decisions, plan, evictions, policy. It reads only.

    \b
    Examples:
      evenload console
      evenload console --context production --prometheus http://prometheus:9090
      evenload console --demo
    """
    logs.configure(verbosity=-1)  # people read the address
    stop = loop.stop_on_signals()
    with (
        contextlib.ExitStack() as opened,
        exit_codes.reported(kube_errors.KubeError, promql_errors.PromqlError, OSError, ValueError),
    ):
        if demo:
            output.say(f"a simulated day begins; its first {demo_hours:g} hours take a moment")
            doors = opened.enter_context(
                simulation.imported("simulator.commands.simulated_console").opened(
                    seed=seed, nodes=demo_nodes, quick_hours=demo_hours, pause_seconds=demo_pause
                )
            )
        else:
            doors = real(**options)
        host, _ = runtime_options.listen_address(listen, DEFAULT_PORT)
        rules = access.Access(_token(token_file), local=http_client.is_loopback(host))
        topics = board.Board()
        opened.callback(topics.close)
        path = f"/{prefix.strip('/')}".rstrip("/")
        page = application(doors, topics, rules, prefix=path)
        pace = 1.0 if not demo else 0.4
        rng = random.Random()  # noqa: S311 - jitter
        poller = polling.Poller(doors, topics, ticking=clock.WallClock(), rng=rng, pace=pace)
        server = opened.enter_context(ops_server.serve(page, listen, default_port=DEFAULT_PORT))
        poller.start(stop)
        shown_host = f"[{host}]" if ":" in host else host or "0.0.0.0"  # noqa: S104 - as it is printed
        output.say(f"open http://{shown_host}:{server.port}{path}/ (Ctrl-C ends it)")
        stop.wait()


def application(doors: Doors, topics: board.Board, rules: access.Access, *, prefix: str = "") -> flask.Flask:
    """The page's application over these doors."""
    registry = CollectorRegistry()
    ops = ops_server.ops_blueprint(livez=(), readyz=(), registry=registry, configz=dict)
    return app.create_app(doors, topics, rules, ops, prefix=prefix)


def real(
    *,
    prometheus: str,
    connection: promql_options.Connection,
    selector: str,
    extender: str | None,
    descheduler: str | None,
    pool_label: str,
    history: pathlib.Path | None,
    **place: Any,
) -> Doors:
    """The doors of the cluster that the options name."""
    where = services.Where(**place)
    kubeconfig, context = where.kubeconfig, where.context
    has_kubeconfig = bool(kubeconfig or context or config.has_kubeconfig())
    kube = config.connect(kubeconfig, context) if has_kubeconfig else None
    door, measured = None, None
    if prometheus or kube is not None:
        with contextlib.suppress(promql_errors.ConfigError):
            door = prometheus_finding.connect(prometheus, connection, kubeconfig, context)
            measured = functools.partial(live.effectiveness, door, selector)
    descheduler_at = where._replace(url=descheduler)
    sources = story.Sources(
        lambda: live.replicas(services.DESCHEDULER, descheduler_at)[0],
        lambda: config.connect(kubeconfig, context).list(kinds.NODES).items,
        lambda: door or prometheus_finding.connect(prometheus, connection, kubeconfig, context),
        selector,
    )
    return Doors(
        title=f"{config.context_name(kubeconfig, context)} {kube.url}".strip() if kube else extender or "this machine",
        now=clock.WallClock().now,
        extenders=functools.partial(live.replicas, services.EXTENDER, where._replace(url=extender)),
        deschedulers=functools.partial(live.replicas, services.DESCHEDULER, descheduler_at),
        pods=None if kube is None else functools.partial(live.pods_of, kube, door, selector),
        pools=None if kube is None else functools.partial(live.pools_of, kube, pool_label),
        effectiveness=measured,
        check=live.check,
        what_if=_replay(history),
        story=functools.partial(story.document, sources),
    )


def _replay(history: pathlib.Path | None) -> Replay | None:
    """The playground's replay of a recorded day, or of a generated one; without the simulator there is none."""
    try:
        replay: Replay = simulation.imported("simulator.commands.playground").replaying(history)
    except simulation.NotInstalled:
        if history is not None:
            raise
        return None
    return replay


def _token(file: pathlib.Path | None) -> str:
    if file is None:
        return ""
    token = files.read(file).decode().strip()
    if not token:
        raise ValueError(f"{file} is empty; expected the token that people sign in with, at least 16 characters")
    if len(token) < 16:
        raise ValueError(f"{file}: the token has {len(token)} characters; expected 16 or more: openssl rand -hex 16")
    return token
