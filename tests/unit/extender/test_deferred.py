"""What follows an answer is put off only where a thread keeps it, in order, boundedly, and never lost."""

import functools

import pytest

from extender.http import deferred


@pytest.fixture
def done() -> list[int]:
    """The numbers of what was done, in its order."""
    return []


def test_a_thread_that_keeps_nothing_does_it_at_once(done: list[int]) -> None:
    deferred.do(functools.partial(done.append, 1))
    assert (done, deferred.pending()) == ([1], 0)


def test_a_thread_that_keeps_it_does_it_piece_by_piece_and_the_rest_at_the_end(done: list[int]) -> None:
    with deferred.keeping():
        for number in range(3):
            deferred.do(functools.partial(done.append, number))
        assert (done, deferred.pending()) == ([], 3)
        deferred.some()
        assert (done, deferred.pending()) == ([0], 2)
    assert (done, deferred.pending()) == ([0, 1, 2], 0)


def test_no_more_than_the_limit_is_put_off(done: list[int]) -> None:
    with deferred.keeping():
        for number in range(deferred.LIMIT + 5):
            deferred.do(functools.partial(done.append, number))
        assert (done, deferred.pending()) == ([0, 1, 2, 3, 4], deferred.LIMIT)


def test_what_raises_harms_nobody(done: list[int]) -> None:
    with deferred.keeping():
        deferred.do(functools.partial(done.remove, 7))
        deferred.do(functools.partial(done.append, 1))
    assert done == [1]
