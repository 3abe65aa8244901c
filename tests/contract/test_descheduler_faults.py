"""The descheduler among failing neighbours: the real Prometheus, apiserver and scheduler, killed or behind gates.

After each fault budgets were kept at every look, caps were kept, and the ledger tells exactly what left.
"""

import contextlib
import itertools
import json
import math
import os
import pathlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from descheduler.eviction import followup
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import DONE, Query
from descheduler.planning.protections import PROTECTED_LABEL
from descheduler.wiring import LEASE
from kube import errors, kinds
from lab.cluster.demo import permissions
from promql.errors import PromqlError
from promql.http import client
from runtime import clock
from tests import gate
from tests.contract import descheduler_site
from tests.contract.descheduler_site import HOT, LIMIT, NAMESPACE, NODES, REPLICAS, Site, Watcher, is_eviction, passing
from tests.e2e import bodies, waiting

pytestmark = pytest.mark.cluster
DELETIONS = 5  # of the Lease; while others created a deleted Lease at once each was a toss-up
RUNS = 2  # so many more runs in which something must not happen


@contextlib.contextmanager
def budgets(site: Site, least: int) -> Iterator[None]:
    """Budgets over both workloads; nobody has computed yet what they allow, and until then they allow nothing."""
    for app in ("web", "api"):
        site.door.create(kinds.BUDGETS, bodies.budget(app, least), namespace=NAMESPACE)
    try:
        yield
    finally:
        for app in ("web", "api"):
            site.door.delete(kinds.BUDGETS, app, namespace=NAMESPACE)


@contextlib.contextmanager
def budgeted(site: Site, least: int) -> Iterator[None]:
    """The same once they are computed."""
    with budgets(site, least):
        computed(site, least)
        yield


def computed(site: Site, least: int) -> None:
    """Wait until the disruption controller has computed the budgets."""

    def known() -> bool:
        found = site.door.list(kinds.BUDGETS, namespace=NAMESPACE).items
        return all(one.is_current and one.status.desired_healthy == least for one in found)

    waiting.eventually(known, LIMIT, "the budgets to be computed")


def known_nodes(site: Site) -> int:
    """Of how many nodes Prometheus has a sample within the windows that the policy asks for; 0 while it is silent."""
    with contextlib.closing(client.connect(site.cluster.prometheus_url)) as door:
        try:
            answer = door.query("count(count_over_time(node_memory_MemTotal_bytes[8s]))")
        except PromqlError:
            return 0
    return round(answer.samples[0].value) if answer.samples else 0


def started(site: Site, rule: gate.Rule) -> None:
    """The first replica runs on a hot node, behind that rule."""
    site.first.kube.rule = rule
    site.heat()
    site.first.service.start()


def started_and_held(site: Site) -> gate.Stall:
    """The first replica runs, and its first eviction is held at the door for the ten seconds that it waits at most."""
    held = gate.Stall()
    started(site, lambda call: held if is_eviction(call) else None)
    assert held.reached.wait(waiting.START_SECONDS), f"no eviction was asked for: {site.first.service.log()[-3000:]}"
    return held


def test_nothing_is_evicted_on_data_that_is_gone_or_stale(site: Site, watcher: Watcher) -> None:
    site.prometheus.rule = lambda _: gate.Reply(503, "warming up")
    site.heat()
    site.first.service.start()
    waiting.eventually(lambda: site.given_up(site.first) >= RUNS, LIMIT, "runs that are given up")
    site.load(HOT, memory_ratio=0.7, hidden=True)
    waiting.eventually(lambda: known_nodes(site) == NODES - 1, LIMIT, "the hot node's series to end")
    site.prometheus.rule = passing
    site.first.more_runs(RUNS)
    watcher.look()
    assert not watcher.left, "nothing leaves a node whose load nobody knows"
    with budgeted(site, REPLICAS - 1):
        site.heat()
        waiting.eventually(lambda: len(watcher.left) >= 2, LIMIT, "evictions by fresh data")
        site.hold(watcher, site.first)
        assert min(watcher.fewest.values()) >= REPLICAS - 1, f"the budgets held at every look: {watcher.fewest}"


