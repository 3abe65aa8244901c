"""Progress of a long command: a page that is drawn again on a terminal (rich), lines anywhere else.

`evenload demo` and `make run` show themselves by it. Everything goes to the console that is given, which is stderr:
stdout is for the result. No service imports this module.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import console, live


class Screen:
    """A console, and the page on it where it is a terminal."""

    def __init__(self, out: console.Console, page: live.Live | None) -> None:
        self._out, self._page = out, page

    def say(self, words: str) -> None:
        """Prints a line that stays, above the page."""
        self._out.print(words, highlight=False, markup=False, soft_wrap=True)

    def draw(self, page: Callable[[], console.RenderableType]) -> bool:
        """Draws the page; False without a terminal, where nothing is drawn and the caller may say a line instead."""
        if self._page is not None:
            self._page.update(page())
        return self._page is not None


@contextmanager
def opened(out: console.Console, *, frames_per_second: float) -> Iterator[Screen]:
    """Opens the screen; its page goes when it is closed, the lines stay."""
    if not out.is_terminal:
        yield Screen(out, None)
        return
    with live.Live(console=out, refresh_per_second=frames_per_second, transient=True) as page:
        yield Screen(out, page)
