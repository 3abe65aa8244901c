"""The nodes of the past: how large, how labelled, from when to when, and how busy they really were.

`rebuilding` calls `build`. Nodes are those of kube-state-metrics; without it those of node-exporter, by the address of
their series, which then have neither labels nor taints. A node whose address goes on under another name was renamed:
both are one machine, and that is said.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from policy import annotations
from promql import identity
from promql.door import Series
from simulator.history import grids
from simulator.history.queries import Subject
from simulator.history.reading import Recorded, Span
from simulator.load import Load
from simulator.scenario import NEVER, Machine

MEMORY_NOISE_RATIO = 0.02
USUAL_PODS = 110
LABEL_PREFIX = "label_"


@dataclasses.dataclass(frozen=True, slots=True)
class Machines:
    """The machines in order of name, their measured use [machines, steps] as ratios, and what a reader must know.

    `renamed` leads from a machine's former names to its last.
    """

    machines: tuple[Machine, ...]
    cpu_ratio: grids.Floats
    memory_ratio: grids.Floats
    renamed: Mapping[str, str]
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Life:
    name: str
    address: str
    first: int
    last: int


def build(recorded: Recorded) -> Machines:
    """The nodes. ValueError when neither kube-state-metrics nor node-exporter names any."""
    lives, notes = _lives(recorded)
    if not lives:
        raise ValueError(
            "no node is named by kube_node_info or node_memory_MemTotal_bytes in the whole span: check the matchers, "
            "and that Prometheus keeps data that long"
        )
    renamed, lives = _renamed(lives)
    notes += [f"node {old} went on as {new} (same address): replayed as one machine" for old, new in renamed.items()]
    sizes, unsized = _sizes(recorded, lives)
    notes += _listed("allocatable CPU or memory is not recorded, left out", unsized)
    machines = tuple(_machine(life, sizes[life.name], recorded, renamed) for life in lives if life.name in sizes)
    cpu, memory = (_measured(recorded, subject, lives, machines, renamed) for subject in _MEASURED)
    notes += [note for one in (cpu, memory) for note in one[1]]
    return Machines(machines, cpu[0], memory[0], renamed, tuple(notes))


_MEASURED = (Subject.NODE_CPU, Subject.NODE_MEMORY)


def _lives(recorded: Recorded) -> tuple[list[_Life], list[str]]:
    """From when to when each name and address were there."""
    grid = grids.grid(recorded.series[Subject.NODES], ("node", "internal_ip"), recorded.span)
    notes = []
    if not grid.keys:
        host = lambda labels: (host, host) if (host := identity.without_port(labels.get("instance", ""))) else None  # noqa: E731
        grid = grids.grid(recorded.series[Subject.MEMORY], (), recorded.span, key=host)
        notes.append("kube_node_info is not recorded: nodes are those of node-exporter, without labels and taints")
    found = [_life(key, steps) for key, row in grid.rows().items() if len(steps := np.flatnonzero(grid.present[row]))]
    return sorted(found, key=lambda life: (life.name, life.first)), notes


def _life(key: grids.Key, steps: npt.NDArray[np.intp]) -> _Life:
    return _Life(key[0], key[1], int(steps[0]), int(steps[-1]))


def _renamed(lives: Iterable[_Life]) -> tuple[dict[str, str], list[_Life]]:
    """Lives of one address that follow each other under different names become the last name's; a name that changed
    its address is one life.
    """
    by_address: dict[str, list[_Life]] = {}
    for life in lives:
        by_address.setdefault(life.address or life.name, []).append(life)
    renamed: dict[str, str] = {}
    for several in by_address.values():
        several.sort(key=lambda life: life.first)
        apart = all(one.last < other.first for one, other in itertools.pairwise(several))
        if apart:
            renamed |= {one.name: several[-1].name for one in several[:-1] if one.name != several[-1].name}
    whole: dict[str, _Life] = {}
    for life in lives:
        name = renamed.get(life.name, life.name)
        other = whole.get(name, life)
        address = life.address if life.name == name else other.address
        whole[name] = _Life(name, address, min(life.first, other.first), max(life.last, other.last))
    return renamed, sorted(whole.values(), key=lambda life: life.name)


def _sizes(recorded: Recorded, lives: Iterable[_Life]) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Allocatable by node and resource; without it what node-exporter sees of the whole machine."""
    sizes: dict[str, dict[str, float]] = {}
    for (node, resource), amount in grids.highest(recorded.series[Subject.SIZES], ("node", "resource")).items():
        sizes.setdefault(node, {})[resource] = amount
    directory = _directory(lives)
    for subject, resource in ((Subject.CPUS, "cpu"), (Subject.MEMORY, "memory")):
        for one in recorded.series[subject]:
            name = directory.resolve(one.labels.get("instance", ""))
            values = [value for _, value in one.points if value == value]
            if name is not None and values:
                sizes.setdefault(name, {}).setdefault(resource, max(values))
    known = {life.name for life in lives if {"cpu", "memory"} <= sizes.get(life.name, {}).keys()}
    return {name: sizes[name] for name in known}, sorted({life.name for life in lives} - known)


