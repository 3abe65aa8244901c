"""Whole runs over fake doors: when it acts, when it does nothing, and what it remembers."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from descheduler import run_schedule
from descheduler.eviction import api_results
from descheduler.ledger import retention
from descheduler.ledger.rows import Query
from kube import errors as kube_errors
from kube.door import EvictionAnswer
from promql import errors as promql_errors
from promql.door import Answer
from tests.unit.descheduler import doors, ledger_files, scenes
from tests.unit.descheduler.worlds import World, two_to_evict

BY_GUARD = "ValidatingAdmissionPolicy 'evenload-guard-evictions' with binding 'evenload-guard-evictions' denied: no"
QUICK: dict[str, object] = {"cooldown": {"workload": "1s", "node": "1s"}}


def enforcing(tmp_path: Path, **descheduler: object) -> World:
    """A descheduler in Enforce over the usual scene, unless told otherwise."""
    return World(scenes.hot_and_cool(), tmp_path, **{"mode": "Enforce", **descheduler})


def test_a_run_evicts_records_and_tells(world: World) -> None:
    report = world.report()
    assert report.summary == "1 evicted: 1 over a cap"
    assert [name for name, _, _ in world.door.evictions] == ["default/web-0"]
    assert [row.result for row in world.ledger.rows(Query())] == ["evicted"]
    assert ledger_files.last_summary(world.ledger_path) == report.summary
    assert world.metric("evenload_evictions_total", mode="Enforce", result="evicted", metric="memory_avg_5m") == 1
    assert world.metric("evenload_eviction_candidates", verdict="chosen") == 1


def test_the_summary_counts_deeds_not_intents(world: World) -> None:
    world.door.answers = [doors.BLOCKED]
    report = world.report()
    assert report.summary == "0 evicted, 1 refused: 1 over a cap"


def test_after_a_start_prometheus_is_asked_how_long_it_has_lasted(world: World) -> None:
    world.service.run()
    asked = sorted({scenes.NOW - at for _, at in world.prometheus.asked if at is not None})
    assert asked == [45, 90, 135, 180, 225]


@pytest.mark.parametrize("overloaded_for", ["21m", "1h", "6h"])
def test_a_single_run_acts_on_an_overload_however_long_it_must_last(tmp_path: Path, overloaded_for: str) -> None:
    here = enforcing(tmp_path, overloadedFor=overloaded_for)
    here.service.run()
    assert [name for name, _, _ in here.door.evictions] == ["default/web-0"]


def test_where_no_node_is_over_a_line_the_past_is_not_asked_for(tmp_path: Path) -> None:
    here = World(scenes.Scene().node("warm", memory=0.7).node("cool"), tmp_path, mode="Enforce", overloadedFor="6h")
    here.service.run()
    assert [at for _, at in here.prometheus.asked if at is not None] == []


def test_a_restart_forgets_no_cooldown(tmp_path: Path) -> None:
    enforcing(tmp_path).service.run()
    again = enforcing(tmp_path)
    again.service.run()
    assert again.door.evictions == []


def test_a_paused_or_following_replica_does_nothing_at_all(tmp_path: Path) -> None:
    here = enforcing(tmp_path, paused=True)
    assert here.service.run() is None
    follower = enforcing(tmp_path)
    follower.leads = False
    assert follower.service.run() is None
    assert here.prometheus.asked == follower.prometheus.asked == []
    assert follower.service.period_seconds() == 1.0


def test_a_pause_exports_nothing_of_the_run_before_it(world: World) -> None:
    world.service.run()
    assert world.metric("evenload_overloaded_nodes") == 1
    assert world.metric("evenload_eviction_candidates", verdict="chosen") == 1
    world.reload("{mode: Enforce, paused: true}")
    assert world.service.run() is None
    assert math.isnan(world.metric("evenload_overloaded_nodes") or 0.0)
    assert math.isnan(world.metric("evenload_eviction_budget_remaining", scope="hour") or 0.0)
    assert world.metric("evenload_eviction_candidates", verdict="chosen") is None


def test_a_flow_rule_that_arrives_by_reload_is_obeyed(world: World) -> None:
    world.reload("{mode: Enforce, flow: [{allow: Never}]}")
    report = world.report()
    assert (report.run.mode, world.door.evictions) == ("Enforce", [])
    assert report.summary == "0 evicted: 2 protected"


@pytest.mark.parametrize("event", ["a pause", "SIGTERM", "a lost Lease", "the end of the time window"])
def test_a_run_ends_in_its_middle(tmp_path: Path, event: str) -> None:
    here = two_to_evict(tmp_path, windows=[{"from": "03:00", "to": "04:30"}])  # NOW is 04:00

    deeds: dict[str, Callable[[], object]] = {
        "a pause": lambda: here.reload("{mode: Enforce, paused: true}"),
        "SIGTERM": here.stopping.set,
        "a lost Lease": lambda: setattr(here, "leads", False),
        "the end of the time window": lambda: here.clock.advance(1800),
    }
    here.door.before_evict = deeds[event]
    report = here.report()
    assert len(report.plan.evictions) == 2
    assert [name for name, _, _ in here.door.evictions] == ["default/a-0"]


@pytest.mark.parametrize(("bound", "stalled_seconds", "evicted"), [(None, 31, 1), (None, 29, 2), ("1m", 59, 2)])
def test_a_run_whose_snapshot_is_too_old_ends_before_its_next_eviction_and_says_so(
    tmp_path: Path, bound: str | None, stalled_seconds: float, evicted: int
) -> None:
    limits = {"perNode": 2, **({"maxSnapshotAge": bound} if bound else {})}
    here = two_to_evict(tmp_path, limits=limits)
    here.door.before_evict = lambda: here.clock.advance(stalled_seconds) if not here.door.evictions else None
    report = here.report()
    assert (len(report.plan.evictions), len(here.door.evictions)) == (2, evicted)
    text = "cut short: the snapshot is 31 s old, 30 s allowed (limits.maxSnapshotAge)"
    summaries = report.summary, ledger_files.last_summary(here.ledger_path)
    assert [text in summary for summary in summaries] == [evicted == 1] * 2
    assert here.metric("evenload_descheduler_runs_cut_short_total", reason="snapshot_age") == (evicted == 1)


@pytest.mark.parametrize("rule", ["paused: true", "protect: {namespaces: [default]}"])
def test_a_policy_that_changes_while_the_cluster_is_read_ends_the_run_before_its_first_eviction(
    world: World, rule: str
) -> None:
    planned_by, ask = world.policy.content_hash, world.prometheus.query

    def changed_meanwhile(expression: str, *, at_seconds: float | None = None) -> Answer:
        world.reload(f"{{mode: Enforce, {rule}}}")
        return ask(expression, at_seconds=at_seconds)

    world.prometheus.query = changed_meanwhile  # type: ignore[method-assign]
    report = world.report()
    assert (scenes.evicted(report.plan), report.run.policy_hash) == (["web-0"], planned_by)
    assert world.door.evictions == []


def test_a_preview_says_that_the_policy_pauses(tmp_path: Path) -> None:
    report = enforcing(tmp_path, paused=True).previews.plan()
    assert (scenes.evicted(report.plan), report.run.mode, report.why) == (["web-0"], "Enforce", run_schedule.PAUSED)


@pytest.mark.parametrize("broken", ["prometheus", "apiserver"])
def test_a_door_that_does_not_answer_means_no_plan_and_no_eviction(world: World, broken: str) -> None:
    world.prometheus.down = broken == "prometheus"
    world.door.unreachable = broken == "apiserver"
    with pytest.raises((promql_errors.Unreachable, kube_errors.Unreachable)):
        world.service.run()
    assert world.metric("evenload_descheduler_failures_total", door=broken) == 0
    world.service.cycle()
    assert world.door.evictions == []
    assert world.metric("evenload_descheduler_runs_total", result="failed") == 1
    assert world.metric("evenload_descheduler_failures_total", door=broken) == 1
    assert "connection refused" in str(world.service.trouble)


def test_a_partial_answer_ends_the_run_and_counts_as_no_reading(tmp_path: Path) -> None:
    here = enforcing(tmp_path, overloadedFor="3m")
    here.prometheus.down = True  # nothing is known of the minutes before
    here.service.cycle()
    here.prometheus.down, here.prometheus.warnings = False, ("a store did not answer",)
    for _ in range(4):
        here.service.cycle()
        here.clock.advance(60)
    assert (here.door.evictions, here.service.last) == ([], None)
    assert here.metric("evenload_descheduler_failures_total", door="prometheus") == 5
    assert "a store did not answer" in str(here.service.trouble)


def test_a_plan_of_a_partial_answer_does_nothing_and_says_so(world: World) -> None:
    world.prometheus.warnings = ("a store did not answer",)
    report = world.previews.plan()
    assert (report.partial, scenes.evicted(report.plan), report.run.mode) == (True, [], "Enforce")
    assert "the data is not whole: a store did not answer" in report.summary


def test_a_node_that_cannot_be_relieved_is_told_once(tmp_path: Path) -> None:
    scene = scenes.Scene().node("hot", memory=0.9).node("cool").workload("web", on=["hot", "hot"], gib=20)
    here = World(scene, tmp_path, mode="Enforce")
    here.service.run()
    here.clock.advance(60)
    here.service.run()
    assert [(body["reason"], body["regarding"]["name"]) for body in here.door.created] == [("NoFittingNode", "hot")]
    assert "2 without a destination" in here.door.created[0]["note"]


def run_and_remove(here: World, scene: scenes.Scene) -> None:
    """One run, after which the pods that it evicted have gone from the scene."""
    here.service.run()
    gone = {name.partition("/")[2] for name, _, _ in here.door.evictions}
    scene.pods = [pod for pod in scene.pods if pod.name not in gone]
    here.show(scene)


def test_evictions_without_a_replacement_brake_and_are_told(tmp_path: Path) -> None:
    scene = scenes.Scene().node("hot", memory=0.99).node("cool").node("cool2")
    for name in "abcd":
        scene.workload(name, on=["hot", "cool"], gib=2, namespace=name)
    here = World(scene, tmp_path, mode="Enforce", **QUICK, limits={"unreplaced": 2})
    for _ in range(4):
        run_and_remove(here, scene)
        here.clock.advance(10)
        here.prometheus.age_seconds -= 10
    assert len(here.door.evictions) == 2
    assert "blocked: 2 evictions wait for a Ready replacement" in here.last.summary
    assert here.metric("evenload_evictions_unreplaced") == 2
    assert here.metric("evenload_eviction_candidates", verdict="unreplaced") == 2
    (told,) = [body for body in here.door.created if body["reason"] == "ReplacementsNotReady"]
    assert (told["regarding"]["name"], told["type"]) == ("hot", "Warning")
    assert "2 allowed (limits.unreplaced): ReplicaSet/a in a, ReplicaSet/b in b" in told["note"]


def test_a_node_whose_load_does_not_fall_is_left_alone_and_told(tmp_path: Path) -> None:
    scene = scenes.Scene().node("hot", memory=0.99).node("cool")
    for name in "abcdef":
        scene.workload(name, on=["hot", "cool"], gib=2, namespace=name)
    here = World(scene, tmp_path, mode="Enforce", limits={"unreplaced": 99})
    ask = here.prometheus.query

    def as_it_was_and_is(expression: str, *, at_seconds: float | None = None) -> Answer:
        here.prometheus.age_seconds = 10.0 if at_seconds is not None else 10.0 - (here.clock.now() - scenes.NOW)
        return ask(expression, at_seconds=at_seconds)

    here.prometheus.query = as_it_was_and_is  # type: ignore[method-assign]
    for _ in range(12):
        run_and_remove(here, scene)
        here.clock.advance(120)
    assert len(here.door.evictions) == 3
    assert here.metric("evenload_eviction_candidates", verdict="load_not_falling") == 3
    (told,) = [body for body in here.door.created if body["reason"] == "NodeLoadNotFalling"]
    assert (told["regarding"]["name"], told["type"]) == ("hot", "Warning")
    assert "3 evictions should have lowered memory_avg_5m by 0.1" in told["note"]


def test_an_intent_left_by_a_crash_is_closed_before_anything_else(world: World) -> None:
    world.service.run()
    row_id = world.ledger.rows(Query())[0].id
    world.ledger.decide(row_id, "intended", status=None, message="", at_seconds=scenes.NOW)
    world.service.run()
    assert world.ledger.rows(Query(outcome="intended")), "the request may still be carried out"
    world.clock.advance(60)
    world.service.run()
    results = {row.id: row.result for row in world.ledger.rows(Query())}
    assert results[row_id] == "not_done"


def test_relief_goes_on_after_a_restart(tmp_path: Path) -> None:
    enforcing(tmp_path).service.run()
    scene = scenes.Scene().node("hot", memory=0.7).node("cool").workload("web", on=["hot", "hot", "cool"])
    again = World(scene, tmp_path, mode="Enforce")
    report = again.report()
    assert [one.overloads[0].metric for one in report.plan.nodes] == ["memory_avg_5m"]


@pytest.mark.parametrize("meanwhile", ["another leads", "paused", "Prometheus is down"])
def test_relief_does_not_go_on_where_nobody_looked_for_hours(world: World, meanwhile: str) -> None:
    world.service.cycle()
    assert [name for name, _, _ in world.door.evictions] == ["default/web-0"]
    world.leads, world.prometheus.down = meanwhile != "another leads", meanwhile == "Prometheus is down"
    world.reload(f"{{mode: Enforce, paused: {str(meanwhile == 'paused').lower()}}}")
    # Later the hot node is under the line that triggers, and over its target.
    later = scenes.Scene().node("hot", memory=0.7).node("cool").workload("api", on=["hot", "hot", "cool"], gib=2.0)
    world.show(later)
    world.prometheus.show(later)
    for _ in range(3):
        world.clock.advance(3600)
        world.service.cycle()
    world.leads, world.prometheus.down, world.prometheus.age_seconds = True, False, -3 * 3600.0
    world.reload("{mode: Enforce}")
    report = world.report()
    assert report.plan.nodes == ()


def test_a_preview_changes_nothing(world: World) -> None:
    report = world.previews.plan()
    assert scenes.evicted(report.plan) == ["web-0"]
    assert (world.door.evictions, world.door.created, world.ledger.rows(Query())) == ([], [], [])


LOST = kube_errors.Unreachable("POST: timed out")
DENIED = EvictionAnswer(False, 429, "TooManyRequests", 'admission webhook "x" denied the request: enough')
BROKEN = kube_errors.ServerError("POST", status=500, reason="InternalError", message="failed calling webhook")


@pytest.mark.parametrize("answer", [LOST, DENIED, BROKEN], ids=["no answer", "a webhook's 429", "a webhook's 500"])
def test_a_pod_that_cannot_be_evicted_keeps_neither_the_other_node_nor_its_own(
    tmp_path: Path, answer: EvictionAnswer | Exception
) -> None:
    scene = scenes.Scene().node("hot", memory=0.95).node("hot2", memory=0.9).node("cool")
    for name, node in (("a", "hot"), ("b", "hot"), ("c", "hot2"), ("d", "hot2")):
        scene.workload(name, on=[node, "cool"], memory="64Mi", gib=2)
    here = World(scene, tmp_path, mode="Enforce", **QUICK)
    here.door.answers = [answer]
    here.service.run()
    assert [name for name, _, _ in here.door.evictions] == ["default/a-0", "default/c-0"], "the other node, too"
    here.clock.advance(61)
    here.prometheus.age_seconds -= 61
    report = here.report()
    assert scenes.causes(report.plan)["a-0"] == "backoff"
    assert "default/b-0" in [name for name, _, _ in here.door.evictions], "another pod of its node"
    failed = [row for row in here.ledger.rows(Query()) if row.pod == "a-0"]
    assert [row.result for row in failed] == ["failed"]


def test_the_backoff_outlives_a_restart_and_counts_for_the_breaker(tmp_path: Path) -> None:
    learnt: list[tuple[str, int, str]] = []
    for number in range(3):
        here = enforcing(tmp_path, **QUICK, overloadedFor="0s", breaker={"jitter": 0.0})
        here.clock.advance(number)
        here.door.answers = [DENIED]
        here.service.run()
        ((pod, _, _),) = here.door.evictions or [("", "", False)]
        learnt += [(pod, one.failures, one.state) for one in here.previews.breakers()]
    assert learnt == [("default/web-0", 1, "closed"), ("default/web-1", 2, "closed"), ("", 2, "closed")]


def test_an_eviction_found_to_have_taken_place_is_told(world: World) -> None:
    world.door.answers = [kube_errors.Unreachable("POST: timed out")]
    world.service.run()
    world.door.objects["pods"] = ()
    world.service.run()
    assert [row.result for row in world.ledger.rows(Query())] == ["evicted_unconfirmed"]
    told = {(body["regarding"]["kind"], body["regarding"]["name"]) for body in world.door.created}
    assert told == {("Node", "hot"), ("ReplicaSet", "web")}


def test_a_paused_descheduler_still_learns_what_became_of_its_evictions(tmp_path: Path) -> None:
    enforcing(tmp_path).service.run()
    again = enforcing(tmp_path, paused=True)
    again.door.objects["pods"] = ()
    again.clock.advance(400)
    assert again.service.run() is None
    (row,) = again.ledger.rows(Query())
    assert row.gone_at_seconds == scenes.NOW + 400
    assert row.load_5m_ratio == 0.9


ERRORS = "evenload_descheduler_prediction_error_ratio"


def test_predictions_are_judged_and_counted_when_their_moments_have_come(world: World) -> None:
    assert world.metric("evenload_descheduler_predictions_unmeasured_total", after="30m") == 0
    world.service.run()
    world.show(scenes.hot_and_cool().node("hot", memory=0.9))
    world.prometheus.show(scenes.hot_and_cool().node("hot", memory=0.795))
    world.clock.advance(1801)
    world.service.run()
    row = world.ledger.rows(Query())[-1]
    assert (row.load_5m_ratio, row.load_30m_ratio) == (0.795, 0.795)
    for after in ("5m", "30m"):
        assert world.metric(f"{ERRORS}_count", after=after, side="hotter") == 1
        assert world.metric(f"{ERRORS}_sum", after=after, side="hotter") == pytest.approx(0.02)
        assert world.metric(f"{ERRORS}_count", after=after, side="cooler") == 0
    assert world.metric("evenload_descheduler_relief_total", result="under_line") == 1


def test_a_prediction_that_cannot_be_measured_is_counted_as_missing(world: World) -> None:
    world.service.run()
    world.prometheus.age_seconds = 400.0
    world.clock.advance(1801)
    world.service.run()
    assert world.metric("evenload_descheduler_predictions_unmeasured_total", after="30m") == 1
    assert world.metric(f"{ERRORS}_count", after="30m", side="hotter") == 0
    assert world.metric("evenload_descheduler_relief_total", result="unknown") == 1


def test_a_ledger_that_breaks_in_use_is_set_aside_and_enforce_rests_for_an_hour(world: World, tmp_path: Path) -> None:
    world.service.run()
    for name in ("ledger.sqlite", "ledger.sqlite-wal"):
        (tmp_path / name).write_bytes(b"no database any more" * 10_000)
    world.clock.advance(700)
    world.service.cycle()
    assert world.metric("evenload_ledger_set_aside_timestamp_seconds") == scenes.NOW + 700
    assert world.metric("evenload_descheduler_failures_total", door="ledger") == 1
    assert list(tmp_path.glob("ledger.sqlite.corrupt-*"))
    asked = len(world.door.evictions)
    report = world.report()
    assert (report.run.mode, len(world.door.evictions)) == ("Observe", asked)
    assert "set aside" in report.why
    world.clock.advance(3600)
    later = world.report()
    assert (later.run.mode, later.why) == ("Enforce", "")


@pytest.mark.parametrize(("restored", "mode"), [(True, "Enforce"), (False, "Observe")])
def test_a_ledger_that_did_not_open_again_is_opened_once_it_can(tmp_path: Path, *, restored: bool, mode: str) -> None:
    here, path, away = enforcing(tmp_path), tmp_path / "ledger.sqlite", tmp_path / "away"
    here.service.run()
    ledger_files.move(path, away)
    ledger_files.of_a_newer_version(path)
    words = "was replaced while it was open; the next run uses the new one", "is not open; the next run opens it"
    for trouble in words:
        here.clock.advance(120)
        here.service.cycle()
        assert here.service.trouble == f"ledger {path} {trouble}"
    path.unlink()
    if restored:
        ledger_files.move(away, path)
    here.service.cycle()
    report = here.report()
    assert report.run.mode == mode
    assert len(here.ledger.rows(Query(outcome="evicted"))) == restored


def test_a_ledger_that_cannot_be_written_gives_every_run_up_and_nothing_is_evicted(world: World) -> None:
    with world.ledger.written() as writer:
        writer.execute("PRAGMA query_only = 1")
    for _ in range(2):
        world.service.cycle()
        world.clock.advance(120)
    assert world.metric("evenload_descheduler_failures_total", door="ledger") == 2
    assert "nothing is evicted without a record" in str(world.service.trouble)
    assert world.door.evictions == []


@pytest.mark.parametrize(
    ("answer", "refused_by"),
    [
        pytest.param(doors.ACCEPTED, None, id="nobody"),
        pytest.param(doors.BLOCKED, "budget", id="a budget"),
        pytest.param(EvictionAnswer(False, 403, "Forbidden", BY_GUARD), "guard", id="the guard"),
        pytest.param(EvictionAnswer(False, 403, "Forbidden", "RBAC"), "apiserver", id="RBAC"),
        pytest.param(EvictionAnswer(False, 404, "NotFound", "gone"), None, id="it had gone"),
        pytest.param(EvictionAnswer(False, 429, "", 'admission webhook "x"'), "apiserver", id="a webhook"),
        pytest.param(kube_errors.Unreachable("POST: timed out"), "unanswered", id="no answer"),
    ],
)
def test_refusals_are_counted_by_who_refused(
    world: World, answer: EvictionAnswer | Exception, refused_by: str | None
) -> None:
    world.door.answers = [answer]
    world.service.run()
    counted = {by: world.metric("evenload_eviction_refusals_total", refused_by=by) for by in api_results.REFUSERS}
    assert counted == {by: float(by == refused_by) for by in api_results.REFUSERS}


@pytest.mark.parametrize("confirmed", [True, False], ids=["by Prometheus' clock, too", "by a clock nobody confirms"])
def test_rows_older_than_retention_go(world: World, confirmed: bool) -> None:
    world.service.run()
    world.clock.advance(91 * 86400)
    world.prometheus.age_seconds -= 91 * 86400 * confirmed
    world.service.run()
    assert (scenes.NOW in {row.at_seconds for row in world.ledger.rows(Query())}) is not confirmed


@pytest.mark.parametrize(
    ("pauses", "cause"),
    [
        pytest.param({"node": "6h"}, "node_cooldown", id="a node's"),
        pytest.param({"node": "1s", "workload": "72h"}, "workload_cooldown", id="a workload's, longer than rows stay"),
    ],
)
def test_a_pause_longer_than_returns_are_counted_is_kept_to_its_end(
    tmp_path: Path, pauses: dict[str, str], cause: str
) -> None:
    returned = {"window": "1h", "max": "1h"}
    here = enforcing(tmp_path, overloadedFor="0s", cooldown={**pauses, "returned": returned})
    here.service.run()
    hours = 2.0 if cause == "node_cooldown" else 60.0
    here.clock.advance(hours * 3600)
    here.prometheus.age_seconds -= hours * 3600
    retention.Pruning(here.ledger, retention.FEWEST_DAYS).prune(here.policy.current, now_seconds=here.clock.now())
    report = here.report()
    assert set(scenes.causes(report.plan).values()) == {cause}


def test_pods_usage_is_not_asked_for_while_no_node_can_be_relieved(tmp_path: Path) -> None:
    asked = []
    for memory in (0.5, 0.9):
        scene = scenes.Scene().node("hot", memory=memory).node("cool").workload("web", on=["hot", "cool"])
        here = World(scene, tmp_path)
        here.service.run()
        asked.append(sum("container_" in text for text, _ in here.prometheus.asked))
    assert asked == [0, 4]


def test_a_ledger_that_another_replica_set_aside_is_opened_and_not_set_aside_again(tmp_path: Path) -> None:
    here, other = enforcing(tmp_path), enforcing(tmp_path)
    other.ledger.set_aside("it was corrupt", scenes.NOW)
    here.service.cycle()
    assert "replaced" in str(here.service.trouble)
    assert here.door.evictions == []
    report = here.report()
    assert report.run.mode == "Observe"
    assert len(list(tmp_path.glob("ledger.sqlite.corrupt-*[0-9]Z"))) == 1


@pytest.mark.parametrize("jump_seconds", [3600.0, -3600.0], ids=["forward", "back"])
def test_a_clock_that_jumps_makes_data_unusable_and_resets_no_cap(tmp_path: Path, jump_seconds: float) -> None:
    here = enforcing(tmp_path, limits={"perHour": 1}, **QUICK)
    here.service.run()
    here.clock.jump(jump_seconds)
    report = here.report()
    assert report.plan.nodes == ()
    here.clock.jump(10 - jump_seconds)
    again = here.report()
    assert set(scenes.causes(again.plan).values()) <= {"hour_cap", "in_flight"}
    assert [name for name, _, _ in here.door.evictions] == ["default/web-0"]


def test_who_asks_for_plans_without_pause_does_not_read_the_cluster_each_time(world: World) -> None:
    first = world.previews.plan()
    asked = len(world.prometheus.asked)
    world.clock.advance(1.0)
    assert world.previews.plan() is first
    assert len(world.prometheus.asked) == asked
    world.clock.advance(1.5)
    assert world.previews.plan() is not first
    world.reload("{mode: Observe}")
    assert world.previews.plan().run.mode == "Observe"


def test_a_run_of_the_loop_says_nothing_of_headroom_and_a_preview_does(world: World) -> None:
    world.service.cycle()
    assert world.last.plan.headroom.destinations == ()
    assert [name for name, _ in world.previews.plan().plan.headroom.destinations] == ["cool"]


def test_pods_of_a_node_that_is_gone_leave_the_others_their_judgement(tmp_path: Path) -> None:
    scene = scenes.Scene().node("hot", memory=0.9).node("gone", memory=0.9).node("cool")
    scene.workload("web", on=["hot", "cool"]).workload("left", on=["gone", "cool"])
    world = World(scene, tmp_path)
    world.report()
    world.show(dataclasses.replace(scene, nodes={name: scene.nodes[name] for name in ("hot", "cool")}))
    world.clock.advance(60)
    assert "web-0" in scenes.judged(world.report().plan)
