"""Load curves that look like the real ones: seeded, without any trace data in the repository.

A curve is the load of one owner (a Deployment, a job) over days in steps of five minutes, CPU and memory together, each
relative to its own mean; `simulator.workloads` turns a curve and an owner's mean into millicores and bytes. The
statistics are those of 251 jobs of the Google cell of May 2011 (CC-BY 4.0): distribution of the means, spread inside a
series, autocorrelation at five minutes, an hour and a day, correlation of CPU with memory, and the small daily swing of
the whole fleet. A trace file of the same form can be played instead of the generator.
"""

import contextlib
import dataclasses
import functools
import math
import pathlib
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Complexes = npt.NDArray[np.complex128]

STEP_SECONDS = 300.0
DAY_STEPS = 288
MOST_PERCENT = 1000.0  # a job of more than ten machines is no job but a wrong scale
GAP_CODES = {np.dtype(np.uint8): 255, np.dtype(np.uint16): 65535}

# Quantiles of the mean of a job in percent of the machine, at these shares of the jobs; straight in log space between.
SHARES = (0.0, 0.05, 0.25, 0.50, 0.75, 0.95, 0.99, 1.0)
CPU_MEANS_PERCENT = (5.0, 7.0, 12.0, 18.3, 28.5, 49.0, 66.0, 80.0)
MEMORY_MEANS_PERCENT = (5.0, 6.0, 8.3, 12.2, 22.0, 56.0, 85.0, 92.0)
MEANS_CORRELATION = 0.25
# Standard deviation inside a series: median in points of percent, and the spread of its logarithm between series
# (measured inside ten days: 3.7 and 0.7; drawn a little wider, because ten days do not see all of the slow part).
CPU_DEVIATION_PERCENT, CPU_DEVIATION_SPREAD = 4.3, 0.75
MEMORY_DEVIATION_PERCENT, MEMORY_DEVIATION_SPREAD = 0.7, 1.0
CPU_MEMORY_CORRELATION = 0.45
DAILY_SWING_RATIO = 0.16  # peak to trough of the fleet, as a share of its mean; half of it is the amplitude
# A clock's wave: the amplitude of its day and of its half day, and the least of it; peak to trough 12 to 1. The peaks
# are apart: half of the owners work by day, a quarter each in the evening and at night.
DAY_WAVE, HALF_DAY_WAVE, LEAST_WAVE = 0.7, 0.2, 0.15
PEAK_SHIFTS_DAYS, PEAK_SHARES, PEAK_SPREAD_DAYS = (0.0, 0.33, 0.66), (0.5, 0.25, 0.25), 0.04
MEMORY_WAVE_RATIO = 0.3  # memory follows so much of the wave
FLOOR_RATIO = 0.05  # no job falls under this share of its mean


@dataclasses.dataclass(frozen=True, slots=True)
class Mixture:
    """Shares of variance that remember for days, for an hour or two, and not at all: they give the autocorrelation.

    acf(k steps) = slow * exp(-k / slow_steps) + middle * exp(-k / middle_steps) + the rest only at k = 0
    """

    slow: float
    slow_steps: float
    middle: float
    middle_steps: float


CPU_MIXTURE = Mixture(slow=0.60, slow_steps=5.0 * DAY_STEPS, middle=0.32, middle_steps=14.2)
MEMORY_MIXTURE = Mixture(slow=0.58, slow_steps=5.0 * DAY_STEPS, middle=0.36, middle_steps=25.0)


@dataclasses.dataclass(frozen=True, slots=True)
class Means:
    """An owner's average use, as shares of one whole machine."""

    cpu_ratio: float
    memory_ratio: float


@dataclasses.dataclass(frozen=True, slots=True)
class Curve:
    """Load of one owner relative to its mean: `cpu[i]`, `memory[i]` hold during step i; after its end it repeats."""

    cpu: Floats
    memory: Floats
    step_seconds: float = STEP_SECONDS


FLAT = Curve(np.ones(1, np.float32), np.ones(1, np.float32))


def owner_means(seed: int) -> Means:
    """The means that belong to the curve of `seed`; big CPU users tend a little to be big memory users."""
    first, other = np.random.default_rng((seed, 0)).standard_normal(2)
    second = MEANS_CORRELATION * first + math.sqrt(1 - MEANS_CORRELATION**2) * other
    return Means(_quantile(CPU_MEANS_PERCENT, first) / 100, _quantile(MEMORY_MEANS_PERCENT, second) / 100)


def _quantile(values: tuple[float, ...], normal: float) -> float:
    share = 0.5 * (1 + math.erf(normal / math.sqrt(2)))
    return math.exp(float(np.interp(share, SHARES, np.log(values))))


