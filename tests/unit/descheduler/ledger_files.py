"""Reads a ledger file as a person with sqlite3 does."""

import contextlib
import pathlib
import sqlite3


def last_summary(path: pathlib.Path) -> str:
    """Returns the newest run's summary, "" before the first."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT summary FROM runs ORDER BY at_seconds DESC, rowid DESC LIMIT 1").fetchall()
    return str(rows[0][0]) if rows else ""
