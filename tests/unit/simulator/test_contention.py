"""A pod uses what it says, replicas differ in a repeatable way, and a full node serves its pods in proportion."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import contention, load_curves

REQUESTS = contention.Load(1000.0, 1e9)


def test_a_pod_uses_what_its_annotation_says() -> None:
    found = contention.profile({contention.USAGE_KEY: '{"cpu_millicores": 250, "memory_bytes": 1024}'}, REQUESTS)
    assert contention.usage(found, contention.curves()(found), contention.Replica(), 12345.0) == contention.Load(
        250, 1024
    )
    assert not found.spreads


def test_a_pod_that_says_nothing_uses_a_tenth_of_its_requests() -> None:
    assert contention.profile({}, REQUESTS) == contention.Profile(100.0, 1e8)


def test_a_pod_that_says_and_asks_for_nothing_uses_a_little() -> None:
    found = contention.profile({}, contention.Load())
    assert 0 < found.cpu_millicores <= 10
    assert 0 < found.memory_bytes <= 2**24


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("{", "not understood", id="truncated JSON"),
        pytest.param('["cpu"]', "not understood", id="a list"),
        pytest.param('{"cpu": 1}', "unknown field `cpu`", id="a misspelt key"),
        pytest.param('{"cpu_millicores": "much"}', "not understood", id="a word for a number"),
        pytest.param('{"cpu_millicores": -1}', "at least 0", id="a negative load"),
        pytest.param('{"series": "gooogle"}', "expected flat, google or trace", id="an unknown series"),
    ],
)
def test_an_annotation_that_is_not_understood_is_refused_with_its_key(text: str, complaint: str) -> None:
    with pytest.raises(contention.LoadError, match=complaint) as refused:
        contention.profile({contention.USAGE_KEY: text}, REQUESTS)
    assert contention.USAGE_KEY in str(refused.value)


def test_a_node_says_its_own_load_or_has_the_default() -> None:
    default = contention.SystemLoad(0.01, 0.02)
    assert contention.system_load({}, default) == default
    assert contention.system_load({contention.SYSTEM_KEY: '{"cpu_ratio": 0.5}'}, default).cpu_ratio == 0.5
    with pytest.raises(contention.LoadError, match="at least 0"):
        contention.system_load({contention.SYSTEM_KEY: '{"cpu_ratio": -0.5}'}, default)


def test_a_google_pod_averages_its_mean_over_the_curve() -> None:
    profile = contention.Profile(500.0, 1e9, series="google", seed=4)
    curve = contention.curves()(profile)
    spans = range(len(curve.cpu))
    values = [contention.usage(profile, curve, contention.Replica(), step * curve.step_seconds) for step in spans]
    assert sum(value.cpu_millicores for value in values) / len(values) == pytest.approx(500, rel=1e-3)
    assert len({value.cpu_millicores for value in values}) > len(values) / 2
    assert profile.spreads


def test_a_trace_pod_plays_the_job_of_its_seed() -> None:
    jobs = (load_curves.FLAT, load_curves.generate(9))
    assert contention.curves(jobs)(contention.Profile(1.0, 1.0, series="trace", seed=3)) is jobs[1]
    assert contention.curves()(contention.Profile(1.0, 1.0, series="trace", seed=3)) is load_curves.FLAT


def test_replicas_differ_by_a_level_around_one_and_a_lag_of_up_to_two_steps() -> None:
    replicas = [contention.replica(seed, ordinal) for seed in range(200) for ordinal in range(4)]
    levels = [math.log(which.level) for which in replicas]
    assert sum(levels) / len(levels) == pytest.approx(0, abs=0.02)
    assert math.sqrt(sum(level**2 for level in levels) / len(levels)) == pytest.approx(0.15, abs=0.02)
    assert {which.lag_steps for which in replicas} == {0, 1, 2}
    assert contention.replica(7, 1) == contention.replica(7, 1)
    assert contention.replica(7, 1) != contention.replica(7, 2)


@pytest.mark.parametrize(
    ("system", "wanted", "used", "factor"),
    [
        pytest.param(100.0, 300.0, 400.0, 1.0, id="there is room for all"),
        pytest.param(200.0, 1600.0, 1000.0, 0.5, id="pods share what the system leaves"),
        pytest.param(1500.0, 300.0, 1000.0, 0.0, id="the system takes everything"),
        pytest.param(100.0, 0.0, 100.0, 1.0, id="no pods"),
    ],
)
def test_a_full_node_serves_the_system_first_and_pods_in_proportion(
    system: float, wanted: float, used: float, factor: float
) -> None:
    shared = contention.share(contention.Load(1000.0, 1e6), contention.Load(system, 0.0), contention.Load(wanted, 0.0))
    assert shared.used.cpu_millicores == pytest.approx(used)
    assert shared.cpu_factor == pytest.approx(factor)


def test_memory_stops_just_under_what_there_is() -> None:
    shared = contention.share(
        contention.Load(1000.0, 1000.0), contention.Load(0.0, 100.0), contention.Load(0.0, 5000.0)
    )
    assert shared.used.memory_bytes == pytest.approx(980)


AMOUNTS = st.floats(0, 1e12, allow_subnormal=False)


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), min_size=1))
def test_many_nodes_are_divided_as_each_of_them_alone(nodes: list[tuple[float, float, float]]) -> None:
    usable, system, wanted = np.array(nodes).T
    used, factors = contention.shares(usable, system, wanted)
    for at, (cpu, own, wish) in enumerate(nodes):
        alone = contention.share(contention.Load(cpu, 0.0), contention.Load(own, 0.0), contention.Load(wish, 0.0))
        assert (used[at], factors[at]) == (alone.used.cpu_millicores, alone.cpu_factor)
        assert 0 <= factors[at] <= 1


@pytest.mark.parametrize("speed", [1.0, 30.0, 7.3])
def test_the_trace_clock_names_the_end_of_each_step(speed: float) -> None:
    clock = contention.Clock(epoch_seconds=1000.0, speed=speed)
    now = 1000.0
    for step in range(1, 50):
        now_next = clock.next_step(now, 300.0)
        assert now_next > now
        assert now_next == pytest.approx(1000.0 + step * 300.0 / speed)
        now = now_next
