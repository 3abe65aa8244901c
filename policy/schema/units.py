"""The units operators write, turned into the units code uses: ratios, Go durations, Kubernetes quantities.

The model in `policy.schema.load_policy` and `policy.schema.descheduler_section` annotates its fields with these types;
each refuses what it cannot read with a sentence that says what is expected. Every type also says how it is shown
(configz) and what an editor may complete (JSON Schema).
"""

import decimal
import functools
import json
import re
from typing import Annotated, Final

import durationpy
import pydantic
import pydantic_core

_RATIO_TEXT = re.compile(r"(\d{1,6}(?:\.\d{1,12})?)\s?%", re.ASCII)
_DURATION_TEXT = re.compile(r"((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+", re.ASCII)
_QUANTITY_TEXT = re.compile(r"(\d{1,20}(?:\.\d{0,12})?|\.\d{1,12})(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?", re.ASCII)
_SUFFIXES: Final = {"m": 0.001, "": 1.0} | {
    suffix + tail: float(step ** (power + 1))
    for step, tail in ((1000, ""), (1024, "i"))
    for power, suffix in enumerate("kMGTPE" if tail == "" else "KMGTPE")
}
_MAX_SECONDS: Final = 10 * 365 * 86400.0
_MAX_NUMBER: Final = 1e15
_SHOWN: Final = 60


def wrong(message: str) -> pydantic_core.PydanticCustomError:
    """An error whose text reaches the operator as it stands; it can always be encoded."""
    return pydantic_core.PydanticCustomError("policy", "{message}", {"message": printable(message)})


def printable(text: str) -> str:
    """JSON and YAML can spell half of a surrogate pair, which no answer could carry: it is shown escaped."""
    return text.encode(errors="backslashreplace").decode()


def quoted(value: object) -> str:
    """A value as it is quoted in a message: as YAML writes it, on one line, cut to 60 characters."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "nothing"}[value]
    if isinstance(value, int) and abs(value) > 10**_SHOWN:
        return "a huge number"
    text = printable(json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value))
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def quoted_key(key: str) -> str:
    """A key as a part of a path: bare where it is a plain word, quoted and cut where it is not."""
    return key if key.isidentifier() and len(key) <= _SHOWN else quoted(key)


def _finite(value: object, expected: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MAX_NUMBER:  # NaN, too
        raise wrong(f"{expected} expected, got {quoted(value)}")
    return float(value)


def ratio(value: object, most: float = 1.0) -> float:
    """A share of one: `0.65` or `"65%"`, from 0 to `most`; 65 is refused with what was probably meant, 1.65 is not."""
    expected = 'a ratio such as 0.65 or "65%"'
    if isinstance(value, str):
        match = _RATIO_TEXT.fullmatch(value)
        if match is None:
            raise wrong(f"{expected} expected, got {quoted(value)}")
        number = float(match[1]) / 100
    else:
        number = _finite(value, expected)
        if 10 <= number <= 100 and number > most:
            raise wrong(f'{value} is not a ratio from 0 to {most:g}; did you mean "{value}%"')
    if not 0 <= number <= most:
        raise wrong(f"{quoted(value)} is out of range: a ratio from 0 to {most:g} expected")
    return round(number, 12)


def duration_seconds(value: object) -> float:
    """Seconds of a Go duration (`30s`, `5m`, `1h30m`), 0 or more; a bare number is refused because it has no unit."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise wrong(f"{quoted(value)} has no unit: write a Go duration such as {value}s or {value}m")
    if not isinstance(value, str):
        raise wrong(f"a Go duration such as 30s, 5m or 1h30m expected, got {quoted(value)}")
    if not _DURATION_TEXT.fullmatch(value) or len(value) > _SHOWN:
        raise wrong(
            f"{quoted(value)} is not a Go duration: write such as 30s, 5m or 1h30m (units h, m, s, ms; 1 day is 24h)"
        )
    try:
        seconds = durationpy.from_str(value).total_seconds()
    except durationpy.DurationError as error:
        raise wrong(f"{quoted(value)} is not a Go duration: {error}") from error
    if seconds > _MAX_SECONDS:
        raise wrong(f"{quoted(value)} is longer than 10 years")
    return float(seconds)


def _positive_seconds(value: object) -> float:
    seconds = duration_seconds(value)
    if seconds <= 0:
        raise wrong(f"{quoted(value)} must be longer than 0s")
    return seconds


def _window_text(value: object) -> str:
    _positive_seconds(value)
    return str(value)


def duration_text(seconds: float) -> str:
    """The Go duration of so many seconds, in the shortest usual form: 300 -> `5m`, 5400 -> `1h30m`."""
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    text = f"{hours:.0f}h" * (hours > 0) + f"{minutes:.0f}m" * (minutes > 0) + f"{rest:g}s" * (rest > 0)
    return text or "0s"