@functools.lru_cache(maxsize=20_000)
def generate(seed: int, steps: int = 2 * DAY_STEPS) -> Curve:
    """The curve of owner `seed`: mean 1, periodic, spread in proportion to a mean drawn for the same seed.

    The deviation inside a series is drawn in points of percent of a machine, so an owner with a small mean swings
    relatively more; `owner_means(seed)` gives the mean that goes with it.
    """
    rng = np.random.default_rng((seed, 1))
    means = owner_means(seed)
    shocks = rng.standard_normal((2, 3, steps))
    rho = CPU_MEMORY_CORRELATION
    shocks[1] = rho * shocks[0] + math.sqrt(1 - rho**2) * shocks[1]
    spreads = rng.standard_normal(2)
    cpu_points = CPU_DEVIATION_PERCENT * math.exp(CPU_DEVIATION_SPREAD * spreads[0])
    memory_points = MEMORY_DEVIATION_PERCENT * math.exp(MEMORY_DEVIATION_SPREAD * spreads[1])
    daily = 0.5 * DAILY_SWING_RATIO * np.sin(2 * np.pi * np.arange(steps) / DAY_STEPS)
    return Curve(
        _around_one(_mix(shocks[0], CPU_MIXTURE) * (cpu_points / 100 / means.cpu_ratio) + daily),
        _around_one(_mix(shocks[1], MEMORY_MIXTURE) * (memory_points / 100 / means.memory_ratio) + daily / 4),
    )


def by_the_clock(curve: Curve, rng: np.random.Generator) -> Curve:
    """The curve with a daily wave on it, mean 1 as before."""
    shift = rng.choice(PEAK_SHIFTS_DAYS, p=PEAK_SHARES) + rng.normal(0.0, PEAK_SPREAD_DAYS)
    angle = 2 * np.pi * (np.arange(len(curve.cpu)) * curve.step_seconds / (DAY_STEPS * STEP_SECONDS) - shift)
    wave = np.maximum(1.0 + DAY_WAVE * np.sin(angle) + HALF_DAY_WAVE * np.sin(2 * angle), LEAST_WAVE)
    wave /= wave.mean()
    memory = curve.memory * (1.0 + MEMORY_WAVE_RATIO * (wave - 1.0))
    return dataclasses.replace(
        curve, cpu=np.asarray(curve.cpu * wave, np.float32), memory=np.asarray(memory, np.float32)
    )


def _around_one(deviation: npt.NDArray[np.float64]) -> Floats:
    raised = np.maximum(1.0 + np.clip(deviation, -1.0, 4.0), FLOOR_RATIO)
    return np.asarray(raised / raised.mean(), np.float32)


def _mix(shocks: npt.NDArray[np.float64], mixture: Mixture) -> npt.NDArray[np.float64]:
    """Three noises of unit variance -> one of unit variance with the mixture's autocorrelation."""
    steps = shocks.shape[1]
    slow = _smooth(shocks[0], _transfer(mixture.slow_steps, steps))
    middle = _smooth(shocks[1], _transfer(mixture.middle_steps, steps))
    white = math.sqrt(1 - mixture.slow - mixture.middle)
    mixed = math.sqrt(mixture.slow) * slow + math.sqrt(mixture.middle) * middle + white * shocks[2]
    return np.asarray(mixed, np.float64)


def _smooth(noise: npt.NDArray[np.float64], transfer: Complexes) -> npt.NDArray[np.float64]:
    return np.asarray(np.fft.irfft(np.fft.rfft(noise) * transfer, len(noise)), np.float64)


