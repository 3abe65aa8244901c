"""The ledger that tests of its rows, of evictions and of what became of them write into."""

import pathlib
from collections.abc import Iterator

import pytest

from descheduler.ledger.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[Ledger]:
    """An open, empty ledger."""
    opened = Ledger(tmp_path / "ledger.sqlite").open()
    yield opened
    opened.close()
