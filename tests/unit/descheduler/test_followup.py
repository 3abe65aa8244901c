"""What became of evictions: open intents after a crash, where replacements landed, what the node's load was later."""

import dataclasses

import pytest

from descheduler.eviction import followup
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import Query, Row
from descheduler.snapshot.eviction_history import FOLLOWED_SECONDS
from descheduler.snapshot.snapshot import Snapshot
from descheduler.snapshot.usage import NodeUsage
from kube import errors
from kube.objects import Pod
from runtime import clock
from tests import builders
from tests.unit.descheduler import doors, scenes
from tests.unit.descheduler.scenes import NOW
from tests.unit.descheduler.test_ledger import record

POLICY = scenes.policy()
GOING_ON = {"descheduler.alpha.kubernetes.io/eviction-in-progress": "kubevirt"}


def row(ledger: Ledger) -> Row:
    """The only row."""
    (found,) = ledger.rows(Query())
    return found


def standing(**metadata: object) -> Pod:
    """The pod web-0 as the cluster shows it."""
    return builders.pod("web-0", node="hot", metadata=metadata)


STANDING, LEAVING = standing(), standing(deletionTimestamp=builders.CREATED)
NAMESAKE = standing(uid="uid-other")


@pytest.mark.parametrize(
    ("result", "pods", "mode", "expected"),
    [
        pytest.param("intended", (STANDING,), "Enforce", "not_done", id="the pod still stands"),
        pytest.param("unknown", (STANDING,), "Enforce", "failed", id="no answer, and it still stands"),
        pytest.param("unknown", (STANDING,), "DryRun", "failed", id="a dry run without an answer"),
        pytest.param("intended", (), "Enforce", "evicted_unconfirmed", id="the pod has gone"),
        pytest.param("unknown", (LEAVING,), "Enforce", "evicted_unconfirmed", id="it is leaving"),
        pytest.param("unknown", (NAMESAKE,), "Enforce", "evicted_unconfirmed", id="another has its name"),
        pytest.param("intended", (), "DryRun", "not_done", id="a dry run cannot have evicted"),
    ],
)
def test_an_open_intent_is_closed_by_what_the_cluster_shows(
    ledger: Ledger, result: str, pods: tuple[Pod, ...], mode: str, expected: str
) -> None:
    record(ledger, result, mode=mode)
    closed = followup.reconcile(ledger, doors.FakeDoor(pods=pods), now_seconds=NOW + 60)
    assert (row(ledger).result, len(closed)) == (expected, expected == "evicted_unconfirmed")
    assert followup.reconcile(ledger, doors.FakeDoor(pods=pods), now_seconds=NOW + 61) == ()


@pytest.mark.parametrize(
    ("pods", "after_seconds", "expected"),
    [
        pytest.param((STANDING,), 599, "in_progress", id="it still stands"),
        pytest.param((STANDING,), 600, "failed", id="ten minutes, and nothing says that it goes on"),
        pytest.param((standing(annotations=GOING_ON),), 80000, "in_progress", id="its controller says that it goes on"),
        pytest.param((LEAVING,), 5, "evicted", id="it is leaving"),
        pytest.param((), 5, "evicted", id="it has gone"),
        pytest.param((NAMESAKE,), 5, "evicted", id="another has its name"),
    ],
)
def test_an_eviction_in_the_background_is_followed_until_it_ends(
    ledger: Ledger, pods: tuple[Pod, ...], after_seconds: float, expected: str
) -> None:
    record(ledger, "in_progress")
    closed = followup.reconcile(ledger, doors.FakeDoor(pods=pods), now_seconds=NOW + after_seconds)
    assert (row(ledger).result, len(closed)) == (expected, expected == "evicted")


