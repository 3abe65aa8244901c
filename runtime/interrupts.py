"""Ctrl-C ends a command at once, wherever it is: one line on stderr, exit code 130, and no traceback.

Entry points call `exit_on_interrupt` before they import anything else. Python's own way, a KeyboardInterrupt wherever
the main thread is, gets lost in destructors and in modules that are half imported, prints tracebacks of threads and
of processes that are being started, and waits for requests in flight. So nothing is unwound here: what must not stay
behind, such as a directory of temporary files, is registered with `cleaned_up`. All else may end at any moment anyhow,
by kill -9. A service that runs replaces the handler by its own (`runtime.loop`, gunicorn).

It imports little, not even typing: until it is imported Python's own handler is in force.
"""

import atexit
import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType

INTERRUPTED = 130  # 128 + SIGINT, as shells report it
LINE = "interrupted; nothing that was started is left running\n"
_SHOW_CURSOR = "\x1b[?25h\n"  # a progress bar hides it, and Ctrl-C echoes ^C on the bar's line
_cleanups: list[Callable[[], None]] = []


def exit_on_interrupt() -> None:
    """SIGINT ends this process from here on until its exit handlers have run: then it has its own exit code already.

    A process that was started to ignore SIGINT (`nohup`, a background job of a script) goes on ignoring it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def end_quietly() -> None:
    """SIGINT ends this process without the line from here on: a watch ends by it, and starts nothing."""
    if signal.getsignal(signal.SIGINT) is _exit:  # else it is ignored, or not ours
        signal.signal(signal.SIGINT, lambda number, frame: _exit(number, frame, line=""))


def _exit(_number: int, _frame: FrameType | None, *, line: str = LINE) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):  # stderr may be closed, or its reader is gone
        os.write(2, ((_SHOW_CURSOR if os.isatty(2) else "") + line).encode())
    leave(INTERRUPTED)


def leave(code: int) -> None:
    """Never returns: ends this process after what was registered; call it on the main thread, which may be anywhere."""
    for cleanup in reversed(_cleanups):
        cleanup()
    os._exit(code)


@contextlib.contextmanager
def cleaned_up(cleanup: Callable[[], None]) -> Iterator[None]:
    """Registers what `leave` has to do as long as the block lasts; at the block's own end it is the block's to do."""
    _cleanups.append(cleanup)
    try:
        yield
    finally:
        _cleanups.remove(cleanup)
