"""The relief hint: read strictly, ignored when malformed, over when the node is relieved."""

import json

import pytest

from policy.contract import relief_hint
from policy.schema import descheduler_section, load_policy

UNTIL = 1795233600.0
HINT = relief_hint.Relief({"uid-b": UNTIL, "uid-a": UNTIL})
APART = relief_hint.Relief({"uid-b": UNTIL, "uid-a": UNTIL - 60})
BANDS = load_policy.defaults().descheduler.thresholds
OVER_MEAN = descheduler_section.OverMean.model_validate({"evictAbove": 0.2, "evictUntil": 0.1})


def test_the_text_is_exactly_the_one_of_the_design() -> None:
    assert relief_hint.encode(HINT) == '{"v":1,"until":"2026-11-21T04:00:00Z","workloads":["uid-a","uid-b"]}'
    assert relief_hint.KEY == "evenload.io/relief"


def test_a_workload_whose_time_ends_earlier_has_its_own_beside_what_every_reader_knows() -> None:
    body = json.loads(relief_hint.encode(APART))
    assert body.pop("untils") == {"uid-a": "2026-11-21T03:59:00Z"}
    assert body == json.loads(relief_hint.encode(HINT)), "a reader that does not know it holds both for longer"


@pytest.mark.parametrize("hint", [HINT, APART], ids=["one time", "a time each"])
def test_what_is_encoded_is_decoded(hint: relief_hint.Relief) -> None:
    assert relief_hint.decode(relief_hint.encode(hint)) == hint


@pytest.mark.parametrize(("after_seconds", "held"), [(-61, {"uid-a", "uid-b"}), (-60, {"uid-b"}), (0, set())])
def test_each_workload_is_held_for_its_own_time(after_seconds: float, held: set[str]) -> None:
    now_seconds = UNTIL + after_seconds
    assert {uid for uid in ("uid-a", "uid-b") if APART.holds(uid, now_seconds)} == held


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "garbage",
        "[]",
        "[" * 10_000,
        '{"v":2,"until":"2026-11-21T04:00:00Z","workloads":["a"]}',
        '{"v":true,"until":"2026-11-21T04:00:00Z","workloads":["a"]}',
        '{"v":1,"until":"tomorrow","workloads":["a"]}',
        '{"v":1,"workloads":["a"]}',
        '{"v":1,"until":"2026-11-21T04:00:00Z"}',
        '{"v":1,"until":"2026-11-21T04:00:00Z","workloads":"a"}',
        '{"v":1,"until":"2026-11-21T04:00:00Z","workloads":[1]}',
        '{"v":1,"until":"2026-11-21T04:00:00Z","workloads":["a",1]}',
        '{"v":1,"until":"2026-11-21T04:00:00Z","workloads":[""]}',
        '{"v":1,"until":"2026-11-21T04:00:00Z","workloads":[]}',
        '{"v":1,"until":"2026-11-21T04:00:00Z","workloads":["a"],"untils":["b"]}',
        '{"v":1,"until":"2026-11-21T04:00:00Z","workloads":["a"],"untils":{"a":"soon"}}',
        '{"v":1,"until":"2026-11-21T04:00:00Z","workloads":["a"],"untils":{"a":1}}',
        r'{"v":1,"until":"2026-11-21T04:00:00Z","workloads":["a","\ud800"]}',
        '{"v":1,"until":"2026-11-21T04:00:00Z","workloads":["' + "x" * 20_000 + '"]}',
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_malformed_hint_is_ignored(text: str | None) -> None:
    assert relief_hint.decode(text) is None


@pytest.mark.parametrize(
    ("uid", "now_seconds", "rejected"),
    [
        pytest.param("uid-a", UNTIL - 1, True, id="a pod of the workload is rejected until then"),
        pytest.param("uid-a", UNTIL, False, id="at the end it is over"),
        pytest.param("uid-x", UNTIL - 1, False, id="other workloads are not concerned"),
        pytest.param("", UNTIL - 1, False, id="a pod without an owner is not concerned"),
    ],
)
def test_a_hint_rejects_its_workloads_while_it_holds(uid: str, now_seconds: float, rejected: bool) -> None:
    assert HINT.holds(uid, now_seconds) is rejected


@pytest.mark.parametrize(
    ("values", "relieved"),
    [
        pytest.param({"memory_avg_5m": 0.6, "cpu_avg_5m": 0.1}, True, id="at evictUntil is relieved"),
        pytest.param({"memory_avg_5m": 0.61, "cpu_avg_5m": 0.1}, False, id="over it by one metric is not"),
        pytest.param({"memory_avg_5m": 0.1}, False, id="a missing reading proves nothing"),
    ],
)
def test_a_node_is_relieved_when_every_banded_metric_says_so(values: dict[str, float], relieved: bool) -> None:
    assert relief_hint.is_relieved(values, BANDS) is relieved


def test_a_node_whose_lines_follow_the_mean_is_never_known_to_be_cool() -> None:
    cool = dict.fromkeys(BANDS, 0.1)
    assert relief_hint.is_relieved(cool, BANDS)
    following = {name: band.model_copy(update={"over_mean": OVER_MEAN}) for name, band in BANDS.items()}
    assert not relief_hint.is_relieved(cool, following)
