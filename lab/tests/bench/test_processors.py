"""Which processors the processes of a bench run on."""

import os
import signal
import subprocess
import sys

import pytest

from lab.bench import contestants, processors

ASK = (sys.executable, "-c", "import os; print(*sorted(os.sched_getaffinity(0)))")


def test_what_is_started_inside_stays_on_the_chosen_processors_and_the_thread_goes_back() -> None:
    """One of ours; the child tells where it may run."""
    before = os.sched_getaffinity(0)
    with processors.only({min(before)}):
        said = subprocess.run(ASK, capture_output=True, text=True, check=True).stdout
    assert said.split() == [str(min(before))]
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize(
    ("every", "extender", "others"),
    [({0}, {0}, {0}), ({0, 1}, {1}, {0}), ({2, 3, 5}, {5}, {2, 3})],
)
def test_the_extender_has_a_processor_that_nobody_else_has_where_there_are_two(
    monkeypatch: pytest.MonkeyPatch, every: set[int], extender: set[int], others: set[int]
) -> None:
    """And the arrangement in which everybody shares is always told, last."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: every)
    made = processors.arrangements()
    assert (made[0].extender, made[0].others) == (frozenset(extender), frozenset(others))
    assert made[-1].extender == made[-1].others == frozenset(every)


def test_others_take_processor_time_and_end_with_a_bench_that_is_killed() -> None:
    """They hold its output, so that its end is theirs."""
    bench = "from lab.bench import processors\nwith processors.wanted_by_others(1) as others: print(*others); input()"
    with subprocess.Popen([sys.executable, "-uc", bench], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        other = int(process.stdout.readline())
        while contestants.processor_seconds(other) < 0.1:
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        assert process.stdout.read() == b""
