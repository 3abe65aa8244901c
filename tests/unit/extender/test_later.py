"""What follows an answer is put off only where a thread keeps it, in order, boundedly, and never lost."""

import functools

import pytest

from extender import later


@pytest.fixture
def done() -> list[int]:
    """The numbers of what was done, in its order."""
    return []


def test_a_thread_that_keeps_nothing_does_it_at_once(done: list[int]) -> None:
    later.do(functools.partial(done.append, 1))
    assert (done, later.pending()) == ([1], 0)


def test_a_thread_that_keeps_it_does_it_piece_by_piece_and_the_rest_at_the_end(done: list[int]) -> None:
    with later.keeping():
        for number in range(3):
            later.do(functools.partial(done.append, number))
        assert (done, later.pending()) == ([], 3)
        later.some()
        assert (done, later.pending()) == ([0], 2)
    assert (done, later.pending()) == ([0, 1, 2], 0)


def test_no_more_than_the_limit_is_put_off(done: list[int]) -> None:
    with later.keeping():
        for number in range(later.LIMIT + 5):
            later.do(functools.partial(done.append, number))
        assert (done, later.pending()) == ([0, 1, 2, 3, 4], later.LIMIT)


def test_what_raises_harms_nobody(done: list[int]) -> None:
    with later.keeping():
        later.do(functools.partial(done.remove, 7))
        later.do(functools.partial(done.append, 1))
    assert done == [1]
