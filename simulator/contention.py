"""Resource contention: the demand of each pod at a time, and the node's use where its pods together want more than it
has.

Pure: the exporter (`cluster.exporter_fleet`) holds the state and asks these functions; `simulator.workloads.demo_plan`
writes the annotation that they read. A pod says its load in `load.evenload.io/usage`, a node its own in
`load.evenload.io/system`; both are JSON, both optional. Usage is constant inside a step of the trace, so that counters
can be integrated exactly.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from simulator import load_curves

Amounts = npt.NDArray[np.float64]
T = TypeVar("T")
A = TypeVar("A", float, Amounts)

USAGE_KEY = "load.evenload.io/usage"
SYSTEM_KEY = "load.evenload.io/system"
DEFAULT_SHARE_OF_REQUESTS = 0.1  # a pod that says nothing uses so much of what it asked for
DEFAULT_CPU_MILLICORES, DEFAULT_MEMORY_BYTES = 10.0, 16 * 2.0**20  # and this where it asked for nothing
REPLICA_LEVEL_SPREAD = 0.15  # replicas differ by a factor exp(N(0, .15)) and lag by 0 to 2 steps
REPLICA_LAGS = 3
MEMORY_CEILING_RATIO = 0.98  # a node never shows less than 2 % of its memory available: the kernel would kill first


class LoadError(ValueError):
    """An annotation or control that cannot be understood; the message names key, value and expectation."""


class Load(msgspec.Struct, frozen=True):
    """An amount of both resources."""

    cpu_millicores: float = 0.0
    memory_bytes: float = 0.0


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `load.evenload.io/usage`: means, and the shape around them.

    `series` is "flat" (exactly the means), "google" (generated for `seed`) or "trace" (job `seed` of the exporter's
    `--trace` file). Replicas of one owner share the curve, and with `spread` differ in level and lag; without a word on
    it flat ones are exact and the others spread.
    """

    cpu_millicores: float = 0.0
    memory_bytes: float = 0.0
    series: str = "flat"
    seed: int = 0
    spread: bool | None = None

    @property
    def spreads(self) -> bool:
        """Whether replicas differ from each other."""
        return self.series != "flat" if self.spread is None else self.spread


