"""Guessing owners' requests really mislead, careful ones do not; what is asked for always fits a node."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import contention, load_curves
from simulator.workloads import owner_profiles

NODE = contention.Load(8000.0, 32 * 2.0**30)
MEAN = contention.Load(1000.0, 1e9)


def test_guessing_owners_mislead_about_cpu_and_careful_ones_do_not() -> None:
    rng = np.random.default_rng(1)
    used = [owner_profiles.use(MEAN, load_curves.generate(seed)) for seed in range(300)]
    ratio = {
        guessing: [1000 / owner_profiles.requests(each, guessing, rng).cpu_millicores for each in used]
        for guessing in (True, False)
    }
    assert np.percentile(ratio[True], 95) / np.percentile(ratio[True], 5) > 6
    assert np.percentile(ratio[False], 95) / np.percentile(ratio[False], 5) < 2.5
    assert max(ratio[False]) <= 1.0


def test_a_guess_lies_between_a_third_and_four_times_the_use() -> None:
    rng = np.random.default_rng(5)
    used = owner_profiles.use(MEAN, load_curves.generate(5))
    asked = [owner_profiles.requests(used, True, rng).cpu_millicores for _ in range(500)]
    assert min(asked) >= 1000 / 3.0 - 1e-6
    assert max(asked) == pytest.approx(4000)
    assert np.median(asked) == pytest.approx(1000 / 0.94, rel=0.15)


def test_a_guessing_owner_asks_for_a_tenth_more_memory_than_its_p95() -> None:
    p95 = float(np.percentile(load_curves.generate(5).memory, 95)) * 1e9
    asked = owner_profiles.requests(owner_profiles.use(MEAN, load_curves.generate(5)), True, np.random.default_rng(0))
    assert asked.memory_bytes == pytest.approx(1.1 * p95)


def test_steps_without_a_sample_are_no_use_and_not_zero() -> None:
    curve = load_curves.Curve(np.array([1, np.nan, 3], np.float32), np.array([np.nan, 2, 2], np.float32))
    assert owner_profiles.use(MEAN, curve).p95.memory_bytes == pytest.approx(2e9)
    assert owner_profiles.use(MEAN, curve).p95.cpu_millicores == pytest.approx(2900)


@given(st.integers(0, 2**32))
def test_an_owner_with_a_budget_can_always_lose_a_replica(seed: int) -> None:
    rng = np.random.default_rng(seed)
    replicas = owner_profiles.replicas(rng)
    min_available = owner_profiles.budget(replicas, 1.0, rng)
    assert replicas in owner_profiles.REPLICAS
    assert (min_available is None) == (replicas == 1)
    assert min_available is None or 1 <= min_available < replicas


@given(st.floats(0, 1e7), st.floats(0, 1e13), st.floats(0.05, 1.0))
def test_requests_fit_a_node_whatever_is_wanted(cpu_millicores: float, memory_bytes: float, ceiling: float) -> None:
    asked = owner_profiles.fitting(contention.Load(cpu_millicores, memory_bytes), NODE, ceiling)
    least = owner_profiles.MIN_REQUEST
    assert least.cpu_millicores <= asked.cpu_millicores <= NODE.cpu_millicores * ceiling
    assert least.memory_bytes <= asked.memory_bytes <= NODE.memory_bytes * ceiling
