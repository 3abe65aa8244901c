"""From lives and curves to a scenario: lags, levels and requests, put into the arrays that `Scenario` wants.

`generator` and `workloads.trace_files` say who comes when, which curve each owner plays and how big it is; what becomes
of it is written here, once. A replica plays its owner's curve at the scenario's own clock, so that peaks that were
joint stay joint, lagged by 0 to 2 steps and on a level of its own.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from simulator import contention, load_curves, scenario
from simulator.workloads import arrivals, owner_profiles

Amounts = npt.NDArray[np.float64]

START_SECONDS = 1_767_571_200.0  # Monday 2026-01-05T00:00:00Z
AFTER = 1  # a pod may be stopped a little after its last step
NAMESPACES = {"Deployment": "shop", "StatefulSet": "shop", "Job": "batch", "DaemonSet": "kube-system"}
ZONES = ("a", "b", "c")


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """The time that a scenario covers, and how long the steps of the curves are that it plays: as long or longer."""

    step_seconds: float
    steps: int
    curve_step_seconds: float = load_curves.STEP_SECONDS

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.step_seconds * self.steps

    @property
    def lag_steps(self) -> int:
        """How many steps one of a curve's is."""
        return max(1, round(self.curve_step_seconds / self.step_seconds))

    @property
    def look_back(self) -> int:
        """By how many steps a replica may lag."""
        return (contention.REPLICA_LAGS - 1) * self.lag_steps

    def steps_of(self, stay: arrivals.Life | arrivals.Stay) -> tuple[int, int]:
        """The steps that a replica's presence touches: the first, and the one after the last."""
        end_seconds = min(stay.leaves_seconds, self.seconds)
        return int(stay.arrives_seconds // self.step_seconds), math.ceil(end_seconds / self.step_seconds)


@dataclasses.dataclass(frozen=True, slots=True)
class Draft:
    """An owner to be: what one replica uses on average and asks for, and its curve around the mean.

    `curve` begins Frame.look_back steps before `first_step`, the first that its life touches, and is NaN where nothing
    is known, in steps of the frame. `levels` and `lags` (steps) are of its slots.
    """

    name: str
    life: arrivals.Life
    first_step: int
    curve: load_curves.Curve
    mean: contention.Load
    requests: contention.Load
    levels: tuple[float, ...]
    lags: tuple[int, ...]

    def sized(
        self, usage: contention.Load, load: contention.Load, node: contention.Load, ceiling_ratio: float
    ) -> "Draft":
        """Returns the scenario with use and requests scaled per resource, requests at most what such nodes admit."""
        requests = owner_profiles.fitting(owner_profiles.times(self.requests, load), node, ceiling_ratio)
        return dataclasses.replace(self, mean=owner_profiles.times(self.mean, usage), requests=requests)


def cut(curve: load_curves.Curve, frame: Frame, life: arrivals.Life) -> load_curves.Curve:
    """Cuts a lifetime out of a curve that begins with the frame; a curve that is too short repeats."""
    index = _curve_steps(frame, life)
    return load_curves.Curve(
        curve.cpu.take(index, mode="wrap"), curve.memory.take(index, mode="wrap"), frame.step_seconds
    )


def cut_once(curve: load_curves.Curve, begin: int, frame: Frame, life: arrivals.Life) -> load_curves.Curve:
    """Cuts a lifetime out of a curve whose step `begin` begins with the frame: before it and after its end use is
    unknown.
    """
    index = begin + _curve_steps(frame, life)
    inside = (index >= 0) & (index < len(curve.cpu))
    cpu, memory = (
        np.where(inside, part.take(index, mode="clip"), np.float32(np.nan)) for part in (curve.cpu, curve.memory)
    )
    return load_curves.Curve(cpu, memory, frame.step_seconds)


def _curve_steps(frame: Frame, life: arrivals.Life) -> npt.NDArray[np.intp]:
    first_step, end_step = frame.steps_of(life)
    steps = np.arange(first_step - frame.look_back, end_step + AFTER)
    return np.asarray(np.floor(steps * (frame.step_seconds / frame.curve_step_seconds)), np.intp)


def levels_and_lags(slots: int, frame: Frame, rng: np.random.Generator) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """How replicas differ: levels of exp(N(0, .15)) and lags of 0 to 2 steps of the curve, in steps of the frame."""
    levels = np.exp(rng.normal(0.0, contention.REPLICA_LEVEL_SPREAD, slots))
    return tuple(levels.tolist()), tuple((frame.lag_steps * rng.integers(contention.REPLICA_LAGS, size=slots)).tolist())


def used_by_step(drafts: Sequence[Draft], frame: Frame) -> Amounts:
    """Returns the use of all replicas [2, steps], millicores and bytes; unknown use is left out."""
    total = np.zeros((2, frame.steps))
    for each in drafts:
        amounts = each.mean.cpu_millicores * each.curve.cpu, each.mean.memory_bytes * each.curve.memory
        known = np.nan_to_num(np.array(amounts))
        for stay in each.life.stays:
            first, end = frame.steps_of(stay)
            at = first - each.first_step + frame.look_back - each.lags[stay.slot]
            total[:, first:end] += each.levels[stay.slot] * known[:, at : at + end - first]
    return total


def asked_by_step(drafts: Sequence[Draft], frame: Frame) -> Amounts:
    """Returns the requests of all replicas [2, steps], millicores and bytes."""
    changes = np.zeros((2, frame.steps + 1))
    for each in drafts:
        requests = np.array([each.requests.cpu_millicores, each.requests.memory_bytes])
        for stay in each.life.stays:
            first, end = frame.steps_of(stay)
            changes[:, first] += requests
            changes[:, end] -= requests
    return np.asarray(np.cumsum(changes[:, :-1], axis=1))


def machines(number: int, capacity: contention.Load) -> tuple[scenario.Machine, ...]:
    """Equal nodes over three zones."""
    digits = max(3, len(str(number - 1)))
    names = [f"node-{at:0{digits}d}" for at in range(number)]
    return tuple(
        scenario.Machine(
            name,
            capacity,
            labels={"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": ZONES[at % len(ZONES)]},
        )
        for at, name in enumerate(names)
    )


def built(
    name: str, drafts: Sequence[Draft], nodes: Sequence[scenario.Machine], frame: Frame, *, assumptions: Sequence[str]
) -> scenario.Scenario:
    """The scenario of drafts that have their final sizes; replicas in order of arrival."""
    starts = np.cumsum([0, *(len(each.curve.cpu) for each in drafts)])
    replicas = [
        replica for number, each in enumerate(drafts) for replica in _replicas(number, each, int(starts[number]), frame)
    ]
    return scenario.Scenario(
        name=name,
        start_seconds=START_SECONDS,
        step_seconds=frame.step_seconds,
        steps=frame.steps,
        machines=tuple(nodes),
        owners=tuple(_owner(each) for each in drafts),
        replicas=tuple(sorted(replicas, key=lambda replica: replica.arrives_seconds)),
        usage=scenario.Usage(
            np.concatenate([each.curve.cpu * np.float32(each.mean.cpu_millicores) for each in drafts]),
            np.concatenate([each.curve.memory * np.float32(each.mean.memory_bytes) for each in drafts]),
        ),
        assumptions=tuple(assumptions),
    )


def _owner(each: Draft) -> scenario.Owner:
    return scenario.Owner(
        namespace=NAMESPACES[each.life.kind],
        name=each.name,
        requests=each.requests,
        kind=each.life.kind,
        priority=each.life.priority,
        labels={"app": each.name},
        min_available=each.life.min_available,
    )


def _replicas(owner: int, each: Draft, start: int, frame: Frame) -> Iterator[scenario.Replica]:
    for ordinal, stay in enumerate(each.life.stays):
        leaves = START_SECONDS + stay.leaves_seconds
        yield scenario.Replica(
            owner=owner,
            ordinal=ordinal,
            arrives_seconds=START_SECONDS + stay.arrives_seconds,
            leaves_seconds=leaves if leaves < START_SECONDS + frame.seconds else scenario.NEVER,
            offset=start - each.first_step + frame.look_back - each.lags[stay.slot],
            level=each.levels[stay.slot],
            node=stay.node,
        )
