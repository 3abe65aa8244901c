"""Spans of time on the command line: 7d, 12h, 1h30m.

`evenload effectiveness`, `whatif` and `tune` take them; the policy file has Go's form instead, which knows no days.
"""

import re
from typing import Any, Final

import click

_SPAN: Final = re.compile(r"(\d{1,5})([smhdw])")
DAY_SECONDS: Final = 86400.0
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class Span(click.ParamType[float]):
    """A span as 7d, 12h or 90m, in seconds."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; a number alone is refused because it has no unit."""
        parts = _SPAN.findall(value) if isinstance(value, str) else []
        seconds = float(sum(int(count) * _UNITS[unit] for count, unit in parts))
        if not parts or "".join(map("".join, parts)) != value or not seconds:
            self.fail(f"{value!r} is not a time span: write such as 7d, 12h or 90m", param, ctx)
        return seconds


SPAN: Final = Span()
