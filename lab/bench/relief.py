"""Lines of the descheduler beside today's, on real load: what is left over 80 %, and how many pods leave for it.

`python -m lab.bench relief --trace FILE` plays every contestant on both parts of the trace in SETTINGS, extender and
descheduler on, and prints a table each: means of a run and, seed by seed, the difference to the default with its
standard error. Loads of nodes are compared under equal arrivals, so the machine it runs on plays no part.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from lab.bench import paired, scoring
from lab.bench.paired import Column, Results
from lab.bench.scoring import over_65, over_80
from lab.bench.table import Row
from lab.peers.comparison import Contestant
from policy import metrics
from simulator.results.outcome import EvictedPod, Outcome
from simulator.workloads import arrivals

DEFAULT: Final = "default"
ABOVE_RATIO: Final = 0.80
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
)


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
    Column("over 80 %, min", over_80),
    Column("over 65 %, min", over_65),
    Column("evictions", lambda run: run.figures.evictions),
    Column("returns", lambda run: returns(run.moved)),
    Column("again in a day", lambda run: again(run.moved)),
    Column("passed on", lambda run: passed_on(run.moved)),
    Column("budgets broken", lambda run: run.figures.pdb_violations),
    Column("no node", scoring.without_node),
)
SETTINGS: Final = ("guessing owners", "careful owners", "memory-bound", "high pressure")


def measure(chosen: scoring.Settings) -> list[Row]:
    """Prints every table, and one over all settings of a part; rows: evictions of the default, and budgets that any
    contestant broke.
    """
    rows = []
    for part in chosen.parts:
        every = []
        for name in SETTINGS:
            title, results = f"{name}, part {part}", scoring.played(chosen, part, name)
            print(f"\n### {title}\n\n{paired.table(results, COLUMNS, DEFAULT)}", flush=True)
            rows += _rows(title, results)
            every.append(results)
        print(f"\n### All settings, part {part}\n\n{paired.table(_joined(every), COLUMNS, DEFAULT)}", flush=True)
    return rows


def _joined(settings: Sequence[Results]) -> Mapping[str, tuple[Outcome, ...]]:
    return {name: tuple(run for results in settings for run in results[name]) for name in settings[0]}


def _rows(title: str, results: Results) -> list[Row]:
    ours = results[DEFAULT]
    broken = sum(run.figures.pdb_violations for outcomes in results.values() for run in outcomes)
    return [
        Row(f"evictions of a run, {title}", statistics.median(run.figures.evictions for run in ours), "pods"),
        Row(f"budgets broken by any contestant, {title}", broken, "evictions", limit=0),
    ]