def disrupted(reason: str) -> Pod:
    """The pod web-0 as it leaves, and why."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}

    def mutate(body: builders.Body) -> None:
        body["metadata"]["deletionTimestamp"] = builders.CREATED
        body["status"]["conditions"].append(condition)

    return builders.pod("web-0", node="hot", mutate=mutate)


def test_what_the_apiserver_says_of_the_disruption_is_kept(ledger: Ledger) -> None:
    """Who really ended it: the eviction whose answer was lost, or kube-scheduler, a taint, the kubelet."""
    record(ledger, "unknown")
    followup.reconcile(ledger, doors.FakeDoor(pods=(disrupted("PreemptionByScheduler"),)), now_seconds=NOW + 5)
    assert (row(ledger).result, row(ledger).disruption) == ("evicted_unconfirmed", "PreemptionByScheduler")


def test_the_reason_of_a_pods_disruption_is_kept_while_it_leaves(ledger: Ledger) -> None:
    record(ledger, "evicted")
    pods = (disrupted("EvictionByEvictionAPI"),)
    followup.follow(ledger, ledger.rows(Query()), pods, now_seconds=NOW + 5)
    followup.follow(ledger, ledger.rows(Query()), (), now_seconds=NOW + 35)
    assert (row(ledger).disruption, row(ledger).gone_at_seconds) == ("EvictionByEvictionAPI", NOW + 35)


def test_an_intent_stays_open_while_its_request_may_still_be_carried_out(ledger: Ledger) -> None:
    record(ledger, "intended")
    door = doors.FakeDoor(pods=(STANDING,))
    followup.reconcile(ledger, door, now_seconds=NOW + 59)
    assert row(ledger).result == "intended"
    door.objects["pods"] = ()
    assert [one.pod for one in followup.reconcile(ledger, door, now_seconds=NOW + 59)] == ["web-0"]
    assert row(ledger).result == "evicted_unconfirmed"


def test_nothing_is_decided_about_an_intent_while_the_cluster_cannot_be_asked(ledger: Ledger) -> None:
    record(ledger, "intended")
    door = doors.FakeDoor()
    door.unreachable = True
    with pytest.raises(errors.Unreachable):
        followup.reconcile(ledger, door, now_seconds=NOW)
    assert row(ledger).result == "intended"


def after(seconds: float, *pods: Pod, hot: float = 0.7) -> Snapshot:
    """The cluster so long after the eviction of web-0, with these pods."""
    taken = scenes.Scene().node("hot", memory=hot).node("cool").snapshot()
    usages = {name: one._replace(at_seconds=NOW + seconds) for name, one in taken.node_usage.items()}
    return dataclasses.replace(taken, at_seconds=NOW + seconds, pods=pods, node_usage=usages)


def followed(ledger: Ledger, snapshot: Snapshot) -> tuple[tuple[Row, Pod], ...]:
    """What a run finds that sees this."""
    rows = ledger.unfinished(snapshot.at_seconds - FOLLOWED_SECONDS)
    return followup.follow(ledger, rows, snapshot.pods, now_seconds=snapshot.at_seconds)


def look_back(
    ledger: Ledger, ask: followup.Ask, after_seconds: float, looking: followup.LookBack | None = None
) -> None:
    """What a run that is so long after NOW adds of moments gone by."""
    rows = ledger.unfinished(NOW + after_seconds - FOLLOWED_SECONDS)
    list((looking or followup.LookBack()).fill(ledger, rows, POLICY, ask, now_seconds=NOW + after_seconds))


def replacement(node: str, *, name: str = "web-9", after_seconds: float = 1.0, ready: bool = True) -> Pod:
    """A pod of the same owner made after the eviction."""

    moment = clock.to_rfc3339(NOW + after_seconds)
    conditions = [
        {"type": kind, "status": str(state), "lastTransitionTime": moment}
        for kind, state in (("PodScheduled", True), ("Ready", ready))
    ]
    return builders.pod(name, node=node, metadata={"creationTimestamp": moment}, status={"conditions": conditions})


def test_a_replacement_elsewhere_is_recorded(ledger: Ledger) -> None:
    record(ledger, "evicted")
    assert followed(ledger, after(5, replacement("cool"))) == ()
    found = row(ledger)
    assert (found.landed_pod, found.landed_node, found.returned) == ("uid-web-9", "cool", 0)
    assert (found.gone_at_seconds, found.ready_at_seconds) == (NOW + 5, NOW + 1)


@pytest.mark.parametrize("ahead_seconds", [-3600.0, -1.0, 0.0, 1.0, 3600.0])
def test_a_return_is_recorded_and_told_whatever_our_clock_says(ledger: Ledger, ahead_seconds: float) -> None:
    """The apiserver says when a pod was made; its clock and ours need not agree."""
    record(ledger, "evicted", at_seconds=NOW + ahead_seconds)
    seen = dataclasses.replace(after(5, replacement("hot", after_seconds=0.0)), at_seconds=NOW + ahead_seconds + 5)
    (returned,) = followed(ledger, seen)
    assert (returned[0].pod, returned[1].name) == ("web-0", "web-9")
    assert row(ledger).returned == 1
    assert followed(ledger, seen) == (), "told once"


def test_a_replacement_is_ready_when_it_is_ready(ledger: Ledger) -> None:
    record(ledger, "evicted")
    followed(ledger, after(5, replacement("cool", ready=False)))
    assert row(ledger).ready_at_seconds is None
    followed(ledger, after(9, replacement("cool")))
    assert row(ledger).ready_at_seconds == NOW + 1


@pytest.mark.parametrize("there", [True, False], ids=["on a dead node", "gone"])
def test_a_replacement_that_was_lost_before_it_was_ready_gives_way_to_the_next(ledger: Ledger, there: bool) -> None:
    """A kubelet refuses it, evicts it, or its node dies: what runs in the end may be back."""
    record(ledger, "evicted")
    lost = replacement("cool", name="web-8", ready=False)
    followed(ledger, after(5, lost))
    ending = {"deletionTimestamp": clock.to_rfc3339(NOW + 20), "creationTimestamp": clock.to_rfc3339(NOW + 1)}
    left = (builders.pod("web-8", node="cool", metadata=ending, status={"conditions": []}),) if there else ()
    followed(ledger, after(25, *left))
    assert row(ledger).landed_pod == lost.uid, "as long as there is no other"
    (returned,) = followed(ledger, after(60, *left, replacement("hot", after_seconds=30)))
    assert (returned[0].pod, returned[1].name) == ("web-0", "web-9")
    found = row(ledger)
    assert (found.landed_pod, found.landed_node, found.landed_at_seconds) == ("uid-web-9", "hot", NOW + 30)
    assert (found.returned, found.ready_at_seconds) == (1, NOW + 30)


@pytest.mark.parametrize(
    ("result", "pods"),
    [
        pytest.param("evicted", (), id="no pod at all"),
        pytest.param("evicted", (replacement("cool", after_seconds=-3600),), id="as old as the newest sibling"),
        pytest.param("evicted", (builders.pod("x", node="cool", owner=("ReplicaSet", "x")),), id="of another owner"),
        pytest.param("evicted", (replacement(""),), id="a replacement not placed yet"),
        pytest.param("refused", (replacement("hot"),), id="a row that evicted nobody"),
    ],
)
def test_what_is_no_replacement(ledger: Ledger, result: str, pods: tuple[Pod, ...]) -> None:
    record(ledger, result)
    followed(ledger, after(5, *pods))
    assert row(ledger).landed_pod is None


def test_two_evictions_of_one_owner_have_two_replacements(ledger: Ledger) -> None:
    record(ledger, "evicted")
    record(ledger, "evicted")
    pods = (replacement("cool", name="web-8"), replacement("cool", name="web-9", after_seconds=2))
    followed(ledger, after(5, *pods))
    assert sorted(str(one.landed_pod) for one in ledger.rows(Query())) == ["uid-web-8", "uid-web-9"]


def as_it_was(moment: float, *, age_seconds: float = 10.0) -> dict[str, NodeUsage]:
    """A Prometheus that knows a load for every moment: the minutes since NOW in percent."""
    return {"hot": NodeUsage("hot", {"memory_avg_5m": (moment - NOW) / 6000}, moment - age_seconds)}


@pytest.mark.parametrize(
    ("seconds", "five", "thirty"),
    [
        pytest.param(299.0, None, None, id="too early"),
        pytest.param(310.0, 0.05, None, id="after five minutes"),
        pytest.param(1800.0, 0.05, 0.3, id="after thirty minutes"),
        pytest.param(80_000.0, 0.05, 0.3, id="after a night in which nobody looked"),
    ],
)
def test_the_nodes_load_is_that_of_the_moment_however_late_it_is_asked_for(
    ledger: Ledger, seconds: float, five: float | None, thirty: float | None
) -> None:
    record(ledger, "evicted")
    look_back(ledger, as_it_was, seconds)
    assert (row(ledger).load_5m_ratio, row(ledger).load_30m_ratio) == (five, thirty)


def test_a_measured_moment_tells_what_other_evictions_moved_and_how_the_destination_is(ledger: Ledger) -> None:
    record(ledger, "evicted")
    later = record(ledger, "evicted", at_seconds=NOW + 60)
    ledger.fill(later, gone_at_seconds=NOW + 60)

    def ask(moment: float) -> dict[str, NodeUsage]:
        there = NodeUsage("cool", {"memory_avg_5m": 0.2}, moment - 10)
        return as_it_was(moment) | {"cool": there}

    looking = followup.LookBack()
    for _ in range(2):
        look_back(ledger, ask, 1800, looking)
    first = ledger.rows(Query())[-1]
    assert (first.moved_5m_ratio, first.moved_30m_ratio) == pytest.approx((-4 / 32 * 240 / 300, -4 / 32))
    assert first.destination_30m_ratio == 0.2
    between = (first.load_10m_ratio, first.load_15m_ratio, first.load_20m_ratio, first.load_25m_ratio)
    assert between == pytest.approx((0.1, 0.15, 0.2, 0.25))


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda moment: as_it_was(moment, age_seconds=301), id="stale then"),
        pytest.param(lambda moment: {}, id="unknown then"),
        pytest.param(lambda moment: {"hot": NodeUsage("hot", {"cpu_avg_5m": 0.5}, moment)}, id="another metric only"),
    ],
)
def test_a_load_that_nobody_measured_stays_unknown_and_is_asked_for_once(ledger: Ledger, ask: followup.Ask) -> None:
    record(ledger, "evicted")
    asked: list[float] = []

    def counted(moment: float) -> followup.Usages:
        asked.append(moment)
        return ask(moment)

    looking = followup.LookBack()
    for _ in range(2):
        look_back(ledger, counted, 400, looking)
    assert (row(ledger).load_5m_ratio, row(ledger).moved_5m_ratio, asked) == (None, None, [NOW + 300])


def test_few_moments_are_looked_up_in_one_run(ledger: Ledger) -> None:
    for number in range(9):
        record(ledger, "evicted", at_seconds=NOW + number)
    look_back(ledger, as_it_was, 600)
    filled = [one.load_5m_ratio is not None for one in ledger.rows(Query())]
    assert sum(filled) == followup.MOMENTS_A_RUN
