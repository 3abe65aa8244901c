"""Exit codes, the same for every service and command.

Scripts and Jobs act on these numbers (docs/contract.md, processes), so they are spelt here once. `reported` is how an
entry point turns the errors of a door into lines on stderr and the right code instead of a traceback.
"""

import contextlib
import enum
import sys
from collections.abc import Iterator, Mapping

from runtime import terminal


class Exit(enum.IntEnum):
    """Exit codes, as kubectl's where kubectl has them."""

    OK = 0
    FINDINGS = 1
    BAD_INPUT = 2
    UNREACHABLE = 3
    PARTIAL = 4


@contextlib.contextmanager
def reported(codes: Mapping[type[Exception], Exit]) -> Iterator[None]:
    """Run the body; an exception of a listed type becomes its text on stderr, each line after `error: `, and SystemExit
    with its code.

    The most specific listed type wins, whatever the order of the mapping. Anything else passes: a traceback is then a
    bug of ours.
    """
    try:
        yield
    except tuple(codes) as error:
        kind = next(base for base in type(error).__mro__ if base in codes)
        lines = str(error).splitlines() or [kind.__name__]
        sys.stderr.write("".join(f"error: {terminal.escaped(line)}\n" for line in lines))
        raise SystemExit(int(codes[kind])) from error
