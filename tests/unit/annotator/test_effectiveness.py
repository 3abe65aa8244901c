"""The five figures, by hand-computed cases."""

import pytest

from annotator.placements import effectiveness

SEEN = effectiveness.levels(1000.0, {"cool": 0.2, "middle": 0.4, "hot": 0.9}, {"cool": 0.1, "middle": 0.5, "hot": 0.3})


def test_a_node_under_both_medians_counts_one_and_under_one_counts_half() -> None:
    tally = effectiveness.Tally().with_placement("cool", SEEN)
    assert tally.effective_dynamic_schedule_count == 1.0
    tally = tally.with_placement("hot", SEEN)  # CPU over, memory equal to the median 0.3: not under it
    assert tally.effective_dynamic_schedule_count == 1.0
    tally = tally.with_placement("middle", SEEN)
    assert tally.effective_dynamic_schedule_count == 1.0
    assert tally.total_schedule_count == 3
    assert tally.effective_schedule_ratio == pytest.approx(1 / 3)


def test_the_utilisation_is_the_mean_over_results_not_over_nodes() -> None:
    tally = effectiveness.Tally().with_placement("cool", SEEN).with_placement("cool", SEEN).with_placement("hot", SEEN)
    assert tally.cpu_utilization_total_avg == pytest.approx((0.2 + 0.2 + 0.9) / 3)
    assert tally.memory_utilization_total_avg == pytest.approx((0.1 + 0.1 + 0.3) / 3)


@pytest.mark.parametrize("node_levels", [SEEN, None], ids=["a node without data", "no data at all"])
def test_results_without_data_are_left_out_and_counted(node_levels: effectiveness.Levels | None) -> None:
    tally = effectiveness.Tally().with_placement("unknown", node_levels)
    assert (tally.schedule_results_left_out, tally.total_schedule_count, tally.effective_schedule_ratio) == (1, 0, 0.0)


def test_the_median_of_an_even_number_lies_between_the_middle_two() -> None:
    node_levels = effectiveness.levels(0.0, {"a": 0.2, "b": 0.4}, {"a": 0.2, "b": 0.4})
    assert node_levels is not None
    assert [node_levels.cpu_median, node_levels.memory_median] == pytest.approx([0.3, 0.3])


def test_there_are_no_levels_without_both_resources() -> None:
    assert effectiveness.levels(0.0, {"a": 0.2}, {}) is None
