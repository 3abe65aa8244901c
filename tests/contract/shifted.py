"""`python -m tests.contract.shifted --shift FILE OPTIONS`: the descheduler on a machine whose clock is set meanwhile.

The file holds by how many seconds the clock is wrong. Wall time in the process comes from time.time(); timers go by
monotonic time, as they do on a real machine.
"""

import pathlib
import sys
import time
from typing import Final, NamedTuple

from descheduler import __main__ as command

OPTION: Final = "--shift"


class Shift(NamedTuple):
    """By how much the clock is wrong."""

    file: pathlib.Path

    def set(self, seconds: float) -> None:
        """From now on; at once, so that nobody reads half of it."""
        written = self.file.with_suffix(".new")
        written.write_text(str(seconds), encoding="ascii")
        written.replace(self.file)

    def seconds(self) -> float:
        """As last set."""
        return float(self.file.read_text(encoding="ascii"))


def main() -> None:
    """Takes its own option away and runs the command."""
    at = sys.argv.index(OPTION)
    shift, right = Shift(pathlib.Path(sys.argv[at + 1])), time.time
    del sys.argv[at : at + 2]
    time.time = lambda: right() + shift.seconds()
    command.main()


if __name__ == "__main__":
    main()
