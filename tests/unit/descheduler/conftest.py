"""The ledger that tests of its rows, of evictions and of what became of them write into; a whole descheduler."""

import contextlib
import pathlib
from collections.abc import Iterator

import pytest

from descheduler.ledger.ledger import Ledger
from tests.unit.descheduler import scenes, worlds


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    """Where `ledger`, and that of `world`, is."""
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: pathlib.Path) -> Iterator[Ledger]:
    """An open, empty ledger."""
    with contextlib.closing(Ledger(path).open()) as opened:
        yield opened


@pytest.fixture
def world(tmp_path: pathlib.Path) -> worlds.World:
    """A descheduler in Enforce over the usual scene: a node to be relieved by one eviction."""
    return worlds.World(scenes.hot_and_cool(), tmp_path, mode="Enforce")
