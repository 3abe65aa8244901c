"""Sentences of caps and cool-downs, and how choices of one plan add up."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import pytest

from descheduler.planning import limits
from descheduler.planning.limits import BreakerState, Caps
from descheduler.snapshot.eviction_history import Failures, History, PendingReplacement
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.workloads import Workload, WorkloadStatus
from policy.schema.load_policy import LoadPolicy
from tests import builders
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW

POD = builders.pod("web-0", node="hot")
WEB = WorkloadStatus(Workload("ReplicaSet", "default", "web", "uid-web", 4, 4), 4)
MISSING = dataclasses.replace(WEB, ready=3)
ORDERED = WorkloadStatus(Workload("StatefulSet", "default", "db", "uid-web", 4, 4, ordered=True), 3)
ANOTHER = (PendingReplacement("default", "CloneSet/other", "uid-other", NOW - 9),)
METRIC = "memory_avg_5m"
BREAKER = scenes.policy().descheduler.breaker


def caps(obeyed: LoadPolicy | None = None, history: History | None = None, **standings: WorkloadStatus) -> Caps:
    return Caps(NodePolicies(obeyed or scenes.policy()), history or History(), standings.get, now_seconds=NOW)


def test_evictions_of_owners_that_were_not_read_wait_for_an_hour_the_oldest_first() -> None:
    ages = {"a": 10.0, "c": 3600.0, "over": 3601.0, "b": 20.0}
    awaited = tuple(PendingReplacement("default", f"CloneSet/{name}", name, NOW - ages[name]) for name in ages)
    waiting = limits.unreplaced(awaited, lambda _: None, NOW)
    assert [one.workload for one in waiting] == ["CloneSet/c", "CloneSet/b", "CloneSet/a"]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        pytest.param("a", "1 eviction waits {}: {a}", id="one"),
        pytest.param("ab", "2 evictions wait {}: {a}, {b}", id="two"),
        pytest.param("abc", "3 evictions wait {}: {a}, {b}, {c}", id="three"),
        pytest.param("abcd", "4 evictions wait {}: {a}, {b}, {c} and 1 more", id="no more than three are named"),
    ],
)
def test_a_run_that_waits_for_replacements_names_their_workloads(names: str, text: str) -> None:
    allowed = "for a Ready replacement, 1 allowed (limits.unreplaced)"
    awaited = tuple(PendingReplacement("default", f"ReplicaSet/{name}", f"uid-{name}", NOW - 9) for name in names)
    missing = {f"uid-{name}": WorkloadStatus(Workload("ReplicaSet", "default", name, "", 2, 1), 1) for name in names}
    brake = caps(scenes.policy(limits={"unreplaced": 1}), History(awaited=awaited), **missing).brake
    named = {name: f"ReplicaSet/{name} in default" for name in names}
    assert str(brake) == f"unreplaced: {text.format(allowed, **named)}"


def test_pauses_are_drawn_from_the_whole_jitter_by_uid_and_count() -> None:
    pauses = [limits.pause_seconds(BREAKER, f"uid-{number}", 3, grown=0) for number in range(300)]
    assert min(pauses) >= BREAKER.backoff_seconds
    assert min(pauses) < 1.1 * BREAKER.backoff_seconds
    assert 1.9 * BREAKER.backoff_seconds < max(pauses) < 2 * BREAKER.backoff_seconds
    assert limits.pause_seconds(BREAKER, "uid-0", 4, grown=0) != pauses[0]
    assert limits.breaker_seconds(scenes.policy().descheduler, "uid-0", 3) == pauses[0]


@pytest.mark.parametrize(
    ("section", "history", "chosen", "verdict"),
    [
        pytest.param({"perRun": 2}, History(), 2, "run_cap: 2 of 2 a run", id="run"),
        pytest.param({"perHour": 5}, History(in_last_hour=4), 1, "hour_cap: 5 of 5 an hour", id="hour"),
        pytest.param(
            {"unreplaced": 2},
            History(awaited=ANOTHER),
            1,
            "unreplaced: 2 of 2 without a Ready replacement",
            id="unreplaced",
        ),
        pytest.param({"perNode": 1}, History(), 1, "node_cap: 1 of 1 a run and node", id="node"),
        pytest.param({}, History(last_by_node={"hot": NOW - 299.4}), 0, "node_cooldown: 1 s left", id="cool-down"),
        pytest.param({}, History(last_by_node={"hot": NOW - 300}), 0, "", id="the end of the cool-down"),
    ],
)
def test_a_node_that_waits_says_why(section: dict[str, object], history: History, chosen: int, verdict: str) -> None:
    counted = caps(scenes.policy(limits=section), history)
    for _ in range(chosen):
        counted.count(POD, WEB)
    assert str(counted.verdict(POD, None, METRIC) or "") == verdict


def case(name: str, verdict: str = "", standing: WorkloadStatus | None = WEB, **past: Any) -> Any:
    """A past in which a pod of this workload waits with this verdict, or need not wait."""
    return pytest.param(standing, History(**past), verdict, id=name)


PAUSE_SECONDS = limits.pause_seconds(BREAKER, "uid-web", 3, grown=0)
VAIN_SECONDS = limits.pause_seconds(BREAKER, "uid-web-0", 2, grown=1)
UNDECIDED = "has an eviction that has not ended, or of which no answer was seen"
IN_ORDER = "starts its pods in order, 3 ready of 4: a replacement might have to wait"


@pytest.mark.parametrize(
    ("standing", "history", "verdict"),
    [
        case("nothing holds it back"),
        case("nothing, without a workload", standing=None),
        case("undecided", f"in_flight: ReplicaSet/web {UNDECIDED}", undecided={"uid-web"}),
        case("undecided, without a workload", f"in_flight: it {UNDECIDED}", None, undecided={"uid-web-0"}),
        case(
            "in flight",
            "in_flight: ReplicaSet/web waits for a replacement, 3 ready of 4",
            MISSING,
            in_flight={"uid-web"},
        ),
        case("in flight, and Ready by now", in_flight={"uid-web"}),
        case("in order", f"in_flight: StatefulSet/db {IN_ORDER}", ORDERED),
        case(
            "cap of the workload",
            "workload_cap: ReplicaSet/web has 2 unavailable, 2 allowed",
            dataclasses.replace(WEB, ready=2),
        ),
        case("cool-down", "workload_cooldown: 1 s left", last_by_workload={"uid-web": NOW - 599.4}),
        case("the end of the cool-down", last_by_workload={"uid-web": NOW - 600}),
        case(
            "cool-down after returns",
            "workload_cooldown: 1200 s left, came back 2 times",
            last_by_workload={"uid-web": NOW - 600},
            returned={"uid-web": 2},
        ),
        case(
            "an open breaker",
            "breaker: 8 failures in a row, open until it is reset",
            failures={"uid-web": Failures(8, NOW - 9e6)},
        ),
        case(
            "the last second of a breaker",
            "breaker: 3 failures in a row, 1 s left",
            failures={"uid-web": Failures(3, NOW - PAUSE_SECONDS + 0.6)},
        ),
        case("the end of a breaker", failures={"uid-web": Failures(3, math.floor(NOW - PAUSE_SECONDS))}),
        case(
            "the last second of a back-off",
            "backoff: 2 evictions of it without effect, 1 s left",
            in_vain={"uid-web-0": Failures(2, NOW - VAIN_SECONDS + 0.6)},
        ),
        case("the end of a back-off", in_vain={"uid-web-0": Failures(2, math.floor(NOW - VAIN_SECONDS))}),
    ],
)
def test_a_pod_that_waits_says_why(standing: WorkloadStatus | None, history: History, verdict: str) -> None:
    assert str(caps(history=history).verdict(POD, standing, METRIC) or "") == verdict


def listed(
    failures: Mapping[str, Failures], names: Mapping[str, tuple[str, str]], now_seconds: float = NOW
) -> tuple[BreakerState, ...]:
    """The breakers of workloads with these names by the default policy."""
    return limits.breakers(failures, names.__getitem__, scenes.policy().descheduler, now_seconds=now_seconds)


@pytest.mark.parametrize(
    ("failed", "state", "until_seconds"),
    [
        pytest.param(Failures(2, NOW), "closed", None, id="two failures are not three"),
        pytest.param(Failures(3, NOW + 1), "open", NOW + 1 + PAUSE_SECONDS, id="a second is left"),
        pytest.param(Failures(3, NOW), "trial", NOW + PAUSE_SECONDS, id="it has rested"),
        pytest.param(Failures(8, NOW), "open until reset", None, id="for ever"),
    ],
)
def test_a_breaker_is_listed_as_it_stands(failed: Failures, state: limits.State, until_seconds: float | None) -> None:
    shown = listed({"uid-web": failed}, {"uid-web": ("default", "ReplicaSet/web")}, NOW + PAUSE_SECONDS)
    assert shown == (BreakerState("uid-web", "default", "ReplicaSet/web", *failed, state, until_seconds),)


def test_breakers_are_listed_by_failures_then_namespace_workload_and_uid() -> None:
    names = {"4": ("a", "z"), "3": ("b", "a"), "2": ("b", "b"), "1": ("b", "b"), "5": ("c", "a")}
    shown = listed({uid: Failures(2 if uid == "5" else 1, NOW) for uid in names}, names)
    assert [one.uid for one in shown] == ["5", "4", "3", "1", "2"]


def test_a_namespace_that_waits_says_why() -> None:
    counted = caps(scenes.policy(limits={"perNode": 2, "perNamespace": 1}))
    counted.count(POD, WEB)
    assert str(counted.verdict(POD, None, METRIC)) == "namespace_cap: 1 of 1 a run in default"
    waiting = caps(scenes.policy(limits={"unreplacedPerNamespace": 1}), History(awaited=ANOTHER))
    text = "unreplaced: 1 of 1 in default without a Ready replacement (limits.unreplacedPerNamespace)"
    assert str(waiting.verdict(POD, WEB, METRIC)) == text
