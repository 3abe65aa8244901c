"""The ledger that tests of its rows, of evictions and of what became of them write into; a whole descheduler."""

import pathlib
from collections.abc import Iterator

import pytest

from descheduler.ledger.ledger import Ledger
from tests.unit.descheduler import scenes, worlds


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[Ledger]:
    """An open, empty ledger."""
    opened = Ledger(tmp_path / "ledger.sqlite").open()
    yield opened
    opened.close()


@pytest.fixture
def world(tmp_path: pathlib.Path) -> worlds.World:
    """A descheduler in Enforce over the usual scene: a node to be relieved by one eviction."""
    return worlds.World(scenes.hot_and_cool(), tmp_path, mode="Enforce")
