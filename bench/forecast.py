"""The score with a forecast beside the default and the peers, on daily load and on a trace.

`python -m bench forecast --trace FILE` plays every contestant for four days on generated load of which most follows the
clock, and on both parts of the trace under both rules of requests. The first 30 hours do not count: a forecast knows
nothing then. It prints a table each, and seed by seed the difference to the default with its standard error;
docs/lab/forecast-2026-11.md holds such a run. Loads of nodes are compared under equal arrivals, so the machine it runs
on plays no part.
"""

import dataclasses
from collections.abc import Mapping
from typing import Final

from bench import relief, scoring
from bench.table import Row
from policy import metrics
from simulator import peer_comparison, runs
from simulator.peer_comparison import Contestant, GeneratedSource, TraceSource
from simulator.results import figures
from simulator.results.outcome import Outcome
from simulator.workloads import generator

DAYS: Final = 4.0
LEARNING_SECONDS: Final = 30 * 3600.0
DAILY: Final = generator.Shape(nodes=20, days=DAYS, pods=700, service_pods_per_node=6.0, daily_ratio=0.7)


def _forecasting(hours: int, share: float) -> Contestant:
    """The default whose weights are this share of a forecast, and else of the present."""
    names = {resource: f"{resource}_forecast_{hours}h" for resource in metrics.RESOURCES}
    entries = [
        {"name": name, "resource": resource, "statistic": metrics.FORECAST, "window": f"{hours}h"}
        for resource, name in names.items()
    ]
    weights = dict.fromkeys(names.values(), share) | {
        name: round(1.0 - share, 2) for name in (metrics.CPU_AVG_5M, metrics.MEMORY_AVG_5M)
    }
    name = f"{hours} h ahead, weight {share:g}"
    return Contestant(name, sections={"metrics": entries, "score": {"weights": weights}})


FORECASTING: Final = tuple(_forecasting(*each) for each in ((8, 0.8), (8, 1.0), (24, 0.8)))
CONTESTANTS: Final = (
    Contestant(relief.DEFAULT, sections={}),
    *(Contestant(name, peer=name) for name in ("koordinator", scoring.ORACLE)),
    *FORECASTING,
)
COLUMNS: Final = (
    relief.Column("over 80 %", relief.over_80),
    relief.Column("over 65 %", scoring.warm),
    relief.Column("spread CPU, points", lambda one: 100 * one.figures.cpu.spread_ratio),
    relief.Column("spread memory, points", lambda one: 100 * one.figures.memory.spread_ratio),
    relief.Column("without a node", lambda one: len(one.unplaced) + one.figures.pods_pending),
)


def measure(settings: scoring.Settings) -> list[Row]:
    """Prints every table with its differences; rows: node-minutes over 80 % with the forecast beside the default."""
    rows: list[Row] = []
    for title, source in _sources(settings).items():
        results = _played(settings, source)
        print(f"\n### {title}\n\n{relief.differences(results, COLUMNS)}", flush=True)
        over = {name: sum(map(relief.over_80, outcomes)) for name, outcomes in results.items()}
        rows += [
            Row(f"over 80 %, {title}, {each.name}", over[each.name], "min", over[relief.DEFAULT])
            for each in FORECASTING
            if each.name in over
        ]
    return rows


def _sources(settings: scoring.Settings) -> Mapping[str, runs.Source]:
    """The workloads by their titles, the daily one first: it takes a fifth of the time of each of the others."""
    recipe = dataclasses.replace(settings.recipe, days=DAYS)
    parts = ((part, rule) for part in settings.parts for rule in scoring.RULES)
    return {"daily load": GeneratedSource(DAILY)} | {
        f"part {part}, {rule} owners": TraceSource(settings.trace, rule, recipe, peer_comparison.PARTS.index(part))
        for part, rule in parts
    }


def _played(settings: scoring.Settings, source: runs.Source) -> Mapping[str, tuple[Outcome, ...]]:
    seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
    watch = scoring.report_progress
    results = peer_comparison.held(source, settings.contestants, seeds, workers=settings.workers, watch=watch)
    return {name: tuple(map(_after_learning, outcomes)) for name, outcomes in results.items()}


def _after_learning(outcome: Outcome) -> Outcome:
    """The outcome with the load figures of the time after the first 30 hours."""
    timeline = outcome.timeline
    skipped = round(LEARNING_SECONDS / timeline.step_seconds)
    cpu, memory = (
        figures.load_over(ratios[skipped:], timeline.step_seconds)
        for ratios in (timeline.cpu_ratio, timeline.memory_ratio)
    )
    return dataclasses.replace(outcome, figures=dataclasses.replace(outcome.figures, cpu=cpu, memory=memory))
