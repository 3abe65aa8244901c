"""`python -m lab.campaigns.upgrade`: from an older version to this tree and back, under load.

First the chart alone, with everything on, by each major of Helm. Then two replicas of each service begin with the old
version's code, taken from the history of this checkout, under the rights and the guard of its chart. While pods arrive
five times a second and nodes are hot, Helm changes the chart, and each replica gets the other code; old and new ones
stand side by side for a while. The judges are those of runs with faults; besides, no pod may fail to be placed, no row
may be lost, and the guard refuses what it has to and nothing else. Ends with 1 where something did.
"""

import functools
import io
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from typing import Final

import click

from lab import cluster
from lab.campaigns.chaos import records, site
from lab.campaigns.chaos.judging import EvictionCall, Recorded
from lab.campaigns.chaos.site import Site, Terms
from lab.campaigns.upgrade import release
from lab.campaigns.upgrade.arrivals import Arrivals
from lab.campaigns.upgrade.guard import Attempts
from lab.campaigns.upgrade.release import Release
from lab.cluster import cache
from lab.cluster.demo import permissions
from tests.contract import helm_client
from tests.e2e import services

COMMITS: Final = {
    "0.1.0": "37c2cc245eff3bbf5ac9c7d8586ec3c1e43b529a",
    "0.2.0": "3042f99f83a3d2665faeba0a660d19215b3ebbd3",
}
ORDER: Final = ("annotator", "extender", "descheduler")
SKIPPED: Final = "Skipping extender as it returned error"  # kube-scheduler's words
ENDPOINT_SECONDS: Final = 5.0  # the preStop hook's: until no client is sent to an extender that ends
SETTLE_SECONDS: Final = 5.0


@click.command()
@click.option("--from", "version", type=click.Choice(tuple(COMMITS)), default="0.2.0", show_default=True)
@click.option("--side-by-side", default=30.0, show_default=True, help="Seconds with one old and one new replica.")
@click.option("--rounds", default=1, show_default=True, help="Upgrades, each with its way back.")
@click.option("--seed", default=1, show_default=True, help="Of the load.")
def main(version: str, side_by_side: float, rounds: int, seed: int) -> None:
    """Upgrade and go back on a real control plane, and judge."""
    with tempfile.TemporaryDirectory(prefix="evenload-upgrade-") as name:
        here = pathlib.Path(name)
        old = unpacked(here / version, COMMITS[version])
        broken, counts = release.play(here, (old, services.ROOT))
        (here / "site").mkdir()
        installed: list[Release] = []
        terms = Terms(tree=old, grant=functools.partial(install, installed, here / "release", old))
        with site.started(here / "site", random.Random(seed), terms) as running:
            failures, words = play(running, installed[0], (services.ROOT, old) * rounds, side_by_side)
    click.echo(f"{counts}\n{words}")
    broken += failures
    click.echo("\n".join(broken) or "no placement failed, no row was lost, no invariant was broken")
    sys.exit(1 if broken else 0)


def install(installed: list[Release], directory: pathlib.Path, old: pathlib.Path, running: cluster.Cluster) -> None:
    """Gives the services the rights and the guard of the old version's chart."""
    installed.append(Release(running, helm_client.MAJORS[0], directory, (old, services.ROOT)))
    installed[0].install(release.LOADED)
    permissions.apply(running)  # waits until the rights are in force


def unpacked(directory: pathlib.Path, commit: str) -> pathlib.Path:
    """Writes the tree of the old version there."""
    archive = subprocess.run(["git", "archive", commit], cwd=services.ROOT, capture_output=True)
    if archive.returncode != 0:
        why = archive.stderr.decode().strip()
        raise click.ClickException(f"commit {commit} of {directory.name}: {why}; clone with the whole history")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tree:
        tree.extractall(directory, filter="data")
    return directory