class SystemLoad(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node's load without its pods, as shares of its capacity; the content of `load.evenload.io/system`."""

    cpu_ratio: float = 0.03
    memory_ratio: float = 0.05


@dataclass(frozen=True, slots=True)
class Clock:
    """The trace's clock: `epoch_seconds` is its zero in Unix time, and it runs `speed` times as fast as the wall."""

    epoch_seconds: float
    speed: float = 1.0

    def at(self, now_seconds: float) -> float:
        """Seconds on the trace's clock at a Unix time."""
        return (now_seconds - self.epoch_seconds) * self.speed

    def next_step(self, now_seconds: float, step_seconds: float) -> float:
        """The Unix time at which the step in force at `now_seconds` ends; always later than `now_seconds`."""
        step = math.floor(self.at(now_seconds) / step_seconds) + 1
        end = self.epoch_seconds + step * step_seconds / self.speed
        return end if end > now_seconds else self.epoch_seconds + (step + 1) * step_seconds / self.speed


Curves = Callable[[Profile], load_curves.Curve]


def curves(trace: Sequence[load_curves.Curve] = ()) -> Curves:
    """Which curve a profile plays: generated, or job `seed` (modulo their number) of a trace."""

    def curve(profile: Profile) -> load_curves.Curve:
        if profile.series == "google":
            return load_curves.generate(profile.seed)
        return trace[profile.seed % len(trace)] if profile.series == "trace" and trace else load_curves.FLAT

    return curve


def profile(annotations: Mapping[str, str], requests: Load) -> Profile:
    """The profile of a pod: what it says of itself, else a small fixed share of its requests. Raises LoadError."""
    text = annotations.get(USAGE_KEY)
    if text is None:
        return Profile(
            requests.cpu_millicores * DEFAULT_SHARE_OF_REQUESTS or DEFAULT_CPU_MILLICORES,
            requests.memory_bytes * DEFAULT_SHARE_OF_REQUESTS or DEFAULT_MEMORY_BYTES,
        )
    pod_profile = _decode(text, Profile, USAGE_KEY)
    if pod_profile.series not in ("flat", "google", "trace"):
        raise LoadError(f'{USAGE_KEY}: series is "{pod_profile.series}", expected flat, google or trace')
    _not_negative(USAGE_KEY, cpu_millicores=pod_profile.cpu_millicores, memory_bytes=pod_profile.memory_bytes)
    return pod_profile


def system_load(annotations: Mapping[str, str], default: SystemLoad) -> SystemLoad:
    """A node's own load: what it says, else the default. Raises LoadError."""
    text = annotations.get(SYSTEM_KEY)
    if text is None:
        return default
    load = _decode(text, SystemLoad, SYSTEM_KEY)
    _not_negative(SYSTEM_KEY, cpu_ratio=load.cpu_ratio, memory_ratio=load.memory_ratio)
    return load


def _decode(text: str, type_: type[T], key: str) -> T:
    try:
        return msgspec.json.decode(text, type=type_)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise LoadError(
            f"{key}: {text[:80]!r} is not understood: {error}; expected JSON of {type_.__name__}"
        ) from error


def _not_negative(key: str, **values: float) -> None:
    for name, value in values.items():
        if not 0 <= value < math.inf:
            raise LoadError(f"{key}: {name} is {value}, expected a finite number of at least 0")


@dataclass(frozen=True, slots=True)
class Replica:
    """How one replica differs from its siblings: a factor on the level, and a lag in whole steps."""

    level: float = 1.0
    lag_steps: int = 0


def replica(seed: int, ordinal: int) -> Replica:
    """Replica `ordinal` of owner `seed`: level exp(N(0, .15)), lag 0, 1 or 2 steps; the same on every run."""
    rng = np.random.default_rng((abs(seed), 2, ordinal))
    return Replica(float(np.exp(rng.normal(0.0, REPLICA_LEVEL_SPREAD))), int(rng.integers(REPLICA_LAGS)))


def usage(profile: Profile, curve: load_curves.Curve, which: Replica, trace_seconds: float) -> Load:
    """Returns a pod's demand at a time of the trace's clock: mean x level x curve, CPU and memory at the same step."""
    step = curve.step_at(trace_seconds, which.lag_steps)
    return Load(
        profile.cpu_millicores * which.level * float(curve.cpu[step]),
        profile.memory_bytes * which.level * float(curve.memory[step]),
    )


class SharedUse(NamedTuple):
    """The use of a node: its CPU and memory, and the factors by which its pods' demands were cut (1 = not at all)."""

    used: Load
    cpu_factor: float
    memory_factor: float


def share(capacity: Load, system: Load, wanted: Load) -> SharedUse:
    """Divides a node: the system is served first, then all pods in proportion to what they want.

    used = min(capacity, system + wanted), memory at most 98 % of capacity; factor = (used - system) / wanted.
    """
    cpu, cpu_factor = _share(min, capacity.cpu_millicores, system.cpu_millicores, wanted.cpu_millicores)
    usable_bytes = capacity.memory_bytes * MEMORY_CEILING_RATIO
    memory, memory_factor = _share(min, usable_bytes, system.memory_bytes, wanted.memory_bytes)
    return SharedUse(Load(cpu, memory), cpu_factor, memory_factor)


def shares(usable: Amounts, system: Amounts, wanted: Amounts) -> tuple[Amounts, Amounts]:
    """`share` of many nodes, of one resource or a row of each; `usable` is 98 % of a node's memory."""
    return _share(np.minimum, usable, system, wanted)


def _share(least: Callable[[A, A], A], usable: A, system: A, wanted: A) -> tuple[A, A]:
    """The formula, for a number or an array of them."""
    first = least(system, usable)
    served = least(wanted, usable - first)
    nothing = wanted <= 0  # counts as 1: without demand nothing was cut
    return first + served, (served + nothing) / (wanted + nothing)
