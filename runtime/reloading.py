"""A file that may change while the service runs: the policy, polled by content.

Services make one Reloading per policy file and poll it every few seconds. The content is hashed rather than watched,
because a ConfigMap volume changes by swapping a symlink and editors by renaming. A file that cannot be read or parsed
never replaces a value that could: the last good one stays, and `error` says why, for /readyz, /configz, metrics and an
Event.

A file that is written in place passes through beginnings that are valid, too, and say something else: a policy without
its last lines evicts at all hours. So a change counts once two polls in a row have read it, and a file that was written
in the last second before a start is read again after another.
"""

import hashlib
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from runtime import clock, files, logs
from runtime.clock import to_rfc3339

log = logs.get(__name__)

T = TypeVar("T")
# What the log says of a value that comes into force: key=value, and warnings of a line each.
Describe = Callable[[T], tuple[Mapping[str, object], Sequence[str]]]
POLL_SECONDS = 2.5  # a change is in force within two polls
SETTLE_SECONDS = 1.0
HASH_DIGITS = 12


class TwoReadings:
    """Whether the content of files, by its hash, is what the reading before found."""

    def __init__(self) -> None:
        self._before = ""

    def agree(self, found_hash: str) -> bool:
        """Takes a reading; "" for one that failed, which agrees with none."""
        before, self._before = self._before, found_hash
        return before == found_hash != ""


class Reloading(Generic[T]):
    """The last good value of a file.

    `parse(text, source_name)` makes the value; what it raises as ValueError (or a subclass) refuses the file. What
    `describe` says of a value is logged when it comes into force.
    Not thread-safe to poll from two threads; reading the attributes from any thread is.
    """

    current: T  # exists after load()

    def __init__(
        self, path: Path, parse: Callable[[str, str], T], *, clock: clock.Clock, describe: Describe[T] | None = None
    ) -> None:
        self._path = path
        self._parse = parse
        self._describe = describe
        self._clock = clock
        self._seen_hash = ""
        self._readings = TwoReadings()
        self.content_hash = ""  # of `current`: 12 hex digits of SHA-256 over the bytes
        self.error: str | None = None  # why the file as it stands now is refused
        self.refused_hash = ""  # of the content that is refused; "" when none is, or when the file cannot be read
        self.loaded_at_seconds = 0.0
        self.checked_at_seconds = 0.0

    def load(self) -> T:
        """The first load: raises OSError, UnicodeDecodeError or whatever `parse` raises."""
        content = self._settled()
        self._accept(self._parse(content.decode(), str(self._path)), content_hash(content))
        return self.current

    def poll(self, *, at_start: bool = False) -> bool:
        """True when the value changed. A file that is gone or invalid keeps the last good value and sets `error`.

        `at_start`: of a process that goes on with another's value, and takes a settled file at once, as `load` does.
        """
        self.checked_at_seconds = self._clock.now()
        try:
            content = self._settled() if at_start else files.read(self._path)
        except OSError as error:
            self._readings.agree("")
            self._refuse(
                f"{self._path}: {error.strerror}: expected a readable file; the last good one stays in force", ""
            )
            return False
        found_hash = content_hash(content)
        agree = self._readings.agree(found_hash) or at_start
        if found_hash == self.content_hash:  # also put back as it was
            self._seen_hash, self.error, self.refused_hash = found_hash, None, ""
            return False
        if found_hash == self._seen_hash or not agree:
            return False
        try:
            value = self._parse(content.decode(), str(self._path))
        except ValueError as error:  # UnicodeDecodeError is one; parsers raise subclasses of it
            self._refuse(str(error), found_hash)
            return False
        self._accept(value, found_hash)
        return True

    def line(self) -> str:
        """Returns the file in force, since when, and why a newer one is not: for /readyz?verbose."""
        refused = f"; the file as it is now is refused: {self.error}" if self.error else ""
        return f"{self.content_hash} since {to_rfc3339(self.loaded_at_seconds)}{refused}"

    def state(self) -> dict[str, object]:
        """Returns the state as data, for /configz; `error` is null while the file as it stands is in force."""
        return {
            "hash": self.content_hash,
            "loadedAt": to_rfc3339(self.loaded_at_seconds),
            "checkedAt": to_rfc3339(self.checked_at_seconds),
            "refusedHash": self.refused_hash or None,
            "error": self.error,
        }

    def _settled(self) -> bytes:
        """The content, read again where a regular file was written a moment ago."""
        content = files.read(self._path)
        status = self._path.stat()
        if stat.S_ISREG(status.st_mode) and 0 <= self._clock.now() - status.st_mtime < SETTLE_SECONDS:
            self._clock.wait(threading.Event(), SETTLE_SECONDS)
            content = files.read(self._path)
        return content

    def _accept(self, value: T, found_hash: str) -> None:
        self.current = value
        self.content_hash = self._seen_hash = found_hash
        self.error, self.refused_hash = None, ""
        self.loaded_at_seconds = self.checked_at_seconds = self._clock.now()
        facts, warnings = ({}, ()) if self._describe is None else self._describe(value)
        log.info("file in force", path=str(self._path), hash=found_hash, **facts)
        for warning in warnings:
            log.warning("doubtful setting in force", path=str(self._path), setting=warning)

    def _refuse(self, reason: str, found_hash: str) -> None:
        if reason != self.error:
            log.warning("changed file refused, the last good one stays", path=str(self._path), error=reason)
        self.error, self._seen_hash, self.refused_hash = reason, found_hash, found_hash


def content_hash(content: bytes) -> str:
    """The first 12 hex digits of SHA-256: what /configz, metrics, Events and ledger rows name a policy by."""
    return hashlib.sha256(content).hexdigest()[:HASH_DIGITS]
