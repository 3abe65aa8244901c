"""Small scenarios for tests of the simulated Prometheus: nodes, replicas with a use of their own, a book of them."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from simulator import scenario
from simulator.contention import Load, SystemLoad
from simulator.usage import node_usage

START_SECONDS = 1_795_233_600.0  # 2026-11-21T04:00:00Z
STEP_SECONDS = 300.0
NODE = Load(8000.0, 32e9)
SYSTEM = SystemLoad(0.03, 0.05)


def machine(
    number: int, joins_seconds: float = -scenario.NEVER, leaves_seconds: float = scenario.NEVER
) -> scenario.Machine:
    """node-NUMBER, there between two times."""
    return scenario.Machine(
        f"node-{number}", NODE, system=SYSTEM, joins_seconds=joins_seconds, leaves_seconds=leaves_seconds
    )


def of(
    uses: Sequence[Sequence[tuple[float, float]]], *, machines: Sequence[scenario.Machine] = (), steps: int = 0
) -> scenario.Scenario:
    """A scenario whose replica r wants uses[r][s] (millicores, bytes) during step s; all stay until its end."""
    steps = steps or max((len(use) for use in uses), default=1)
    every = np.array([amount for use in uses for amount in use] or [(0.0, 0.0)], np.float32)
    offsets = np.cumsum([0, *(len(use) for use in uses)])
    replicas = tuple(
        scenario.Replica(0, at, START_SECONDS, START_SECONDS + len(use) * STEP_SECONDS, int(offsets[at]))
        for at, use in enumerate(uses)
    )
    return scenario.Scenario(
        name="small",
        start_seconds=START_SECONDS,
        step_seconds=STEP_SECONDS,
        steps=steps,
        machines=tuple(machines) or (machine(0), machine(1)),
        owners=(scenario.Owner("default", "web", Load(100.0, 1e9)),),
        replicas=replicas,
        usage=scenario.Usage(every[:, 0].copy(), every[:, 1].copy()),
    )


def after(steps: float) -> float:
    """So many steps after the start."""
    return START_SECONDS + steps * STEP_SECONDS


def book(
    scenario_of: scenario.Scenario, placed: Mapping[str, int], *, scraping: node_usage.Scraping | None = None
) -> node_usage.UsageBook:
    """A book in which pods run from the start: name -> replica, on the node of the same number modulo the nodes."""
    written = node_usage.UsageBook(scenario_of, scraping=scraping)
    for name, replica in placed.items():
        written.placed(
            f"default/{name}", replica, scenario_of.machines[replica % len(scenario_of.machines)].name, START_SECONDS
        )
    return written


def leaving(scenario_of: scenario.Scenario, replica: int, at_seconds: float) -> scenario.Scenario:
    """The same with a replica that leaves at another time."""
    changed = list(scenario_of.replicas)
    changed[replica] = dataclasses.replace(changed[replica], leaves_seconds=at_seconds)
    return dataclasses.replace(scenario_of, replicas=tuple(changed))
