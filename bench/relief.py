"""Lines of the descheduler beside today's, on real load: what is left over 80 %, and how many pods leave for it.

`python -m bench relief --trace FILE` plays every contestant on both parts of the trace under both rules of requests,
extender and descheduler on, and prints a table each: ranges over the seeds and, seed by seed, the difference to the
default with its standard error. docs/lab/relief-2026-11.md holds such a run. Loads of nodes are compared under equal
arrivals, so the machine it runs on plays no part.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from bench import scoring
from bench.scoring import Results
from bench.table import Row
from policy import metrics
from simulator.peer_comparison import Contestant
from simulator.results.outcome import EvictedPod, Outcome
from simulator.workloads import arrivals

DEFAULT: Final = "default"
ABOVE_RATIO: Final = 0.80
SURE_ERRORS: Final = 2.0  # a difference of fewer standard errors is no reason to change a default
DAY_SECONDS: Final = arrivals.DAY_SECONDS


def _lines(until_ratio: float, **more: object) -> Contestant:
    """A contestant that relieves from `evictAbove` 80 % down to a ratio, with other keys of the section."""
    band = {"evictAbove": ABOVE_RATIO, "evictUntil": until_ratio}
    section = {"thresholds": dict.fromkeys((metrics.MEMORY_AVG_5M, metrics.CPU_AVG_5M), band), **more}
    words = (f"{key} {value}" for key, value in more.items())
    return Contestant(", ".join((f"until {until_ratio:.2f}", *words)), sections={"descheduler": section}, relieves=True)


CONTESTANTS: Final = (
    Contestant(DEFAULT, sections={}, relieves=True),
    Contestant("no descheduler", sections={}),
    *(_lines(until_ratio) for until_ratio in (0.65, 0.70, 0.75)),
    _lines(0.70, overloadedFor="90s"),
    Contestant("makeRoom", sections={"descheduler": {"makeRoom": {}}}, relieves=True),
)


class Column(NamedTuple):
    """A figure of the table."""

    heading: str
    read: Callable[[Outcome], float]


def over_80(outcome: Outcome) -> float:
    """Node-minutes over 80 % of CPU and of memory."""
    return outcome.figures.cpu.hot_node_minutes + outcome.figures.memory.hot_node_minutes


def returns(moved: Sequence[EvictedPod]) -> int:
    """Replacements that landed on a node which a pod of their workload was evicted from within the day before."""
    return sum(
        any(one.node == each.landed_on for one in _of_workload(moved, each)) or each.landed_on == each.node
        for each in moved
        if each.landed_on
    )


def again(moved: Sequence[EvictedPod]) -> int:
    """Evictions of a workload that had one within the day before."""
    return sum(any(True for _ in _of_workload(moved, each)) for each in moved)


def passed_on(moved: Sequence[EvictedPod]) -> int:
    """Evictions from a node that a replacement of the workload landed on within the day before."""
    return sum(any(one.landed_on == each.node for one in _of_workload(moved, each)) for each in moved)


def _of_workload(moved: Sequence[EvictedPod], later: EvictedPod) -> list[EvictedPod]:
    """The workload's evictions in the day before that one."""
    return [
        one
        for one in moved
        if one.workload == later.workload
        and one.pod.partition("/")[0] == later.pod.partition("/")[0]
        and 0 < later.at_seconds - one.at_seconds <= DAY_SECONDS
    ]


COLUMNS: Final = (
    Column("over 80 % CPU", lambda one: one.figures.cpu.hot_node_minutes),
    Column("over 80 % memory", lambda one: one.figures.memory.hot_node_minutes),
    Column("over 65 %", scoring.warm),
    Column("evictions", lambda one: one.figures.evictions),
    Column("returns", lambda one: returns(one.moved)),
    Column("again in a day", lambda one: again(one.moved)),
    Column("passed on", lambda one: passed_on(one.moved)),
    Column("budgets broken", lambda one: one.figures.pdb_violations),
    Column("without a node", lambda one: len(one.unplaced)),
)
PAIRED: Final = (
    Column("over 80 %", over_80),
    Column("over 65 %", scoring.warm),
    Column("evictions", lambda one: one.figures.evictions),
)


def measure(settings: scoring.Settings) -> list[Row]:
    """Prints every table with its differences, and those over both rules; rows: evictions of the default, and budgets
    that any contestant broke.
    """
    rows = []
    for part in settings.parts:
        both = []
        for rule in scoring.RULES:
            title, results = f"{settings.trace.stem}, part {part}, {rule} owners", scoring.played(settings, part, rule)
            print(f"\n### {title}\n\n{table(results)}\n\n{differences(results)}", flush=True)
            rows += _rows(title, results)
            both.append(results)
        print(f"\n### {settings.trace.stem}, part {part}, both rules\n\n{differences(_joined(both))}", flush=True)
    return rows


def table(results: Results) -> str:
    """A line a contestant: each figure's median and range over the seeds."""
    lines = [
        [name, *(scoring.span([column.read(one) for one in outcomes], "count") for column in COLUMNS)]
        for name, outcomes in results.items()
    ]
    return scoring.markdown(["", *(column.heading for column in COLUMNS)], lines)


def differences(results: Results, columns: Sequence[Column] = PAIRED) -> str:
    """A line a contestant: sums over the runs, and the mean difference of a run to the default with its error."""
    headings = ["", *(cell for column in columns for cell in (f"{column.heading}, all runs", "a run, to the default"))]
    return scoring.markdown(headings, [[name, *_compared(name, results, columns)] for name in results])


def _compared(name: str, results: Results, columns: Sequence[Column]) -> list[str]:
    cells = []
    for column in columns:
        own, default = ([column.read(one) for one in results[each]] for each in (name, DEFAULT))
        cells += [f"{sum(own):.0f}", "" if name == DEFAULT else str(paired(default, own))]
    return cells


class Difference(NamedTuple):
    """The mean of paired differences and its standard error (NaN of one pair)."""

    mean: float
    error: float

    @property
    def sure(self) -> bool:
        """Whether the difference is more than `SURE_ERRORS` standard errors from 0."""
        return abs(self.mean) > SURE_ERRORS * self.error

    def __str__(self) -> str:
        return f"{self.mean:+.1f} ± {self.error:.1f}{' *' if self.sure else ''}"


def paired(before: Sequence[float], after: Sequence[float]) -> Difference:
    """How much more `after` is than `before`, pair by pair."""
    apart = [own - other for own, other in zip(after, before, strict=True)]
    error = statistics.stdev(apart) / math.sqrt(len(apart)) if len(apart) > 1 else math.nan
    return Difference(statistics.fmean(apart), error)


def _joined(parts: Sequence[Results]) -> Mapping[str, tuple[Outcome, ...]]:
    return {name: tuple(one for results in parts for one in results[name]) for name in parts[0]}


def _rows(title: str, results: Results) -> list[Row]:
    ours = results[DEFAULT]
    broken = sum(one.figures.pdb_violations for outcomes in results.values() for one in outcomes)
    return [
        Row(f"evictions of a run, {title}", statistics.median(one.figures.evictions for one in ours), "pods"),
        Row(f"budgets broken by any contestant, {title}", broken, "evictions", limit=0),
    ]
