"""An arrival plan whose requests mislead: arrival times, requests and real use of each pod.

Pure and seeded: the demo and the benches play one plan twice, so both runs see the same owners with the same curves.
Owners are drawn by `workloads.owner_profiles`; they are Deployments of 1 to 8 replicas that arrive in batches, one step
each, because batches are what hot-spot compensation is for. `cluster.demo.arriving` turns an owner into what
`cluster.demo` creates. A scenario of the simulator is drawn by `generator`.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from lab.cluster import exporter_load
from simulator import contention, load_curves
from simulator.workloads import owner_profiles

# used / requested memory over the Alibaba cluster of 2018, at owner_profiles.USED_SHARES of the instances.
USED_MEMORY_PER_REQUEST = (0.05, 0.05, 0.11, 0.27, 0.62, 2.54, 3.0)


@dataclass(frozen=True, slots=True)
class Shape:
    """Size and shape of a plan.

    `base_ratio` of the owners come in quick batches, within `base_span_ratio` of `span_seconds`; the others follow in
    batches until it is over, while `leaving_ratio` of the base leave. The whole cluster's use reaches `cpu_fill_ratio`
    and `memory_fill_ratio` at its highest moment of the first `observed_steps` steps of the trace, `step_seconds` of
    the run each. Requests never add up to more than `request_fill_ratio` and those of one pod stay under
    `pod_ceiling_ratio` of a node, so that plain scheduling can place every pod. `node` is one node's capacity.
    """

    nodes: int = 40
    node: contention.Load = contention.Load(8000.0, 32 * 2.0**30)  # noqa: RUF009 - immutable
    cpu_fill_ratio: float = 0.56
    memory_fill_ratio: float = 0.52
    request_fill_ratio: float = 0.74
    pod_ceiling_ratio: float = 0.40
    observed_steps: int = 30
    step_seconds: float = 5.0
    pods_per_node: float = 10.0
    base_batches: int = 3
    base_span_ratio: float = 0.15
    batches: int = 24
    span_seconds: float = 120.0
    base_ratio: float = 0.4
    leaving_ratio: float = 0.6
    guessing_ratio: float = 0.80
    budget_ratio: float = 0.5


@dataclass(frozen=True, slots=True)
class Owner:
    """One Deployment: what each replica asks for (`requests`) and uses on average (`profile`)."""

    name: str
    replicas: int
    requests: contention.Load
    profile: exporter_load.Profile
    guessing: bool
    lifetime_seconds: float | None = None
    min_available: int | None = None

    @property
    def profile_load(self) -> contention.Load:
        """Mean use of one replica."""
        return contention.Load(self.profile.cpu_millicores, self.profile.memory_bytes)

    def use(self, step: int) -> contention.Load:
        """Mean use of all replicas together during a step of their curve."""
        curve = load_curves.generate(self.profile.seed)
        cpu, memory = float(curve.cpu[step % len(curve.cpu)]), float(curve.memory[step % len(curve.memory)])
        return owner_profiles.times(self.profile_load, contention.Load(cpu * self.replicas, memory * self.replicas))


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch: owners that appear in one step, seconds after the start of the run."""

    at_seconds: float
    owners: tuple[Owner, ...]


