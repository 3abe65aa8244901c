"""When things happen: after a while on the kernel's clock, or at once where there is no while to wait.

A delay of 0 never goes over the kernel: then everything has happened when the call returns that caused it.
"""

from collections.abc import Callable
from typing import Protocol

Action = Callable[[], None]


class Kernel(Protocol):
    """The part of `simulator.kernel.Kernel` that controllers use."""

    def after(self, seconds: float, action: Action) -> None:
        """Do something so many seconds from now."""


class Delays:
    """`after` of a kernel; without a kernel (None) nothing may take time."""

    def __init__(self, kernel: Kernel | None = None) -> None:
        self._kernel = kernel

    def after(self, seconds: float, action: Action) -> None:
        """Do it so many seconds from now; ValueError where that needs a kernel and there is none."""
        if seconds <= 0:
            action()
        elif self._kernel is None:
            raise ValueError(f"a delay of {seconds} s: expected 0, or a kernel whose clock lets it pass")
        else:
            self._kernel.after(seconds, action)
