"""Flow rules: which one decides, and how much each lets through, counted together with the past."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from descheduler.planning import flow_rules
from descheduler.snapshot.eviction_history import FlowHistory, History
from policy.schema.descheduler_section import FlowRule
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW, Scene
from tests.unit.descheduler.test_limits import WIDE

UNBRAKED = {**WIDE, "unreplaced": 10, "unreplacedPerNamespace": 10}

ALL = flow_rules.key(FlowRule.model_validate({"allow": "Exempt"}))


def crowd(count: int = 4) -> Scene:
    """A very hot node with one pod of each of several workloads, the others of which are on the cool node."""
    scene = Scene().node("hot", memory=0.99).node("cool").node("cool2")
    for number in range(count):
        scene.workload(f"w{number}", on=["hot", "cool"], gib=2, memory="1Gi")
    return scene


def causes(*rules: object, past: FlowHistory | None = None, scene: Scene | None = None) -> list[str]:
    """The verdicts of the crowd's pods under these rules."""
    history = History(flow={} if past is None else {ALL: past})
    plan = (scene or crowd()).plan(scenes.policy(limits=UNBRAKED, flow=list(rules)), history)
    return sorted(map(str, plan.causes))


@pytest.mark.parametrize(
    ("allow", "past", "expected"),
    [
        pytest.param("Never", None, ["flow_never"] * 4, id="never"),
        pytest.param("Exempt", None, ["chosen"] * 4, id="exempt"),
        pytest.param({"inFlight": 2}, None, ["chosen"] * 2 + ["flow_in_flight"] * 2, id="two in flight"),
        pytest.param({"perMinute": 3}, None, ["chosen"] * 3 + ["flow_rate"], id="three a minute"),
        pytest.param(
            {"perMinute": 3},
            FlowHistory((NOW - 59,) * 2),
            ["chosen"] + ["flow_rate"] * 3,
            id="two within the last minute",
        ),
        pytest.param({"perMinute": 3}, FlowHistory((NOW - 61,) * 9), ["chosen"] * 3 + ["flow_rate"], id="a minute ago"),
        pytest.param(
            {"perMinute": 1, "burst": 3}, None, ["chosen"] * 3 + ["flow_rate"], id="a burst of three, then one a minute"
        ),
        pytest.param(
            {"perMinute": 1, "burst": 3},
            FlowHistory((NOW - 90,) * 3),
            ["chosen"] + ["flow_rate"] * 3,
            id="a bucket emptied 90 s ago has filled by one and a half",
        ),
        pytest.param(
            {"perMinute": 6, "burst": 1},
            FlowHistory((NOW - 11,)),
            ["chosen"] + ["flow_rate"] * 3,
            id="a bucket that is filled every ten seconds",
        ),
    ],
)
def test_a_rule_lets_through_what_it_says(allow: object, past: FlowHistory | None, expected: list[str]) -> None:
    assert causes({"allow": allow}, past=past) == sorted(expected)


def test_evictions_in_flight_count_until_every_replica_is_back() -> None:
    rule = {"allow": {"inFlight": 1}}
    away = FlowHistory((NOW - 600,), frozenset({"uid-away"}))
    waiting = crowd(1).workload("away", on=["cool"], replicas=3, ready=1)
    assert causes(rule, past=away, scene=waiting) == ["flow_in_flight"]
    one_missing = crowd(1).workload("away", on=["cool"], replicas=3, ready=2)
    assert causes(rule, past=away, scene=one_missing) == ["flow_in_flight"]
    back = crowd(1).workload("away", on=["cool", "cool2"])
    assert causes(rule, past=away, scene=back) == ["chosen"]


def test_an_eviction_in_flight_is_one_of_those_that_the_rule_allows() -> None:
    waiting = crowd(2).workload("away", on=["cool"], replicas=2, ready=1)
    past = FlowHistory((NOW - 600,), frozenset({"uid-away"}))
    assert causes({"allow": {"inFlight": 2}}, past=past, scene=waiting) == ["chosen", "flow_in_flight"]


def test_a_workload_that_is_gone_waits_for_nothing() -> None:
    past = FlowHistory((NOW - 600,), frozenset({"uid-gone"}))
    assert causes({"allow": {"inFlight": 1}}, past=past, scene=crowd(1)) == ["chosen"]


@pytest.mark.parametrize(
    "match",
    [
        pytest.param({"namespaces": ["default"]}, id="by namespace"),
        pytest.param({"kinds": ["ReplicaSet"]}, id="by the workload's kind"),
        pytest.param({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}, id="by labels"),
        pytest.param({"priorityBelow": 1}, id="by priority"),
    ],
)
def test_the_last_rule_that_matches_decides(match: dict[str, object]) -> None:
    never, exempt = {"allow": "Never"}, {"match": match, "allow": "Exempt"}
    assert causes(never, exempt) == ["chosen"] * 4
    assert causes(exempt, never) == ["flow_never"] * 4


@pytest.mark.parametrize(
    "match",
    [
        pytest.param({"namespaces": ["other"]}, id="another namespace"),
        pytest.param({"kinds": ["StatefulSet"]}, id="another kind"),
        pytest.param({"labelSelector": {"matchLabels": {"app": "other"}}}, id="other labels"),
        pytest.param({"priorityBelow": 0}, id="a lower priority"),
    ],
)
def test_a_rule_that_does_not_match_says_nothing(match: dict[str, object]) -> None:
    assert causes({"match": match, "allow": "Never"}) == ["chosen"] * 4


def test_a_changed_rate_keeps_the_past_of_its_conditions() -> None:
    one, other = (
        FlowRule.model_validate({"match": {"kinds": ["Job"]}, "allow": {"perMinute": rate}}) for rate in (1, 2)
    )
    assert flow_rules.key(one) == flow_rules.key(other) != ALL


def test_a_ledger_of_an_earlier_version_is_still_counted() -> None:
    match = {
        "namespaces": ["b", "a"],
        "kinds": ["Job"],
        "labelSelector": {"matchLabels": {"app": "web"}},
        "priorityBelow": 5,
    }
    assert flow_rules.key(FlowRule.model_validate({"match": match, "allow": "Exempt"})) == "14dc4a0f4c0e"


def test_a_bucket_counts_evictions_in_the_order_of_their_times() -> None:
    in_order, mixed = (
        flow_rules.tokens(times, per_minute=1, burst=2, now_seconds=100.0)
        for times in ((0.0, 5.0, 90.0), (90.0, 0.0, 5.0))
    )
    assert mixed == in_order


@given(
    gaps=st.lists(st.floats(0.0, 300.0), max_size=30),
    per_minute=st.integers(1, 20),
    burst=st.integers(1, 20),
)
def test_a_bucket_never_lets_more_through_than_burst_and_rate_in_any_span(
    gaps: list[float], per_minute: int, burst: int
) -> None:
    passed: list[float] = []
    now_seconds = 0.0
    for gap in gaps:
        now_seconds += gap
        if flow_rules.tokens(passed, per_minute=per_minute, burst=burst, now_seconds=now_seconds) >= flow_rules.WHOLE:
            passed.append(now_seconds)
    for first, begin_seconds in enumerate(passed):
        for last in range(first, len(passed)):
            span_seconds = passed[last] - begin_seconds
            assert last - first + 1 <= burst + per_minute * span_seconds / 60 + 1e-6