@dataclass(frozen=True, slots=True)
class Departure:
    """An owner that is removed, seconds after the start of the run."""

    at_seconds: float
    owner: Owner


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that happens in a run, in order of time."""

    shape: Shape
    seed: int
    arrivals: tuple[Arrival, ...]

    @property
    def owners(self) -> tuple[Owner, ...]:
        """All owners in order of arrival."""
        return tuple(owner for arrival in self.arrivals for owner in arrival.owners)

    @property
    def departures(self) -> tuple[Departure, ...]:
        """Those that leave within the run, in order of time."""
        leaving = (
            Departure(arrival.at_seconds + owner.lifetime_seconds, owner)
            for arrival in self.arrivals
            for owner in arrival.owners
            if owner.lifetime_seconds is not None
        )
        return tuple(sorted(leaving, key=lambda departure: departure.at_seconds))

    @property
    def staying(self) -> tuple[Owner, ...]:
        """Those that are still there at the end."""
        return tuple(owner for owner in self.owners if owner.lifetime_seconds is None)

    @property
    def pods(self) -> int:
        """How many replicas arrive in all."""
        return sum(owner.replicas for owner in self.owners)


def plan(seed: int, shape: Shape | None = None) -> Plan:
    """Draws the plan of a seed; the same seed and shape give the same plan."""
    shape = shape or Shape()
    rng = np.random.default_rng((seed, 3))
    return _scaled(Plan(shape, seed, _batches(_drawn(seed, shape, rng), shape, rng)))


def _drawn(seed: int, shape: Shape, rng: np.random.Generator) -> list[Owner]:
    """Owners until there are enough pods; sizes are still relative to each other only."""
    owners: list[Owner] = []
    while sum(owner.replicas for owner in owners) < shape.nodes * shape.pods_per_node:
        owners.append(_owner(seed * 100_000 + len(owners), len(owners), shape, rng))
    return owners


def _owner(curve_seed: int, number: int, shape: Shape, rng: np.random.Generator) -> Owner:
    mean = owner_profiles.mean_use(load_curves.owner_means(curve_seed), shape.node)
    profile = exporter_load.Profile(mean.cpu_millicores, mean.memory_bytes, series="google", seed=curve_seed)
    replicas = owner_profiles.replicas(rng)
    guessing = bool(rng.random() < shape.guessing_ratio)
    min_available = owner_profiles.budget(replicas, shape.budget_ratio, rng)
    used = owner_profiles.use(mean, load_curves.generate(curve_seed))
    return Owner(
        name=f"{'guess' if guessing else 'careful'}-{number:02d}",
        replicas=replicas,
        requests=requests(used, guessing, rng),
        profile=profile,
        guessing=guessing,
        min_available=min_available,
    )


def requests(used: owner_profiles.Use, guessing: bool, rng: np.random.Generator) -> contention.Load:
    """As of all owners; memory is guessed, too."""
    load = owner_profiles.requests(used, guessing, rng)
    if guessing:
        per_request = owner_profiles.used_per_request(USED_MEMORY_PER_REQUEST, rng)
        return contention.Load(load.cpu_millicores, used.mean.memory_bytes / per_request)
    return load


def peak_use(arrivals: Plan) -> contention.Load:
    """The highest mean use of all present replicas, per resource, over the observed steps."""
    moments = [_use_at(arrivals, step) for step in range(arrivals.shape.observed_steps)]
    return contention.Load(max(each.cpu_millicores for each in moments), max(each.memory_bytes for each in moments))


def _use_at(arrivals: Plan, step: int) -> contention.Load:
    at_seconds = (step + 0.5) * arrivals.shape.step_seconds
    there = [
        owner.use(step)
        for arrival in arrivals.arrivals
        for owner in arrival.owners
        if arrival.at_seconds <= at_seconds < arrival.at_seconds + (owner.lifetime_seconds or math.inf)
    ]
    return contention.Load(sum(each.cpu_millicores for each in there), sum(each.memory_bytes for each in there))


def _scaled(drawn: Plan) -> Plan:
    """Brings the peak of use to the fill asked for, then the sum of requests under what can be placed.

    Use is scaled per resource for all owners alike, requests with it, so what misleads stays. Only if the requests do
    not fit are they all scaled down by one more factor.
    """
    shape, nodes = drawn.shape, drawn.shape.nodes
    fill = contention.Load(shape.cpu_fill_ratio * nodes, shape.memory_fill_ratio * nodes)
    grown = _factors(shape.node, fill, [peak_use(drawn)])
    sized = _each(drawn, grown, grown)
    requests = [
        owner_profiles.times(owner.requests, contention.Load(owner.replicas, owner.replicas)) for owner in sized.staying
    ]
    room = shape.request_fill_ratio * nodes
    fit = _factors(shape.node, contention.Load(room, room), requests)
    return _each(
        sized, contention.Load(1.0, 1.0), contention.Load(min(1.0, fit.cpu_millicores), min(1.0, fit.memory_bytes))
    )


def _each(drawn: Plan, usage: contention.Load, load: contention.Load) -> Plan:
    return dataclasses.replace(
        drawn,
        arrivals=tuple(
            Arrival(arrival.at_seconds, tuple(_sized(owner, usage, load, drawn.shape) for owner in arrival.owners))
            for arrival in drawn.arrivals
        ),
    )


def _factors(node: contention.Load, nodes: contention.Load, amounts: Sequence[contention.Load]) -> contention.Load:
    """Returns the factors per resource that make the amounts add up to so many nodes."""
    return contention.Load(
        node.cpu_millicores * nodes.cpu_millicores / sum(amount.cpu_millicores for amount in amounts),
        node.memory_bytes * nodes.memory_bytes / sum(amount.memory_bytes for amount in amounts),
    )


def _sized(owner: Owner, usage: contention.Load, load: contention.Load, shape: Shape) -> Owner:
    used, wanted = owner_profiles.times(owner.profile_load, usage), owner_profiles.times(owner.requests, load)
    profile = msgspec.structs.replace(
        owner.profile, cpu_millicores=round(used.cpu_millicores, 1), memory_bytes=round(used.memory_bytes)
    )
    requests = owner_profiles.fitting(wanted, shape.node, shape.pod_ceiling_ratio)
    return dataclasses.replace(owner, profile=profile, requests=requests)


def _batches(owners: Sequence[Owner], shape: Shape, rng: np.random.Generator) -> tuple[Arrival, ...]:
    """The base in a few quick batches, then the others at even times until the span ends."""
    base = round(shape.base_ratio * len(owners))
    first = _cut(_leaving(owners[:base], shape, rng), shape.base_batches, rng)
    others = _cut(owners[base:], shape.batches, rng)
    base_seconds = shape.base_span_ratio * shape.span_seconds
    quick = base_seconds / max(1, len(first))
    slow = (shape.span_seconds - base_seconds) / max(1, len(others))
    return (
        *(Arrival(number * quick, part) for number, part in enumerate(first)),
        *(Arrival(number * slow + base_seconds, part) for number, part in enumerate(others)),
    )


def _cut(owners: Sequence[Owner], batches: int, rng: np.random.Generator) -> list[tuple[Owner, ...]]:
    """At most so many batches, none empty, each of a random size around the mean."""
    weights = rng.uniform(0.5, 1.5, max(1, min(batches, len(owners))))
    ends = np.ceil(np.cumsum(weights / weights.sum())[:-1] * len(owners)).astype(int)
    parts = (tuple(owners[first:last]) for first, last in itertools.pairwise([0, *ends.tolist(), len(owners)]))
    return [part for part in parts if part]


def _leaving(base: Sequence[Owner], shape: Shape, rng: np.random.Generator) -> list[Owner]:
    """Some of the base leave one by one while the batches arrive, so that the cluster lives without growing."""
    leavers = set(rng.permutation(len(base))[: round(shape.leaving_ratio * len(base))].tolist())
    lifetimes = rng.uniform(0.25, 1.0, len(base)) * shape.span_seconds
    return [
        dataclasses.replace(owner, lifetime_seconds=float(lifetimes[number])) if number in leavers else owner
        for number, owner in enumerate(base)
    ]
