"""Files that are named on a command line: read to their end, within a bound of size and of waiting.

A path may lead to a pipe that nothing writes to, a device without an end or ten gigabytes of logs. A service or a
command that was given it by mistake says so instead of waiting for ever or filling the memory.
"""

import errno
import os
import select
import stat
from pathlib import Path
from typing import Final

LIMIT_BYTES: Final = 1 << 20  # a policy has at most a quarter of it, a bundle of all the world's CAs as much
SILENT_SECONDS: Final = 30.0  # of the writer of a pipe: `<(kubectl get …)` takes a while
_PIECE_BYTES: Final = 1 << 16


def read(path: Path, most_bytes: int = LIMIT_BYTES) -> bytes:
    """The whole content. OSError for what cannot be read, is larger, or is a pipe without a writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # of a pipe without a writer it returns
    try:
        status = os.fstat(descriptor)
        left, pieces = most_bytes + 1, list[bytes]()
        if stat.S_ISREG(status.st_mode) and status.st_size > most_bytes:
            left = 0
        while left and (piece := _piece(descriptor, min(left, _PIECE_BYTES), path)):
            pieces.append(piece)
            left -= len(piece)
    finally:
        os.close(descriptor)
    if not left:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes // 1024} KiB", str(path))
    if not pieces and stat.S_ISFIFO(status.st_mode):
        raise OSError(errno.EPIPE, "it is a pipe that nothing writes to", str(path))
    return b"".join(pieces)


def _piece(descriptor: int, most_bytes: int, path: Path) -> bytes:
    try:
        return os.read(descriptor, most_bytes)
    except BlockingIOError:
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        if not waiting.poll(SILENT_SECONDS * 1000):
            raise OSError(errno.ETIMEDOUT, f"nothing came for {SILENT_SECONDS:.0f} s", str(path)) from None
        return os.read(descriptor, most_bytes)
