"""Evenload's score beside plain kube-scheduler, the peers' formulas and an oracle, on real load: ranges over seeds.

`python -m bench scoring --trace FILE` runs `simulator.peer_comparison` under both rules of requests on both parts of
the trace, prints the tables as Markdown (docs/why/scoring.md holds such a run) and gives bench one row a table. What is
compared are loads of nodes under equal arrivals, so the machine it runs on plays no part.
"""

import math
import pathlib
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from bench.table import Row
from simulator import peer_comparison
from simulator.peer_comparison import Contestant, TraceSource
from simulator.results.figures import Figures, written
from simulator.results.outcome import Outcome, Progress
from simulator.results.study import PLAIN_NAME
from simulator.workloads import arrivals, trace_files

RULES = ("guessing", "careful")
ORACLE = "oracle"
LEAST_GAIN_RATIO = 0.05  # where the oracle gains less, a share of it says nothing
# A day in steps of 100 s, so that what is read is at most that old (in production 30 s); the base comes over six hours.
CROWD = arrivals.OwnerArrivals(pods=500, service_pods=120, base_seconds=6 * arrivals.HOUR_SECONDS, rollouts_per_day=0.5)
RECIPE = trace_files.Recipe(days=1.0, step_seconds=100.0, crowd=CROWD)
Results = Mapping[str, tuple[Outcome, ...]]


class Settings(NamedTuple):
    """Which trace, how many seeds from which on, by how many processes, which contestants, and which parts."""

    trace: pathlib.Path
    seeds: int = 8
    first_seed: int = 1
    workers: int = 1
    recipe: trace_files.Recipe = RECIPE
    contestants: tuple[Contestant, ...] = peer_comparison.ALL
    parts: tuple[str, ...] = peer_comparison.PARTS


class Column(NamedTuple):
    """A figure of the table."""

    heading: str
    unit: str
    read: Callable[[Figures], float]


COLUMNS = (
    Column("node-minutes over 65 % CPU", "count", lambda one: one.cpu.warm_node_minutes),
    Column("over 80 %", "count", lambda one: one.cpu.hot_node_minutes),
    Column("p99 CPU", "percent", lambda one: one.cpu.p99_ratio),
    Column("spread CPU", "percent", lambda one: one.cpu.spread_ratio),
    Column("over 65 % memory", "count", lambda one: one.memory.warm_node_minutes),
    Column("spread memory", "percent", lambda one: one.memory.spread_ratio),
    Column("effective ratio", "ratio", lambda one: one.effectiveness.effective_schedule_ratio),
)


GAINS = ("of the oracle's gain in minutes over 65 %", "seeds", "of its gain in spread", "seeds")


def measure(settings: Settings) -> list[Row]:
    """Prints every table; a row each: node-minutes over 65 % CPU beside the best of the peers'."""
    rows = []
    for name in settings.parts:
        for rule in RULES:
            found = played(settings, name, rule)
            title = f"{settings.trace.stem}, part {name}, {rule} owners"
            print(f"\n### {title}\n\n{table(found)}", flush=True)
            rows.append(_row(title, found))
    return rows


def played(settings: Settings, part: str, rule: str, *, cpu_share: float = 1.0) -> Results:
    """Runs all contestants and seeds on a part of the trace under a rule of requests, with so much of its CPU."""
    source = TraceSource(settings.trace, rule, settings.recipe, peer_comparison.PARTS.index(part), cpu_share)
    seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
    return peer_comparison.held(source, settings.contestants, seeds, workers=settings.workers, watch=report_progress)


def report_progress(variant: str, seed: int, progress: Progress) -> None:
    """Says on stderr which run is over."""
    if progress.steps_done == progress.steps:
        print(f"seed {seed}: {variant}", file=sys.stderr, flush=True)


def table(results: Results) -> str:
    """A line a contestant: each figure's median and range over the seeds, pods, and how near it comes to the oracle."""
    headings = ["", *(column.heading for column in COLUMNS), "pods bound", "no node", *GAINS]
    return markdown(headings, [[name, *_cells(name, results)] for name in results])


def markdown(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table whose columns are numbers but for the first."""
    rule = ["---", *("---:" for _ in headings[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [headings, rule, *lines])


def _cells(name: str, results: Results) -> list[str]:
    outcomes = results[name]
    figures = [span([column.read(one.figures) for one in outcomes], column.unit) for column in COLUMNS]
    bound = [float(one.figures.pods_bound) for one in outcomes]
    left = [float(len(one.unplaced) + one.figures.pods_pending) for one in outcomes]
    return [*figures, span(bound, "count"), span(left, "count"), *_beside(name, results)]


def span(values: Sequence[float], unit: str) -> str:
    """The median with the range: `54 (50-58)`."""
    low, middle, high = (written(value, unit).removesuffix(" %") for value in _three(values))
    return middle if low == high else f"{middle} ({low}-{high})"


def _three(values: Sequence[float]) -> tuple[float, float, float]:
    return min(values), statistics.median(values), max(values)


def warm(outcome: Outcome) -> float:
    """Node-minutes over 65 % of CPU and of memory: what matters, but a seed with a full cluster drowns the others."""
    return outcome.figures.cpu.warm_node_minutes + outcome.figures.memory.warm_node_minutes


def apart(outcome: Outcome) -> float:
    """How far nodes lie apart, CPU and memory: every seed counts about the same."""
    return outcome.figures.cpu.spread_ratio + outcome.figures.memory.spread_ratio


def gain(name: str, results: Results, figure: Callable[[Outcome], float] = warm) -> float:
    """The share of what the oracle takes off plain scheduling, over all seeds; NaN where it takes hardly anything."""
    plain, best, own = (sum(map(figure, results[each])) for each in (PLAIN_NAME, ORACLE, name))
    return (plain - own) / (plain - best) if plain - best > LEAST_GAIN_RATIO * plain else math.nan


def _beside(name: str, results: Results) -> list[str]:
    """The gains in percent, and on how many seeds it has fewer warm node-minutes, and a smaller spread, than plain."""
    if name == PLAIN_NAME:
        return ["", "", "", ""]
    cells = []
    for figure in (warm, apart):
        share = gain(name, results, figure) if ORACLE in results else math.nan
        better = sum(figure(own) < figure(plain) for own, plain in zip(results[name], results[PLAIN_NAME], strict=True))
        cells += ["" if math.isnan(share) else f"{100 * share:.0f} %", f"{better} of {len(results[name])}"]
    return cells


def _row(title: str, results: Results) -> Row:
    def middle(name: str) -> float:
        return statistics.median(map(warm, results[name]))

    peers = [
        each.name for each in peer_comparison.OTHERS if each.name not in (PLAIN_NAME, ORACLE) and each.name in results
    ]
    best = min(peers, key=middle)
    return Row(f"warm node-minutes, {title}, beside {best}", middle(peer_comparison.OURS), "min", middle(best))
