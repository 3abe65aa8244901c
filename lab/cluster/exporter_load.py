"""Load of a pod at a time: what its annotation says, the curve that it plays, and how replicas of an owner differ.

Pure: `exporter_fleet` holds the state and asks these functions; `demo.arrival_plan` writes the annotation that they
read. A pod says its load in `load.evenload.io/usage`, a node its own in `load.evenload.io/system`; both are JSON, both
optional. Usage is constant inside a step of the trace, so that counters can be integrated exactly.
"""

import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from simulator import load_curves
from simulator.contention import REPLICA_LAGS, REPLICA_LEVEL_SPREAD, Load, SystemLoad
from simulator.load_curves import Curve, Floats, Means, TraceError

T = TypeVar("T")

USAGE_KEY = "load.evenload.io/usage"
SYSTEM_KEY = "load.evenload.io/system"
DEFAULT_SHARE_OF_REQUESTS = 0.1  # a pod that says nothing uses so much of what it asked for
DEFAULT_CPU_MILLICORES, DEFAULT_MEMORY_BYTES = 10.0, 16 * 2.0**20  # and this where it asked for nothing


class LoadError(ValueError):
    """An annotation or control that cannot be understood; the message names key, value and expectation."""


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


Curves = Callable[[Profile], Curve]


def curves(trace: Sequence[Curve] = ()) -> Curves:
    """Which curve a profile plays: generated, or job `seed` (modulo their number) of a trace."""

    def curve(profile: Profile) -> Curve:
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


def step_at(curve: Curve, trace_seconds: float, lag_steps: int = 0) -> int:
    """The index of the step in force at a time of the trace's clock."""
    return (math.floor(trace_seconds / curve.step_seconds) - lag_steps) % len(curve.cpu)


def usage(profile: Profile, curve: Curve, which: Replica, trace_seconds: float) -> Load:
    """Returns a pod's demand at a time of the trace's clock: mean x level x curve, CPU and memory at the same step."""
    step = step_at(curve, trace_seconds, which.lag_steps)
    return Load(
        profile.cpu_millicores * which.level * float(curve.cpu[step]),
        profile.memory_bytes * which.level * float(curve.memory[step]),
    )


class Job(NamedTuple):
    """A job: its curve, and the means around which it moves."""

    curve: Curve
    means: Means


def read_trace(path: pathlib.Path) -> tuple[Job, ...]:
    """The jobs of a trace file, for playing in a loop: steps without a sample repeat the last one before them.

    Jobs without any sample are left out. Raises TraceError.
    """
    trace = load_curves.read_samples(path)
    memory_ratio = np.full_like(trace.cpu_ratio, 0.01) if np.isnan(trace.memory_ratio).all() else trace.memory_ratio
    jobs = []
    for series in zip(trace.cpu_ratio, memory_ratio, strict=True):
        filled = [_filled(values) for values in series]
        means = [float(values.mean()) if len(values) else 0.0 for values in filled]
        if min(means) > 0:
            cpu, memory = (np.asarray(values / mean, np.float32) for values, mean in zip(filled, means, strict=True))
            jobs.append(Job(Curve(cpu, memory, trace.step_seconds), Means(*means)))
    if not jobs:
        raise TraceError(f"{path}: no job has a sample above zero; there is nothing to play")
    return tuple(jobs)


def _filled(values: Floats) -> Floats:
    known = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return values[:0]
    latest = np.searchsorted(known, np.arange(len(values)), side="right") - 1
    return values[known[np.maximum(latest, 0)]]
