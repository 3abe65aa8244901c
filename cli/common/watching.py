"""Prints an answer again and again, as `-w` asks: in its place on a terminal, one under the other in a pipe."""

import collections.abc
import sys
import threading
from typing import Final

import click

from runtime import clock, interrupts

PERIOD_SECONDS: Final = 5.0

option: Final = click.option("-w", "--watch", is_flag=True, help=f"Print it again every {PERIOD_SECONDS:g} s.")


def repeated(show: collections.abc.Callable[[], int], ticking: clock.Clock, *, watch: bool) -> None:
    """Print by `show`, which returns the exit code: once, or until it is interrupted. A server that does not answer
    ends it, as it ends the command.
    """
    stop = threading.Event()
    if watch:
        interrupts.end_quietly()
    code = show()
    while watch and not ticking.wait(stop, PERIOD_SECONDS):
        if sys.stdout.isatty():
            click.clear()
        code = show()
    if code:
        raise SystemExit(code)
