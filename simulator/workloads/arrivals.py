"""Arrivals and lifetimes: long services, their releases, and batch jobs that come in bursts and mostly end soon.

Pure, of a random generator that is handed in; sizes and curves come later. `generator` and `workloads.trace_files` ask
for the lives of a crowd and give each its use. Batches of jobs are those of 259,159 arrivals of the Azure region of
2016 (CC-BY 4.0): how many come together, how long they stay, and how the rate swings over a day; they arrive in one
moment, because that is the test of hot-spot compensation.
"""

import bisect
import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.workloads import owner_profiles

DAY_SECONDS = 86_400.0
# How many come together, and for how long they stay (hours), at these shares; straight in log space between.
BATCH_SHARES = (0.0, 0.50, 0.75, 0.90, 0.95, 0.99, 0.999, 1.0)
BATCH_SIZES = (1.0, 1.0, 2.0, 6.0, 14.0, 74.0, 297.0, 587.0)
STAY_SHARES = (0.0, 0.05, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99, 1.0)
STAY_HOURS = (0.08, 0.12, 0.25, 0.40, 1.50, 11.0, 17.6, 34.0, 83.0)
STAY_SPREAD = 0.6  # siblings of a batch stay for times that differ by exp(N(0, .6))
RATE_SWING_RATIO = 0.45  # of the mean rate, over a day
BURST_SHAPE = 4.0  # the rate of an hour is gamma-distributed around the day's: so many batches more or less
HOUR_SECONDS = 3600.0
PRIORITIES, PRIORITY_WEIGHTS = (0, 1000, 100_000), (0.8, 0.15, 0.05)
JOB_PRIORITY = -10
SERVICES_PER_RELEASE = 4
SURGE_SECONDS = 60.0  # a release starts the new replica this long before it stops the old one
RELEASE_EVERY_SECONDS = 60.0  # and goes on to the next replica after so long


@dataclass(frozen=True, slots=True)
class OwnerArrivals:
    """How many come and go.

    `service_pods` replicas of services are there most of the time, `base_ratio` of them since `base_seconds`; the
    others come later, several services in one release. `leaving_ratio` of the base leave, and each Deployment rolls
    `rollouts_per_day` times a day. Jobs bring the replicas in all to `pods`, in batches of at most `largest_batch`.
    """

    seconds: float = DAY_SECONDS
    pods: int = 800
    service_pods: int = 200
    base_ratio: float = 0.75
    base_seconds: float = HOUR_SECONDS
    leaving_ratio: float = 0.15
    rollouts_per_day: float = 0.15
    stateful_ratio: float = 0.1
    budget_ratio: float = 0.5
    largest_batch: int = 40


@dataclass(frozen=True, slots=True)
class Stay:
    """One replica, in seconds after the start: `slot` is its place among its siblings, which a release fills again.

    `node` is where it has to be ("" is anywhere): a DaemonSet's own.
    """

    slot: int
    arrives_seconds: float
    leaves_seconds: float
    node: str = ""


@dataclass(frozen=True, slots=True)
class Life:
    """One owner to be: its kind, its priority, its disruption budget, and when its replicas are wanted."""

    kind: str
    priority: int
    min_available: int | None
    stays: tuple[Stay, ...]

    @property
    def arrives_seconds(self) -> float:
        """When the first of it comes."""
        return min(stay.arrives_seconds for stay in self.stays)

    @property
    def leaves_seconds(self) -> float:
        """When the last of it goes."""
        return max(stay.leaves_seconds for stay in self.stays)

    @property
    def slots(self) -> int:
        """How many replicas it has at a time."""
        return 1 + max(stay.slot for stay in self.stays)

    def until(self, seconds: float) -> "Life":
        """Returns the lifetimes cut off at a time."""
        stays = (
            dataclasses.replace(stay, leaves_seconds=min(stay.leaves_seconds, seconds))
            for stay in self.stays
            if stay.arrives_seconds < seconds
        )
        return dataclasses.replace(self, stays=tuple(stays))


def draw(crowd: OwnerArrivals, rng: np.random.Generator) -> tuple[Life, ...]:
    """All lives of a crowd in order of arrival; ValueError where the services alone are more than `pods`.

    Who stays leaves at infinity.
    """
    services = list(_services(crowd, rng))
    number = sum(len(life.stays) for life in services)
    if number > crowd.pods:
        raise ValueError(
            f"{number} replicas of services, their releases included: expected at most pods = {crowd.pods}; "
            "ask for more pods in all, or for fewer service_pods"
        )
    jobs = _jobs(crowd.pods - number, crowd, rng)
    return tuple(sorted((*services, *jobs), key=lambda life: life.arrives_seconds))


