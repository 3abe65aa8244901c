"""The nodes of the past: how large, how labelled, from when to when, and how busy they really were.

`rebuilding` calls `build`. Nodes are those of kube-state-metrics; without it those of node-exporter, by the address of
their series, which then have neither labels nor taints. A node whose address goes on under another name soon was
renamed: both are one machine, and that is said, as is that a machine went and came back under its name.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from policy.contract import load_annotation
from promql.door import Series
from promql.queries import identity
from simulator.contention import Load
from simulator.history import grids
from simulator.history.queries import Subject
from simulator.history.reader import RecordedSeries, Span
from simulator.scenario import NEVER, Machine

MEMORY_NOISE_RATIO = 0.02
USUAL_PODS = 110
LONGEST_PAUSE_SECONDS = 3600.0  # a machine is renamed within minutes; hours later its address is another machine's
LASTING_RATIO = 0.5  # of a node's time: a taint that stood for less came and went
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


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Life:
    """A name and an address, and at which steps they were seen [steps]."""

    name: str
    address: str
    presence: npt.NDArray[np.bool_]

    @property
    def first(self) -> int:
        """The first step at which it was seen."""
        return int(np.argmax(self.presence))

    @property
    def last(self) -> int:
        """The last one."""
        return len(self.presence) - 1 - int(np.argmax(self.presence[::-1]))


def build(recorded: RecordedSeries) -> Machines:
    """The nodes. ValueError when neither kube-state-metrics nor node-exporter names any."""
    lives, notes = _lives(recorded)
    if not lives:
        raise ValueError(
            "no node is named by kube_node_info or node_memory_MemTotal_bytes in the whole span: check the matchers, "
            "and that Prometheus keeps data that long"
        )
    renamed = _renamed(lives, recorded.span)
    notes += [f"node {old} went on as {new} (same address): replayed as one machine" for old, new in renamed.items()]
    whole = _whole(lives, renamed)
    notes += _listed("went and came back under one name, replayed as there all the time", _away(whole, recorded.span))
    sizes, unsized = _sizes(recorded, lives, whole)
    if not sizes:
        raise ValueError(
            "how large nodes are is not recorded of any: expected kube_node_status_allocatable, or node-exporter's "
            "series with addresses or names of nodes as instance"
        )
    notes += _listed("allocatable CPU or memory is not recorded, left out", unsized)
    taints, passing = _taints(recorded, whole, renamed)
    notes += _listed("taints that stood for less than half of a node's time, not replayed", passing)
    machines = tuple(
        _machine(life, sizes[life.name], taints.get(life.name, ()), recorded) for life in whole if life.name in sizes
    )
    cpu, memory = (_measured(recorded, subject, lives, machines, renamed=renamed) for subject in _MEASURED)
    notes += [note for one in (cpu, memory) for note in one[1]]
    return Machines(machines, cpu[0], memory[0], renamed, tuple(notes))


_MEASURED = (Subject.NODE_CPU, Subject.NODE_MEMORY)


def _lives(recorded: RecordedSeries) -> tuple[list[_Life], list[str]]:
    """From when to when each name and address were there."""
    grid = grids.grid(recorded.series[Subject.NODES], ("node", "internal_ip"), recorded.span)
    notes = []
    if not grid.keys:
        host = lambda labels: (host, host) if (host := identity.without_port(labels.get("instance", ""))) else None  # noqa: E731
        grid = grids.grid(recorded.series[Subject.MEMORY], (), recorded.span, key=host)
        notes.append("kube_node_info is not recorded: nodes are those of node-exporter, without labels and taints")
    lives = [
        _Life(key[0], key[1], present) for key, present in zip(grid.keys, grid.present, strict=True) if present.any()
    ]
    return sorted(lives, key=lambda life: (life.name, life.first)), notes


def _renamed(lives: Iterable[_Life], span: Span) -> dict[str, str]:
    """Former names -> the last one: names of one address that follow each other soon, and never come back."""
    by_address: dict[str, list[_Life]] = {}
    latest: dict[str, int] = {}
    for life in lives:
        by_address.setdefault(life.address or life.name, []).append(life)
        latest[life.name] = max(life.last, latest.get(life.name, 0))
    renamed: dict[str, str] = {}
    for same_address in by_address.values():
        if _apart(same_address):
            for one, other in reversed([*itertools.pairwise(_in_order(same_address))]):
                pause_seconds = (other.first - one.last - 1) * span.step_seconds
                if pause_seconds <= LONGEST_PAUSE_SECONDS and latest[one.name] < other.first:
                    renamed[one.name] = renamed.get(other.name, other.name)
    return renamed


def _in_order(lives: Iterable[_Life]) -> list[_Life]:
    return sorted(lives, key=lambda life: life.first)


def _apart(lives: Iterable[_Life]) -> bool:
    """Whether each ends before the next begins."""
    return all(one.last < other.first for one, other in itertools.pairwise(_in_order(lives)))


def _whole(lives: Iterable[_Life], renamed: Mapping[str, str]) -> list[_Life]:
    """Each machine, with all its names and addresses, by its last name and in order of it."""
    presence: dict[str, npt.NDArray[np.bool_]] = {}
    for life in lives:
        name = renamed.get(life.name, life.name)
        presence[name] = presence[name] | life.presence if name in presence else life.presence
    return [_Life(name, "", presence[name]) for name in sorted(presence)]


def _away(whole: list[_Life], span: Span) -> list[str]:
    """Machines that were not there for more than a pause between their first and last step, while others were."""
    others = np.any([life.presence for life in whole], axis=0)
    most = LONGEST_PAUSE_SECONDS / span.step_seconds
    return [life.name for life in whole if (others & ~life.presence)[life.first : life.last].sum() > most]


def _sizes(
    recorded: RecordedSeries, lives: list[_Life], whole: Iterable[_Life]
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Allocatable by node and resource, without it what node-exporter sees of the whole machine, which is there as
    `whole cpu` and `whole memory`, too.
    """
    sizes: dict[str, dict[str, float]] = {}
    for (node, resource), amount in grids.highest(recorded.series[Subject.SIZES], ("node", "resource")).items():
        sizes.setdefault(node, {})[resource] = amount
    for subject, resource in ((Subject.CPUS, "cpu"), (Subject.MEMORY, "memory")):
        ready = grids.highest(_owned(recorded.series[subject], lives, recorded.span), ("node",))
        for (name,), amount in ready.items():
            sizes.setdefault(name, {}).setdefault(resource, amount)
            sizes[name][f"whole {resource}"] = amount
    names = {life.name for life in whole}
    known = {name for name in names if {"cpu", "memory"} <= sizes.get(name, {}).keys()}
    return {name: sizes[name] for name in known}, sorted(names - known)


