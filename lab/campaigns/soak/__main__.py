"""`python -m lab.campaigns.soak simulated` or `real`: play, print growth per day, draw the curves.

Both end with 1 where something grows faster than it may.
"""

import pathlib
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Final

import click
from matplotlib import figure

from lab.campaigns.soak import growth, real, simulated
from lab.campaigns.soak.growth import CACHED, FILES, LEDGER, MEMORY, SERIES, THREADS, Sample

SIMULATED_PER_DAY: Final = {MEMORY: 6.0, CACHED: 500.0, FILES: 0.05, THREADS: 0.05, SERIES: 2.0, LEDGER: 200.0}
PODS_PER_SECOND: Final = 5.0  # with which the next line's memory is 97 bytes a pod; more pods may leave more
REAL_PER_DAY: Final = {MEMORY: 40.0, FILES: 24.0, THREADS: 24.0, SERIES: 240.0, LEDGER: 20_000.0}
WARM_DAYS: Final = 10.0  # until caches of what was seen last are full
WARM_MINUTES: Final = 65.0  # the annotator follows each placement for an hour
SIZE_INCHES: Final = (8.0, 6.0)
DOTS_PER_INCH: Final = 120


@click.group()
def main() -> None:
    """Growth of services over a long time."""


@main.command("simulated")
@click.option("--days", default=30.0, show_default=True)
@click.option("--pods", default=120_000, show_default=True, help="All that come.")
@click.option("--picture", type=click.Path(path_type=pathlib.Path), help="Draw the curves into this .svg.")
def month(days: float, pods: int, picture: pathlib.Path | None) -> None:
    """A month through all doors in one process."""
    samples, progress = simulated.play(days, pods)
    click.echo(f"{progress.pods_bound} pods bound, {progress.evictions} evictions")
    ended({"services and simulator": samples}, SIMULATED_PER_DAY, WARM_DAYS * growth.DAY_SECONDS, [], picture)


@main.command("real")
@click.option("--minutes", default=100.0, show_default=True)
@click.option("--nodes", default=200, show_default=True)
@click.option("--every", "every_seconds", default=30.0, show_default=True, help="Seconds between two samples.")
@click.option("--pods-per-second", default=PODS_PER_SECOND, show_default=True, help="More of them fill caches sooner.")
@click.option("--warm", "warm_minutes", default=WARM_MINUTES, show_default=True, help="Minutes before growth counts.")
@click.option("--picture", type=click.Path(path_type=pathlib.Path), help="Draw the curves into this .svg.")
def hour(
    minutes: float,
    nodes: int,
    every_seconds: float,
    pods_per_second: float,
    warm_minutes: float,
    picture: pathlib.Path | None,
) -> None:
    """Services on a real control plane, for an hour and more."""
    with tempfile.TemporaryDirectory(prefix="evenload-soak-") as name:
        here, samples, placed = real.play(
            pathlib.Path(name),
            nodes=nodes,
            minutes=minutes,
            every_seconds=every_seconds,
            pods_per_second=pods_per_second,
        )
    most = REAL_PER_DAY | {MEMORY: REAL_PER_DAY[MEMORY] * max(1.0, placed / (minutes * 60.0 * PODS_PER_SECOND))}
    ended(samples, most, warm_minutes * 60.0, here.violations, picture)


def ended(
    samples: Mapping[str, Sequence[Sample]],
    most_per_day: Mapping[str, float],
    from_seconds: float,
    broken: Sequence[str],
    picture: pathlib.Path | None,
) -> None:
    """Prints the growth of everything, draws it if wanted, and ends."""
    for process, rows in samples.items():
        for name in rows[-1].amounts:
            rate = growth.per_day(rows, name, from_seconds=from_seconds)
            first, last = rows[0].amounts[name], rows[-1].amounts[name]
            click.echo(f"{process}: {name} {first:.0f}, {last:.0f} at the end, {rate:+.2f} a day")
    sentences = list(broken)
    for process, rows in samples.items():
        known = {name: most for name, most in most_per_day.items() if name in rows[0].amounts}
        sentences += growth.too_much(rows, known, from_seconds=from_seconds, process=process)
    click.echo("\n".join(sentences) or "nothing grows faster than it may")
    if picture is not None:
        draw(samples, picture)
    sys.exit(1 if sentences else 0)


def draw(samples: Mapping[str, Sequence[Sample]], path: pathlib.Path) -> None:
    """Draws one curve for each process and amount, the amounts below each other."""
    names = list(dict.fromkeys(name for rows in samples.values() for name in rows[0].amounts))
    drawn = figure.Figure(figsize=SIZE_INCHES, layout="constrained")
    for place, (name, axes) in enumerate(zip(names, drawn.subplots(len(names), sharex=True), strict=True)):
        for process, rows in samples.items():
            if name in rows[0].amounts:
                axes.plot([row.at_seconds / 3600 for row in rows], [row.amounts[name] for row in rows], label=process)
        axes.set_title(name, loc="left", fontsize=9)
        axes.set_ylim(bottom=0)
        if place == 0:
            axes.legend(fontsize=7, ncols=3)
    axes.set_xlabel("hours")
    drawn.savefig(path, dpi=DOTS_PER_INCH)


if __name__ == "__main__":
    main()