def test_an_apiserver_killed_in_the_middle_of_a_run_leaves_one_open_intent(site: Site, watcher: Watcher) -> None:
    apiserver, dropped = site.cluster.processes["kube-apiserver"], gate.Stall()
    dropped.release(passes=False)

    def killing(call: gate.Call) -> gate.Stall | None:
        """In the gate itself: a descheduler that waits for too long asks for the next eviction."""
        if not is_eviction(call):
            return None
        apiserver.kill()
        return dropped

    started(site, killing)
    waiting.eventually(
        lambda: [row["result"] for row in site.rows(site.first)] == ["unknown"],
        waiting.START_SECONDS,
        "the answer to be missed",
        lambda: site.rows(site.first),
    )
    (row,) = site.rows(site.first)
    site.first.kube.rule = passing
    apiserver.start()
    site.first.more_runs(RUNS)
    again = [one for one in site.rows(site.first) if one["workload"] == row["workload"] and one["id"] != row["id"]]
    asked_at, waited = clock.from_rfc3339(row["intended_at"]), followup.ANSWER_SECONDS
    early = [one for one in again if clock.from_rfc3339(one["intended_at"]) < asked_at + waited]
    assert not early, "an eviction without an answer is not planned again while it may still be carried out"
    site.hold(watcher, site.first)


def test_a_budget_made_between_plan_and_act_holds(site: Site, watcher: Watcher) -> None:
    held = started_and_held(site)
    with budgets(site, REPLICAS):
        held.release(passes=True)
        waiting.eventually(
            lambda: site.rows(site.first)[-1]["result"] == "refused",
            LIMIT,
            "the refusal",
            lambda: site.rows(site.first),
        )
        computed(site, REPLICAS)
        site.first.more_runs(RUNS)
        watcher.look()
        assert not watcher.left
        site.judged(site.first, "budget")
        site.hold(watcher, site.first)
        assert min(watcher.fewest.values()) == REPLICAS, f"the budgets held at every look: {watcher.fewest}"


def test_a_workload_whose_pod_finds_no_place_loses_no_other(site: Site, watcher: Watcher) -> None:
    scheduler = site.cluster.processes["kube-scheduler"]
    scheduler.kill()
    started(site, passing)
    waiting.eventually(lambda: len(watcher.left) == 2, waiting.START_SECONDS, "one pod of each workload to leave")
    site.first.more_runs(RUNS)
    watcher.look()
    assert sorted(watcher.seen[uid].labels["app"] for uid in watcher.left) == ["api", "web"]
    site.judged(site.first, "in_flight")
    scheduler.start()
    waiting.eventually(lambda: len(watcher.left) > 2, LIMIT, "relief to go on when the replacements are ready")
    site.hold(watcher, site.first)
    assert min(watcher.fewest.values()) >= REPLICAS - 1, f"one pod of a workload at a time: {watcher.fewest}"


def returned(site: Site) -> list[dict[str, Any]]:
    """The rows of replacements that came back."""
    return [row for row in site.rows(site.first) if row["returned"]]


def sent_back(site: Site, watcher: Watcher, times: int) -> None:
    """One pod leaves the hot node, its destinations close before its replacement is placed, and the return is known."""
    scheduler = site.cluster.processes["kube-scheduler"]
    scheduler.kill()  # one that is started after the cordons knows them when it places the replacement
    site.first.kube.rule = OneEviction()
    site.open_all()
    if not site.first.service.running:
        started(site, site.first.kube.rule)
    waiting.eventually(lambda: len(watcher.left) == times, waiting.START_SECONDS, "a pod to leave")
    site.close_all_but_the_hot_node()
    site.first.more_runs(RUNS)
    site.first.kube.rule = passing
    scheduler.start()
    waiting.eventually(
        lambda: len(returned(site)) == times, LIMIT, "the return to be recorded", lambda: site.rows(site.first)
    )


def rests(site: Site) -> list[str]:
    """What GET /plan says of the cool-downs of workloads."""
    return [one["detail"] for one in site.candidates(site.first) if one["verdict"] == "workload_cooldown"]


