"""Evenload's score beside plain kube-scheduler, the peers' formulas and an oracle, in each of `bench.settings`.

`python -m lab.bench scoring --trace FILE` plays all contestants on both parts of the trace and prints a Markdown table
for each setting (docs/why/scoring.md holds such a run): means of a run, seed by seed the difference to the default with
its standard error, pods without a node and preempted pods, because a contestant that leaves pods out has an easier
task, and the seeds on which the default loses. Loads of nodes are compared under equal arrivals, so the machine it runs
on plays no part.
"""

import math
import pathlib
import sys
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from lab.bench import paired, settings
from lab.bench.paired import Column, Results
from lab.bench.table import Row
from lab.peers import comparison as peer_comparison
from lab.peers.comparison import ORACLE, OURS, Contestant
from policy.metrics import RESOURCES
from simulator.results.outcome import Outcome, Progress
from simulator.results.study import PLAIN
from simulator.workloads import trace_files

LEAST_GAIN_RATIO: Final = 0.05  # where the oracle gains less, a share of it says nothing


class Settings(NamedTuple):
    """Which trace, how many seeds from which on, by how many processes, which contestants, and which parts."""

    trace: pathlib.Path
    seeds: int = 8
    first_seed: int = 1
    workers: int = 1
    recipe: trace_files.Recipe = settings.RECIPE
    contestants: tuple[Contestant, ...] = ()
    parts: tuple[str, ...] = peer_comparison.PARTS


def weights(**by_window: float) -> Mapping[str, float]:
    """Weights by window, the same for both resources."""
    return {f"{resource}_{window}": weight for resource in RESOURCES for window, weight in by_window.items()}


FIELD: Final = {
    "combine": "mean",
    "spread": "none",
    "incomingPod": False,
    "weights": weights(avg_5m=0.2, max_1h=0.3, max_1d=0.5),
}
# The default of 0.1.0: bases as they are.
AS_THEY_ARE: Final = {"score": {"spread": "none"}}
# Each peer with the weight that is best for it on the tuned part.
PEERS: Final = {"crane": 1, "target-load-packing": 2, "risk-balancing": 2, "koordinator": 4}
CONTESTANTS: Final = (
    Contestant(PLAIN.name),
    *(Contestant(name, peer=name, weight=weight) for name, weight in PEERS.items()),
    Contestant(ORACLE, peer=ORACLE),
    Contestant(OURS, sections={}),
    Contestant("evenload, field", sections={"score": FIELD}),
    Contestant("evenload, weight 1", sections={}, weight=1),
    Contestant("evenload, scores as they are", sections=AS_THEY_ARE),
)


def over_80(outcome: Outcome) -> float:
    """Node-minutes over 80 % of CPU and of memory."""
    return outcome.figures.cpu.hot_node_minutes + outcome.figures.memory.hot_node_minutes


def over_65(outcome: Outcome) -> float:
    """Node-minutes over 65 % of CPU and of memory: a seed with a full cluster outweighs the others."""
    return outcome.figures.cpu.warm_node_minutes + outcome.figures.memory.warm_node_minutes


def spread(outcome: Outcome) -> float:
    """How far nodes lie apart, points of CPU and memory together: every seed counts about the same."""
    return 100 * (outcome.figures.cpu.spread_ratio + outcome.figures.memory.spread_ratio)


def without_node(outcome: Outcome) -> float:
    """Pods that waited to the end or left without a node."""
    return len(outcome.unplaced) + outcome.figures.pods_pending


COLUMNS: Final = (
    Column("over 80 %, min", over_80),
    Column("over 65 %, min", over_65),
    Column("spread, points", spread),
    Column("no node", without_node),
    Column("preempted", lambda run: run.preempted_pods),
)


def measure(chosen: Settings) -> list[Row]:
    """Prints every table; a row each: node-minutes over 80 % beside those of plain kube-scheduler."""
    rows = []
    chosen = chosen if chosen.contestants else chosen._replace(contestants=CONTESTANTS)
    for part in chosen.parts:
        for name in settings.sources(chosen.trace, part, chosen.recipe):
            results = played(chosen, part, name)
            title = f"{name}, part {part}"
            print(f"\n### {title}\n\n{paired.table(results, COLUMNS, OURS)}\n\n{shares(results)}", flush=True)
            ours, plain = (sum(map(over_80, results[each])) for each in (OURS, PLAIN.name))
            rows.append(Row(f"node-minutes over 80 %, {title}, beside plain", ours, "min", plain))
    return rows


def played(chosen: Settings, part: str, name: str) -> Results:
    """Runs all contestants and seeds in a setting on a part of the trace."""
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    source = settings.sources(chosen.trace, part, chosen.recipe)[name]
    return peer_comparison.held(source, chosen.contestants, seeds, workers=chosen.workers, watch=report_progress)


def report_progress(variant: str, seed: int, progress: Progress) -> None:
    """Says on stderr which run is over."""
    if progress.steps_done == progress.steps:
        print(f"seed {seed}: {variant}", file=sys.stderr, flush=True)


def shares(results: Results) -> str:
    """A line a contestant: its share of the oracle's gain, and the seeds on which the default loses to it."""
    figures = {"minutes over 65 %": over_65, "spread": spread}
    headings = [cell for name in figures for cell in (f"of the oracle's gain, {name}", "evenload loses on seeds")]
    lines = [
        [name, *(cell for figure in figures.values() for cell in _share(name, results, figure))] for name in results
    ]
    return paired.markdown(["", *headings], lines)


def _share(name: str, results: Results, figure: Callable[[Outcome], float]) -> tuple[str, str]:
    share = gain(name, results, figure)
    lost = [
        str(own.seed) for own, other in zip(results[OURS], results[name], strict=True) if figure(own) > figure(other)
    ]
    return "" if math.isnan(share) else f"{100 * share:.0f} %", ", ".join(lost)


def gain(name: str, results: Results, figure: Callable[[Outcome], float]) -> float:
    """The share of the oracle's gain over plain scheduling, over all seeds; NaN where there is hardly any."""
    if name == PLAIN.name:
        return math.nan
    plain, best, own = (sum(map(figure, results[each])) for each in (PLAIN.name, ORACLE, name))
    return (plain - own) / (plain - best) if plain - best > LEAST_GAIN_RATIO * plain else math.nan
