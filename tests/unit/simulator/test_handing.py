"""What is handed over, and what goes through all doors: whole runs come out the same, to the last bit and name."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from policy.contract import filter_opt_out
from policy.schema import load_policy
from simulator import scenario, world
from simulator.commands import studies
from simulator.results import outcome
from simulator.workloads import generator
from tests.unit.simulator import worlds

TIMELINE = {"cpu_ratio", "memory_ratio"}


def generated(seed: int, **shape: Any) -> scenario.Scenario:
    """Ninety minutes of a small cluster."""
    small = {"nodes": 8, "days": 0.0625, "pods": 60, "step_seconds": 100.0, **shape}
    return generator.generate(seed, dataclasses.replace(generator.DEMO, **small))


def policy(**sections: Any) -> load_policy.LoadPolicy:
    """The defaults but for some sections, as in a file."""
    return load_policy.LoadPolicy.model_validate(load_policy.defaults().as_file() | sections)


def same_machines_again() -> scenario.Scenario:
    """Two machines leave with all their pods; one of them comes back as a new one of the same name."""
    given = generated(5)
    leaves = given.start_seconds + 2050.0
    first, second, *others = given.machines
    gone = [dataclasses.replace(one, leaves_seconds=leaves) for one in (first, second)]
    back = dataclasses.replace(first, name="node-again", joins_seconds=leaves + 1000.0)
    return dataclasses.replace(given, machines=(*gone, *others, back))


def unknown_use() -> scenario.Scenario:
    """A recorded past with gaps: for an hour nobody knows what pods use."""
    given = generated(6)
    length = len(given.usage.cpu_millicores)
    holes = [
        np.where((np.arange(length) % 97) < 20, np.float32(np.nan), each) for each in dataclasses.astuple(given.usage)
    ]
    return dataclasses.replace(given, usage=scenario.Usage(*holes))


def some_opt_out() -> scenario.Scenario:
    """Some owners ask to be left alone by the filter."""
    given = generated(7, cpu_fill_ratio=0.75)
    asked = {filter_opt_out.KEY: filter_opt_out.OFF}
    owners = tuple(
        dataclasses.replace(one, annotations=asked) if number % 3 == 0 else one
        for number, one in enumerate(given.owners)
    )
    return dataclasses.replace(given, owners=owners)


def priorities_on_few_machines() -> scenario.Scenario:
    """More is asked for than there is: pods wait, and the important ones make room."""
    given = generated(8)
    return dataclasses.replace(given, machines=given.machines[:6])


FIELD = studies.shipped("field").policy
STRICT = {"thresholds": {"cpu_avg_5m": 0.3, "memory_avg_5m": 0.4}, "whenAllRejected": "pending"}
SERVICES = {
    "name": "services",
    "match": {"priority": {"min": 0}},
    "filter": {"thresholds": {"cpu_avg_5m": 0.3, "memory_avg_5m": 0.9}},
    "score": {"weights": {"cpu_avg_5m": 3, "memory_max_1d": 0}},
}
CASES: dict[str, tuple[Callable[[], scenario.Scenario], dict[str, Any]]] = {
    "evictions": (functools.partial(worlds.misleading, min_available=3), {}),
    "a generated cluster": (functools.partial(generated, 3), {}),
    "a full cluster": (functools.partial(generated, 4, cpu_fill_ratio=0.8), {}),
    "pods that wait until nodes are cooler": (functools.partial(generated, 3), {"policy": policy(filter=STRICT)}),
    "the coolest are kept": (
        functools.partial(generated, 3),
        {"policy": policy(filter=STRICT | {"whenAllRejected": "coolest"})},
    ),
    "missing readings reject, scores are stretched": (
        unknown_use,
        {"policy": policy(filter=STRICT | {"onMissing": "reject"}, score={"spread": "stretch"})},
    ),
    "machines come and go": (same_machines_again, {}),
    "use that is not known": (unknown_use, {}),
    "pods that opt out": (some_opt_out, {"policy": policy(filter=STRICT | {"exempt": {"optOut": {"enabled": True}}})}),
    "preemption": (priorities_on_few_machines, {}),
    "classes of pods": (functools.partial(generated, 3), {"policy": policy(podClasses=[SERVICES])}),
    "the preset of the field": (functools.partial(generated, 9), {"policy": FIELD}),
    "plain": (functools.partial(generated, 3), {"policy": None}),
    "only observed": (functools.partial(worlds.misleading, min_available=3), {"enforce": False}),
}


@functools.cache
def lived(case: str, *, all_doors: bool) -> outcome.Outcome:
    """What came of a case, one way or the other."""
    make, changes = CASES[case]
    setup = world.Setup(load_policy.defaults(), seed=2, explained=12)
    return world.run(make(), dataclasses.replace(setup, all_doors=all_doors, **changes))


@pytest.mark.parametrize("case", CASES)
def test_both_ways_come_to_the_same(case: str) -> None:
    short, long = (lived(case, all_doors=all_doors) for all_doors in (False, True))
    for field in dataclasses.fields(outcome.Timeline):
        one, other = getattr(short.timeline, field.name), getattr(long.timeline, field.name)
        np.testing.assert_array_equal(one, other)
    for field in dataclasses.fields(outcome.Outcome):
        if field.name != "timeline":
            assert getattr(short, field.name) == getattr(long, field.name), field.name


def test_the_cases_are_what_they_say() -> None:
    """Or they would show nothing: pods are evicted, wait, give way, and are told of."""
    long = functools.partial(lived, all_doors=True)
    assert long("evictions").moved
    assert (
        long("pods that wait until nodes are cooler").figures.pods_bound
        < long("a generated cluster").figures.pods_bound
    )
    assert long("preemption").figures.pods_bound != long("a generated cluster").figures.pods_bound
    assert not np.array_equal(
        long("classes of pods").timeline.cpu_ratio, long("a generated cluster").timeline.cpu_ratio
    )
    assert any("not known" in one for one in long("use that is not known").assumptions)
    assert all(long(case).explained for case in CASES if case not in ("plain", "preemption"))
