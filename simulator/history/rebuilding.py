"""Builds a scenario from recorded series, with sentences about the gaps.

Pure; `evenload whatif` calls `rebuild` with what `history.reader` brought, replays the scenario under each policy, and
shows the recorded figures (`measured`) beside the replays: how far plain scheduling in the replay lies from what really
happened is how far the replay can be trusted. Nothing is interpolated: what is missing stays missing and is said.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from runtime import clock
from simulator.contention import SystemLoad
from simulator.history import nodes, pods
from simulator.history.nodes import Machines
from simulator.history.pods import Pods
from simulator.history.reader import RecordedSeries, Span
from simulator.results.outcome import Timeline
from simulator.scenario import Floats, Machine, Scenario

Totals = npt.NDArray[np.float64]
STANDING = (
    "every pod of the past arrives when it was first seen and leaves when it was last seen, to the step",
    "what a pod used does not depend on where it runs; a throttled pod is replayed throttled",
    "affinity, tolerations, spread constraints and volumes are not in Prometheus and are not replayed; a taint that "
    "lasted keeps all pods but those of DaemonSets away",
    "a disruption budget is matched to the workload of its own name",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Past:
    """The scenario, what was really measured of its nodes, and the server's words that something may be missing."""

    scenario: Scenario
    measured: Timeline
    warnings: tuple[str, ...] = ()


def rebuild(recorded: RecordedSeries, name: str) -> Past:
    """The scenario of a span. ValueError says what is missing altogether."""
    fleet = nodes.build(recorded)
    lived = pods.build(recorded, fleet.renamed)
    systems, unexplained = _systems(fleet, lived, recorded.span)
    span = recorded.span
    scenario = Scenario(
        name=name,
        start_seconds=span.start_seconds,
        step_seconds=span.step_seconds,
        steps=span.steps,
        machines=systems,
        owners=lived.owners,
        replicas=lived.replicas,
        usage=lived.usage,
        assumptions=(*STANDING, *fleet.notes, *lived.notes, *unexplained, *_silences(fleet, span), *recorded.warnings),
    )
    names = tuple(machine.name for machine in fleet.machines)
    measured = Timeline(span.start_seconds, span.step_seconds, names, fleet.cpu_ratio.T, fleet.memory_ratio.T)
    return Past(scenario, measured, recorded.warnings)


def _systems(machines: Machines, lived: Pods, span: Span) -> tuple[tuple[Machine, ...], list[str]]:
    """Each machine with what it used beyond its pods: the median over the steps where it was measured."""
    sized, missing = [], []
    for at, machine in enumerate(machines.machines):
        whole = machine.capacity
        rest = (
            machines.cpu_ratio[at] - _pods_use(lived.usage.cpu_millicores, machine, lived, span) / whole.cpu_millicores,
            machines.memory_ratio[at] - _pods_use(lived.usage.memory_bytes, machine, lived, span) / whole.memory_bytes,
        )
        known = [row[~np.isnan(row)] for row in rest]
        if all(len(row) for row in known):
            system = SystemLoad(*(max(0.0, float(np.median(row))) for row in known))
            sized.append(dataclasses.replace(machine, system=system))
        else:
            missing.append(machine.name)
            sized.append(machine)
    notes = [f"what {len(missing)} nodes use beyond their pods is unknown: 3 % of CPU and 5 % of memory are assumed"]
    return tuple(sized), notes if missing else []


def _pods_use(flat: Floats, machine: Machine, lived: Pods, span: Span) -> Totals:
    """Returns the use of the pods that ran on a machine, added up [steps]; unknown use adds nothing."""
    total = np.zeros(span.steps)
    for replica, node in zip(lived.replicas, lived.nodes, strict=True):
        if node == machine.name:
            first = round((replica.arrives_seconds - span.start_seconds) / span.step_seconds)
            end_seconds = min(replica.leaves_seconds, span.end_seconds)
            last = round((end_seconds - span.start_seconds) / span.step_seconds)
            total[first:last] += np.nan_to_num(flat[replica.offset + first : replica.offset + last])
    return total


def _silences(machines: Machines, span: Span) -> list[str]:
    """The stretches in which no node was measured at all: Prometheus was away, or not yet there."""
    silent = np.isnan(machines.cpu_ratio).all(axis=0)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], silent, [False]]).astype(np.int8)))
    stamps = [clock.to_rfc3339(span.begin_seconds(edge)) for edge in edges.tolist()]
    return [
        f"nothing was measured from {first} to {last}: use is unknown then"
        for first, last in zip(stamps[::2], stamps[1::2], strict=True)
    ]
