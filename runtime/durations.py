"""Durations as people write them, with days and weeks: 7d, 12h, 1h30m.

Options of the command line and filters of the descheduler's HTTP take them; the policy file has Go's form instead
(`policy.schema.units`), which knows no days.
"""

import re
from typing import Final

_PART: Final = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)
MOST_SECONDS: Final = 100 * 365.25 * 86_400
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def seconds(text: str) -> float:
    """Returns the seconds of a duration of up to 100 years; ValueError for any other text, also for a number without a
    unit.
    """
    parts = _PART.findall(text)
    total = float(sum(int(count) * _SECONDS[unit] for count, unit in parts))
    if not parts or "".join(map("".join, parts)) != text:
        raise ValueError(f"{text!r} is not a duration: write such as 7d, 12h or 90m")
    if total > MOST_SECONDS:
        raise ValueError(f"{text!r} is longer than 100 years: write such as 7d, 12h or 90m")
    return total
