"""The filter: strictly over a threshold is out, what missing means, and what an all-hot sample keeps."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.rules import filtering
from policy.schema import load_policy

NAN = float("nan")
IN_FORCE = load_policy.defaults().metrics_in_force
COLD = [0.1] * 6


def _rules(**keys: object) -> filtering.Rules:
    """The rules of a policy by which a node is judged alone: no hot one is kept, unless a test says so."""
    return filtering.rules(
        load_policy.LoadPolicy.of({"filter": {"whenAllRejected": "pending", **keys}}).filter, IN_FORCE
    )


def _array(*rows: list[float]) -> npt.NDArray[np.float64]:
    return np.array(rows, dtype=np.float64).reshape(len(rows), 6)


def _broken(verdicts: filtering.Verdicts) -> list[list[str]]:
    """The metrics of the rules that each node breaks."""
    names = [rule.metric for rule in verdicts.rules]
    return [[name for name, is_broken in zip(names, row, strict=True) if is_broken] for row in verdicts.broken]


def _verdicts(rules: filtering.Rules, *rows: list[float]) -> filtering.Verdicts:
    values = _array(*rows)
    return filtering.verdicts(values, np.zeros_like(values), rules)


def _cpu(load: float) -> list[float]:
    return [load, *COLD[1:]]


@pytest.mark.parametrize(
    ("load", "allowed"),
    [
        pytest.param(0.64, True, id="under the threshold is allowed"),
        pytest.param(0.65, True, id="exactly the threshold is allowed"),
        pytest.param(0.6501, False, id="over it is rejected"),
        pytest.param(1.5, False, id="far over it is rejected"),
    ],
)
def test_a_node_is_rejected_strictly_over_a_threshold(load: float, allowed: bool) -> None:
    verdicts = _verdicts(_rules(), _cpu(load))
    assert verdicts.allowed.tolist() == [allowed]
    assert verdicts.reasons == ("" if allowed else "cpu_avg_5m over 0.65",)
    assert not verdicts.degraded


@pytest.mark.parametrize(("more", "allowed"), [(0.2, True), (0.2001, False)])
def test_a_sum_exactly_at_the_threshold_is_allowed_however_binary_fractions_add_up(more: float, allowed: bool) -> None:
    assert 0.1 + 0.2 > 0.3
    verdicts = filtering.verdicts(_array(_cpu(0.1)), _array(_cpu(more)), _rules(thresholds={"cpu_avg_5m": 0.3}))
    assert verdicts.allowed.tolist() == [allowed]


def test_the_reason_is_the_first_rule_broken_and_all_are_marked() -> None:
    verdicts = _verdicts(_rules(), COLD, [0.9, 0.9, 0.1, 0.9, 0.1, 0.1])
    assert verdicts.reasons == ("", "cpu_avg_5m over 0.65")
    assert _broken(verdicts) == [[], ["cpu_avg_5m", "cpu_max_1h", "memory_avg_5m"]]


def test_reasons_follow_the_order_of_the_file() -> None:
    rules = _rules(thresholds={"memory_avg_5m": 0.5, "cpu_avg_5m": 0.5})
    assert _verdicts(rules, [0.9, 0.9, 0.9, 0.9, 0.9, 0.9]).reasons == ("memory_avg_5m over 0.5",)


def test_a_missing_reading_passes_by_default_and_the_decision_is_degraded() -> None:
    verdicts = _verdicts(_rules(), [NAN] * 6)
    assert verdicts.allowed.tolist() == [True]
    assert verdicts.degraded


def test_a_missing_reading_does_not_hide_a_rule_that_is_broken() -> None:
    assert _verdicts(_rules(), [NAN, 0.9, 0.1, 0.1, 0.1, 0.1]).reasons == ("cpu_max_1h over 0.75",)


def test_a_missing_reading_is_rejected_where_the_policy_says_so() -> None:
    verdicts = _verdicts(_rules(onMissing="reject"), [NAN, *COLD[1:]])
    assert verdicts.reasons == ("cpu_avg_5m missing",)
    assert _broken(verdicts) == [["cpu_avg_5m"]]


def test_on_missing_concerns_metrics_with_a_threshold_over_zero_only() -> None:
    rules = _rules(onMissing="reject", thresholds={"cpu_avg_5m": 0.65, "memory_avg_5m": 0})
    verdicts = _verdicts(rules, [0.1, NAN, NAN, NAN, NAN, NAN])
    assert verdicts.allowed.tolist() == [True]
    assert not verdicts.degraded


def test_a_threshold_of_zero_is_no_rule_and_no_rule_allows_everything() -> None:
    rules = _rules(thresholds={"cpu_avg_5m": 0}, onMissing="reject", whenAllRejected="coolest")
    verdicts = _verdicts(rules, _cpu(1.5), [NAN] * 6)
    assert rules.rules == ()
    assert verdicts.reasons == ("", "")
    assert not verdicts.degraded


def test_no_candidates_get_no_verdicts() -> None:
    verdicts = _verdicts(_rules(whenAllRejected="coolest"))
    assert verdicts.reasons == ()
    assert not verdicts.kept_coolest


def test_an_all_hot_sample_keeps_its_coolest_node_by_default_and_none_where_pods_are_to_wait() -> None:
    default = filtering.rules(load_policy.defaults().filter, IN_FORCE)
    assert _verdicts(default, _cpu(0.9), _cpu(0.7)).allowed.tolist() == [False, True]
    assert _verdicts(_rules(whenAllRejected="pending"), _cpu(0.9), _cpu(0.7)).allowed.tolist() == [False, False]


def test_coolest_keeps_the_coolest_of_an_all_hot_sample_and_says_degraded() -> None:
    verdicts = _verdicts(_rules(whenAllRejected="coolest"), _cpu(0.9), _cpu(0.7), _cpu(0.8))
    assert verdicts.allowed.tolist() == [False, True, False]
    assert verdicts.kept_coolest
    assert verdicts.degraded
    assert _broken(verdicts)[1] == ["cpu_avg_5m"]


def test_coolest_goes_by_the_worst_rule_of_a_node() -> None:
    rules = _rules(whenAllRejected="coolest", thresholds={"cpu_avg_5m": 0.5, "memory_avg_5m": 0.9})
    verdicts = _verdicts(rules, [0.7, 0, 0, 0.1, 0, 0], [0.6, 0, 0, 0.95, 0, 0])
    assert verdicts.allowed.tolist() == [False, True]


def test_coolest_prefers_a_known_hot_node_to_an_unknown_one() -> None:
    rules = _rules(whenAllRejected="coolest", onMissing="reject")
    assert _verdicts(rules, [NAN] * 6, _cpu(1.4)).allowed.tolist() == [False, True]


def test_coolest_keeps_a_tenth_and_everything_exactly_as_hot() -> None:
    excess = np.array([[0.01 * n] for n in range(40)])
    assert filtering.coolest(excess).nonzero()[0].tolist() == [0, 1, 2, 3]
    assert filtering.coolest(np.full((30, 2), 0.3)).all()


def test_coolest_keeps_the_tenth_of_nodes_in_any_order() -> None:
    excess = np.random.default_rng(1).permutation(1000).astype(float)
    kept = excess[filtering.coolest(excess[:, None])]
    assert sorted(kept) == list(range(100))


def test_coolest_judges_a_node_by_the_rules_that_can_be_used() -> None:
    assert filtering.coolest(np.array([[NAN, 0.1], [0.2, 0.2]])).tolist() == [True, False]


def _own(*rows: dict[int, float]) -> npt.NDArray[np.float64]:
    """Thresholds of nodes by column, none where a column is not named."""
    own = np.full((len(rows), 6), NAN)
    for node, limits in enumerate(rows):
        for column, limit in limits.items():
            own[node, column] = limit
    return own


def _with_own(rules: filtering.Rules, own: npt.NDArray[np.float64], *rows: list[float]) -> filtering.Verdicts:
    values = _array(*rows)
    return filtering.verdicts(values, np.zeros_like(values), rules, own)


def test_zero_turns_a_rule_off_on_that_node_also_for_missing_readings() -> None:
    rules = _rules(onMissing="reject", thresholds={"cpu_avg_5m": 0.65})
    verdicts = _with_own(rules, _own({0: 0}, {0: 0}, {}), _cpu(1.5), [NAN] * 6, [NAN] * 6)
    assert verdicts.reasons == ("", "", "cpu_avg_5m missing")
    assert np.isnan(verdicts.limits[:2]).all()
    assert _with_own(rules, _own({2: 0}), COLD).rules == rules.rules, "one that no node has is off already"


def test_a_missing_reading_is_the_reason_also_where_a_node_has_a_threshold_of_its_own() -> None:
    rules = _rules(onMissing="reject", thresholds={"cpu_avg_5m": 0.5})
    values = _array([NAN] * 6)
    verdicts = filtering.verdicts(values, np.zeros_like(values), rules, _own({0: 0.4}))
    assert verdicts.reasons == _verdicts(rules, [NAN] * 6).reasons


def test_reasons_of_own_thresholds_are_few_texts() -> None:
    limits = [0.5 + n / 10_000 for n in range(200)]
    verdicts = _with_own(_rules(), _own(*[{0: limit} for limit in limits]), *[_cpu(0.9)] * 200)
    assert set(verdicts.reasons) == {"cpu_avg_5m over 0.5", "cpu_avg_5m over 0.51", "cpu_avg_5m over 0.52"}
    assert verdicts.limits[:, 0].tolist() == limits


def test_coolest_measures_each_node_by_its_own_threshold() -> None:
    rules = _rules(whenAllRejected="coolest", thresholds={"cpu_avg_5m": 0.5})
    verdicts = _with_own(rules, _own({0: 0.9}, {}), _cpu(0.95), _cpu(0.6))
    assert verdicts.allowed.tolist() == [True, False]


_LOADS = st.lists(st.lists(st.floats(0, 1.5) | st.just(NAN), min_size=6, max_size=6), min_size=1, max_size=12)


@given(rows=_LOADS, on_missing=st.sampled_from(["pass", "reject"]), data=st.data())
def test_the_verdict_on_a_node_does_not_depend_on_the_order_of_the_nodes(
    rows: list[list[float]], on_missing: str, data: st.DataObject
) -> None:
    rules = _rules(onMissing=on_missing, whenAllRejected="coolest")
    order = data.draw(st.permutations(range(len(rows))))
    straight = _verdicts(rules, *rows)
    shuffled = _verdicts(rules, *[rows[at] for at in order])
    assert shuffled.allowed.tolist() == [straight.allowed[at] for at in order]
    assert shuffled.reasons == tuple(straight.reasons[at] for at in order)


@given(rows=_LOADS)
def test_coolest_always_leaves_at_least_one_node(rows: list[list[float]]) -> None:
    assert _verdicts(_rules(onMissing="reject", whenAllRejected="coolest"), *rows).allowed.any()


_OWN = st.dictionaries(st.integers(0, 5), st.integers(0, 100).map(lambda percent: percent / 100), max_size=6)


@given(rows=_LOADS, on_missing=st.sampled_from(["pass", "reject"]), data=st.data())
def test_own_thresholds_judge_a_node_as_a_policy_of_these_thresholds_would(
    rows: list[list[float]], on_missing: str, data: st.DataObject
) -> None:
    own = data.draw(st.lists(_OWN, min_size=len(rows), max_size=len(rows)))
    together = _with_own(_rules(onMissing=on_missing), _own(*own), *rows)
    for node, (row, limits) in enumerate(zip(rows, own, strict=True)):
        named = {IN_FORCE[column].name: limit for column, limit in limits.items()}
        thresholds = {**load_policy.defaults().filter.thresholds, **named}
        alone = _verdicts(_rules(onMissing=on_missing, thresholds=thresholds), row)
        assert bool(together.allowed[node]) == bool(alone.allowed[0])
        assert set(_broken(together)[node]) == set(_broken(alone)[0])


@given(row=st.lists(st.floats(0, 1.5), min_size=6, max_size=6), column=st.integers(0, 5), more=st.floats(0, 1.5))
def test_more_load_never_allows_a_node_that_was_rejected(row: list[float], column: int, more: float) -> None:
    hotter = [load + more * (at == column) for at, load in enumerate(row)]
    before, after = _verdicts(_rules(), row, hotter).allowed.tolist()
    assert before or not after


@pytest.mark.parametrize(
    ("is_daemon_set", "namespace", "priority", "why"),
    [
        pytest.param(False, "shop", 0, None, id="an ordinary pod is filtered"),
        pytest.param(True, "shop", 0, "DaemonSet pod", id="a DaemonSet pod is not"),
        pytest.param(False, "kube-system", 0, "namespace kube-system", id="a pod of the system is not"),
        pytest.param(False, "shop", 2000000000, "priority at least 2000000000", id="a critical pod is not"),
        pytest.param(False, "shop", 1999999999, None, id="just under the priority is filtered"),
    ],
)
def test_exempt_pods_are_not_filtered_and_it_is_said_why(
    is_daemon_set: bool, namespace: str, priority: int, why: str | None
) -> None:
    rule = load_policy.defaults().filter.exempt
    assert filtering.exempt(rule, is_daemon_set=is_daemon_set, namespace=namespace, priority=priority) == why


def test_daemon_set_pods_are_filtered_where_the_policy_says_so() -> None:
    rule = load_policy.LoadPolicy.of({"filter": {"exempt": {"daemonSets": False}}}).filter.exempt
    assert filtering.exempt(rule, is_daemon_set=True, namespace="shop", priority=0) is None
