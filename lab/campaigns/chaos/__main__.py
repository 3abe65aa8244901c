"""`python -m lab.campaigns.chaos`: inject seeded faults one after the other, and say what broke an invariant.

Prints a table of the faults and what the judges said; ends with 1 where an invariant was broken. With --sabotage
services have defects, and it ends with 1 unless the judges find each of them.
"""

import collections
import itertools
import pathlib
import random
import sys
import tempfile
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import click

from lab.campaigns.chaos import calm, faults, judging, records, sabotages, site
from lab.campaigns.chaos.site import Site, Terms
from lab.cluster import cache

CHURN: Final = (4, site.REPLICAS, site.MOST_REPLICAS)  # replicas of a workload; its budget demands four
FAULTS_A_CHURN: Final = 3
FAULTS_A_CALM: Final = 20
MOST_FAULTS: Final = 5  # times as many as wanted, until each defect shows
MOST_GROWTH_MEBIBYTES: Final = 40.0


class Result(NamedTuple):
    """Of a run: faults by kind, evictions that the apiserver accepted, rows by result, MiB of each service before and
    after, and sentences about broken invariants.
    """

    injected: collections.Counter[str]
    evicted: int
    rows: collections.Counter[str]
    before_mebibytes: dict[str, float]
    after_mebibytes: dict[str, float]
    broken: list[str]


@click.command()
@click.option("--faults", "count", default=60, show_default=True, help="How many.")
@click.option("--seed", default=1, show_default=True, help="Of the faults.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(sorted(faults.FAULTS)), help="Only these.")
@click.option(
    "--sabotage", "defects", multiple=True, type=click.Choice(sorted(sabotages.SABOTAGES)), help="To be found."
)
@click.option("--ready-seconds", default=site.READY_SECONDS, show_default=True, help="Until all is well again.")
def main(count: int, seed: int, kinds: tuple[str, ...], **terms: Any) -> None:
    """Inject faults into a control plane with all services, and judge."""
    wanted = Terms(**terms)
    result = play(count, seed, kinds or tuple(faults.FAULTS), wanted)
    for kind, number in sorted(result.injected.items()):
        click.echo(f"{kind}: {number}")
    counted = f"{result.evicted} evictions accepted, rows: {dict(result.rows)}"
    click.echo(f"{sum(result.injected.values())} faults, seed {seed}, {counted}")
    for name, mebibytes in result.after_mebibytes.items():
        click.echo(f"{name}: {result.before_mebibytes[name]:.0f} MiB, {mebibytes:.0f} at the end")
    click.echo("\n".join(result.broken) or "no invariant was broken")
    missed = [one for one in wanted.complaints() if not any(one in sentence for sentence in result.broken)]
    click.echo("".join(f'no judge said "{one}"\n' for one in missed), nl=False)
    sys.exit(1 if missed or (result.broken and not wanted.defects) else 0)


def play(count: int, seed: int, kinds: tuple[str, ...], terms: Terms) -> Result:
    """Injects so many faults of these kinds into a control plane of its own."""
    rng = random.Random(seed)
    with (
        tempfile.TemporaryDirectory(prefix="evenload-chaos-") as name,
        site.started(pathlib.Path(name), rng, terms) as here,
    ):
        before = here.memory()
        injected = inject(here, count, kinds)
        after = here.memory()
        here.end()
        broken = [*here.verdicts(), *judging.grown(before, after, MOST_GROWTH_MEBIBYTES)]
        evicted = sum(one.accepted for one in records.evictions(here.audit))
        rows = collections.Counter(row.result for row in records.rows(here.ledger))
    return Result(injected, evicted, rows, before, after, broken)


def inject(
    here: Site, count: int, kinds: tuple[str, ...], calm_after: Callable[[Site, str], None] = calm.hold
) -> collections.Counter[str]:
    """Injects so many faults, and more while a defect has not shown, each once all has recovered from the one before,
    each kind in each round, with calms between some and after the last; how many of each.
    """
    injected: collections.Counter[str] = collections.Counter()
    rounds = (here.rng.sample(kinds, len(kinds)) for _ in itertools.count())
    for number, kind in enumerate(itertools.chain.from_iterable(rounds), 1):
        if number > count and (number > MOST_FAULTS * count or not here.missed()):
            break
        rows = len(records.rows(here.ledger))
        detail = faults.FAULTS[kind](here)
        injected[kind] += 1
        cache.say(f"{number} of {count}: {kind}: {detail}; {rows} rows before")
        here.recovered(f"fault {number} ({kind}: {detail})")
        if number % FAULTS_A_CHURN == 0:
            here.scale(here.rng.choice(here.budgeted), here.rng.choice(CHURN))
        if number % FAULTS_A_CALM == 0 or number == count:
            calm_after(here, f"fault {number}")
    return injected


if __name__ == "__main__":
    main()
