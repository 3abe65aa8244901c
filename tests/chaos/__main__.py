"""`python -m tests.chaos`: inject seeded faults one after the other, and say what broke an invariant.

Prints a table of the faults and what the judges said; ends with 1 where an invariant was broken. With --sabotage a
service has a defect, and it ends with 1 unless the judges find it.
"""

import collections
import pathlib
import random
import sys
import tempfile
from typing import Final

import click

from cluster import cache
from tests.chaos import faults, judging, records, sabotaged, site
from tests.chaos.site import Site

CHURN: Final = (4, 5, 6)  # replicas of a workload; its budget demands four
MOST_GROWTH_MEBIBYTES: Final = 40.0


@click.command()
@click.option("--faults", "count", default=60, show_default=True, help="How many.")
@click.option("--seed", default=1, show_default=True, help="Of the faults.")
@click.option("--kind", "only", multiple=True, type=click.Choice(sorted(faults.FAULTS)), help="Only these.")
@click.option("--sabotage", default="", type=click.Choice(["", *sabotaged.SABOTAGES]), help="A defect to be found.")
def main(count: int, seed: int, only: tuple[str, ...], sabotage: str) -> None:
    """Inject faults into a control plane with all services, and judge."""
    rng = random.Random(seed)
    with (
        tempfile.TemporaryDirectory(prefix="evenload-chaos-") as name,
        site.started(pathlib.Path(name), rng, sabotage=sabotage) as here,
    ):
        before = here.memory()
        injected = inject(here, count, only or tuple(faults.FAULTS))
        after = here.memory()
        here.end()
        broken = [*here.verdicts(), *judging.grown(before, after, MOST_GROWTH_MEBIBYTES)]
        audit = here.cluster.directory / "logs" / "audit.log"
        evicted = sum(one.accepted for one in records.evictions(audit))
        rows = collections.Counter(row.result for row in records.rows(here.ledger))
    for kind, number in sorted(injected.items()):
        click.echo(f"{kind}: {number}")
    click.echo(f"{sum(injected.values())} faults, seed {seed}, {evicted} evictions accepted, rows: {dict(rows)}")
    click.echo(
        "\n".join(f"{one}: {before[one]:.0f} MiB, {mebibytes:.0f} at the end" for one, mebibytes in after.items())
    )
    click.echo("\n".join(broken) or "no invariant was broken")
    found = any(sabotaged.SABOTAGES[sabotage].complaint in one for one in broken) if sabotage else not broken
    sys.exit(0 if found else 1)


def inject(here: Site, count: int, kinds: tuple[str, ...]) -> collections.Counter[str]:
    """Injects so many faults of these kinds, each once all has recovered from the one before; how many of each."""
    injected: collections.Counter[str] = collections.Counter()
    for number in range(1, count + 1):
        kind = here.rng.choice(kinds)
        detail = faults.FAULTS[kind](here)
        injected[kind] += 1
        cache.say(f"{number} of {count}: {kind}: {detail}; {len(records.rows(here.ledger))} rows")
        here.recovered(f"fault {number} ({kind}: {detail})")
        here.scale(f"shop-{here.rng.randrange(site.WORKLOADS)}", here.rng.choice(CHURN))
    return injected


if __name__ == "__main__":
    main()
