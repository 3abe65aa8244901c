"""What the annotator is told of pods' use: what it would read from the answers, or nothing where those are judged."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotator import usage_sync
from policy import metrics
from simulator.prometheus import SimulatedPrometheus, expressions
from tests import clocks
from tests.unit.simulator import books

GAP = (math.nan, math.nan)
NAMES = [f"default/{name}" for name in ("a", "b", "c", "never")]
WISHES = st.lists(st.sampled_from([(800.0, 3.2e9), (80.0, 0.32e9), (0.0, 0.0), GAP]), min_size=4, max_size=4)


@pytest.mark.parametrize("resource", metrics.RESOURCES)
@given(wishes=st.lists(WISHES, min_size=3, max_size=3), ended=st.sets(st.sampled_from(NAMES[:3])), at=st.floats(0, 4))
def test_it_is_what_the_answers_say(
    resource: str, wishes: list[list[tuple[float, float]]], ended: set[str], at: float
) -> None:
    made = books.book(books.of(wishes), {"a": 0, "b": 1, "c": 2})
    for name in ended:
        made.ended(name, made.now_seconds)
    clock = clocks.ManualClock(books.after(at))
    prometheus = SimulatedPrometheus(made, clock)
    amounts_of = prometheus.pod_amounts(expressions.PodMean(resource, 300.0), clock.now())
    asked = usage_sync.ask(prometheus.query, resource, 300.0)
    assert amounts_of is not None
    assert amounts_of.of(NAMES).tolist() == pytest.approx(asked.amounts.of(NAMES).tolist(), rel=0, abs=0, nan_ok=True)
    assert (len(amounts_of.known) == 0) == asked.empty


def test_of_two_pods_of_one_name_in_a_window_nothing_is_told() -> None:
    made = books.book(books.of([[(800.0, 3.2e9)] * 10]), {"web-0": 0})
    clock = clocks.ManualClock(books.after(2))
    prometheus = SimulatedPrometheus(made, clock)

    def amounts_of(*names: str) -> list[float] | None:
        found = prometheus.pod_amounts(expressions.PodMean("cpu", 300.0), clock.now())
        return None if found is None else found.of(names).tolist()

    assert amounts_of("default/web-0") == pytest.approx([0.8])
    made.advance(clock.now())
    made.ended("default/web-0", clock.now())
    made.placed("default/web-0", 0, "node-1", clock.now())
    clock.advance(100.0)
    assert amounts_of("default/web-0") is None
    clock.advance(300.0)
    assert amounts_of("default/web-0", "default/other") == pytest.approx([0.8, math.nan], nan_ok=True)
