"""Progress of a long command: a page that is drawn again on a terminal (rich), lines anywhere else.

`evenload demo` and `make run` show themselves by it. Everything goes to the console that is given, which is stderr:
stdout is for the result. What a command writes last is refused before the long work begins.
"""

import os
import pathlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import console as rich_console
from rich import live, segment

from cli.common import output
from runtime import terminal


class _Console(rich_console.Console):
    """Rich's console with the rule of `cli.common.output`: texts are written out, its own cursor movements and colours
    pass.
    """

    def render(
        self, renderable: rich_console.RenderableType, options: rich_console.ConsoleOptions | None = None
    ) -> Iterator[segment.Segment]:
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=terminal.escaped_lines(part.text))


class Screen:
    """A console, and the page on it where it is a terminal."""

    def __init__(self, out: rich_console.Console, page: live.Live | None) -> None:
        self._out, self._page = out, page

    def say(self, words: str) -> None:
        """Prints a line that stays, above the page."""
        self._out.print(words, highlight=False, markup=False, soft_wrap=True)

    def draw(self, page: Callable[[], rich_console.RenderableType]) -> bool:
        """Draws the page; False without a terminal, where nothing is drawn and the caller may say a line instead."""
        if self._page is not None:
            self._page.update(page())
        return self._page is not None


def console(*, stderr: bool = False, width: int | None = None) -> rich_console.Console:
    """Where tables, bars and pages are drawn; text is no markup, for names of others may look like it."""
    return _Console(stderr=stderr, width=width, markup=False, emoji=False)


@contextmanager
def opened(out: rich_console.Console, *, frames_per_second: float) -> Iterator[Screen]:
    """Opens the screen; its page goes when it is closed, the lines stay."""
    if not out.is_terminal:
        yield Screen(out, None)
        return
    with live.Live(console=out, refresh_per_second=frames_per_second, transient=True) as page:
        yield Screen(out, page)


def refuse_early(path: pathlib.Path | None) -> None:
    """End the command where a file that is written last could not be, before the long work begins."""
    if path is None:
        return
    directory = path.absolute().parent
    if not directory.is_dir():
        output.fail(f"{path}: there is no directory {path.parent}: make it first")
    if not os.access(path if path.exists() else directory, os.W_OK):
        output.fail(f"{path} cannot be written: check the permissions of it and of {directory}")
