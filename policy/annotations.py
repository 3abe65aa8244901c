"""The text of the `evenload.io/load` annotation: the contract between annotator and extender, owned by neither.

The annotator encodes a `Reading` and asks `must_write` whether it differs enough from what the node carries; the
extender decodes it into its load columns. A metric without a valid value is absent from the text, never 0.
"""

import collections.abc
import dataclasses
import json
import math
from typing import Final

from policy import stamps

KEY: Final = "evenload.io/load"
VERSION: Final = 1
MAX_LENGTH: Final = 16 * 1024
MAX_RATIO: Final = 1.5
DECIMALS: Final = 4
# Differences of written values are multiples of 0.0001; anything smaller is the noise of binary fractions.
_NOISE: Final = 1e-9

_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))

Crossings = collections.abc.Mapping[str, tuple[float, ...]]


class AnnotationError(ValueError):
    """A text that is no usable load annotation as a whole.

    `reason` is one of too_long, not_json, not_object, version, no_time: few words, fit for a metric label.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(f"annotation {KEY} is unusable ({reason}): {text[:80]!r}; expected the version {VERSION} JSON")
        self.reason = reason


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """What a node's windows showed at one moment: ratios by metric name, hot counts by window text.

    `invalid` names the metrics whose written value cannot be used and why; only `decode` fills it.
    """

    at_seconds: float
    values: collections.abc.Mapping[str, float]
    hot: collections.abc.Mapping[str, int] = dataclasses.field(default_factory=dict)
    invalid: collections.abc.Mapping[str, str] = dataclasses.field(default_factory=dict)
    _written: dict[str, float] | None = dataclasses.field(default=None, init=False, repr=False, compare=False)

    @property
    def written(self) -> dict[str, float]:
        """The valid values as they are written, with 4 decimals, and -0 as 0; do not change it.

        Made once, as rounding is what takes longest where thousands of nodes are compared with what they carry.
        """
        found = self._written
        if found is None:
            found = {
                name: round(float(value), DECIMALS) + 0.0
                for name, value in self.values.items()
                if 0 <= value <= MAX_RATIO  # as `invalid_reason` has it
            }
            object.__setattr__(self, "_written", found)
        return found


def invalid_reason(value: float) -> str | None:
    """Why a ratio must not be used: nan, infinite, negative or over_range (above 1.5); None when it is valid."""
    if value != value:
        return "nan"
    if value in (math.inf, -math.inf):
        return "infinite"
    if value < 0:
        return "negative"
    return "over_range" if value > MAX_RATIO else None


def encode(reading: Reading) -> str:
    """Compact JSON in the order of the mappings given, ratios with 4 decimals; invalid values are left out."""
    body = {
        "v": VERSION,
        "at": stamps.encode(reading.at_seconds),
        "m": reading.written,
        "hot": dict(reading.hot),
    }
    return _ENCODER.encode(body)


def decode(text: str) -> Reading:
    """The reading in an annotation's text; AnnotationError when it is unusable as a whole.

    One bad value makes that metric unusable (listed in `Reading.invalid`), not the rest. Metrics unknown here are
    kept: another policy may name them. `hot` is information only, so what is wrong in it is dropped.
    """
    body = _object(text)
    version = body.get("v")
    if type(version) is not int or version != VERSION:
        raise AnnotationError("version", text)
    measured = body.get("m")
    if not isinstance(measured, dict):
        raise AnnotationError("not_object", text)
    try:
        at_seconds = stamps.decode(body.get("at"))
    except ValueError as error:
        raise AnnotationError("no_time", text) from error
    return _reading(at_seconds, measured, body.get("hot"))


def _object(text: str) -> dict[str, object]:
    if len(text) > MAX_LENGTH:
        raise AnnotationError("too_long", text)
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AnnotationError("not_json", text) from error
    if not isinstance(body, dict):
        raise AnnotationError("not_object", text)
    return body


def _reading(at_seconds: float, measured: dict[str, object], hot: object) -> Reading:
    values: dict[str, float] = {}
    invalid: dict[str, str] = {}
    for name, value in measured.items():
        if type(value) is not float and type(value) is not int:
            invalid[name] = "not_number"
        elif 0 <= value <= MAX_RATIO:
            values[name] = float(value)
        else:
            invalid[name] = invalid_reason(value) or ""
    counts = hot.items() if isinstance(hot, dict) else ()
    return Reading(at_seconds, values, {key: n for key, n in counts if type(n) is int and n >= 0}, invalid)


def must_write(previous: Reading | None, new: Reading, min_change_ratio: float, crossings: Crossings) -> bool:
    """Whether `new` differs enough from the reading a node carries to be worth a patch.

    Written: a first reading; a metric that appears or vanishes; a move of at least `min_change_ratio`; a value that
    crosses one of its limits in `crossings` (metric name -> ratios), in either direction, by the strict comparison
    the filter makes. Hot counts are information: they ride along, and alone cause a write only when they turn from or
    to all zero, so that a node does not show a hot spot long gone.
    """
    if previous is None:
        return True
    old_values, new_values = previous.written, new.written
    if old_values.keys() != new_values.keys():
        return True
    if any(previous.hot.values()) != any(new.hot.values()):
        return True
    least_change = min_change_ratio - _NOISE
    for name, value in new_values.items():
        old = old_values[name]
        if old != value and (_moved(old, value, least_change) or _crossed(old, value, crossings.get(name, ()))):
            return True
    return False


def _moved(old: float, new: float, least_change: float) -> bool:
    change = abs(new - old)
    return change > _NOISE and change >= least_change


def _crossed(old: float, new: float, limits: tuple[float, ...]) -> bool:
    return any((old > limit) != (new > limit) for limit in limits)
