"""The ledger's file: one writer that syncs every transaction, readers of their own, and what happens when it is broken.

`ledger.ledger` adds the rows to it. A file that SQLite calls malformed, that is no database, or that somebody removed
is `LedgerCorrupt`: `set_aside` then moves it away under another name, for people to look at, and puts a new one in its
place that knows it. Everything else that goes wrong (no space, no rights, a newer version's file) is a `LedgerError`
and leaves the file where it is.

Replicas open one file together: the one that checks, migrates or replaces it holds a lock on `<ledger>.lock` from the
first look to the last step, because SQLite's own locks belong to the file that is being replaced. It has no time-out:
a check of 220 MB takes seconds. The kernel frees the lock of a process that dies.
"""

import collections.abc
import contextlib
import fcntl
import itertools
import os
import sqlite3
import threading
from pathlib import Path
from typing import Final, Self

from descheduler.ledger import sql_schema
from runtime import clock

TIMEOUT_SECONDS: Final = 10.0
GIVE_ANOTHER: Final = "give another file with --ledger or restore it"
# SQLite pairs them by name: one left behind would be played into the next file.
COMPANIONS: Final = ("", "-wal", "-shm")
CORRUPT_CODES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class LedgerError(Exception):
    """The ledger's file cannot be used; the text names it and the next step."""


class LedgerCorrupt(LedgerError):
    """Raised when the ledger file is gone or its content cannot be trusted."""


class LedgerReplaced(LedgerError):
    """Raised when the open file is not the one of its name, which can be opened: another replica set the old one aside,
    an operator put a backup there, or the one there could not be opened before.
    """


