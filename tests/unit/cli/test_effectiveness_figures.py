"""The figures of a span: sums to means, ratios and counts, and nothing made of nothing."""

import pytest

from cli import effectiveness_figures as figures


def test_the_figures_are_means_over_the_results_of_the_span() -> None:
    found = figures.of({"total": 8.0, "effective": 6.5, "cpu": 3.2, "memory": 2.0, "left_out": 2.0})
    assert found.cpu_utilization_total_avg == pytest.approx(0.4)
    assert found.memory_utilization_total_avg == pytest.approx(0.25)
    assert found.effective_schedule_ratio == pytest.approx(6.5 / 8)
    assert (found.effective_dynamic_schedule_count, found.total_schedule_count, found.left_out) == (6.5, 8, 2)
    assert found.left_out_ratio == pytest.approx(0.2)


def test_counts_are_rounded_after_the_ratios_are_taken() -> None:
    found = figures.of({"total": 8.08, "effective": 6.565, "cpu": 3.232})
    assert (found.total_schedule_count, found.effective_dynamic_schedule_count) == (8, 6.5)
    assert found.effective_schedule_ratio == pytest.approx(6.5 / 8)
    assert found.cpu_utilization_total_avg == pytest.approx(0.4)


def test_nothing_scheduled_has_no_means_and_without_data_no_count() -> None:
    found = figures.of({"total": 0.0, "cpu": 0.0})
    assert tuple(found) == (None, None, 0.0, 0, None, 0, None)
    assert found.left_out_ratio is None
    assert set(figures.of({})) == {None}


def test_all_left_out_is_said_although_there_are_no_means() -> None:
    assert figures.of({"total": 0.0, "left_out": 3.0}).left_out_ratio == 1.0


def test_a_span_is_the_increase_over_all_replicas() -> None:
    parts = figures.increases(3600.0).split(" or ")
    assert 'label_replace(sum(increase(evenload_total_schedule_count{}[3600s])), "part", "total", "", "")' in parts
    assert len(parts) == len(figures.SERIES)
    assert 'sum(increase(evenload_schedule_cpu_ratio_sum_total{cluster="a"}[60s]))' in (
        figures.increases(60.0, 'cluster="a"')
    )


def test_moments_join_the_parts_by_time() -> None:
    found = figures.moments({"total": [(20.0, 2.0), (10.0, 0.0)], "cpu": [(20.0, 1.0)], "left_out": [(30.0, 1.0)]})
    assert [(end, moment.cpu_utilization_total_avg) for end, moment in found] == [
        (10.0, None),
        (20.0, 0.5),
        (30.0, None),
    ]
