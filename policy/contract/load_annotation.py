"""The text of the `evenload.io/load` annotation: the contract between annotator and extender, owned by neither.

The annotator asks `must_write` which of all nodes' readings differ enough from what the nodes carry and makes the texts
of those; the extender decodes them into its load columns. A metric without a valid value is absent from the text, never
0.
"""

import collections.abc
import dataclasses
import json
import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from policy.contract import timestamps

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

KEY: Final = "evenload.io/load"
VERSION: Final = 1
MAX_LENGTH: Final = 16 * 1024
MAX_RATIO: Final = 1.5
DECIMALS: Final = 4
# Differences of written values are multiples of 0.0001; anything smaller is the noise of binary fractions.
_NOISE: Final = 1e-9
_SCALE: Final = 10.0**DECIMALS
_HALFWAY: Final = 1e-6  # far more than the error of a product up to 15,000, far less than what ratios differ by

_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))
_DECODER: Final = json.JSONDecoder()

Crossings = collections.abc.Mapping[str, tuple[float, ...]]


class AnnotationError(ValueError):
    """A text that is no usable load annotation as a whole.

    `reason` is one of too_long, not_json, not_object, version, no_time: few words, fit for a metric label.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(f"annotation {KEY} is unusable ({reason}): {text[:80]!r}; expected the version {VERSION} JSON")
        self.reason = reason


class Windows(NamedTuple):
    """Extent of windows that the annotator keeps itself: observed without a gap since then, and by maximum when its
    highest average was (Unix seconds).
    """

    since_seconds: float
    peaks: collections.abc.Mapping[str, float]


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """The windows of a node at one moment: ratios by metric name, hot counts by window text.

    `invalid` names the metrics whose written value cannot be used and why; only `decode` fills it. `windows` is there
    where load comes from metrics-server.
    """

    at_seconds: float
    values: collections.abc.Mapping[str, float]
    hot: collections.abc.Mapping[str, int] = dataclasses.field(default_factory=dict)
    invalid: collections.abc.Mapping[str, str] = dataclasses.field(default_factory=dict)
    windows: Windows | None = None


def invalid_reason(value: float) -> str | None:
    """Why a ratio must not be used: nan, infinite, negative or over_range (above 1.5); None when it is valid."""
    if value != value:
        return "nan"
    if value in (math.inf, -math.inf):
        return "infinite"
    if value < 0:
        return "negative"
    return "over_range" if value > MAX_RATIO else None


def written(ratios: Floats) -> Floats:
    """Ratios as they are written, with 4 decimals and -0 as 0; NaN where one is invalid. Exactly Python's round()."""
    valid = (ratios >= 0) & (ratios <= MAX_RATIO)  # as `invalid_reason` has it
    scaled = np.where(valid, ratios, 0.0) * _SCALE
    whole = np.rint(scaled)
    value = whole / _SCALE
    # The product is rounded, too: where it comes out halfway between two, the ratio itself decides.
    halfway = np.abs(np.abs(scaled - whole) - 0.5) < _HALFWAY
    value[halfway] = [round(ratio, DECIMALS) for ratio in ratios[halfway].tolist()]
    return np.where(valid, value + 0.0, np.nan)


def encode(reading: Reading) -> str:
    """Compact JSON in the order of the mappings given, ratios with 4 decimals; invalid values are left out."""
    ratios = written(np.array(list(reading.values.values()), dtype=np.float64)).tolist()
    values = {name: ratio for name, ratio in zip(reading.values, ratios, strict=True) if ratio == ratio}
    return text(reading.at_seconds, values, reading.hot, reading.windows)


def text(
    at_seconds: float,
    values: collections.abc.Mapping[str, float],
    hot: collections.abc.Mapping[str, int],
    windows: Windows | None = None,
) -> str:
    """Returns the annotation from ratios that are rounded already (`written`); `windows` only where they are known."""
    body = {"v": VERSION, "at": timestamps.encode(at_seconds), "m": dict(values), "hot": dict(hot)}
    if windows is not None:
        highest = {name: timestamps.encode(seconds) for name, seconds in windows.peaks.items()}
        body["windows"] = {"since": timestamps.encode(windows.since_seconds), "peaks": highest}
    return _ENCODER.encode(body)


def decode(text: str) -> Reading:
    """The reading in an annotation's text; AnnotationError when it is unusable as a whole.

    One bad value makes that metric unusable (listed in `Reading.invalid`), not the rest. Metrics unknown here are
    kept: another policy may name them. `hot` and `windows` are information only, so what is wrong in them is dropped.
    """
    if len(text) > MAX_LENGTH:
        raise AnnotationError("too_long", text)
    try:
        body = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise AnnotationError("not_json", text) from error
    if not isinstance(body, dict):
        raise AnnotationError("not_object", text)
    version = body.get("v")
    if type(version) is not int or version != VERSION:
        raise AnnotationError("version", text)
    measured = body.get("m")
    if not isinstance(measured, dict):
        raise AnnotationError("not_object", text)
    try:
        at_seconds = timestamps.decode(body.get("at"))
    except ValueError as error:
        raise AnnotationError("no_time", text) from error
    return _reading(at_seconds, measured, body)


def _reading(at_seconds: float, measured: dict[str, object], body: dict[str, object]) -> Reading:
    values: dict[str, float] = {}
    invalid: dict[str, str] = {}
    for name, value in measured.items():
        if type(value) is not float and type(value) is not int:
            invalid[name] = "not_number"
        elif 0 <= value <= MAX_RATIO:
            values[name] = float(value)
        else:
            invalid[name] = invalid_reason(value) or ""
    hot = body.get("hot")
    counts = hot.items() if isinstance(hot, dict) else ()
    spots = {key: n for key, n in counts if type(n) is int and n >= 0}
    return Reading(at_seconds, values, spots, invalid, _windows(body.get("windows")))


def _windows(windows: object) -> Windows | None:
    """The extent of the windows; None where a part of it cannot be read."""
    if not isinstance(windows, dict) or not isinstance(windows.get("peaks"), dict):
        return None
    try:
        peaks = {name: timestamps.decode(text) for name, text in windows["peaks"].items()}
        return Windows(timestamps.decode(windows.get("since")), peaks)
    except ValueError:
        return None


def limits(crossings: Crossings, metrics: collections.abc.Sequence[str]) -> Floats:
    """Limits as columns [metrics, limits], NaN where a metric has fewer than another."""
    most = max((len(ratios) for ratios in crossings.values()), default=0)
    none = (math.nan,) * most
    return np.array([(*crossings.get(name, ()), *none)[:most] for name in metrics]).reshape(len(metrics), most)


def must_write(before: Floats, now: Floats, min_change_ratio: float, limits: Floats) -> Flags:
    """Which nodes' readings `now` differ enough from those they carry to be worth a patch [nodes].

    Both are [nodes, metrics] as they are `written`, NaN where there is none.

    Written: a metric that appears or vanishes, so a first reading; a move of at least `min_change_ratio`; a value that
    crosses one of its `limits` ([metrics, limits], or [nodes, metrics, limits] where nodes have their own), in either
    direction, by the strict comparison the filter makes. Hot counts are information: they go along with such a write
    and never cause one, because short Jobs at a constant load change them all the time.
    """
    change = np.abs(now - before)
    moved = (change > _NOISE) & (change >= min_change_ratio - _NOISE)
    crossed = ((before[..., None] > limits) != (now[..., None] > limits)).any(axis=-1)
    came_or_went = np.isnan(before) != np.isnan(now)
    return np.asarray((moved | crossed | came_or_went).any(axis=-1))
