"""The score where memory is what fills nodes: other weights and estimates of memory beside the default and the peers.

`python -m bench memory --trace FILE` plays the trace with CPU_SHARE of its CPU and all of its memory, under both rules
of requests, and prints a table each with the differences to the default, seed by seed, and their standard errors;
docs/lab/memory-2026-11.md holds such a run. Variants are chosen on the tuned part and judged on the other. Loads of
nodes are compared under equal arrivals, so the machine it runs on plays no part.
"""

from typing import Final

from bench import relief, scoring
from bench.table import Row
from simulator.peer_comparison import Contestant, Sections

CPU_SHARE: Final = 0.4
CPU_WEIGHTS: Final = {"cpu_avg_5m": 0.6, "cpu_max_1h": 0.3, "cpu_max_1d": 0.1}
P95: Final = {"name": "memory_p95_1d", "resource": "memory", "statistic": "p95", "window": "24h"}


def _weighing(avg_5m: float, max_1h: float, max_1d: float) -> Sections:
    """Weights of memory by window, those of CPU as by default."""
    memory = {"memory_avg_5m": avg_5m, "memory_max_1h": max_1h, "memory_max_1d": max_1d}
    return {"score": {"weights": {**CPU_WEIGHTS, **memory}}}


def _requested(ratio: float) -> Sections:
    """The expected memory of a pod without a measurement, as a share of its request."""
    return {"recentPods": {"usagePerRequest": {"memory": ratio}}}


VARIANTS: Final = (
    Contestant("memory weights 1 0 0", sections=_weighing(1.0, 0.0, 0.0)),
    Contestant("memory weights .35 .35 .3", sections=_weighing(0.35, 0.35, 0.3)),
    Contestant("memory weights 0 1 0", sections=_weighing(0.0, 1.0, 0.0)),
    Contestant("memory weights 0 0 1", sections=_weighing(0.0, 0.0, 1.0)),
    Contestant(
        "memory weights .6, p95 of a day .4",
        sections={
            "metrics": [P95],
            "score": {"weights": {**CPU_WEIGHTS, "memory_avg_5m": 0.6, "memory_p95_1d": 0.4}},
        },
    ),
    Contestant("memory expected at 100 % of requests", sections=_requested(1.0)),
    Contestant("memory expected at 40 % of requests", sections=_requested(0.4)),
    Contestant("no owners' usage", sections={"recentPods": {"ownerUsage": False}}),
    Contestant("one mean of both resources", sections={"score": {"combine": "mean"}}),
)
CONTESTANTS: Final = (
    Contestant(relief.DEFAULT, sections={}),
    *(Contestant(name, peer=name) for name in ("koordinator", scoring.ORACLE)),
    *VARIANTS,
)
COLUMNS: Final = (
    relief.Column("memory over 80 %", lambda one: one.figures.memory.hot_node_minutes),
    relief.Column("memory over 65 %", lambda one: one.figures.memory.warm_node_minutes),
    relief.Column("spread memory, points", lambda one: 100 * one.figures.memory.spread_ratio),
    relief.Column("spread CPU, points", lambda one: 100 * one.figures.cpu.spread_ratio),
    relief.Column("without a node", lambda one: len(one.unplaced) + one.figures.pods_pending),
)


def measure(settings: scoring.Settings) -> list[Row]:
    """Prints every table with its differences; rows: memory's spread of each variant beside the default's, in sums."""
    rows: list[Row] = []
    for part in settings.parts:
        for rule in scoring.RULES:
            results = scoring.played(settings, part, rule, cpu_share=CPU_SHARE)
            title = f"part {part}, {rule} owners"
            print(f"\n### {title}\n\n{relief.differences(results, COLUMNS)}", flush=True)
            spread = {name: sum(one.figures.memory.spread_ratio for one in results[name]) for name in results}
            rows += [
                Row(f"spread of memory, {title}, {each.name}", spread[each.name], "ratio", spread[relief.DEFAULT])
                for each in VARIANTS
                if each.name in spread
            ]
    return rows