def _services(crowd: OwnerArrivals, rng: np.random.Generator) -> Iterator[Life]:
    base = round(crowd.service_pods * crowd.base_ratio)
    for number in _sizes(base, rng):
        leaving = rng.random() < crowd.leaving_ratio
        leaves_seconds = float(rng.uniform(crowd.base_seconds, crowd.seconds)) if leaving else math.inf
        yield _service(number, float(rng.uniform(0.0, crowd.base_seconds)), leaves_seconds, crowd, rng=rng)
    others = list(_sizes(crowd.service_pods - base, rng))
    moments = rng.uniform(crowd.base_seconds, crowd.seconds, 1 + len(others) // SERVICES_PER_RELEASE)
    for number in others:
        yield _service(number, float(rng.choice(moments)), math.inf, crowd, rng=rng)


def _sizes(pods: int, rng: np.random.Generator) -> Iterator[int]:
    """Numbers of replicas of Deployments, `pods` in all."""
    while pods > 0:
        number = min(owner_profiles.replicas(rng), pods)
        pods -= number
        yield number


def _service(
    number: int, arrives_seconds: float, leaves_seconds: float, crowd: OwnerArrivals, *, rng: np.random.Generator
) -> Life:
    kind = "StatefulSet" if rng.random() < crowd.stateful_ratio else "Deployment"
    until_seconds = min(leaves_seconds, crowd.seconds)
    rolls = rng.poisson(crowd.rollouts_per_day * (until_seconds - arrives_seconds) / DAY_SECONDS)
    rolled = np.sort(rng.uniform(arrives_seconds, until_seconds, rolls)) if kind == "Deployment" else ()
    times = [arrives_seconds, *(float(at) for at in rolled)]
    return Life(
        kind=kind,
        priority=int(rng.choice(PRIORITIES, p=PRIORITY_WEIGHTS)),
        min_available=owner_profiles.budget(number, crowd.budget_ratio, rng),
        stays=tuple(
            stay for slot in range(number) for stay in _generations(slot, times, leaves_seconds, until_seconds)
        ),
    )


def _generations(slot: int, times: Sequence[float], leaves_seconds: float, until_seconds: float) -> Iterator[Stay]:
    """A slot over the releases that begin at `times`: one replica after another, the new before the old goes.

    A release that would reach the slot after `until_seconds` leaves it as it is.
    """
    wait_seconds = slot * RELEASE_EVERY_SECONDS
    starts = [times[0], *(at + wait_seconds for at in times[1:] if at + wait_seconds < until_seconds)]
    ends = [*(at + SURGE_SECONDS for at in starts[1:]), math.inf]
    for start, end in zip(starts, ends, strict=True):
        yield Stay(slot, start, min(end, leaves_seconds))


def _jobs(pods: int, crowd: OwnerArrivals, rng: np.random.Generator) -> list[Life]:
    """Batches, `pods` replicas in all."""
    batches: list[int] = []
    while pods > 0:
        number = min(round(_quantile(BATCH_SIZES, BATCH_SHARES, rng)), crowd.largest_batch, pods)
        batches.append(number)
        pods -= number
    return [_job(*batch, rng) for batch in zip(batches, _moments(len(batches), crowd.seconds, rng), strict=True)]


def _job(number: int, arrives_seconds: float, rng: np.random.Generator) -> Life:
    hours = _quantile(STAY_HOURS, STAY_SHARES, rng) * np.exp(rng.normal(0.0, STAY_SPREAD, number))
    leaves = (arrives_seconds + HOUR_SECONDS * hours).tolist()
    stays = tuple(Stay(slot, arrives_seconds, leaves_seconds) for slot, leaves_seconds in enumerate(leaves))
    return Life("Job", JOB_PRIORITY, None, stays)


def _moments(number: int, seconds: float, rng: np.random.Generator) -> list[float]:
    """When batches come: by hours of very different rates around a day's swing, anywhere inside the hour."""
    hours = math.ceil(seconds / HOUR_SECONDS)
    swing = 1 + RATE_SWING_RATIO * np.sin(2 * np.pi * np.arange(hours) * HOUR_SECONDS / DAY_SECONDS)
    rates = swing * rng.gamma(BURST_SHAPE, 1 / BURST_SHAPE, hours)
    chosen = rng.choice(hours, number, p=rates / rates.sum()) + rng.random(number)
    return [min(float(hour) * HOUR_SECONDS, math.nextafter(seconds, 0.0)) for hour in chosen]


def _quantile(values: Sequence[float], shares: Sequence[float], rng: np.random.Generator) -> float:
    share = rng.random()
    above = max(1, bisect.bisect_left(shares, share))
    (low, high), (first, last) = shares[above - 1 : above + 1], values[above - 1 : above + 1]
    return float(first * (last / first) ** ((share - low) / (high - low)))
