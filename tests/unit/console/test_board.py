"""Topics: a change wakes who waits, the same body is none, and a stream gives its place back."""

import threading
from typing import Any

import pytest

from console import board


def test_a_browser_that_comes_late_is_told_every_topic_once() -> None:
    topics = board.Board()
    topics.publish("nodes", b"1")
    topics.publish("plan", b"2")
    topics.publish("nodes", b"3")
    assert [(one.name, one.body) for one in topics.after(0, 0) or ()] == [("plan", b"2"), ("nodes", b"3")]


def test_the_same_body_is_no_change() -> None:
    topics = board.Board()
    topics.publish("nodes", b"1")
    (before,) = topics.after(0, 0) or ()
    topics.publish("nodes", b"1")
    assert topics.after(before.revision, 0) == []


@pytest.mark.parametrize("closes", [False, True], ids=["a change", "the end"])
def test_a_change_and_the_end_wake_who_waits(closes: bool) -> None:
    topics, found = board.Board(), list[Any]()
    waiting = threading.Thread(target=lambda: found.append(topics.after(0, 60)))
    waiting.start()
    topics.close() if closes else topics.publish("nodes", b"1")
    waiting.join(60)
    assert [woken and woken[0].body for woken in found] == [None if closes else b"1"]


def test_a_stream_is_server_sent_events() -> None:
    topics = board.Board()
    topics.publish("nodes", b'{"names":[]}')
    opened = board.Streams(topics, quiet_seconds=0).open()
    assert opened is not None
    events = iter(opened)
    assert [next(events) for _ in range(3)] == [
        b"retry: 2000\n\n",
        b'event: nodes\ndata: {"names":[]}\n\n',
        b": quiet\n\n",
    ]
    topics.close()
    assert list(events) == []


def test_one_browser_too_many_is_refused_until_another_one_leaves() -> None:
    streams = board.Streams(board.Board(), limit=1)
    first = streams.open()
    assert first is not None
    assert streams.open() is None
    first.close()
    first.close()
    streams.open()
    assert streams.open() is None
