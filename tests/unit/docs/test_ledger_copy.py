"""The programs of docs/how-to/operate.md that copy the ledger and put a copy back, run on a ledger in use."""

import contextlib
import pathlib
import shlex
import subprocess
import sys

from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import Query
from tests import pages
from tests.unit.descheduler import test_ledger

PAGE = pages.ROOT / "docs" / "how-to" / "operate.md"
PLACE, COPY = "/var/lib/evenload", "/tmp/ledger.copy"  # noqa: S108 - in the pod


def program(naming: str) -> str:
    """The Python that a command of the page gives to `python -c` and that has this text in it."""
    texts = [command.text for block in pages.blocks(PAGE) for command in block.commands()]
    (found,) = {words[words.index("-c") + 1] for text in texts if naming in text and (words := shlex.split(text))}
    return found


def run(text: str, directory: pathlib.Path, stdin: bytes = b"") -> bytes:
    """What it prints, with the pod's directories in ours."""
    text = text.replace(COPY, str(directory / "tmp" / "ledger.copy")).replace(PLACE, str(directory / "volume"))
    return subprocess.run(
        [sys.executable, "-c", text], cwd=directory, input=stdin, capture_output=True, check=True
    ).stdout


def pods(path: pathlib.Path) -> list[str]:
    """Whose evictions a ledger has."""
    with contextlib.closing(Ledger(path).open()) as opened:
        return sorted(row.pod for row in opened.rows(Query()))


def test_a_copy_has_every_row_of_a_ledger_in_use_and_goes_back_whole(tmp_path: pathlib.Path) -> None:
    for name in ("volume", "tmp"):
        (tmp_path / name).mkdir()
    ledger = tmp_path / "volume" / "ledger.sqlite"
    copying, fetching = program("VACUUM INTO"), program("copyfileobj")
    checking, restoring = program("integrity_check"), program("write_bytes")
    with contextlib.closing(Ledger(ledger).open()) as in_use:
        test_ledger.record(in_use, "evicted", name="web")
        subprocess.run(
            ["cp", ledger, tmp_path / "plain.copy"], check=True
        )  # of another process: closing it drops locks
        run(copying, tmp_path)
        test_ledger.record(in_use, "evicted", name="db")
        run(copying, tmp_path)  # the one of before is in its way
        copy = run(fetching, tmp_path)
    (tmp_path / "ledger.copy").write_bytes(copy)
    assert run(checking, tmp_path) == b"ok\n"
    assert pods(tmp_path / "ledger.copy") == ["db-0", "web-0"]
    assert pods(tmp_path / "plain.copy") == []  # why not cp

    lost = Ledger(ledger).open()
    test_ledger.record(lost, "evicted", name="later")
    left = {end: pathlib.Path(f"{ledger}{end}").read_bytes() for end in ("-wal", "-shm")}
    lost.close()
    for end, content in left.items():  # as a descheduler that was killed leaves them
        pathlib.Path(f"{ledger}{end}").write_bytes(content)
    run(restoring, tmp_path, copy)
    assert pods(ledger) == ["db-0", "web-0"]
