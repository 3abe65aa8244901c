"""The judges of runs with faults: each is silent about a sound run, and says what a broken one did."""

from collections.abc import Iterable

import pytest

from lab.campaigns.chaos import judging
from lab.campaigns.chaos.judging import Caps, Deletion, Departure, EvictionCall, Jump, Recorded

CAPS = Caps(per_run=3, per_node=1, per_namespace=2, per_hour=3, node_seconds=10.0, workload_seconds=20.0)


def call(
    uid: str = "a", *, at_seconds: float = 100.0, status: int = 201, dry_run: bool = False, pod: str = "web-1"
) -> EvictionCall:
    return EvictionCall("evenload-descheduler", "shop", pod, uid, at_seconds, status, dry_run)


def row(
    uid: str = "a", *, result: str = "evicted", at_seconds: float = 99.9, run: str = "r1", node: str = "n1",
    id: int = 1, namespace: str = "shop", workload: str = "",
) -> Recorded:  # fmt: skip
    return Recorded(id, run, uid, node, result, at_seconds, namespace, workload or uid)


def one(words: Iterable[str]) -> str:
    """The only complaint."""
    (word,) = words
    return word


@pytest.mark.parametrize("result", ["evicted", "evicted_unconfirmed", "intended", "unknown"])
def test_an_accepted_eviction_with_a_row_from_before_is_sound(result: str) -> None:
    assert list(judging.without_a_row([call()], [row(result=result)])) == []


def test_an_eviction_that_was_not_accepted_needs_no_row() -> None:
    refused = [call(status=429), call(status=404), call(dry_run=True)]
    assert list(judging.without_a_row(refused, [])) == []


def test_an_accepted_eviction_without_a_row_is_named() -> None:
    assert one(judging.without_a_row([call()], [])) == "the accepted eviction of shop/web-1 has 0 rows, 1 expected"
    assert "has 0 rows" in one(judging.without_a_row([call()], [row(result="not_done")]))


def test_an_accepted_eviction_with_two_rows_is_named() -> None:
    assert "has 2 rows" in one(judging.without_a_row([call()], [row(), row(id=2)]))


def test_a_row_from_after_the_call_is_named() -> None:
    late = row(at_seconds=100.5)
    assert one(judging.without_a_row([call()], [late])) == "the row of shop/web-1 was written 0.500 s after the call"


def test_a_row_that_claims_an_eviction_is_named() -> None:
    assert list(judging.without_an_eviction([call()], [row()])) == []
    assert "row 1 says evicted" in one(judging.without_an_eviction([call(status=429)], [row()]))
    assert list(judging.without_an_eviction([], [row(result="intended")])) == []
    assert list(judging.without_an_eviction([], [row()], [101.0])) == []
    assert len(list(judging.without_an_eviction([], [row()], [99.0, 110.0]))) == 1


def test_a_pod_that_is_evicted_twice_is_named() -> None:
    assert list(judging.twice([call(), call("b"), call(status=429)])) == []
    assert one(judging.twice([call(), call()])) == "shop/web-1 was evicted 2 times"


def test_a_run_over_its_cap_is_named() -> None:
    rows = [row(str(at), id=at, node=str(at), namespace=str(at)) for at in range(4)]
    assert list(judging.over_caps(rows[:3], CAPS)) == []
    assert one(judging.over_caps(rows, CAPS._replace(per_hour=4))) == "run r1 has 4 evictions, 3 allowed"


def test_a_run_over_the_cap_of_a_node_or_of_a_namespace_is_named() -> None:
    rows = [row(str(at), id=at, node=str(at)) for at in range(3)]
    assert list(judging.over_caps(rows[:2], CAPS)) == []
    assert one(judging.over_caps(rows, CAPS)) == "run r1 has 3 evictions in shop, 2 allowed"
    same = [rows[0], rows[1]._replace(node="0")]
    assert one(judging.over_caps(same, CAPS)) == "run r1 has 2 evictions from 0, 1 allowed"
    assert list(judging.over_caps([same[0], same[1]._replace(run="r2")], CAPS)) == []
    assert list(judging.over_caps([same[0], same[1]._replace(result="refused")], CAPS)) == []


@pytest.mark.parametrize(("gap_seconds", "named"), [(1300.0, False), (1100.0, True)])
def test_an_hour_over_its_cap_is_named_whatever_runs_it_is_of(gap_seconds: float, named: bool) -> None:
    rows = [row(str(at), id=at, run=str(at), at_seconds=gap_seconds * at) for at in range(6)]
    assert [word[:11] for word in judging.over_caps(rows, CAPS)] == (3 * ["4 evictions"] if named else [])


