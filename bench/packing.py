"""Nodes that packing leaves without pods, beside the default score, Trimaran's TargetLoadPacking and plain scheduling.

`python -m bench packing --trace FILE` plays the trace on its nodes, under both rules of requests, and prints a table
each: hours of nodes that have no pod, which an autoscaler could remove, and what the others bear for it, with the
differences to the default, seed by seed, and their standard errors. docs/lab/packing-2026-11.md holds such a run.
Loads of nodes are compared under equal arrivals, so the machine it runs on plays no part.
"""

from typing import Final

import numpy as np

from bench import paired, relief, scoring
from bench.paired import Column
from bench.table import Row
from simulator import contention
from simulator.peer_comparison import Contestant, Sections
from simulator.results.outcome import Outcome
from simulator.results.study import PLAIN_NAME

_ROUNDING_RATIO: Final = 1e-4  # loads are 32-bit numbers


def _packed(target_ratio: float, **more: object) -> Sections:
    return {"score": {"goal": "pack", "target": target_ratio}, **more}


VARIANTS: Final = (
    *(Contestant(f"pack until {100 * target:.0f} %", sections=_packed(target)) for target in (0.4, 0.5, 0.6)),
    Contestant("pack until 50 %, no hot spots", sections=_packed(0.5, hotSpots=[])),
)
CONTESTANTS: Final = (
    Contestant(relief.DEFAULT, sections={}),
    Contestant(PLAIN_NAME),
    Contestant("target-load-packing", peer="target-load-packing"),
    *VARIANTS,
)


def empty_node_hours(outcome: Outcome) -> float:
    """Returns the hours of nodes that carry no pod's load: theirs is that of an empty node."""
    timeline, system = outcome.timeline, contention.SystemLoad()
    idle_cpu = timeline.cpu_ratio <= np.float32(system.cpu_ratio + _ROUNDING_RATIO)
    idle_memory = timeline.memory_ratio <= np.float32(system.memory_ratio + _ROUNDING_RATIO)
    return float((idle_cpu & idle_memory).sum() * timeline.step_seconds / 3600)


COLUMNS: Final = (
    Column("node-hours without pods", empty_node_hours),
    Column("node-minutes over 80 %", scoring.over_80),
    Column("over 65 %", scoring.over_65),
    Column("without a node", scoring.without_node),
)


def measure(settings: scoring.Settings) -> list[Row]:
    """Prints every table with its differences; rows: node-hours without pods beside the default's, in sums."""
    rows: list[Row] = []
    for part in settings.parts:
        for name in ("guessing owners", "careful owners"):
            results = scoring.played(settings, part, name)
            title = f"{name}, part {part}"
            print(f"\n### {title}\n\n{paired.table(results, COLUMNS, relief.DEFAULT)}", flush=True)
            empty = {each: sum(map(empty_node_hours, results[each])) for each in results}
            rows += [
                Row(f"node-hours without pods, {title}, {each.name}", empty[each.name], "h", empty[relief.DEFAULT])
                for each in VARIANTS
                if each.name in empty
            ]
    return rows
