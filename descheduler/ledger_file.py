"""The ledger's file: one writer that syncs every transaction, readers of their own, and what happens when it is broken.

`ledger.py` reads and writes rows through it. A file that SQLite calls malformed, that is no database, or that somebody
removed is `LedgerCorrupt`: `set_aside` then moves it away under another name, for people to look at, and a new one can
be opened in its place. Everything else that goes wrong (no space, no rights, a newer version's file) is a `LedgerError`
and leaves the file where it is.
"""

import collections.abc
import contextlib
import sqlite3
import threading
from pathlib import Path
from typing import Final

from descheduler import schema_sql
from runtime import clock

TIMEOUT_SECONDS: Final = 10.0
# SQLite pairs them by name: one left behind would be played into the next file.
COMPANIONS: Final = ("", "-wal", "-shm")
CORRUPT_CODES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class LedgerError(Exception):
    """The ledger's file cannot be used; the text names it and the next step."""


class LedgerCorrupt(LedgerError):
    """What is in the file cannot be trusted, or it is gone."""


class LedgerReplaced(LedgerError):
    """Another file has its name now: another replica set it aside, or somebody put a backup there. It can be opened."""


class LedgerFile:
    """One SQLite file in WAL mode.

    `alone`: nobody else opens it, one thread reads it, and it need not outlive a crash of the machine (a simulation's):
    what writes reads as well, the file stays locked, and nothing is synced.
    """

    def __init__(self, path: Path, *, alone: bool = False) -> None:
        self.path = path
        self._alone = alone
        self._lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._inode = 0

    def open(self) -> None:
        """Opens or creates the file, checks it page by page, and brings it to this version's schema."""
        self.close()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=TIMEOUT_SECONDS
            )
            _check(self._writer)
            schema_sql.migrate(self._writer)
            if self._alone:
                self._writer.executescript("PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;")
            self._inode = self.path.stat().st_ino
        except (OSError, sqlite3.Error, ValueError) as error:
            self.close()
            raise self._wrapped(error, "give another file with --ledger or restore it") from error

    def close(self) -> None:
        """Closes the file; safe to call twice."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None

    def set_aside(self, at_seconds: float) -> Path:
        """Moves the file and its companions away, to "<name>.corrupt-<time>", closes it, and gives its new name."""
        stamp = clock.to_rfc3339(at_seconds).replace(":", "")
        target = self.path.with_name(f"{self.path.name}.corrupt-{stamp}")
        try:
            for end in COMPANIONS:
                with contextlib.suppress(FileNotFoundError):
                    Path(f"{self.path}{end}").replace(f"{target}{end}")
        except OSError as error:
            raise LedgerError(
                f"ledger {self.path} is corrupt and cannot be moved away: {error}; move it by hand"
            ) from error
        self.close()
        return target

    def version(self) -> tuple[int, int, int]:
        """Another one after every change of the file, by this process or by others."""
        writer = self._opened()
        try:
            (others,) = writer.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error as error:
            raise self._wrapped(error, "nothing can be read from it") from error
        return self._inode, writer.total_changes, int(others)

    def _opened(self) -> sqlite3.Connection:
        if self._writer is None:
            raise LedgerError(f"ledger {self.path} is not open")
        return self._writer

    @contextlib.contextmanager
    def written(self) -> collections.abc.Iterator[sqlite3.Connection]:
        """One transaction of the writer, on disk when the block ends; rolled back where SQLite fails."""
        writer = self._opened()
        with self._lock:
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
            with contextlib.closing(self._connected()) as reader:
                yield reader
        except sqlite3.Error as error:
            raise self._wrapped(error, "nothing can be read from it") from error

    def _connected(self) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?mode=ro"
        return sqlite3.connect(uri, uri=True, timeout=TIMEOUT_SECONDS)

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


def _check(connection: sqlite3.Connection) -> None:
    """SQLite's own check of every page; an error with the code of corruption for the first thing it finds."""
    found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    if found != "ok":
        error = sqlite3.DatabaseError(found)
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error
