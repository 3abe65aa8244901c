"""How long a simulation takes: the week of the budget, and whether twice as much takes twice as long.

`__main__` calls `measure` as the part `simulator`. One process, one thread, all three services; what is counted is
processor time, so that a second run beside it disturbs little. The scenarios are the generator's `WEEK`, whole and cut
down in days and pods alike: a half, a quarter.
"""

import dataclasses
import itertools
import time
from typing import NamedTuple

import click

from lab.bench import table
from policy.schema import load_policy
from simulator import world
from simulator.workloads import generator

BUDGET_SECONDS = 10.0  # docs/contract.md, budgets
SHARES = (0.25, 0.5, 1.0)
GROWTH_LIMIT = 1.2  # of twice the time for twice as much


class Settings(NamedTuple):
    """The whole scenario: nodes, virtual days and pods, as in the budget; the seed."""

    nodes: int
    days: float
    pods: int
    seed: int


class Run(NamedTuple):
    """Cost of one simulation; `steps` and `pods` are its size."""

    steps: int
    pods: int
    seconds: float


def measure(settings: Settings) -> list[table.Row]:
    """A row for the budget, and one for each doubling."""
    runs = [_run(settings, share) for share in SHARES]
    whole = runs[-1]
    what = f"simulate {settings.nodes} nodes, {whole.steps} steps, {whole.pods} pods bound"
    rows = [table.Row(what, whole.seconds, "s", limit=BUDGET_SECONDS)]
    for less, more in itertools.pairwise(runs):
        grown = f"{more.steps} steps, {more.pods} pods, beside twice the time of {less.steps} steps, {less.pods} pods"
        rows.append(table.Row(grown, more.seconds, "s", yardstick=2 * less.seconds, limit=GROWTH_LIMIT))
    return rows


def _run(settings: Settings, share: float) -> Run:
    shape = dataclasses.replace(
        generator.WEEK,
        nodes=settings.nodes,
        days=settings.days * share,
        pods=round(settings.pods * share),
    )
    scenario = generator.generate(settings.seed, shape)
    began_seconds = time.process_time()
    outcome = world.run(scenario, world.Setup(load_policy.defaults(), settings.seed))
    seconds = time.process_time() - began_seconds
    click.echo(f"  {scenario.steps} steps, {len(scenario.replicas)} replicas: {seconds:.1f} s", err=True)
    return Run(scenario.steps, outcome.figures.pods_bound, seconds)