@functools.lru_cache(maxsize=64)
def _transfer(memory_steps: float, steps: int) -> Complexes:
    """Frequency response of x[i] = x[i-1] * exp(-1 / memory_steps) + noise on a circle, scaled to unit variance.

    A circle, so that a curve repeats without a jump, and so that one owner costs one FFT instead of a loop.
    """
    response = 1 / (1 - math.exp(-1 / memory_steps) * np.exp(-2j * np.pi * np.arange(steps // 2 + 1) / steps))
    kernel = np.fft.irfft(response, steps)
    return np.asarray(response / math.sqrt(float(np.sum(kernel**2))), np.complex128)


MOST_BYTES = 2 << 30  # of all arrays of a file, in memory: 100,000 pods for a week in steps of five minutes need 1.6e9
MOST_PACKED_BYTES = 1 << 29
_PACKED_AS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}  # as numpy does; others unpack without a bound

# What numpy and zipfile raise for files that are cut off, of another kind, or hold something else.
UNREADABLE = (OSError, EOFError, ValueError, TypeError, KeyError, RuntimeError, zlib.error, zipfile.BadZipFile)


class TraceError(ValueError):
    """A trace file that cannot be played; the message names the file, what is wrong and what is expected."""


@dataclasses.dataclass(frozen=True, slots=True)
class Trace:
    """The jobs of a file: shares of one machine [jobs, steps], NaN where there is no sample.

    Without memory in the file `memory_ratio` is all NaN.
    """

    name: str
    cpu_ratio: Floats
    memory_ratio: Floats
    step_seconds: float


@contextlib.contextmanager
def opened(path: pathlib.Path) -> Iterator[Mapping[str, npt.NDArray[Any]]]:
    """The arrays of an .npz file; raises one of UNREADABLE for any other, in words that are not numpy's own.

    What its arrays will take is known from their heads before any is unpacked: two megabytes may be four gigabytes.
    """
    if path.exists() and not (path.is_file() and zipfile.is_zipfile(path)):
        raise ValueError("no .npz archive")
    if path.stat().st_size > MOST_PACKED_BYTES:
        raise ValueError(f"it is larger than {MOST_PACKED_BYTES >> 20} MiB")
    with path.open("rb") as file:
        with zipfile.ZipFile(file) as archive:
            check_size(sum(_unpacked_bytes(archive, member) for member in archive.infolist()))
        file.seek(0)
        with np.load(file, allow_pickle=False) as stored:
            yield stored


def check_size(unpacked_bytes: int) -> None:
    """Raises ValueError where arrays take more memory than a file of them may."""
    if unpacked_bytes > MOST_BYTES:
        raise ValueError(
            f"its arrays take {unpacked_bytes >> 20} MiB, over {MOST_BYTES >> 20} MiB: take fewer days or longer steps"
        )


def _unpacked_bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """The memory that an array takes, at four bytes a value or more. ValueError: its head and the archive differ."""
    if member.compress_type not in _PACKED_AS:
        raise ValueError(f"{member.filename} is packed in a way that numpy's .npz is not")
    with archive.open(member) as packed:
        if np.lib.format.read_magic(packed) != (1, 0):
            raise ValueError(f"{member.filename} is of another version than numpy's .npz")
        shape, _, kind = np.lib.format.read_array_header_1_0(packed)
        if kind.hasobject:
            raise ValueError("it holds objects instead of numbers")
        values = math.prod(shape)
        if packed.tell() + values * kind.itemsize != member.file_size:
            raise ValueError(f"{member.filename} says {values} values and has another length")
    return values * max(kind.itemsize, np.dtype(np.float32).itemsize)


def read_samples(path: pathlib.Path) -> Trace:
    """Reads an .npz with codes `cpu`, `mem` [jobs, steps], their `cpu_scale`, `mem_scale`, and `step` in seconds.

    The top code of the integer type means "no sample". Raises TraceError.
    """
    try:
        with opened(path) as stored:
            cpu = _decode(stored["cpu"], float(stored["cpu_scale"]))
            memory = _decode(stored["mem"], float(stored["mem_scale"])) if "mem" in stored else None
            step_seconds = float(stored["step"])
    except UNREADABLE as error:
        raise TraceError(
            f"{path}: not a trace file ({error}); expected .npz with cpu, cpu_scale, mem, mem_scale, step"
        ) from error
    shapes = [cpu.shape, *([] if memory is None else [memory.shape])]
    if cpu.ndim != 2 or len(set(shapes)) > 1 or 0 in cpu.shape or not 0 < step_seconds < math.inf:
        shapes_text = ", ".join(map(str, shapes))
        raise TraceError(
            f"{path}: shapes {shapes_text} of cpu and mem, step {step_seconds}: expected equal [jobs, steps], step > 0"
        )
    for name, values in (("cpu", cpu), ("mem", memory)):
        most = 0.0 if values is None else float(np.max(values, initial=0.0, where=np.isfinite(values)))
        if most > MOST_PERCENT:
            raise TraceError(
                f"{path}: {name} reaches {most:g} % of a machine, expected at most {MOST_PERCENT:g}: scale?"
            )
    hundred = np.float32(100)
    memory_ratio = np.full_like(cpu, np.nan) if memory is None else memory / hundred
    return Trace(path.name, cpu / hundred, memory_ratio, step_seconds)


def _decode(codes: npt.NDArray[np.generic], scale: float) -> Floats:
    gap = GAP_CODES.get(codes.dtype)
    if gap is None:
        raise ValueError(f"codes are {codes.dtype}, expected uint8 or uint16")
    if not 0 < scale < math.inf:
        raise ValueError(f"scale is {scale}, expected a finite number over 0")
    values = codes.astype(np.float32) * np.float32(scale)
    values[codes == gap] = np.nan
    return values
