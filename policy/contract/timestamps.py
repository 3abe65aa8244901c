"""Points in time on the wire: Unix seconds <-> RFC 3339 text in UTC, whole seconds.

The annotation, the heartbeat and the relief hint carry their times through here. The rule is narrower than RFC 3339
on purpose: only `Z`, because a local time under a `Z` is the oldest bug of this niche.
"""

import datetime
import functools
import math
import re

_SHAPE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")


@functools.lru_cache(maxsize=64)  # one sync writes the same second on thousands of nodes
def encode(at_seconds: float) -> str:
    """`2026-11-21T04:00:00Z` for Unix seconds; fractions are cut off, so a stamp never lies in the future."""
    moment = datetime.datetime.fromtimestamp(math.floor(at_seconds), datetime.UTC)
    return moment.isoformat().removesuffix("+00:00") + "Z"


def decode(text: object) -> float:
    """Unix seconds of an RFC 3339 text in UTC; ValueError names what is no such text."""
    if not isinstance(text, str) or not _SHAPE.fullmatch(text) or not text.isascii():
        raise ValueError(_refusal(text))
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise ValueError(f"{_refusal(text)}: {error}") from error


def _refusal(text: object) -> str:
    return f"{text!r:.60} is not a UTC time such as 2026-11-21T04:00:00Z"
