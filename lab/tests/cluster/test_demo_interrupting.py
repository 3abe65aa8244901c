"""A Ctrl-C that Python dropped in a destructor still ends the demo at its next pause."""

import signal
import threading

import pytest

from lab.cluster.demo import interrupting
from tests import clocks


class Swallower:
    """Gets the signal inside a destructor, where Python drops the exception."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_dropped_in_a_destructor_ends_the_next_pause() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    try:
        interrupted = interrupting.noticed()
        swallower = Swallower()
        del swallower  # here the KeyboardInterrupt is lost
        with pytest.raises(KeyboardInterrupt):
            interrupting.pause(clocks.ManualClock(), interrupted, 0.2)
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])


def test_a_pause_without_an_interrupt_only_waits() -> None:
    clock = clocks.ManualClock()
    begun = clock.monotonic()
    interrupting.pause(clock, threading.Event(), 0.2)
    assert clock.monotonic() == pytest.approx(begun + 0.2)


def test_an_interrupt_while_a_process_is_started_comes_once_it_is_known() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    known = []

    def start() -> None:
        with interrupting.held_back():
            signal.raise_signal(signal.SIGINT)
            known.append("the process")

    try:
        interrupted = interrupting.noticed()
        with pytest.raises(KeyboardInterrupt):
            start()
        assert known
        assert interrupted.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])