def _machine(
    life: _Life, size: Mapping[str, float], taints: tuple[Mapping[str, str], ...], recorded: RecordedSeries
) -> Machine:
    span = recorded.span
    room = Load(size["cpu"] * 1000.0, size["memory"])
    whole = Load(
        max(room.cpu_millicores, size.get("whole cpu", 0.0) * 1000.0),
        max(room.memory_bytes, size.get("whole memory", 0.0)),
    )
    return Machine(
        name=life.name,
        capacity=whole,
        allocatable=None if room == whole else room,
        max_pods=int(size.get("pods", USUAL_PODS)),
        labels=_labels(recorded, life.name),
        taints=taints,
        joins_seconds=-NEVER if life.first == 0 else span.begin_seconds(life.first),
        leaves_seconds=NEVER if life.last == span.steps - 1 else span.begin_seconds(life.last + 1),
    )


def _labels(recorded: RecordedSeries, name: str) -> dict[str, str]:
    """Those that kube-state-metrics was told to export; it writes `.`, `-` and `/` as `_`, so only the well-known ones
    can be read back.
    """
    known = {"topology_kubernetes_io_zone": "topology.kubernetes.io/zone", "kubernetes_io_arch": "kubernetes.io/arch"}
    labels: dict[str, str] = {}
    for one in recorded.series[Subject.LABELS]:
        if one.labels.get("node") == name:
            own = {key.removeprefix(LABEL_PREFIX): value for key, value in one.labels.items()}
            labels |= {label: own[key] for key, label in known.items() if key in own}
    return labels


