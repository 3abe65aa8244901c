"""All come within the span, as many as asked for; jobs come in bursts and mostly leave soon; releases overlap."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simulator.workloads import arrivals


def draw(seed: int, crowd: arrivals.OwnerArrivals) -> tuple[arrivals.Life, ...]:
    return arrivals.draw(crowd, np.random.default_rng(seed))


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 60), st.floats(1.0, 48.0))
@example(159, 2, 2.0)  # a release begins so late that it would reach the last replica after the end
def test_as_many_come_as_asked_for_within_the_span_and_in_order(seed: int, service_pods: int, hours: float) -> None:
    seconds = hours * 3600
    crowd = arrivals.OwnerArrivals(seconds=seconds, pods=400, service_pods=service_pods, base_seconds=seconds / 4)
    drawn = draw(seed, crowd)
    times = [life.arrives_seconds for life in drawn]
    stays = [stay for life in drawn for stay in life.stays]
    assert len(stays) == 400
    assert times == sorted(times)
    assert all(0 <= stay.arrives_seconds < seconds for stay in stays)
    assert all(stay.leaves_seconds > stay.arrives_seconds for stay in stays)


def test_a_seed_gives_one_crowd() -> None:
    assert draw(1, arrivals.OwnerArrivals()) == draw(1, arrivals.OwnerArrivals())
    assert draw(1, arrivals.OwnerArrivals()) != draw(2, arrivals.OwnerArrivals())


def test_jobs_come_in_batches_and_stay_as_in_the_azure_region() -> None:
    crowd = arrivals.OwnerArrivals(seconds=7 * 86_400, pods=60_000, service_pods=0, largest_batch=600)
    jobs = draw(3, crowd)
    stays = [(stay.leaves_seconds - stay.arrives_seconds) / 3600 for life in jobs for stay in life.stays]
    assert np.mean([len(life.stays) for life in jobs]) == pytest.approx(4.9, rel=0.3)
    assert np.median(stays) == pytest.approx(0.45, rel=0.4)
    assert np.percentile(stays, 90) == pytest.approx(11, rel=0.4)
    assert all(len({stay.arrives_seconds for stay in life.stays}) == 1 for life in jobs), "a batch comes in one moment"


def test_arrivals_are_far_burstier_than_chance() -> None:
    crowd = arrivals.OwnerArrivals(seconds=7 * 86_400, pods=20_000, service_pods=0)
    by_hour = np.bincount([int(life.arrives_seconds // 3600) for life in draw(5, crowd)], minlength=168)
    assert by_hour.std() > 3 * math.sqrt(by_hour.mean())


def test_no_batch_is_larger_than_said() -> None:
    crowd = arrivals.OwnerArrivals(pods=5000, service_pods=0, largest_batch=7)
    assert max(len(life.stays) for life in draw(1, crowd)) == 7


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_release_replaces_one_replica_after_another_and_starts_the_new_one_first(seed: int) -> None:
    crowd = arrivals.OwnerArrivals(
        seconds=7 * 86_400, pods=4000, service_pods=100, rollouts_per_day=1.0, leaving_ratio=0.5
    )
    rolled = [life for life in draw(seed, crowd) if life.kind == "Deployment" and len(life.stays) > 2 * life.slots]
    assert rolled
    for life in rolled:
        for _, group in itertools.groupby(life.stays, key=lambda stay: stay.slot):
            for old, new in itertools.pairwise(group):
                assert old.arrives_seconds < new.arrives_seconds
                assert old.leaves_seconds >= min(new.arrives_seconds + arrivals.SURGE_SECONDS, life.leaves_seconds)


def test_services_have_kinds_priorities_and_budgets_and_some_leave() -> None:
    services = [life for life in draw(2, arrivals.OwnerArrivals(pods=3000, service_pods=800)) if life.kind != "Job"]
    assert {life.kind for life in services} == {"Deployment", "StatefulSet"}
    assert {life.priority for life in services} == set(arrivals.PRIORITIES)
    assert any(life.leaves_seconds < math.inf for life in services)
    budgets = [life for life in services if life.min_available is not None]
    assert len(budgets) > 0.2 * len(services)
    assert all(1 <= (life.min_available or 0) < life.slots for life in budgets)


def test_more_services_than_pods_are_refused_with_both_numbers() -> None:
    with pytest.raises(ValueError, match=r"\d+ replicas of services.*at most pods = 50"):
        draw(1, arrivals.OwnerArrivals(pods=50, service_pods=200))


def test_a_life_can_be_cut_short() -> None:
    stays = (arrivals.Stay(0, 0.0, math.inf), arrivals.Stay(1, 0.0, 50.0), arrivals.Stay(2, 90.0, 95.0))
    cut = arrivals.Life("Deployment", 0, None, stays).until(80.0)
    assert cut.stays == (arrivals.Stay(0, 0.0, 80.0), arrivals.Stay(1, 0.0, 50.0))
    assert cut.leaves_seconds == 80.0
