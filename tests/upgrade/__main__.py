"""`python -m tests.upgrade`: from the version before to this tree and back, replica by replica, under load.

Two replicas of each service begin with the old version's code, taken from the history of this checkout. While pods
arrive five times a second and nodes are hot, each replica gets the other code; old and new ones stand side by side for
a while. The judges are those of runs with faults; besides, no pod may fail to be placed, and no row may be lost. Ends
with 1 where something did.
"""

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

from cluster import cache
from tests.chaos import records, site
from tests.chaos.judging import Recorded
from tests.chaos.site import Site, Terms
from tests.e2e import services
from tests.upgrade.arrivals import Arrivals

OLD_VERSION: Final = "0.1.0"
OLD_COMMIT: Final = "37c2cc245eff3bbf5ac9c7d8586ec3c1e43b529a"
ORDER: Final = ("annotator", "extender", "descheduler")
SKIPPED: Final = "Skipping extender as it returned error"  # kube-scheduler's words
ENDPOINT_SECONDS: Final = 5.0  # the preStop hook's: until no client is sent to an extender that ends
SETTLE_SECONDS: Final = 5.0


@click.command()
@click.option("--side-by-side", default=30.0, show_default=True, help="Seconds with one old and one new replica.")
@click.option("--rounds", default=1, show_default=True, help="Upgrades, each with its way back.")
@click.option("--seed", default=1, show_default=True, help="Of the load.")
def main(side_by_side: float, rounds: int, seed: int) -> None:
    """Upgrade and go back on a real control plane, and judge."""
    with tempfile.TemporaryDirectory(prefix="evenload-upgrade-") as name:
        old = unpacked(pathlib.Path(name) / OLD_VERSION)
        here_directory = pathlib.Path(name) / "site"
        here_directory.mkdir()
        with site.started(here_directory, random.Random(seed), Terms(tree=old)) as here:
            broken, told = play(here, (services.ROOT, old) * rounds, side_by_side)
    click.echo(told)
    click.echo("\n".join(broken) or "no placement failed, no row was lost, no invariant was broken")
    sys.exit(1 if broken else 0)


def unpacked(directory: pathlib.Path) -> pathlib.Path:
    """Writes the tree of the old version there."""
    archive = subprocess.run(["git", "archive", OLD_COMMIT], cwd=services.ROOT, capture_output=True)
    if archive.returncode != 0:
        why = archive.stderr.decode().strip()
        raise click.ClickException(f"commit {OLD_COMMIT} of {OLD_VERSION}: {why}; clone with the whole history")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tree:
        tree.extractall(directory, filter="data")
    return directory


def play(here: Site, trees: tuple[pathlib.Path, ...], side_by_side_seconds: float) -> tuple[list[str], str]:
    """Gives each replica each of these trees in turn; what broke, and a sentence about the load."""
    arrivals, seen = Arrivals(here.cluster.api), dict[int, Recorded]()
    lost: list[str] = []
    arrivals.start()
    try:
        for tree in trees:
            for step in roll(here, tree, side_by_side_seconds):
                rows = {row.id: row for row in records.rows(here.ledger)}
                lost += missing(seen, rows, step)
                seen |= rows
                cache.say(f"{step}: {arrivals.bound} pods placed, {len(rows)} rows")
    finally:
        arrivals.end()
    failures = [*unanswered(here), *(f"not placed at once: {one}" for one in arrivals.failures())]
    here.end()
    done = sum(row.result == "evicted" for row in records.rows(here.ledger))
    told = f"{len(trees)} changes of version, {arrivals.bound} pods placed, {len(seen)} rows, {done} evicted"
    return [*arrivals.late, *failures, *lost, *here.verdicts()], told


def unanswered(here: Site) -> list[str]:
    """Sentences of kube-scheduler about calls of the extender that failed; it goes on without an ignorable one."""
    log = (here.cluster.directory / "logs" / "kube-scheduler.log").read_text(encoding="utf-8")
    return [f"a call failed: {line}" for line in log.splitlines() if SKIPPED in line]


def roll(here: Site, tree: pathlib.Path, side_by_side_seconds: float) -> Iterator[str]:
    """Replaces the replicas one by one; yields what was done after each."""
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