def _machine(life: _Life, size: Mapping[str, float], recorded: Recorded, renamed: Mapping[str, str]) -> Machine:
    span = recorded.span
    return Machine(
        name=life.name,
        capacity=Load(size["cpu"] * 1000.0, size["memory"]),
        max_pods=int(size.get("pods", USUAL_PODS)),
        labels={"kubernetes.io/hostname": life.name} | _labels(recorded, life.name),
        taints=tuple(_taints(recorded, life.name)),
        joins_seconds=-NEVER if life.first == 0 else span.start_seconds + life.first * span.step_seconds,
        leaves_seconds=NEVER if life.last == span.steps - 1 else _end_seconds(span, life.last),
    )


def _end_seconds(span: Span, step: int) -> float:
    return span.start_seconds + (step + 1) * span.step_seconds


def _labels(recorded: Recorded, name: str) -> dict[str, str]:
    """Those that kube-state-metrics was told to export; it writes `.`, `-` and `/` as `_`, so only the well-known ones
    can be read back.
    """
    known = {"topology_kubernetes_io_zone": "topology.kubernetes.io/zone", "kubernetes_io_arch": "kubernetes.io/arch"}
    found: dict[str, str] = {}
    for one in recorded.series[Subject.LABELS]:
        if one.labels.get("node") == name:
            given = {key.removeprefix(LABEL_PREFIX): value for key, value in one.labels.items()}
            found |= {label: given[key] for key, label in known.items() if key in given}
    return found


def _taints(recorded: Recorded, name: str) -> Iterable[Mapping[str, str]]:
    """Those that stood at the end of the node's time; what comes and goes (not-ready, cordons) is not replayed."""
    for one in recorded.series[Subject.TAINTS]:
        given = one.labels
        lasting = not given.get("key", "").startswith("node.kubernetes.io/")
        if given.get("node") == name and lasting:
            yield {key: given.get(key, "") for key in ("key", "value", "effect")}


def _measured(
    recorded: Recorded, subject: Subject, lives: list[_Life], machines: tuple[Machine, ...], renamed: Mapping[str, str]
) -> tuple[grids.Floats, list[str]]:
    """The node windows of the past by machine, NaN where nothing was measured; and what was refused."""
    directory = _directory([*lives, *_former(recorded, renamed)])
    series, wanted = recorded.series[subject], {machine.name for machine in machines}

    def key(labels: Mapping[str, str]) -> grids.Key | None:
        node = directory.resolve(labels.get("instance", "")) or directory.resolve(labels.get("node", ""))
        node = renamed.get(node, node) if node is not None else None
        return (node,) if node in wanted else None

    lifted = tuple(_without_noise(one) for one in series)
    grid = grids.grid(lifted, (), recorded.span, highest=annotations.MAX_RATIO, key=key)
    rows = grid.rows()
    values = np.full((len(machines), recorded.span.steps), np.nan, np.float32)
    for at, machine in enumerate(machines):
        if (machine.name,) in rows:
            values[at] = grid.values[rows[machine.name,]]
    notes = _listed(f"{subject} was never measured", [m.name for m in machines if (m.name,) not in rows])
    if grid.refused or grid.contradictions:
        notes.append(
            f"{subject}: {grid.refused} values refused (negative, infinite or over {annotations.MAX_RATIO:g}), "
            f"{grid.contradictions} contradicted by a second series"
        )
    return values, notes


def _former(recorded: Recorded, renamed: Mapping[str, str]) -> list[_Life]:
    return [_Life(old, "", 0, 0) for old in renamed]


def _without_noise(one: Series) -> Series:
    points = tuple((at, 0.0 if -MEMORY_NOISE_RATIO <= value < 0 else value) for at, value in one.points)
    return one._replace(points=points)


def _directory(lives: Iterable[_Life]) -> identity.Directory:
    return identity.build(identity.NodeAddress(life.name, (life.address,)) for life in lives)


def _listed(what: str, names: list[str]) -> list[str]:
    if not names:
        return []
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return [f"{what}: {shown} ({len(names)} in all)"]