class LedgerFile:
    """One SQLite file in WAL mode.

    `alone`: no other process opens it, one thread reads it, and it need not outlive a crash of the machine (a
    simulation's): what writes reads as well, the file stays locked, and nothing is synced.
    """

    def __init__(self, path: Path, *, alone: bool = False) -> None:
        self.path = path
        self._alone = alone
        self._lock = threading.RLock()
        self._writer: sqlite3.Connection | None = None
        self._inode = 0

    def open(self) -> Self:
        """Opens or creates the file, checks it page by page, and brings it to this version's schema. LedgerError if it
        is not a ledger, LedgerCorrupt if it cannot be trusted.
        """
        with self._locked():
            self._open()
        return self

    def open_or_set_aside(self, at_seconds: float) -> Path | None:
        """Opens the file; one that cannot be trusted is set aside first, a new one begun, and its new name returned.

        The new one stores the time, from which its counts are complete.
        """
        with self._locked():
            try:
                self._open()
            except LedgerCorrupt as error:
                return self._replace(str(error), at_seconds)
        return None

    def set_aside(self, cause: str, at_seconds: float) -> Path | None:
        """Sets a file aside that turned out to be corrupt in use and opens a new one; the old one's new name.

        None where another replica has replaced it already: then that one's is opened.
        """
        with self._locked():
            try:
                self._require_same_file()
            except LedgerCorrupt:  # it was removed
                pass
            except LedgerReplaced:
                self._open()
                return None
            return self._replace(cause, at_seconds)

    def _open(self) -> None:
        self.close()
        try:
            self._writer = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=TIMEOUT_SECONDS
            )
            _check(self._writer)
            sql_schema.migrate(self._writer)
            if self._alone:
                self._writer.executescript("PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;")
            self._inode = self.path.stat().st_ino
        except (OSError, sqlite3.Error, ValueError) as error:
            self.close()
            raise self._wrapped(error, GIVE_ANOTHER) from error

    def close(self) -> None:
        """Closes the file, after another thread's transaction; safe to call twice."""
        with self._lock:
            if self._writer is not None:
                self._writer.close()
            self._writer = None

    def _replace(self, cause: str, at_seconds: float) -> Path:
        """Moves the file and its companions away and opens a new one that records it; the old one's new name.

        The new file is whole before it takes the place, in one rename: a full disk or a crash leaves the corrupt file
        where it is, never an empty one that knows of nothing.
        """
        stamp = clock.to_rfc3339(at_seconds).replace(":", "")
        target = _unused(f"{self.path}.corrupt-{stamp}")
        fresh = Path(f"{self.path}.new")
        try:
            for end in COMPANIONS:
                Path(f"{fresh}{end}").unlink(missing_ok=True)
            _begin(fresh, (at_seconds, str(target), cause))
            with contextlib.suppress(FileNotFoundError):
                target.hardlink_to(self.path)
            for end in COMPANIONS[1:]:
                with contextlib.suppress(FileNotFoundError):
                    Path(f"{self.path}{end}").replace(f"{target}{end}")
            fresh.replace(self.path)
            _sync_directory(self.path.parent)
        except (OSError, sqlite3.Error) as error:
            raise LedgerError(
                f"ledger {self.path} is corrupt and cannot be replaced: {error}; make room beside it or move it by hand"
            ) from error
        self._open()
        return target

    @contextlib.contextmanager
    def _locked(self) -> collections.abc.Iterator[None]:
        """Waits for other processes that open, check, migrate or replace the file, and keeps them out."""
        with contextlib.ExitStack() as stack:
            next_step = GIVE_ANOTHER
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o644)
                stack.callback(os.close, descriptor)
                # NFS without its lock service: SQLite could not lock there, either.
                next_step = f"{self.path}.lock cannot be locked: give a file on a local disk with --ledger"
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except OSError as error:
                raise self._wrapped(error, next_step) from error
            with self._lock:  # no other thread is in the middle of a transaction
                yield

    def version(self) -> tuple[int, int, int]:
        """Another one after every change of the file, by this process or by others."""
        writer = self._opened()
        try:
            (others,) = writer.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error as error:
            raise self._wrapped(error, "nothing can be read from it") from error
        return self._inode, writer.total_changes, int(others)

    def _opened(self) -> sqlite3.Connection:
        if self._writer is None:  # closed, or the file in its place could not be opened
            kind = LedgerReplaced if self.path.exists() else LedgerCorrupt
            raise kind(f"ledger {self.path} is not open; the next run opens it")
        return self._writer

    @contextlib.contextmanager
    def written(self) -> collections.abc.Iterator[sqlite3.Connection]:
        """One transaction of the writer, on disk when the block ends; rolled back where SQLite fails."""
        with self._lock:
            writer = self._opened()
            try:
                self._require_same_file()
                writer.execute("BEGIN IMMEDIATE")
                yield writer
                writer.execute("COMMIT")
            except sqlite3.Error as error:
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
                raise self._wrapped(error, "nothing is evicted without a record") from error

    @contextlib.contextmanager
    def reading(self) -> collections.abc.Iterator[sqlite3.Connection]:
        """A connection that can only read, where others write."""
        try:
            if self._alone and self._writer is not None:
                yield self._writer
                return
            uri = f"{self.path.absolute().as_uri()}?mode=ro"
            with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=TIMEOUT_SECONDS)) as reader:
                yield reader
        except sqlite3.Error as error:
            raise self._wrapped(error, "nothing can be read from it") from error

    def _require_same_file(self) -> None:
        """A removed file would take every write and keep none."""
        try:
            inode = self.path.stat().st_ino
        except FileNotFoundError as error:
            raise LedgerCorrupt(f"ledger {self.path} was removed while it was open") from error
        if inode != self._inode:
            raise LedgerReplaced(f"ledger {self.path} was replaced while it was open; the next run uses the new one")

    def _wrapped(self, error: Exception, next_step: str) -> LedgerError:
        gone = isinstance(error, sqlite3.OperationalError) and not self.path.exists()
        code = getattr(error, "sqlite_errorcode", None)
        corrupt = gone or (code is not None and code & 0xFF in CORRUPT_CODES)
        return (LedgerCorrupt if corrupt else LedgerError)(f"ledger {self.path}: {error}; {next_step}")


def _begin(path: Path, set_aside: tuple[float, str, str]) -> None:
    """Makes a whole ledger that knows which file was set aside before it, when and why."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        sql_schema.migrate(connection)
        connection.execute("INSERT INTO set_asides (at_seconds, moved_to, cause) VALUES (?, ?, ?)", set_aside)


def _unused(name: str) -> Path:
    """The name, with a number behind it where earlier copies have it."""
    names = itertools.chain((name,), (f"{name}-{number}" for number in itertools.count(2)))
    return Path(next(one for one in names if not any(Path(f"{one}{end}").exists() for end in COMPANIONS)))


def _sync_directory(path: Path) -> None:
    """Has renames in it survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check(connection: sqlite3.Connection) -> None:
    """SQLite's own check of every page; an error with the code of corruption for the first thing it finds."""
    answer = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    if answer != "ok":
        error = sqlite3.DatabaseError(answer)
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error
