"""`python -m tests.contract.shifted --shift FILE OPTIONS`: the descheduler on a machine whose clock is set meanwhile.

The file holds by how many seconds the clock is wrong. Wall time in the process comes from time.time(); timers go by
monotonic time, as they do on a real machine.
"""

import importlib
import pathlib
import sys
import time
from typing import Final, NamedTuple

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

    def apply(self) -> None:
        """Sets the clock of this process by the file from now on."""
        right = time.time
        time.time = lambda: right() + self.seconds()

    def apply_to_ages(self) -> None:
        """Sets the clock of this process by the file, by which ages go; what waits goes by the kernel's clock."""
        right = time.monotonic
        time.monotonic = lambda: right() + self.seconds()


def take_option(option: str) -> str:
    """Takes an option away from the command line and returns its value."""
    at = sys.argv.index(option)
    _, value = sys.argv.pop(at), sys.argv.pop(at)
    return value


def main() -> None:
    """Takes its own option away and runs the command."""
    Shift(pathlib.Path(take_option(OPTION))).apply()
    importlib.import_module("descheduler.__main__").main()


if __name__ == "__main__":
    main()