def test_a_node_that_does_not_rest_is_named() -> None:
    first, second = row(at_seconds=100.0), row("b", id=2, run="r2", at_seconds=105.0)
    assert one(judging.restless([second, first], CAPS)) == "n1 rested 5.0 s as a node, 10 s expected"
    assert list(judging.restless([first, second._replace(run="r1")], CAPS)) == []
    assert list(judging.restless([first, second._replace(node="n2")], CAPS)) == []
    assert list(judging.restless([first, second._replace(intended_at_seconds=110.0)], CAPS)) == []
    assert list(judging.restless([first, second._replace(result="refused")], CAPS)) == []


@pytest.mark.parametrize("run", ["r1", "r2"])
def test_a_workload_that_does_not_rest_is_named_within_a_run_too(run: str) -> None:
    first = row(at_seconds=100.0, workload="web")
    second = row("b", id=2, run=run, node="n2", at_seconds=115.0, workload="web")
    assert one(judging.restless([first, second], CAPS)) == "web rested 15.0 s as a workload, 20 s expected"
    assert list(judging.restless([first, second._replace(workload="api")], CAPS)) == []
    assert list(judging.restless([first, second._replace(intended_at_seconds=120.0)], CAPS)) == []
    assert list(judging.restless([first, second._replace(result="not_done")], CAPS)) == []


def test_a_protected_pod_that_was_asked_for_is_named_even_if_it_stayed() -> None:
    assert list(judging.unprotected([call()], {"z"})) == []
    assert "which is protected" in one(judging.unprotected([call(status=403)], {"a"}))


def test_a_deletion_by_an_account_of_ours_is_named() -> None:
    assert list(judging.deleted([])) == []
    assert one(judging.deleted([Deletion("shop", "web-1")])) == "an account of ours deleted a pod: shop/web-1"


@pytest.mark.parametrize("by_us", [{"a"}, {"web-1"}])
def test_a_workload_under_its_budget_is_named_if_a_pod_left_by_us(by_us: set[str]) -> None:
    low = Departure("web", "web-1", "a", 3, 1000.0)
    assert list(judging.under_budget([low._replace(left=4)], by_us, {"web": 4}, {})) == []
    named = "web had 3 Ready pods without web-1, which left by us; 4 demanded"
    assert one(judging.under_budget([low], by_us, {"web": 4}, {})) == named
    assert list(judging.under_budget([low], {"b", "web-2"}, {"web": 4}, {})) == [], "others took it"
    assert list(judging.under_budget([low], by_us, {"api": 4}, {})) == [], "no budget"


@pytest.mark.parametrize(
    ("others", "named"), [({"web": [990.0]}, 0), ({"web": [1001.0], "api": [990.0]}, 1), ({"web": [970.0]}, 1)]
)
def test_a_budget_whose_status_may_be_old_excuses(others: dict[str, list[float]], named: int) -> None:
    low = Departure("web", "web-1", "a", 3, 1000.0)
    assert len(list(judging.under_budget([low], {"a"}, {"web": 4}, others))) == named


def test_rows_written_by_a_wrong_clock_get_the_right_time() -> None:
    jumps = [Jump(100.0, 110.0, 7200.0), Jump(104.0, 112.0, -7200.0)]
    rows = [row(at_seconds=at) for at in (90.0, 7303.0, -7095.0, 105.0)]
    corrected = judging.by_the_true_clock(rows, jumps)
    assert [one.intended_at_seconds for one in corrected] == [90.0, 103.0, 105.0, 105.0]


def test_a_traceback_is_named_with_its_last_line() -> None:
    log = "INFO run\nTraceback (most recent call last):\n  File x, line 1\n    y()\nValueError: no\nINFO run\n"
    assert one(judging.tracebacks({"annotator": log, "extender": "INFO\n"})) == (
        "annotator logged a traceback: ValueError: no"
    )


def test_another_exit_code_than_zero_is_named() -> None:
    assert one(judging.exit_codes([("a", 0), ("b", -9)])) == "b ended with -9 at SIGTERM, 0 expected"


def test_a_process_that_has_grown_is_named() -> None:
    before, after = {"a": 50.0, "b": 50.0}, {"a": 60.0, "b": 81.0, "c": 500.0}
    assert one(judging.grown(before, after, 30.0)) == "b grew from 50 to 81 MiB, at most 30 more expected"
