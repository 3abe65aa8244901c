"""The score: the formula by hand, what missing readings do, and what holds for any load."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from policy.rules import scoring
from policy.schema import load_policy
from policy.schema.node_pools import NO_POOL

NAN = float("nan")
MISSING = [NAN] * 6
IN_FORCE = load_policy.defaults().metrics_in_force
FIELD = dict(zip((metric.name for metric in IN_FORCE), [0.2, 0.3, 0.5] * 2, strict=True))


def _weighing(**keys: object) -> scoring.Weighing:
    """Of bases as they are: the default, stretch, has tests of its own."""
    return scoring.weighing(load_policy.LoadPolicy.of({"score": {"spread": "none", **keys}}).score, IN_FORCE)


def _array(*rows: list[float]) -> npt.NDArray[np.float64]:
    return np.array(rows, dtype=np.float64).reshape(len(rows), 6)


def _scored(
    *rows: list[float], penalty: list[float] | None = None, weighing: scoring.Weighing | None = None
) -> scoring.Breakdown:
    values = _array(*rows)
    points = np.array(penalty if penalty is not None else [0.0] * len(rows), dtype=np.float64)
    return scoring.scores(values, np.zeros_like(values), points, weighing or _weighing())


def test_the_base_is_the_weighted_mean_of_headroom() -> None:
    row = [0.31, 0.44, 0.5, 0.2, 0.3, 0.35]
    by_hand = 10 * (0.2 * 0.69 + 0.3 * 0.56 + 0.5 * 0.5 + 0.2 * 0.8 + 0.3 * 0.7 + 0.5 * 0.65) / 2.0
    breakdown = _scored(row, weighing=_weighing(weights=FIELD, combine="mean"))
    assert breakdown.own_base[0] == pytest.approx(by_hand)
    assert breakdown.terms[0].sum() == pytest.approx(by_hand)
    assert breakdown.ranking.scores.tolist() == [6]


def test_by_default_the_base_is_the_lower_of_two_means() -> None:
    breakdown = _scored([0.31, 0.44, 0.5, 0.2, 0.3, 0.35])
    by_hand = 10 * (0.6 * 0.69 + 0.3 * 0.56 + 0.1 * 0.5)
    assert breakdown.own_base[0] == pytest.approx(by_hand)
    assert breakdown.terms[0, :3].sum() == pytest.approx(by_hand)
    assert breakdown.terms[0, 3:].sum() == pytest.approx(10 * (0.6 * 0.8 + 0.3 * 0.7 + 0.1 * 0.65))


@pytest.mark.parametrize(
    ("load", "score"),
    [(0.0, 10), (1.0, 0), (1.5, 0), (0.35, 7), (0.45, 6), (0.5, 5), (0.55, 5), (0.5501, 4), (0.95, 1), (0.9501, 0)],
)
def test_halves_round_up_as_written_in_decimals(load: float, score: int) -> None:
    assert _scored([load] * 6).ranking.scores.tolist() == [score]


def test_expected_load_of_recent_pods_lowers_the_score_and_is_shown() -> None:
    values, expected = _array([0.3] * 6), _array([0.2] * 6)
    breakdown = scoring.scores(values, expected, np.zeros(1), _weighing())
    assert breakdown.ranking.scores.tolist() == [5]
    assert breakdown.predicted[0].tolist() == [0.5] * 6
    assert (breakdown.values[0, 0], breakdown.expected[0, 0]) == (0.3, 0.2)


def test_the_incoming_pod_counts_only_where_the_policy_says_so() -> None:
    values, incoming = _array([0.3] * 6), _array([0.2] * 6)
    zeros = np.zeros_like(values)
    for wanted, score in ((False, 7), (True, 5)):
        breakdown = scoring.scores(values, zeros, np.zeros(1), _weighing(incomingPod=wanted), incoming=incoming)
        assert breakdown.ranking.scores.tolist() == [score]


def test_an_unusable_metric_loses_its_weight_and_the_node_is_degraded() -> None:
    breakdown = _scored([NAN, 0.4, 0.4, 0.4, 0.4, 0.4], [0.4] * 6)
    assert breakdown.own_base.tolist() == pytest.approx([6.0, 6.0])
    assert breakdown.degraded.tolist() == [True, False]
    assert math.isnan(breakdown.terms[0, 0])
    assert breakdown.degraded.any()


def test_a_metric_without_weight_may_be_missing_without_degrading() -> None:
    weighing = _weighing(weights={"cpu_avg_5m": 1})
    breakdown = _scored([0.4, *[NAN] * 5], weighing=weighing)
    assert breakdown.ranking.scores.tolist() == [6]
    assert not breakdown.degraded.any()


def test_a_node_without_a_usable_metric_gets_the_median_base_of_the_others() -> None:
    breakdown = _scored([0.1] * 6, MISSING, [0.2] * 6, [0.9] * 6)
    assert breakdown.ranking.base.tolist() == pytest.approx([9.0, 8.0, 8.0, 1.0])
    assert breakdown.ranking.neutral.tolist() == [False, True, False, False]
    assert breakdown.ranking.scores.tolist() == [9, 8, 8, 1]
    assert breakdown.degraded.tolist() == [False, True, False, False]


def test_a_node_that_lacks_a_metric_is_capped_at_the_best_whole_node_and_says_so() -> None:
    breakdown = _scored([NAN, NAN, NAN, 0.1, 0.1, 0.1], [0.3] * 6, [0.8] * 6, MISSING)
    assert breakdown.own_base[0] == pytest.approx(9.0)
    assert breakdown.ranking.scores.tolist() == [7, 7, 2, 7]
    assert breakdown.ranking.capped.tolist() == [True, False, False, False]


@pytest.mark.parametrize(
    ("whole", "spread", "scores"),
    [
        pytest.param(1.0, "none", [1, 1, 0, 0, 1], id="a full cluster leaves two points to tell them apart"),
        pytest.param(6.0, "none", [6, 5, 3, 1, 6], id="the more points there are, the more of them differ"),
        pytest.param(9.5, "none", [9, 7, 4, 2, 10], id="under the best whole node nothing changes"),
        pytest.param(1.0, "stretch", [10, 9, 8, 7, 10], id="stretched they differ three times as much"),
        pytest.param(6.0, "stretch", [10, 7, 3, 0, 10], id="stretched they differ over the whole range"),
    ],
)
def test_nodes_that_lack_a_metric_keep_their_order_under_the_best_whole_node(
    whole: float, spread: str, scores: list[int]
) -> None:
    partly = [[NAN, NAN, NAN, *[1 - base / 10] * 3] for base in (9.0, 7.0, 4.0, 1.5)]
    breakdown = _scored(*partly, [1 - whole / 10] * 6, weighing=_weighing(spread=spread))
    assert breakdown.ranking.scores.tolist() == scores
    assert breakdown.ranking.capped.tolist() == [whole < 9] * 4 + [False]


def test_nodes_as_good_as_the_best_whole_one_keep_their_bases_to_the_bit() -> None:
    ranking = scoring.rank(np.array([9.0, 2.9, 9.0]), np.zeros(3), whole=np.array([False, False, True]))
    assert ranking.base.tolist() == [9.0, 2.9, 9.0]


def test_without_a_whole_node_nothing_is_capped() -> None:
    breakdown = _scored([NAN, 0.1, 0.1, 0.1, 0.1, 0.1], [NAN, 0.3, 0.3, 0.3, 0.3, 0.3])
    assert breakdown.ranking.scores.tolist() == [9, 7]
    assert not breakdown.ranking.capped.any()


STRETCH, WORST = {"spread": "stretch"}, {"combine": "worst"}


@pytest.mark.parametrize(
    ("loads", "keys", "penalty", "scores"),
    [
        pytest.param([0.2, 0.4, NAN], {}, [8.0, 5.0, 1.0], [1, 2, 7], id="the median is taken before penalties"),
        pytest.param([(0.1, 0.8)], {"combine": "mean"}, None, [6], id="mean judges by both resources"),
        pytest.param([(0.1, 0.8)], WORST, None, [2], id="worst judges by the worse resource"),
        pytest.param([(0.1, NAN)], WORST, None, [9], id="worst judges by the resource it knows"),
        pytest.param([0.7, 0.5, 0.3, NAN], STRETCH, None, [0, 5, 10, 5], id="stretch spreads over the whole range"),
        pytest.param([0.7, 0.5, 0.3, NAN], STRETCH, [0, 0, 3, 0], [0, 5, 7, 5], id="and does so before penalties"),
        pytest.param([0.3, 0.3 + 5e-11], STRETCH, None, [10, 10], id="equal ones, however binary fractions add up"),
        pytest.param([(NAN, 0.0), 0.6], {"weights": {"cpu_avg_5m": 1}}, None, [4, 4], id="no weight, no base"),
        pytest.param([], {}, None, [], id="no candidates get no scores"),
    ],
)
def test_candidates_score_by_what_the_policy_says(
    loads: list[Any], keys: dict[str, object], penalty: list[float] | None, scores: list[int]
) -> None:
    """A load is that of every metric, or of CPU and of memory."""
    rows = [[*[load[0]] * 3, *[load[1]] * 3] if isinstance(load, tuple) else [load] * 6 for load in loads]
    assert _scored(*rows, penalty=penalty, weighing=_weighing(**keys)).ranking.scores.tolist() == scores


def test_all_score_the_same_when_no_candidate_has_a_base() -> None:
    assert len(set(_scored(MISSING, MISSING, penalty=[0.0, 3.0]).ranking.scores.tolist())) == 1


@pytest.mark.parametrize(("penalty", "score"), [(1.0, 6), (0.5, 7), (7.0, 0), (70.0, 0)])
def test_penalties_are_taken_off_before_rounding_and_never_below_zero(penalty: float, score: int) -> None:
    breakdown = _scored([0.3] * 6, [0.3] * 6, penalty=[penalty, 0.0])
    assert breakdown.ranking.scores.tolist() == [score, 7]
    assert breakdown.ranking.penalty.tolist() == [penalty, 0.0]


def test_a_penalty_that_every_candidate_has_is_taken_off_none() -> None:
    breakdown = _scored([0.5] * 6, [0.1] * 6, [0.1] * 6, penalty=[12.0, 12.0, 14.5])
    assert breakdown.ranking.scores.tolist() == [5, 9, 7]
    assert breakdown.ranking.penalty.tolist() == [0.0, 0.0, 2.5]


@pytest.mark.parametrize(
    ("fullest", "scores"),
    [(0.31, [10, 10]), (0.33, [9, 10]), (0.4, [7, 10]), (0.6, [0, 10]), (0.601, [0, 10]), (0.9, [0, 10])],
)
def test_stretch_makes_ten_points_of_three_and_less_of_a_smaller_difference(fullest: float, scores: list[int]) -> None:
    assert _scored([fullest] * 6, [0.3] * 6, weighing=_weighing(spread="stretch")).ranking.scores.tolist() == scores


@pytest.mark.parametrize(
    ("load", "base"),
    [(0.0, 5.0), (0.25, 7.5), (0.5, 10.0), (0.5 + 5e-10, 10.0), (0.51, 4.9), (0.75, 2.5), (1.0, 0.0), (1.5, 0.0)],
)
def test_packing_fills_nodes_up_to_the_target_and_then_spreads(load: float, base: float) -> None:
    breakdown = _scored([load] * 6, weighing=_weighing(goal="pack"))
    assert breakdown.own_base[0] == pytest.approx(base)
    assert breakdown.spread_base[0] == pytest.approx(10 * (1 - min(load, 1.0)))


def test_packing_looks_at_the_worse_resource_with_the_pod_on_the_node() -> None:
    full = _scored([0.2] * 3 + [0.6] * 3, [0.2] * 6, weighing=_weighing(goal="pack", target=0.5))
    assert full.ranking.scores.tolist() == [4, 7], "memory is over the target"
    values, incoming = _array([0.4] * 6, [0.2] * 6), np.full((2, 6), 0.2)
    with_pod = scoring.scores(values, np.zeros((2, 6)), np.zeros(2), _weighing(goal="pack"), incoming=incoming)
    assert with_pod.ranking.scores.tolist() == [4, 9], "0.4 would be over the target with the pod, 0.2 is not"


def test_a_node_without_readings_is_packed_like_the_median_one() -> None:
    breakdown = _scored([0.5] * 6, [0.25] * 6, [0.0] * 6, MISSING, weighing=_weighing(goal="pack"))
    assert breakdown.ranking.scores.tolist() == [10, 8, 5, 8]
    assert math.isnan(breakdown.spread_base[3])


@given(low=st.floats(0, 1), high=st.floats(0, 1), target=st.floats(0.01, 0.99))
def test_packed_bases_rise_up_to_the_target_and_fall_above_it(low: float, high: float, target: float) -> None:
    low, high = sorted((low, high))
    bases = scoring.packed(10 * (1 - np.array([low, high])), target)
    assert ((bases >= -1e-9) & (bases <= 10 + 1e-9)).all()
    if high <= target:
        assert bases[0] <= bases[1] + 1e-9
    elif low > target + 1e-6:
        assert bases[0] >= bases[1] - 1e-9
        assert bases[0] <= 10 * target + 1e-9, "no better than an empty node"


def test_bases_prepared_ahead_and_ranked_give_the_same_scores() -> None:
    values = _array([0.1] * 6, [0.7] * 6, MISSING)
    penalty = np.array([1.0, 0.0, 0.0])
    ahead = scoring.rank(scoring.bases(values, _weighing()), penalty)
    assert (
        ahead.scores.tolist()
        == scoring.scores(values, np.zeros_like(values), penalty, _weighing()).ranking.scores.tolist()
    )


def test_nodes_with_every_metric_of_a_weight_are_ranked_without_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    spread, pack = (_weighing(weights={"cpu_avg_5m": 2, "memory_avg_5m": 2}, goal=goal) for goal in ("spread", "pack"))
    pooled, places = spread._replace(of_pools=(pack,)), np.array([NO_POOL, NO_POOL, 0])
    values = _array(*([load, NAN, NAN] * 2 for load in (0.2, 1.5, 0.2)))
    monkeypatch.setattr(scoring, "_terms", None)
    monkeypatch.setattr(scoring, "whole", None)
    for compiled, at, base in ((spread, None, [8.0, 0.0, 8.0]), (pooled, places, [8.0, 0.0, 7.0])):
        ranking = scoring.ranking(values, np.zeros_like(values), np.zeros(3), compiled, places=at)
        assert ranking.base.tolist() == pytest.approx(base)


_LOAD = st.floats(0, 1.5)
_ROW = st.lists(_LOAD | st.just(NAN), min_size=6, max_size=6)
_ROWS = st.lists(_ROW, min_size=1, max_size=10)
_SPREADING = st.builds(
    lambda weights, combine, spread: _weighing(weights=weights, combine=combine, spread=spread),
    st.dictionaries(
        st.sampled_from([metric.name for metric in IN_FORCE]), st.just(0.0) | st.floats(1e-6, 1000.0), min_size=1
    ),
    st.sampled_from(["mean", "worst"]),
    st.sampled_from(["none", "stretch"]),
)
_PACKING = st.builds(
    lambda weighing, target_ratio: weighing._replace(target_ratio=target_ratio), _SPREADING, st.floats(0.01, 0.99)
)
_WEIGHINGS = _SPREADING | _PACKING


@given(rows=_ROWS, weighing=_WEIGHINGS, data=st.data())
def test_every_score_is_an_integer_from_0_to_10_and_nothing_is_nan(
    rows: list[list[float]], weighing: scoring.Weighing, data: st.DataObject
) -> None:
    penalty = data.draw(st.lists(st.floats(0, 100), min_size=len(rows), max_size=len(rows)))
    breakdown = _scored(*rows, penalty=penalty, weighing=weighing)
    assert breakdown.ranking.scores.dtype == np.int64
    assert len(breakdown.ranking.scores) == len(rows)
    assert all(0 <= score <= 10 for score in breakdown.ranking.scores.tolist())
    assert np.isfinite(breakdown.ranking.raw).all()
    assert np.isfinite(breakdown.ranking.base).all()


_MIXED = [[0.3] * 6, [0.8] * 6, [NAN, *[0.1] * 5], MISSING]


@given(rows=_ROWS, weighing=_WEIGHINGS, added=st.floats(0, 1), wanted=st.booleans(), penalty=st.floats(0, 12))
@example(rows=_MIXED, weighing=_weighing(spread="stretch"), added=0.0, wanted=False, penalty=0.0)
@example(rows=_MIXED, weighing=_weighing(weights={"cpu_avg_5m": 0}), added=0.0, wanted=False, penalty=0.0)
def test_a_ranking_alone_is_the_one_that_the_factors_lead_to(
    rows: list[list[float]], weighing: scoring.Weighing, added: float, wanted: bool, penalty: float
) -> None:
    values, weighing = _array(*rows), weighing._replace(incoming_pod=wanted)
    expected, incoming = np.full_like(values, 0.1), np.full_like(values, added)
    points = np.full(len(values), penalty)
    alone = scoring.ranking(values, expected, points, weighing, incoming=incoming)
    whole = scoring.scores(values, expected, points, weighing, incoming=incoming).ranking
    for one, other in zip(alone, whole, strict=True):
        np.testing.assert_array_equal(one, other)


@given(rows=_ROWS, weighing=_WEIGHINGS, data=st.data())
def test_the_order_of_the_nodes_does_not_matter(
    rows: list[list[float]], weighing: scoring.Weighing, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(rows))))
    straight = _scored(*rows, weighing=weighing).ranking.scores
    assert (
        _scored(*[rows[at] for at in order], weighing=weighing).ranking.scores.tolist()
        == straight[list(order)].tolist()
    )


@given(rows=_ROWS, weighing=_SPREADING, column=st.integers(0, 5), less=st.floats(0, 1))
def test_more_load_never_raises_a_nodes_score(
    rows: list[list[float]], weighing: scoring.Weighing, column: int, less: float
) -> None:
    lower = [[load * (less if at == column else 1) for at, load in enumerate(rows[0])], *rows[1:]]
    assert _scored(*rows, weighing=weighing).ranking.scores[0] <= _scored(*lower, weighing=weighing).ranking.scores[0]


@given(rows=_ROWS, penalty=st.floats(0, 12), more=st.floats(0, 12), weighing=_WEIGHINGS)
def test_more_penalty_never_raises_a_nodes_score(
    rows: list[list[float]], penalty: float, more: float, weighing: scoring.Weighing
) -> None:
    others = [0.0] * (len(rows) - 1)
    lower = _scored(*rows, penalty=[penalty, *others], weighing=weighing).ranking.scores[0]
    assert _scored(*rows, penalty=[penalty + more, *others], weighing=weighing).ranking.scores[0] <= lower


@given(rows=_ROWS, weighing=_WEIGHINGS)
def test_a_node_is_never_the_only_best_for_lack_of_data(rows: list[list[float]], weighing: scoring.Weighing) -> None:
    scores = _scored(MISSING, *rows, weighing=weighing).ranking.scores
    assert scores[0] <= scores[1:].max()


_WHOLE_ROWS = st.lists(st.lists(_LOAD, min_size=6, max_size=6), min_size=1, max_size=5)


@given(partial=_ROW, whole=_WHOLE_ROWS, rows=_ROWS, weighing=_WEIGHINGS)
def test_a_node_with_some_data_missing_is_never_the_only_best_where_another_is_whole(
    partial: list[float], whole: list[list[float]], rows: list[list[float]], weighing: scoring.Weighing
) -> None:
    breakdown = _scored(partial, *rows, *whole, weighing=weighing)
    best = breakdown.ranking.scores[~breakdown.degraded].max(initial=0)
    assert (breakdown.ranking.scores[breakdown.degraded] <= best).all()


@given(whole=_WHOLE_ROWS, rows=_ROWS, weighing=_WEIGHINGS)
def test_nodes_that_lack_a_metric_never_change_places_with_each_other(
    whole: list[list[float]], rows: list[list[float]], weighing: scoring.Weighing
) -> None:
    breakdown = _scored(*rows, *whole, weighing=weighing)
    partly = np.flatnonzero(breakdown.degraded & ~np.isnan(breakdown.own_base))
    by_own = partly[np.argsort(breakdown.own_base[partly], kind="stable")]
    assert (np.diff(breakdown.ranking.base[by_own]) >= 0).all()
    assert (np.diff(breakdown.ranking.scores[by_own]) >= 0).all()
    if not weighing.stretch:
        assert (breakdown.ranking.base <= np.fmax(breakdown.own_base, breakdown.ranking.neutral * 10)).all()


@given(whole=_WHOLE_ROWS, rows=_ROWS, weighing=_WEIGHINGS)
def test_a_nodes_base_is_the_same_to_the_bit_whoever_stands_beside_it(
    whole: list[list[float]], rows: list[list[float]], weighing: scoring.Weighing
) -> None:
    alone = scoring.bases(_array(*whole), weighing)
    among = _scored(*rows, MISSING, *whole, weighing=weighing).own_base[-len(whole) :]
    np.testing.assert_array_equal(alone, among)


@given(rows=_ROWS, weighing=_WEIGHINGS, other=_WEIGHINGS, data=st.data())
def test_nodes_of_a_pool_are_weighed_as_if_all_nodes_had_its_weights(
    rows: list[list[float]], weighing: scoring.Weighing, other: scoring.Weighing, data: st.DataObject
) -> None:
    values, expected, points = _array(*rows), np.full((len(rows), 6), 0.05), np.zeros(len(rows))
    drawn = data.draw(st.lists(st.sampled_from([NO_POOL, 0]), min_size=len(rows), max_size=len(rows)))
    pooled, places = weighing._replace(of_pools=(other,)), np.array(drawn, dtype=np.intp)
    mixed = scoring.scores(values, expected, points, pooled, places=places)
    of_each = {at: scoring.scores(values, expected, points, one) for at, one in ((NO_POOL, weighing), (0, other))}
    for row, place in enumerate(drawn):
        np.testing.assert_array_equal(mixed.terms[row], of_each[place].terms[row])
        np.testing.assert_array_equal(mixed.own_base[row], of_each[place].own_base[row])
        assert mixed.degraded[row] == of_each[place].degraded[row]
    np.testing.assert_array_equal(scoring.bases(values + expected, pooled, places), mixed.own_base)
    np.testing.assert_array_equal(scoring.whole(values, pooled, places), ~mixed.degraded)
    alone = scoring.ranking(values, expected, points, pooled, places=places)
    for one, same in zip(alone, mixed.ranking, strict=True):
        np.testing.assert_array_equal(one, same)


_MANY = load_policy.LoadPolicy.of(
    {
        "metrics": [
            {"name": f"extra_{at}", "resource": "cpu" if at % 2 else "memory", "statistic": "avg", "window": "5m"}
            for at in range(14)
        ]
    }
).metrics_in_force


@given(
    weights=st.lists(st.sampled_from([0.0, 0.1, 0.3, 7.0]), min_size=len(_MANY), max_size=len(_MANY)).filter(any),
    combine=st.sampled_from(["mean", "worst"]),
    whole=st.lists(st.lists(_LOAD, min_size=len(_MANY), max_size=len(_MANY)), min_size=1, max_size=5),
)
def test_however_many_metrics_there_are_their_sum_has_one_order(
    weights: list[float], combine: str, whole: list[list[float]]
) -> None:
    given_weights = {metric.name: weight for metric, weight in zip(_MANY, weights, strict=True)}
    score = load_policy.LoadPolicy.of({"score": {"combine": combine, "weights": given_weights}}).score
    compiled, values = scoring.weighing(score, _MANY), np.array([[NAN] * len(_MANY), *whole])
    among = scoring.scores(values, np.zeros_like(values), np.zeros(len(values)), compiled).own_base[1:]
    np.testing.assert_array_equal(scoring.bases(values[1:], compiled), among)
