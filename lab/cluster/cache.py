"""Where the built commands live: a user cache, addressed by the content that determines them.

`binaries` asks for a directory per Go module, `golang` for the one of a downloaded toolchain. A changed go.sum or
flag is a new directory, so two checkouts on one machine never overwrite each other; nothing here needs root.
"""

import collections.abc
import contextlib
import fcntl
import hashlib
import os
import pathlib
import sys

KEY_LENGTH = 16


def root(environment: collections.abc.Mapping[str, str]) -> pathlib.Path:
    """EVENLOAD_CACHE, else XDG_CACHE_HOME/evenload, else ~/.cache/evenload."""
    if override := environment.get("EVENLOAD_CACHE"):
        return pathlib.Path(override).absolute()
    if base := environment.get("XDG_CACHE_HOME"):
        return pathlib.Path(base).absolute() / "evenload"
    return pathlib.Path.home() / ".cache" / "evenload"


def here() -> pathlib.Path:
    """The cache of this process's environment."""
    return root(os.environ)


def key(*parts: str) -> str:
    """A short name for content: the first 16 hex digits of SHA-256 over the parts and their lengths."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()[:KEY_LENGTH]


def say(message: str) -> None:
    """One line of progress, on stderr: stdout belongs to what a script may want to read."""
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


@contextlib.contextmanager
def locked(directory: pathlib.Path) -> collections.abc.Iterator[None]:
    """Holds the directory's lock file, so that two builds at once do the work once; says so when it has to wait."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process builds in {directory}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
