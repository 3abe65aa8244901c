"""Ports of clusters that run side by side: no two choose the same, also before anything listens there."""

import gc
import itertools
import random

import pytest

from lab.cluster import ports

Pair = tuple[int, int]


class InTurn(random.Random):
    """Draws the ports given, over and over."""

    def __init__(self, pair: Pair) -> None:
        super().__init__(1)
        self._drawn = itertools.cycle(pair)

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """The next of them."""
        return next(self._drawn)


@pytest.fixture
def pair() -> Pair:
    """Two ports that were free a moment ago."""
    found = ports.Ports(random.SystemRandom())
    return found.of("first"), found.of("second")


def test_a_port_that_was_chosen_and_is_not_yet_bound_is_not_chosen_again(pair: Pair) -> None:
    one, other = ports.Ports(InTurn(pair)), ports.Ports(InTurn(pair))
    assert (one.of("etcd"), other.of("etcd")) == pair
    assert (one.of("etcd"), other.of("etcd")) == pair, "a name keeps its port"


def test_a_renewed_name_gets_another_port_and_leaves_the_first_to_others(pair: Pair) -> None:
    one, other = ports.Ports(InTurn(pair)), ports.Ports(InTurn(pair))
    assert one.of("etcd") == pair[0]
    one.renew("etcd")
    assert (one.of("etcd"), other.of("etcd")) == (pair[1], pair[0])


def test_a_claim_ends_with_its_owner(pair: Pair) -> None:
    one = ports.Ports(InTurn(pair))
    assert one.of("etcd") == pair[0]
    del one
    gc.collect()
    assert ports.Ports(InTurn(pair)).of("etcd") == pair[0]


def test_when_all_are_taken_the_error_names_the_range(pair: Pair) -> None:
    one = ports.Ports(InTurn(pair))
    assert {one.of("first"), one.of("second")} == set(pair)
    with pytest.raises(OSError, match="no free loopback port between 20000 and 32000 after 500 attempts"):
        one.of("third")