def play(
    here: Site, chart: Release, trees: tuple[pathlib.Path, ...], side_by_side_seconds: float
) -> tuple[list[str], str]:
    """Gives the chart and each replica the version of each tree; what broke, and a sentence about the load."""
    arrivals, attempts, known = Arrivals(here.cluster.api), Attempts(here.cluster), dict[int, Recorded]()
    lost: list[str] = []
    attempts.start()
    arrivals.start()
    try:
        for tree in trees:
            for step in roll(here, chart, tree, side_by_side_seconds):
                rows = {row.id: row for row in records.rows(here.ledger)}
                lost += missing(known, rows, step)
                known |= rows
                cache.say(f"{step}: {arrivals.bound} pods placed, {len(rows)} rows")
    finally:
        arrivals.end()
        attempts.end()
    failures = [*unanswered(here), *(f"not placed at once: {one}" for one in arrivals.failures())]
    here.end()
    done = sum(row.result == "evicted" for row in records.rows(here.ledger))
    words = f"{len(trees)} changes of version, {arrivals.bound} pods placed, {len(known)} rows, {done} evicted"
    attempted = f"{attempts.answers.total()} attempts at the guard"
    judged = [*chart.broken, *attempts.verdicts(), *refused(here), *here.verdicts()]
    return [*arrivals.late, *failures, *lost, *judged], f"{words}, {attempted}"


def evictions(here: Site) -> list[EvictionCall]:
    """The calls of deschedulers up to now, and the attempts, which are dry runs."""
    return records.evictions(here.cluster.directory / "logs" / "audit.log")


def refused(here: Site) -> list[str]:
    """Sentences about evictions that the apiserver forbade: the guard knows better than one of the deschedulers."""
    forbidden = [one for one in evictions(here) if one.status == 403 and not one.dry_run]
    return [f"the eviction of {one.namespace}/{one.pod} was forbidden" for one in forbidden]


def unanswered(here: Site) -> list[str]:
    """Sentences of kube-scheduler about calls of the extender that failed; it goes on without an ignorable one."""
    log = (here.cluster.directory / "logs" / "kube-scheduler.log").read_text(encoding="utf-8")
    return [f"a call failed: {line}" for line in log.splitlines() if SKIPPED in line]


def roll(here: Site, chart: Release, tree: pathlib.Path, side_by_side_seconds: float) -> Iterator[str]:
    """Changes the chart, and with it the guard, then replaces the replicas one by one; yields what was done."""
    if tree == services.ROOT:
        chart.upgrade()
    else:
        chart.rollback()
    before = sum(one.accepted for one in evictions(here))
    here.pause(side_by_side_seconds)
    evicted = sum(one.accepted for one in evictions(here)) - before
    if not evicted:
        here.violations.append(f"the guard of {tree.name} admitted no eviction of deschedulers of another version")
    yield f"the chart is of {tree.name}, {evicted} evictions since"
    for service in ORDER:
        for number in (0, 1):
            name = f"{service}-{number}"
            replace(here, name, tree)
            here.recovered(f"{name} was replaced")
            here.pause(SETTLE_SECONDS if number else side_by_side_seconds)
            yield f"{name} runs {tree.name}"


def replace(here: Site, name: str, tree: pathlib.Path) -> None:
    """Ends a replica and starts it with other code, as a Deployment does."""
    replica = here.services[name]
    if name.startswith("extender"):
        here.address.withdraw(replica.port)
        here.pause(ENDPOINT_SECONDS)
    here.codes.append((name, replica.stop()))
    replica.tree = tree
    replica.start()
    begun = [line for line in replica.log().splitlines() if line.startswith("code: ")]
    assert begun[-1] == f"code: {tree / name.partition('-')[0] / '__main__.py'}", begun
    here.address.restore(replica.port)


def missing(before: dict[int, Recorded], now: dict[int, Recorded], step: str) -> list[str]:
    """Sentences about rows that are gone, or are of another pod."""
    gone = [number for number, row in before.items() if number not in now or now[number].pod_uid != row.pod_uid]
    return [f"row {number} was lost: {step}" for number in gone]


if __name__ == "__main__":
    main()
