"""Types of options whose text a function reads, and the one of spans: 7d, 12h, 1h30m (`runtime.durations`)."""

import collections.abc
from typing import Any, Final

import click

from runtime import durations


class Text(click.ParamType[Any]):
    """The type of an option whose text `parse` reads; its ValueError is the option's refusal."""

    def __init__(self, name: str, parse: collections.abc.Callable[[str], Any]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns what the text means."""
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def matching(name: str, matches: collections.abc.Callable[[str], object], problem: str) -> Text:
    """The type of an option whose text is taken as it is; of one that does not match, the problem is the refusal."""

    def parse(text: str) -> str:
        if not matches(text):
            raise ValueError(f"{text!r}{problem}")
        return text

    return Text(name, parse)


def span(text: str) -> float:
    """The seconds of a span; a number alone is refused because it has no unit."""
    seconds = durations.seconds(text)
    if not seconds:
        raise ValueError(f"{text!r} is no time at all: write such as 7d, 12h or 90m")
    return seconds


SPAN: Final = Text("span", span)
