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
from tests.unit.descheduler.scenes import NOW, Scene
from tests.unit.descheduler.test_limits import WIDE, crowd

UNBRAKED = {**WIDE, "unreplaced": 10, "unreplacedPerNamespace": 10}

ALL = flow_rules.key(FlowRule.model_validate({"allow": "Exempt"}))


def verdicts(*rules: object, past: FlowHistory | None = None, scene: Scene | None = None) -> list[str]:
    """The verdicts of the crowd's pods under these rules, those of chosen ones without their destination."""
    history = History(flow={} if past is None else {ALL: past})
    plan = (scene or crowd()).plan(scenes.policy(limits=UNBRAKED, flow=list(rules)), history)
    judged = [one.verdict for node in plan.nodes for one in node.candidates]
    return sorted("chosen" if one.cause is Cause.CHOSEN else str(one) for one in judged)


@pytest.mark.parametrize(
    ("allow", "past", "passed", "refused"),
    [
        pytest.param("Never", (), 0, "flow_never: ", id="never"),
        pytest.param("Exempt", (), 4, "", id="exempt"),
        pytest.param({"inFlight": 2}, (), 2, "flow_in_flight: 2 of 2 in flight, ", id="two in flight"),
        pytest.param({"perMinute": 3}, (), 3, "flow_rate: 3 of 3 in the last minute, ", id="three a minute"),
        pytest.param(
            {"perMinute": 3}, (59.5, 59.5), 1, "flow_rate: 3 of 3 in the last minute, ", id="two within the last minute"
        ),
        pytest.param({"perMinute": 3}, (60,) * 9, 3, "flow_rate: 3 of 3 in the last minute, ", id="a minute ago"),
        pytest.param(
            {"perMinute": 1, "burst": 3},
            (),
            3,
            "flow_rate: bucket of 3 holds 0.00, 1 a minute, ",
            id="a burst of three, then one a minute",
        ),
        pytest.param(
            {"perMinute": 1, "burst": 3},
            (90,) * 3,
            1,
            "flow_rate: bucket of 3 holds 0.50, 1 a minute, ",
            id="a bucket emptied 90 s ago has filled by one and a half",
        ),
        pytest.param(
            {"perMinute": 6, "burst": 1},
            (10,),
            1,
            "flow_rate: bucket of 1 holds 0.00, 6 a minute, ",
            id="a bucket that is filled every ten seconds",
        ),
        pytest.param(
            {"perMinute": 6, "burst": 1},
            (9.9,),
            0,
            "flow_rate: bucket of 1 holds 0.99, 6 a minute, ",
            id="a moment before it is filled",
        ),
    ],
)
def test_a_rule_lets_through_what_it_says(allow: object, past: tuple[float, ...], passed: int, refused: str) -> None:
    before = FlowHistory(tuple(NOW - seconds for seconds in past)) if past else None
    elsewhere = {"match": {"namespaces": ["elsewhere"]}, "allow": "Exempt"}
    held_back = [f"{refused}flow rule 2 of 2"] * (4 - passed)
    assert verdicts(elsewhere, {"allow": allow}, past=before) == ["chosen"] * passed + held_back


def test_evictions_in_flight_count_until_every_replica_is_back() -> None:
    rule, waits = {"allow": {"inFlight": 1}}, ["flow_in_flight: 1 of 1 in flight, flow rule 1 of 1"]
    away = FlowHistory((NOW - 600,), frozenset({"uid-away"}))
    waiting = crowd(1).workload("away", on=["cool"], replicas=3, ready=1)
    assert verdicts(rule, past=away, scene=waiting) == waits
    one_missing = crowd(1).workload("away", on=["cool"], replicas=3, ready=2)
    assert verdicts(rule, past=away, scene=one_missing) == waits
    back = crowd(1).workload("away", on=["cool", "cool2"])
    assert verdicts(rule, past=away, scene=back) == ["chosen"]


def test_an_eviction_in_flight_is_one_of_those_that_the_rule_allows() -> None:
    waiting = crowd(2).workload("away", on=["cool"], replicas=2, ready=1)
    past = FlowHistory((NOW - 600,), frozenset({"uid-away"}))
    assert verdicts({"allow": {"inFlight": 2}}, past=past, scene=waiting) == [
        "chosen",
        "flow_in_flight: 2 of 2 in flight, flow rule 1 of 1",
    ]


def test_a_workload_that_is_gone_waits_for_nothing() -> None:
    past = FlowHistory((NOW - 600,), frozenset({"uid-gone"}))
    assert verdicts({"allow": {"inFlight": 1}}, past=past, scene=crowd(1)) == ["chosen"]


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
    plan = crowd(1).plan(scenes.policy(flow=rules))
    assert [one.flow for one in plan.evictions] == [key]


def deployed(name: str) -> dict[str, Any]:
    """The two replicas of a Deployment, Ready."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-deployment-{name}"}
    return {"metadata": metadata, "spec": {"replicas": 2}, "status": {"readyReplicas": 2, "availableReplicas": 2}}


def test_a_pod_is_matched_and_counted_by_the_kind_of_the_workload_above_its_owner() -> None:
    def owned(body: builders.Body) -> None:
        name = body["metadata"]["name"]
        above = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": f"uid-deployment-{name}"}
        body["metadata"]["ownerReferences"] = [{**above, "controller": True}]

    names, scene = ("w0", "w1"), crowd(2)
    rule = {"match": {"kinds": ["Deployment"]}, "allow": {"perMinute": 1}}
    sets = [builders.replica_set(name, replicas=2, labels={"app": name}, mutate=owned) for name in names]
    every = [builders.decoded(deployed(name), objects.Deployment) for name in names]
    known = workloads.Index({"ReplicaSet": sets, "Deployment": every})

    def planned(rule: dict[str, object]) -> EvictionPlan:
        return scene.plan(scenes.policy(limits=UNBRAKED, flow=[rule]), workloads=known)

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
