"""`python -m lab.cluster up | down | status | build`: the local control plane for people.

`make cluster` and `make cluster-down` are the short forms. Only wiring. Progress and errors go to stderr; stdout
carries what a script may want: the kubeconfig's path and an export line.
"""

import collections.abc
import contextlib
import pathlib
import sys

import click

from lab.cluster import binaries, cache, control_plane, errors, extender_stanza, processes, programs, site, state

DIRECTORY = click.option(
    "--directory",
    type=click.Path(path_type=pathlib.Path, file_okay=False),
    default=site.default_directory,
    show_default="~/.cache/evenload/clusters/default",
    help="Where the cluster keeps everything.",
)


@click.group()
def main() -> None:
    """A real Kubernetes control plane with fake nodes and Prometheus on this machine."""


@main.command()
@click.option(
    "--nodes", default=20, show_default=True, type=click.IntRange(min=0), help="Fake nodes, node-0, node-1, …"
)
@click.option(
    "--scrape-seconds", default=1.0, show_default=True, type=click.FloatRange(min=0.1), help="Prometheus' rhythm."
)
@click.option("--audit", is_flag=True, help="Write logs/audit.log.")
@click.option("--exporter/--no-exporter", default=True, show_default=True, help="Play load for the fake nodes.")
@click.option("--extender", metavar="URL", help="Let kube-scheduler ask this extender, with the shipped stanza.")
@DIRECTORY
def up(
    *, nodes: int, scrape_seconds: float, audit: bool, exporter: bool, extender: str | None, directory: pathlib.Path
) -> None:
    """Build what is missing, start everything, print the kubeconfig; it stays until `down`."""
    with _reported():
        cluster = control_plane.Cluster(
            nodes,
            directory=directory,
            scrape_seconds=scrape_seconds,
            audit=audit,
            exporter=None if exporter else False,
            detached=True,
        )
        cluster.start()
        if extender is not None:
            cluster.start_scheduler(extenders=[extender_stanza.at(extender)])
    cache.say(f"{nodes} nodes are Ready; Prometheus: {cluster.prometheus_url}; logs: {cluster.directory / 'logs'}")
    cache.say(_next(cluster, extender, directory))
    click.echo(cluster.kubeconfig)
    click.echo(f"export KUBECONFIG={cluster.kubeconfig}")


def _next(cluster: control_plane.Cluster, extender: str | None, directory: pathlib.Path) -> str:
    """The commands with which people go on: Evenload's services on this cluster, and its end."""
    evenload = processes.ROOT / ".venv" / "bin" / "evenload"
    common = (
        f"--policy {processes.ROOT}/deploy/policies/demo.yaml --kubeconfig {cluster.kubeconfig} --namespace default"
    )
    here = "" if directory == site.default_directory() else f" --directory {directory}"
    scheduler = f"kube-scheduler asks {extender}" if extender else "again with --extender URL: kube-scheduler asks it"
    return "\n".join(
        (
            "next, each in a terminal of its own:",
            f"  {evenload} annotator {common} --prometheus {cluster.prometheus_url}",
            f"  {evenload} extender {common}        # {scheduler}",
            f"  {evenload} descheduler {common} --prometheus {cluster.prometheus_url} --ledger /tmp/evenload.db",
            f"  {evenload} nodes --extender http://127.0.0.1:8900",
            f"end it with: {sys.executable} -m lab.cluster down{here}",
        )
    )


@main.command()
@DIRECTORY
def down(*, directory: pathlib.Path) -> None:
    """Stop exactly the processes that `up` started, also after a crash; the logs stay."""
    with _reported():
        recorded = state.read(directory)
        if recorded is None:
            cache.say(f"no cluster is recorded in {directory}; nothing to stop")
            return
        stopped = state.stop(recorded)
        state.clean(directory)
    cache.say(f"stopped {', '.join(stopped)}" if stopped else "its processes were gone already; removed what they left")


@main.command()
@DIRECTORY
def status(*, directory: pathlib.Path) -> None:
    """Say what runs; exit code 1 when something recorded does not."""
    with _reported():
        recorded = state.read(directory)
    if recorded is None:
        click.echo(f"no cluster in {directory}")
        sys.exit(1)
    running = set(state.alive(recorded))
    for record in recorded.records:
        word = "running" if record in running else "gone"
        click.echo(f"{record.name:24} {word:8} pid {record.process.pid:<8} {recorded.addresses.get(record.name, '')}")
    click.echo(f"nodes: {recorded.nodes}, kubeconfig: {directory / 'kubeconfig'}, logs: {directory / 'logs'}")
    sys.exit(0 if len(running) == len(recorded.records) else 1)


@main.command()
@click.argument("modules", nargs=-1, type=click.Path(path_type=pathlib.Path, exists=True, file_okay=False))
def build(modules: tuple[pathlib.Path, ...]) -> None:
    """Find or build the commands of the control plane and the programs of these Go modules, print where they are."""
    with _reported():
        for name, path in binaries.find_or_build().items():
            click.echo(f"{name:24} {path}")
        for module in modules:
            click.echo(f"{module.name:24} {programs.built(module)}")


@contextlib.contextmanager
def _reported() -> collections.abc.Iterator[None]:
    """The package's errors and the machine's (a full disk, no permission) end with their message and exit code 2."""
    try:
        yield
    except errors.ClusterError as error:
        cache.say(f"error: {error}")
        sys.exit(2)
    except OSError as error:
        cache.say(f"error: {error}. If this is about the cache, EVENLOAD_CACHE names another place for it.")
        sys.exit(2)


if __name__ == "__main__":
    main()
