"""Small scenarios that a test can reason about: six machines, requests that mislead, a few hours.

Three pods ask for a third of a machine each and use next to nothing. A dozen others ask for next to nothing and use a
quarter of a machine each: kube-scheduler, which sees requests only, puts all of them on the three machines that look
free, three or four on each, and these are hot; two on each of six machines are not.
"""

import numpy as np

from simulator import scenario
from simulator.contention import Load

START = 1_795_219_200.0  # 2026-11-21 00:00 UTC
STEP = 300.0
MACHINE = Load(8000.0, 32 * 2.0**30)
MODEST, GREEDY = Load(2500.0, 2 * 2.0**30), Load(100.0, 2.0**28)
USED_MODEST, USED_GREEDY = Load(100.0, 2.0**28), Load(2100.0, 2.0**29)


def misleading(
    *, hours: float = 3.0, spacing_seconds: float = 0.0, min_available: int | None = None
) -> scenario.Scenario:
    """The modest come first, then the greedy, all at once or one after another."""
    steps = round(hours * 3600 / STEP)
    modest = scenario.Owner("default", "modest", MODEST)
    greedy = [scenario.Owner("default", f"greedy-{number}", GREEDY, min_available=min_available) for number in range(3)]
    first = START + STEP / 2
    replicas = [_replica(0, ordinal, START, 0) for ordinal in range(3)]
    replicas += [
        _replica(1 + number % 3, number // 3, first + number * spacing_seconds, steps + 1) for number in range(12)
    ]
    return scenario.Scenario(
        name="misleading",
        start_seconds=START,
        step_seconds=STEP,
        steps=steps,
        machines=tuple(scenario.Machine(f"node-{number}", MACHINE) for number in range(6)),
        owners=(modest, *greedy),
        replicas=tuple(replicas),
        usage=scenario.Usage(
            _levels(USED_MODEST.cpu_millicores, USED_GREEDY.cpu_millicores, steps + 1),
            _levels(USED_MODEST.memory_bytes, USED_GREEDY.memory_bytes, steps + 1),
        ),
        assumptions=("It is made up.",),
    )


def _replica(owner: int, ordinal: int, arrives_seconds: float, offset: int) -> scenario.Replica:
    return scenario.Replica(owner, ordinal, arrives_seconds, scenario.NEVER, offset)


def _levels(modest: float, greedy: float, steps: int) -> scenario.Floats:
    return np.concatenate([np.full(steps, modest, np.float32), np.full(steps, greedy, np.float32)])