def _taints(
    recorded: RecordedSeries, whole: Iterable[_Life], renamed: Mapping[str, str]
) -> tuple[dict[str, tuple[Mapping[str, str], ...]], list[str]]:
    """Those that stood for most of a node's time, by node; and the keys of others. What an autoscaler or a start-up
    puts on a node for minutes would keep pods away for the whole replay; not-ready and cordons are of that sort.
    """
    grid = grids.grid(recorded.series[Subject.TAINTS], ("node", "key", "value", "effect"), recorded.span)
    stood: Counter[grids.Key] = Counter()
    for (node, *taint), present in zip(grid.keys, grid.present, strict=True):
        stood[renamed.get(node, node), *taint] += int(present.sum())
    present_steps = {life.name: int(life.presence.sum()) for life in whole}
    taints: dict[str, tuple[Mapping[str, str], ...]] = {}
    passing: set[str] = set()
    for (node, key, value, effect), steps in stood.items():
        if key.startswith("node.kubernetes.io/") or node not in present_steps:
            continue
        if steps > LASTING_RATIO * present_steps[node]:
            taints[node] = (*taints.get(node, ()), {"key": key, "value": value, "effect": effect})
        else:
            passing.add(key)
    return taints, sorted(passing)


def _measured(
    recorded: RecordedSeries,
    subject: Subject,
    lives: list[_Life],
    machines: tuple[Machine, ...],
    *,
    renamed: Mapping[str, str],
) -> tuple[grids.Floats, list[str]]:
    """The node windows of the past by machine, NaN where nothing was measured; and what was refused."""
    wanted = {machine.name for machine in machines}

    def key(labels: Mapping[str, str]) -> grids.Key | None:
        node = renamed.get(labels["node"], labels["node"])
        return (node,) if node in wanted else None

    lifted = map(_without_noise, _owned(recorded.series[subject], lives, recorded.span))
    grid = grids.grid(lifted, (), recorded.span, highest=load_annotation.MAX_RATIO, key=key)
    rows = grid.rows()
    values = np.full((len(machines), recorded.span.steps), np.nan, np.float32)
    for at, machine in enumerate(machines):
        if (machine.name,) in rows:
            values[at] = grid.values[rows[machine.name,]]
    notes = _listed(f"{subject} was never measured", [m.name for m in machines if (m.name,) not in rows])
    if grid.refused or grid.contradictions:
        notes.append(
            f"{subject}: {grid.refused} values refused (negative, infinite or over {load_annotation.MAX_RATIO:g}), "
            f"{grid.contradictions} contradicted by a second series"
        )
    return values, notes


def _owned(all_series: Iterable[Series], lives: list[_Life], span: Span) -> Iterator[Series]:
    """The series with the names of the nodes that they are of. An address that one node had after the other is each
    one's in its own time; of one that several have at once the value's node is unknown.
    """
    by_address: dict[str, list[_Life]] = {}
    for life in lives:
        by_address.setdefault(life.address.lower(), []).append(life)
    own = {address: {life.name for life in theirs} for address, theirs in by_address.items()}
    directory = identity.build(
        identity.NodeAddress(life.name, (life.address,) if len(own[life.address.lower()]) == 1 else ())
        for life in lives
    )
    for one in all_series:
        instance = one.labels.get("instance", "")
        name = directory.resolve(instance) or directory.resolve(one.labels.get("node", ""))
        if name is not None:
            yield Series({"node": name}, one.points)
            continue
        claims = by_address.get(identity.without_port(instance).lower(), []) if instance else []
        for life in claims if _apart(claims) else ():
            yield Series({"node": life.name}, tuple(_within(one.points, life, span)))


def _within(points: Iterable[tuple[float, float]], life: _Life, span: Span) -> Iterator[tuple[float, float]]:
    begin_seconds = span.begin_seconds(life.first + 0.5)  # points stand at the ends of steps
    end_seconds = span.begin_seconds(life.last + 1.5)
    return ((at, value) for at, value in points if begin_seconds < at < end_seconds)


def _without_noise(series: Series) -> Series:
    points = tuple((at, 0.0 if -MEMORY_NOISE_RATIO <= value < 0 else value) for at, value in series.points)
    return series._replace(points=points)


def _listed(what: str, names: list[str]) -> list[str]:
    if not names:
        return []
    first_names = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return [f"{what}: {first_names} ({len(names)} in all)"]
