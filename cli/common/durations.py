"""The option type of spans: 7d, 12h, 1h30m (`runtime.durations`). `effectiveness`, `whatif` and `tune` take them."""

from typing import Any, Final

import click

from runtime import durations

DAY_SECONDS: Final = 86400.0


class Span(click.ParamType[float]):
    """A span as 7d, 12h or 90m, in seconds."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Returns the seconds; a number alone is refused because it has no unit."""
        try:
            seconds = durations.seconds(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return seconds or self.fail(f"{value!r} is no time at all: write such as 7d, 12h or 90m", param, ctx)


SPAN: Final = Span()
