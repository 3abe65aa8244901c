"""Reads and changes a ledger file as a person with sqlite3 and a shell does."""

import contextlib
import pathlib
import sqlite3

from descheduler.ledger import database, sql_schema
from descheduler.ledger.ledger import Ledger


def last_summary(path: pathlib.Path) -> str:
    """Returns the newest run's summary, "" before the first."""
    rows = select(path, "SELECT summary FROM runs ORDER BY at_seconds DESC, rowid DESC LIMIT 1")
    return str(rows[0][0]) if rows else ""


def select(path: pathlib.Path, query: str) -> list[tuple[object, ...]]:
    """Returns the rows of a query."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def move(path: pathlib.Path, target: pathlib.Path) -> None:
    """Moves the file with what SQLite has beside it."""
    for end in database.COMPANIONS:
        with contextlib.suppress(FileNotFoundError):
            pathlib.Path(f"{path}{end}").rename(f"{target}{end}")


def of_a_newer_version(path: pathlib.Path) -> None:
    """Writes an empty ledger of the version after this one."""
    Ledger(path).open().close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {len(sql_schema.STEPS) + 1}")