def _quantity(value: object, example: str) -> float:
    expected = f"a Kubernetes quantity such as {example}"
    if not isinstance(value, str):
        if (amount := _finite(value, expected)) < 0:
            raise wrong(f"{quoted(value)} must not be negative: write such as {example}")
        return amount
    match = _QUANTITY_TEXT.fullmatch(value)
    if match is None:
        raise wrong(f"{expected} expected, got {quoted(value)}")
    return float(decimal.Decimal(match[1])) * _SUFFIXES[match[2] or ""]


def cpu_millicores(value: object) -> float:
    """Millicores of a CPU quantity: `250m` -> 250, `0.5` -> 500, `2` -> 2000."""
    return round(_quantity(value, "250m") * 1000, 6)


def memory_bytes(value: object) -> float:
    """Bytes of a memory quantity: `200Mi`, `1G`, `1048576`; the m suffix (thousandths of a byte) is refused."""
    if isinstance(value, str) and value.endswith("m"):
        raise wrong(f'{quoted(value)} is thousandths of a byte: did you mean "{value[:-1]}Mi"')
    return _quantity(value, "200Mi")


def number(value: object) -> float:
    """A finite number of 0 or more and at most 1000."""
    finite = _finite(value, "a number")
    if not 0 <= finite <= 1000:
        raise wrong(f"{quoted(value)} is out of range: a number from 0 to 1000 expected")
    return finite


def weight(value: object) -> float:
    """A weight: 0, or from 0.000001 to 1000, so that a quotient of sums never loses its digits."""
    finite = number(value)
    if 0 < finite < 1e-6:
        raise wrong(f"{quoted(value)} is too small for a weight: 0 or at least 0.000001 expected")
    return finite


def _memory_text(size_bytes: float) -> str:
    mebibytes = size_bytes / 2**20
    return f"{mebibytes:.0f}Mi" if mebibytes == int(mebibytes) else f"{size_bytes:.0f}"


_RATIO_SCHEMA, _LARGE_RATIO_SCHEMA = (
    {"anyOf": [{"type": "number", "minimum": 0, "maximum": most}, {"type": "string", "pattern": r"^\d+(\.\d+)?\s?%$"}]}
    for most in (1, 10)
)
_DURATION_SCHEMA: Final = {"type": "string", "pattern": r"^((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))+$"}
_QUANTITY_SCHEMA: Final = {
    "anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": r"^(\d+(\.\d*)?|\.\d+)(m|[kMGTPE]|[KMGTPE]i)?$"},
    ]
}
_NUMBER_SCHEMA: Final = {"type": "number", "minimum": 0, "maximum": 1000}

_Seconds = pydantic.PlainSerializer(duration_text, return_type=str, when_used="json")

Ratio = Annotated[float, pydantic.PlainValidator(ratio), pydantic.WithJsonSchema(_RATIO_SCHEMA)]
LargeRatio = Annotated[
    float, pydantic.PlainValidator(functools.partial(ratio, most=10.0)), pydantic.WithJsonSchema(_LARGE_RATIO_SCHEMA)
]
Duration = Annotated[
    float, pydantic.PlainValidator(_positive_seconds), _Seconds, pydantic.WithJsonSchema(_DURATION_SCHEMA)
]
DurationOrZero = Annotated[
    float, pydantic.PlainValidator(duration_seconds), _Seconds, pydantic.WithJsonSchema(_DURATION_SCHEMA)
]
DurationText = Annotated[str, pydantic.PlainValidator(_window_text), pydantic.WithJsonSchema(_DURATION_SCHEMA)]
Millicores = Annotated[
    float,
    pydantic.PlainValidator(cpu_millicores),
    pydantic.PlainSerializer("{:.15g}m".format, return_type=str, when_used="json"),
    pydantic.WithJsonSchema(_QUANTITY_SCHEMA),
]
Bytes = Annotated[
    float,
    pydantic.PlainValidator(memory_bytes),
    pydantic.PlainSerializer(_memory_text, return_type=str, when_used="json"),
    pydantic.WithJsonSchema(_QUANTITY_SCHEMA),
]
Weight = Annotated[float, pydantic.PlainValidator(weight), pydantic.WithJsonSchema(_NUMBER_SCHEMA)]
Number = Annotated[float, pydantic.PlainValidator(number), pydantic.WithJsonSchema(_NUMBER_SCHEMA)]
Flag = pydantic.StrictBool
Text = Annotated[str, pydantic.Field(strict=True, min_length=1, max_length=4096)]
Count = Annotated[int, pydantic.Field(strict=True, ge=1, le=1_000_000)]
Priority = Annotated[int, pydantic.Field(strict=True, ge=-(2**31), le=2**31 - 1)]
