"""A stretch of a scenario as a scenario of its own: what is learned from one part is judged on another.

Pure; `evenload tune` cuts a recorded past or a trace. Who was there when the part begins arrives with it, and the
scheduler places them again, as nobody knows where a policy that was not in force before would have put them.
"""

import dataclasses
from collections.abc import Iterator

from simulator.scenario import Replica, Scenario

CUT = "pods that were there when the part begins are placed again, all at once, by requests alone: no load is known yet"


def part(scenario: Scenario, first_step: int, last_step: int) -> Scenario:
    """Steps first to last, the last not included. ValueError for a part that is none."""
    if not 0 <= first_step < last_step <= scenario.steps:
        raise ValueError(f"steps {first_step} to {last_step} of {scenario.steps} are no part of {scenario.name}")
    start_seconds = scenario.start_seconds + first_step * scenario.step_seconds
    end_seconds = scenario.start_seconds + last_step * scenario.step_seconds
    return dataclasses.replace(
        scenario,
        name=f"{scenario.name}, steps {first_step} to {last_step}",
        start_seconds=start_seconds,
        steps=last_step - first_step,
        machines=tuple(  # one that left before has no time in it
            machine
            for machine in scenario.machines
            if machine.joins_seconds < end_seconds and machine.leaves_seconds > start_seconds
        ),
        replicas=tuple(_within(scenario, start_seconds, end_seconds, first_step)),
        assumptions=(*scenario.assumptions, CUT) if first_step else scenario.assumptions,
    )


def _within(scenario: Scenario, start_seconds: float, end_seconds: float, first_step: int) -> Iterator[Replica]:
    for replica in scenario.replicas:
        if replica.arrives_seconds < end_seconds and replica.leaves_seconds > start_seconds:
            earlier = replica.arrives_seconds < start_seconds
            pinned = scenario.owners[replica.owner].kind == "DaemonSet"
            yield dataclasses.replace(
                replica,
                arrives_seconds=max(start_seconds, replica.arrives_seconds),
                offset=replica.offset + first_step,
                node="" if earlier and not pinned else replica.node,
            )