def test_a_destination_that_fills_up_meanwhile_sends_the_pod_back_and_that_is_told_and_remembered(
    site: Site, watcher: Watcher
) -> None:
    only_web = [{"match": {"labelSelector": {"matchLabels": {"app": "api"}}}, "allow": "Never"}]
    growing = {"initial": "1s", "factor": 1000, "max": "1h", "window": "1h"}
    cooldown = {"workload": "1s", "node": "1s", "returned": growing}
    site.obey(descheduler__flow=only_web, descheduler__cooldown=cooldown)
    site.on_a_clock_of_its_own().set(2.0)  # what is made since is told by the apiserver's clock
    sent_back(site, watcher, 1)
    (row,) = returned(site)
    assert row["result"] in DONE, row
    assert (row["node"], row["landed_node"]) == (HOT, HOT)

    def reasons() -> set[str]:
        found = site.door.list(kinds.EVENTS, namespace=NAMESPACE, field_selector="reason=EvictionLoop").items
        return {one.regarding.kind for one in found}

    waiting.eventually(lambda: reasons() == {"Pod", "Deployment"}, LIMIT, "the Events about it", reasons)
    assert site.first.service.metric("evenload_eviction_returned_total") == 1
    watcher.look()
    assert len(watcher.left) == 1, "there is nowhere to go, so nothing more is evicted"
    sent_back(site, watcher, 2)
    site.open_all()
    twice = lambda: [text for text in rests(site) if text.endswith("came back 2 times")]  # noqa: E731
    (left, *_) = waiting.eventually(twice, LIMIT, "the workload to rest after its second return", lambda: rests(site))
    assert float(left.partition(" ")[0]) > 1, f"longer than after the first return: {left}"
    site.first.more_runs(RUNS)
    site.hold(watcher, site.first)
    assert len(watcher.left) == 2, "while it rests, nothing of it leaves"


def blocked(site: Site) -> str:
    """Why the plan for the hot node may not be carried out, or why there is none."""
    plan = site.plan(site.first)
    return str(plan["blocked"]) if plan["nodes"] or plan["partial"] else ""


def busy(call: gate.Call) -> gate.Reply | None:
    """The rule of an apiserver that has no time for evictions: what is asked for is seen, and nothing happens."""
    return gate.apiserver_reply(429, "TooManyRequests") if is_eviction(call) else None


def test_nothing_is_evicted_by_answers_that_are_not_whole_nor_by_a_wrong_clock(site: Site, watcher: Watcher) -> None:
    shift = site.on_a_clock_of_its_own()

    def request_count() -> int:
        return len(site.first.evictions())

    # As a Prometheus answers that could not ask all its stores.
    warned = {"warnings": ["store 2 of 2 did not answer"]}
    site.prometheus.rule = lambda _: gate.Changed(lambda body: json.dumps({**json.loads(body), **warned}).encode())
    started(site, busy)
    waiting.eventually(lambda: "store 2 of 2" in blocked(site), LIMIT, "a blocked plan", lambda: blocked(site))
    site.first.more_failed_runs(RUNS)
    assert request_count() == 0
    site.prometheus.rule = passing
    waiting.eventually(request_count, LIMIT, "an eviction by whole answers")
    for jump_seconds in (7200.0, -7200.0):
        shift.set(jump_seconds)
        site.first.more_runs(1)  # one may have begun before
        before = request_count()
        site.first.more_runs(RUNS)
        assert request_count() == before, (
            f"with a clock that is {jump_seconds:+.0f} s wrong all data is too old or to come"
        )
    shift.set(0.0)
    waiting.eventually(lambda: request_count() > before, LIMIT, "evictions by the right time")
    site.first.kube.rule = passing
    site.hold(watcher, site.first)


