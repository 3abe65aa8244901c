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
def reported(*kinds: type[Exception], codes: Mapping[type[Exception], Exit] | None = None) -> Iterator[None]:
    """Run the body; an exception of these types becomes its text on stderr, each line after `error: `, and SystemExit
    with its code: the one in `codes`, else its class's `exit_code`, else 2; the most specific class decides.

    Anything else passes: a traceback is then a bug.
    """
    try:
        yield
    except kinds as error:
        lines = str(error).splitlines() or [type(error).__name__]
        text = "\n".join(f"error: {terminal.escaped(line)}" for line in lines)
        sys.stderr.write(f"{terminal.wrapped(text, sys.stderr)}\n")
        raise SystemExit(int(_code(type(error), codes or {}))) from error


def _code(kind: type[BaseException], codes: Mapping[type[Exception], Exit]) -> Exit:
    for base in kind.__mro__:
        code = codes.get(base, vars(base).get("exit_code"))
        if code is not None:
            return Exit(code)
    return Exit.BAD_INPUT
