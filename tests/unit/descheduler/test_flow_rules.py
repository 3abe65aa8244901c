"""Flow rules: which one decides, and how much each lets through, counted together with the past."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from descheduler.planning import flow_rules
from descheduler.planning.plans import EvictionPlan
from descheduler.planning.verdicts import Cause
from descheduler.snapshot import workloads
from descheduler.snapshot.eviction_history import FlowHistory, History
from kube import objects
from policy.schema.descheduler_section import FlowRule
from tests import builders
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW, Scene, crowd

ALL = flow_rules.key(FlowRule.model_validate({"allow": "Exempt"}))


def verdicts(*rules: object, past: FlowHistory | None = None, scene: Scene | None = None) -> list[str]:
    """The verdicts of the crowd's pods under these rules, those of chosen ones without their destination."""
    history = History(flow={} if past is None else {ALL: past})
    plan = (scene or crowd()).plan(scenes.policy(limits=scenes.UNCAPPED, flow=list(rules)), history)
    judged = [one.verdict for node in plan.nodes for one in node.candidates]
    return sorted("chosen" if one.cause is Cause.CHOSEN else str(one) for one in judged)


def case(name: str, allow: object, *past: float, passed: int, refused: str = "") -> Any:
    """A rule, the ages of what passed it before, how many of four pass it now, and why the others do not."""
    return pytest.param(allow, past, passed, refused, id=name)


THREE, SIX = {"perMinute": 1, "burst": 3}, {"perMinute": 6, "burst": 1}
MINUTE = "flow_rate: 3 of 3 in the last minute,"


@pytest.mark.parametrize(
    ("allow", "past", "passed", "refused"),
    [
        case("never", "Never", passed=0, refused="flow_never:"),
        case("exempt", "Exempt", passed=4),
        case("two in flight", {"inFlight": 2}, passed=2, refused="flow_in_flight: 2 of 2 in flight,"),
        case("three a minute", {"perMinute": 3}, passed=3, refused=MINUTE),
        case("two within the last minute", {"perMinute": 3}, 59.5, 59.5, passed=1, refused=MINUTE),
        case("a minute ago", {"perMinute": 3}, *(60,) * 9, passed=3, refused=MINUTE),
        case(
            "three at once, then one a minute",
            THREE,
            passed=3,
            refused="flow_rate: bucket of 3 holds 0.00, 1 a minute,",
        ),
        case(
            "a bucket emptied 90 s ago has filled by one and a half",
            THREE,
            *(90,) * 3,
            passed=1,
            refused="flow_rate: bucket of 3 holds 0.50, 1 a minute,",
        ),
        case(
            "a bucket filled every ten seconds",
            SIX,
            10,
            passed=1,
            refused="flow_rate: bucket of 1 holds 0.00, 6 a minute,",
        ),
        case(
            "a moment before it is filled", SIX, 9.9, passed=0, refused="flow_rate: bucket of 1 holds 0.99, 6 a minute,"
        ),
    ],
)
def test_a_rule_lets_through_what_it_says(allow: object, past: tuple[float, ...], passed: int, refused: str) -> None:
    before = FlowHistory(tuple(NOW - seconds for seconds in past)) if past else None
    elsewhere = {"match": {"namespaces": ["elsewhere"]}, "allow": "Exempt"}
    assert verdicts(elsewhere, {"allow": allow}, past=before) == ["chosen"] * passed + [
        f"{refused} flow rule 2 of 2"
    ] * (4 - passed)


def test_evictions_in_flight_count_until_every_replica_is_back() -> None:
    rule, waits = {"allow": {"inFlight": 1}}, ["flow_in_flight: 1 of 1 in flight, flow rule 1 of 1"]
    away = FlowHistory((NOW - 600,), frozenset({"uid-away"}))
    waiting = crowd("w").workload("away", on=["cool"], replicas=3, ready=1)
    assert verdicts(rule, past=away, scene=waiting) == waits
    one_missing = crowd("w").workload("away", on=["cool"], replicas=3, ready=2)
    assert verdicts(rule, past=away, scene=one_missing) == waits
    back = crowd("w").workload("away", on=["cool", "cool2"])
    assert verdicts(rule, past=away, scene=back) == ["chosen"]


def test_an_eviction_in_flight_is_one_of_those_that_the_rule_allows() -> None:
    waiting = crowd("wx").workload("away", on=["cool"], replicas=2, ready=1)
    past = FlowHistory((NOW - 600,), frozenset({"uid-away"}))
    assert verdicts({"allow": {"inFlight": 2}}, past=past, scene=waiting) == [
        "chosen",
        "flow_in_flight: 2 of 2 in flight, flow rule 1 of 1",
    ]


def test_a_workload_that_is_gone_waits_for_nothing() -> None:
    past = FlowHistory((NOW - 600,), frozenset({"uid-gone"}))
    assert verdicts({"allow": {"inFlight": 1}}, past=past, scene=crowd("w")) == ["chosen"]


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
    assert verdicts(never, exempt) == ["chosen"] * 4
    assert verdicts(exempt, never) == ["flow_never: flow rule 2 of 2"] * 4


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
    assert verdicts({"match": match, "allow": "Never"}) == ["chosen"] * 4


@pytest.mark.parametrize(("owner", "kind"), [(("Job", "once"), "Job"), (None, "Pod")])
def test_a_pod_of_no_known_workload_is_matched_by_the_kind_of_its_owner_or_its_own(
    owner: tuple[str, str] | None, kind: str
) -> None:
    rules = [
        FlowRule.model_validate({"match": {"kinds": [name]}, "allow": "Never"}) for name in ("Job", "Pod", "ReplicaSet")
    ]
    rule = flow_rules.deciding(rules, builders.pod("it", owner=owner), None)
    assert rule is not None
    assert rule.match.kinds == (kind,)


@pytest.mark.parametrize(("rules", "key"), [([{"allow": "Exempt"}], ALL), ([], "")])
def test_an_eviction_has_the_key_of_the_rule_that_let_it_pass(rules: list[object], key: str) -> None:
    plan = crowd("w").plan(scenes.policy(flow=rules))
    assert [one.flow for one in plan.evictions] == [key]


def test_a_pod_is_matched_and_counted_by_the_kind_of_the_workload_above_its_owner() -> None:
    scene = crowd("wx")
    rule = {"match": {"kinds": ["Deployment"]}, "allow": {"perMinute": 1}}
    sets = [
        builders.replica_set(name, replicas=2, labels={"app": name}, mutate=scenes.owned_by("Deployment", name * 2))
        for name in "wx"
    ]
    every = [scenes.controller(objects.Deployment, name, replicas=2) for name in ("ww", "xx")]
    known = workloads.Index([*sets, *every])

    def planned(rule: dict[str, object]) -> EvictionPlan:
        return scene.plan(scenes.policy(limits=scenes.UNCAPPED, flow=[rule]), workloads=known)

    plan = planned(rule)
    assert sorted(map(str, plan.causes)) == ["chosen", "flow_rate"]
    assert [one.flow for one in plan.evictions] == [flow_rules.key(FlowRule.model_validate(rule))]
    assert sorted(map(str, planned({**rule, "allow": "Never"}).causes)) == ["flow_never", "flow_never"]


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


@given(gaps=st.lists(st.floats(0.0, 300.0), max_size=30), per_minute=st.integers(1, 20), burst=st.integers(1, 20))
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
