"""Two processes that open one ledger at the same moment, as the replicas of a Deployment do."""

import contextlib
import json
import pathlib
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from descheduler.ledger import sql_schema
from descheduler.ledger.database import LedgerError
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import RecordedEvent
from tests.unit.descheduler import ledger_files, test_ledger
from tests.unit.descheduler.scenes import NOW

ROUNDS = 6
PROGRAM = "from tests.unit.descheduler import test_ledger_pairs as tests; tests.serve()"
UNLIMITED = resource.RLIM_INFINITY
# A process may write files of this size: enough for SQLite's shared memory, too little for the pages of a new ledger.
FULL_BYTES = 32768


def serve() -> None:
    """Opens the ledger of every line on standard input, writes an Event into it, and answers how that went."""
    for line in sys.stdin:
        order = json.loads(line)
        answer = opened(pathlib.Path(order["path"]), order["name"], order["largest_bytes"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def opened(path: pathlib.Path, name: str, largest_bytes: int) -> dict[str, Any]:
    """How one process fares."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest_bytes, UNLIMITED))
    ledger = Ledger(path)
    try:
        moved_to = ledger.open_or_set_aside(NOW)
        ledger.tell(RecordedEvent(NOW, "NodeOverloaded", 0, "Node", "", name, "", ""))
        return {"error": "", "moved_to": str(moved_to or ""), "knows": ledger.set_aside_at_seconds()}
    except LedgerError as error:
        return {"error": str(error), "moved_to": "", "knows": None}
    finally:
        ledger.close()
        resource.setrlimit(resource.RLIMIT_FSIZE, (UNLIMITED, UNLIMITED))


class Pair:
    """Two such processes."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", PROGRAM]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._processes = [subprocess.Popen(command, cwd=test_ledger.ROOT, **pipes) for _ in range(2)]  # type: ignore[call-overload]
        self.open(pathlib.Path("/dev/null/none"))  # both have imported everything

    def open(self, path: pathlib.Path, *, largest_bytes: int = UNLIMITED) -> list[dict[str, Any]]:
        """What both answer that were told in the same moment."""
        for number, process in enumerate(self._processes):
            order = {"path": str(path), "name": f"process-{number}", "largest_bytes": largest_bytes}
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
        return [json.loads(process.stdout.readline()) for process in self._processes]

    def close(self) -> None:
        """Ends both."""
        for process in self._processes:
            process.communicate()


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def older(path: pathlib.Path) -> None:
    """A ledger of the first version with one row."""
    with sqlite3.connect(path) as old:
        old.executescript(f"{sql_schema.STEPS[0]} PRAGMA user_version = 1;")
        old.execute("INSERT INTO runs VALUES ('4f2a', 1, 'Enforce', 'abc', 0, 'the first version', '{}')")
    old.close()


def malformed(path: pathlib.Path) -> None:
    """A ledger with other bytes in its middle."""
    test_ledger.a_thousand_rows(path)
    test_ledger.overwritten(path, path.stat().st_size // 2, b"\xff" * 8192)


def whole(path: pathlib.Path) -> Ledger:
    """The ledger as it is afterwards, opened as it is."""
    ledger = Ledger(path)
    assert ledger.open_or_set_aside(NOW + 9) is None
    return ledger


def copies(directory: pathlib.Path) -> list[pathlib.Path]:
    """The files that were set aside."""
    return sorted(path for path in directory.glob("*.corrupt-*") if not path.name.endswith(("-wal", "-shm")))


def both(ledger: Ledger) -> bool:
    """Whether the Events of both processes are in it."""
    return {"process-0", "process-1"} <= {one.name for one in ledger.events(limit=2000)}


def test_a_new_file_is_made_once_and_used_by_both(pair: Pair, tmp_path: pathlib.Path) -> None:
    for number in range(ROUNDS):
        path = tmp_path / f"{number}.sqlite"
        assert [one["error"] for one in pair.open(path)] == ["", ""]
        ledger = whole(path)
        assert (both(ledger), ledger.set_aside_at_seconds()) == (True, None)
        ledger.close()


def test_an_older_schema_is_migrated_once_and_keeps_its_rows(pair: Pair, tmp_path: pathlib.Path) -> None:
    older(tmp_path / "older")
    for number in range(ROUNDS):
        path = tmp_path / f"{number}.sqlite"
        shutil.copy(tmp_path / "older", path)
        assert [one["error"] for one in pair.open(path)] == ["", ""]
        ledger = whole(path)
        assert (both(ledger), ledger_files.last_summary(path)) == (True, "the first version")
        ledger.close()


@pytest.mark.parametrize("kind", ["malformed", "no database"])
def test_a_corrupt_file_is_set_aside_once_and_both_know_it(pair: Pair, tmp_path: pathlib.Path, kind: str) -> None:
    broken = tmp_path / "broken"
    if kind == "malformed":
        malformed(broken)
    else:
        broken.write_bytes(test_ledger.NO_DATABASE)
    for number in range(ROUNDS):
        directory = tmp_path / str(number)
        directory.mkdir()
        path = directory / "ledger.sqlite"
        shutil.copy(broken, path)
        answers = pair.open(path)
        assert [(one["error"], one["knows"]) for one in answers] == [("", NOW), ("", NOW)]
        assert sum(bool(one["moved_to"]) for one in answers) == 1
        (copy,) = copies(directory)
        assert copy.read_bytes()[-4096:] == broken.read_bytes()[-4096:], "kept as it was"
        ledger = whole(path)
        assert both(ledger)
        ledger.close()


@pytest.mark.parametrize("kind", ["new", "malformed"])
def test_on_a_full_disk_both_fail_and_nothing_is_lost(pair: Pair, tmp_path: pathlib.Path, kind: str) -> None:
    path = tmp_path / "ledger.sqlite"
    if kind == "malformed":
        malformed(path)
    for _ in range(2):
        assert all(one["error"] for one in pair.open(path, largest_bytes=FULL_BYTES))
    assert copies(tmp_path) == []
    answers = pair.open(path)
    assert [one["error"] for one in answers] == ["", ""]
    assert [one["knows"] for one in answers] == [NOW if kind == "malformed" else None] * 2
    assert len(copies(tmp_path)) == (kind == "malformed")
    ledger = whole(path)
    assert both(ledger)
    ledger.close()


def test_a_migration_that_a_full_disk_ends_leaves_the_older_schema(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ledger.sqlite"
    older(path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as full:
        (pages,) = full.execute("PRAGMA page_count").fetchone()
        full.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(sqlite3.OperationalError, match="full"):
            sql_schema.migrate(full)
        assert full.execute("PRAGMA user_version").fetchone() == (1,)
        assert full.execute("SELECT name FROM sqlite_schema WHERE name = 'events'").fetchall() == []
    ledger = whole(path)
    assert ledger_files.last_summary(path) == "the first version"
    ledger.close()