class Ending:
    """Ends the process with SIGTERM just before the first eviction that it asks for arrives, and passes everything."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.ended_at_seconds = math.inf

    def __call__(self, call: gate.Call) -> None:
        if self.ended_at_seconds < math.inf or not is_eviction(call):
            return
        os.kill(self._site.first.service.pid, signal.SIGTERM)
        self.ended_at_seconds = clock.WallClock().now()


def test_a_run_that_is_told_to_end_in_its_middle_ends_before_its_next_eviction_and_leaves_nothing_open(
    site: Site, watcher: Watcher, tmp_path: pathlib.Path
) -> None:
    site.obey(descheduler__mode="Observe", descheduler__limits__perNode=2)
    site.heat()
    names = itertools.count()

    def evictions() -> int:
        """Of a run without a history: the next one would find the cool-downs of this one."""
        return len(site.once("--ledger", str(tmp_path / str(next(names)))).plan["evictions"])

    waiting.eventually(lambda: evictions() == 2, LIMIT, "a plan of two evictions")
    site.obey(descheduler__limits__perNode=2)
    ending = Ending(site)
    started(site, ending)
    code = site.first.service.ended()
    log = site.first.service.log()
    assert code == 0, log[-3000:]
    waiting.eventually(site.first.kube.settled, LIMIT, "everything it sent to have arrived")
    watcher.look()
    lease = site.door.get(kinds.LEASES, "evenload-descheduler", namespace=permissions.NAMESPACE)
    with contextlib.closing(Ledger(site.ledger).open()) as ledger:
        rows = ledger.rows(Query())
        followup.reconcile(ledger, site.door, now_seconds=clock.WallClock().now() + followup.ANSWER_SECONDS)
        done = [row.pod_uid for row in ledger.rows(Query()) if row.result in DONE]
    results = [row.result for row in rows]
    assert "intended" not in results, "the answer to what it had asked for is recorded"
    assert not [row for row in rows if row.intended_at_seconds > ending.ended_at_seconds], f"and nothing else: {rows}"
    assert "run cut short" in log or "unknown" in results, "another eviction of that run was to come"
    assert sorted(done) == sorted(watcher.left)
    given_back = not lease.spec.holder_identity
    assert given_back or "lease not" in log, "it is given back, or the log says why it could not"
    last_seconds = max(row.decided_at_seconds or 0.0 for row in rows)
    renewed = lease.spec.renew_time
    assert renewed is not None
    assert renewed.timestamp() >= last_seconds or not given_back, "given back only when nothing is under way any more"


class OneEviction:
    """Lets the first eviction pass; to the next the apiserver seems too busy."""

    def __init__(self) -> None:
        self._asked = itertools.count()

    def __call__(self, call: gate.Call) -> gate.Reply | None:
        first = not is_eviction(call) or next(self._asked) == 0
        return None if first else gate.apiserver_reply(429, "TooManyRequests")


class Silence:
    """A wire that passes nothing any more until it is cut for good."""

    def __init__(self) -> None:
        self._held: list[gate.Stall] = []
        self._over = False
        self._lock = threading.Lock()

    def __call__(self, call: gate.Call) -> gate.Stall:
        stall = gate.Stall()
        with self._lock:
            self._held.append(stall)
            if self._over:  # by a thread that asked for the rule just before it was replaced
                stall.release(passes=False)
        return stall

    def cut(self) -> None:
        """Everything that waits is dropped."""
        with self._lock:
            self._over = True
            for stall in self._held:
                stall.release(passes=False)


def following_only(call: gate.Call) -> gate.Reply | None:
    """The rule for a replica that must not lead: it sees everything and does not get the Lease."""
    return gate.apiserver_reply(409, "Conflict") if call.writes and is_of_lease(call) else None


def is_of_lease(call: gate.Call) -> bool:
    """Whether a call reads or writes the Lease."""
    return "/leases" in call.path


def leads(replica: descheduler_site.Replica) -> bool:
    """What the replica thinks."""
    return replica.service.metric("evenload_descheduler_leader") == 1


def test_a_leader_whose_network_pauses_evicts_nothing_more_when_it_comes_back(site: Site, watcher: Watcher) -> None:
    silence = Silence()
    site.second.kube.rule = following_only
    site.second.service.start()  # before: an intent of a minute ago counts as not carried out, and so it must not be
    with budgeted(site, REPLICAS - 1):
        held = started_and_held(site)
        site.first.kube.rule = silence
        site.second.kube.rule = passing
        waiting.eventually(lambda: leads(site.second), LIMIT, "the second to take over")
        request_count = len(site.first.evictions())
        held.release(passes=True)
        site.first.kube.rule = following_only  # should the second stall: then the first would rightly lead again
        back_at = time.monotonic()
        silence.cut()
        waiting.eventually(lambda: not leads(site.first), LIMIT, "the first to know it")
        waiting.eventually(lambda: looked_since(site.first, back_at) >= RUNS, LIMIT, "the first to see the Lease")
        waiting.eventually(site.second.evictions, LIMIT, "the second to evict")
        site.second.more_runs(RUNS)
        assert len(site.first.evictions()) == request_count, "the one that came back follows"
        site.hold(watcher, site.second)
        assert min(watcher.fewest.values()) >= REPLICAS - 1, f"the budgets held at every look: {watcher.fewest}"


def test_a_lease_that_is_deleted_stays_its_holders_and_no_pod_is_asked_for_twice(site: Site, watcher: Watcher) -> None:
    started(site, passing)
    waiting.eventually(lambda: leads(site.first), waiting.START_SECONDS, "the first to lead")
    site.second.service.start()
    waiting.eventually(lambda: looked_since(site.second, 0.0), waiting.START_SECONDS, "the second to see the Lease")
    before = waiting.eventually(lambda: renewing(site), LIMIT, "the Lease to be renewed")
    for _ in range(DELETIONS):
        site.door.delete(kinds.LEASES, LEASE, namespace=permissions.NAMESPACE)
        found = waiting.eventually(lambda: renewing(site), LIMIT, "the Lease to be there again, and renewed")
        assert found == before
        assert not leads(site.second)
    site.first.more_runs(1)
    request_count = [call.path for one in (site.first, site.second) for call in one.evictions()]
    assert len(request_count) == len(set(request_count))
    assert not site.second.evictions()
    site.hold(watcher, site.first)


def hinting(happen: Callable[[], object]) -> gate.Rule:
    """The rule that has something happen while the first relief hint is written: after the plan, before the call."""
    first = threading.Lock()  # taken by the first hint and never given back

    def rule(call: gate.Call) -> None:
        if call.method == "PATCH" and "/nodes/" in call.path and first.acquire(blocking=False):
            happen()

    return rule


def label_all(site: Site, value: str | None) -> None:
    """Labels every pod as protected, or takes the label away."""
    for pod in site.door.list(kinds.PODS, namespace=NAMESPACE).items:
        body = {"metadata": {"labels": {PROTECTED_LABEL: value}}}
        site.door.merge_patch(kinds.PODS, pod.name, body, namespace=NAMESPACE)


def decided(site: Site) -> list[dict[str, Any]]:
    """The rows of the first replica whose end is known, newest first."""
    return [row for row in site.rows(site.first) if row["result"] != "intended"]


def test_a_pod_that_is_protected_between_plan_and_call_stays(site: Site, watcher: Watcher) -> None:
    started(site, hinting(lambda: label_all(site, "true")))
    try:
        rows = waiting.eventually(lambda: decided(site), waiting.START_SECONDS, "a row")
        assert [(row["result"], row["message"]) for row in rows] == [
            ("not_done", f'opted_out: {PROTECTED_LABEL}: "true"')
        ] * len(rows)
        site.first.more_runs(1)
        watcher.look()
        assert (site.first.evictions(), watcher.left) == ([], set())
    finally:
        site.stop()
        label_all(site, None)


def test_a_lease_that_is_lost_between_plan_and_call_ends_the_run(site: Site, watcher: Watcher) -> None:
    body = {"spec": {"holderIdentity": "another"}}
    lose = lambda: site.door.merge_patch(kinds.LEASES, LEASE, body, namespace=permissions.NAMESPACE)  # noqa: E731
    started(site, hinting(lose))
    first = waiting.eventually(lambda: decided(site), waiting.START_SECONDS, "a row")[-1]
    assert (first["result"], first["message"]) == ("not_done", "the run was ended before the call")
    assert len(site.first.evictions()) == sum(row["run"] != first["run"] for row in site.rows(site.first))
    give_back = {"spec": {"holderIdentity": ""}}  # or the first would wait for as long as a Lease takes to run out
    site.door.merge_patch(kinds.LEASES, LEASE, give_back, namespace=permissions.NAMESPACE)
    site.hold(watcher, site.first)


def test_a_run_whose_doors_are_slow_ends_before_its_picture_is_too_old(site: Site, watcher: Watcher) -> None:
    site.obey(descheduler__limits__maxSnapshotAge="1s")
    started(site, slow_hints)
    cut = 'evenload_descheduler_runs_cut_short_total{reason="snapshot_age"}'
    waiting.eventually(lambda: f"{cut} {RUNS}" in site.first.service.text("/metrics"), LIMIT, "runs that are cut short")
    watcher.look()
    assert (site.first.evictions(), watcher.left) == ([], set())
    assert "cut short: the snapshot is " in site.first.service.log()
    site.first.service.stop()
    site.obey()
    started(site, passing)
    waiting.eventually(lambda: watcher.left, LIMIT, "evictions by a picture that may be older")
    site.hold(watcher, site.first)


def slow_hints(call: gate.Call) -> None:
    """The rule by which each relief hint takes more than a second."""
    if call.method == "PATCH" and "/nodes/" in call.path:
        time.sleep(1.5)


def renewing(site: Site) -> str:
    """The holder of a Lease that it has renewed since it made it, "" while there is none."""
    try:
        spec = site.door.get(kinds.LEASES, LEASE, namespace=permissions.NAMESPACE).spec
    except errors.NotFound:
        return ""
    renewed = spec.renew_time is not None and spec.acquire_time is not None and spec.renew_time > spec.acquire_time
    return spec.holder_identity or "" if renewed else ""


def looked_since(replica: descheduler_site.Replica, since_seconds: float) -> int:
    """How often it has looked at the Lease since then (monotonic)."""
    return sum(is_of_lease(call) and call.at_seconds > since_seconds for call in tuple(replica.kube.calls))
