"""The ledger: rows survive kills and reopening, the past is counted by mode, later columns are filled."""

import dataclasses
import multiprocessing
import os
import pathlib
import sqlite3
from collections.abc import Iterator

import pytest

from descheduler import schema_sql
from descheduler.history import Failures, Passed
from descheduler.ledger import Ledger, LedgerError, Query, Run
from descheduler.planning import Eviction
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW

DAY = 86400.0


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[Ledger]:
    """An open, empty ledger."""
    opened = Ledger(tmp_path / "ledger.sqlite").open()
    yield opened
    opened.close()


def eviction(name: str = "web", node: str = "hot") -> Eviction:
    """A planned eviction of `<name>-0` from `node`."""
    scene = scenes.Scene().node(node, memory=0.9).node("cool").workload(name, on=[node, node, "cool"])
    return scene.plan().evictions[0]


def run(at_seconds: float = NOW, mode: str = "Enforce") -> Run:
    """A run of that moment."""
    return Run(f"run-{at_seconds:.0f}", at_seconds, mode, "abc123")


def record(ledger: Ledger, result: str, *, at_seconds: float = NOW, name: str = "web", mode: str = "Enforce") -> int:
    """One eviction with its outcome."""
    row_id = ledger.intend(run(at_seconds, mode), eviction(name), at_seconds=at_seconds)
    ledger.decide(row_id, result, status=201, message="", at_seconds=at_seconds)
    return row_id


def test_a_row_says_all_that_was_decided(ledger: Ledger) -> None:
    record(ledger, "evicted")
    row = ledger.rows(Query())[0]
    assert (row.namespace, row.pod, row.pod_uid, row.node) == ("default", "web-0", "uid-web-0", "hot")
    assert (row.workload, row.workload_uid, row.owner_uid) == ("ReplicaSet/web", "uid-web", "uid-web")
    assert (row.metric, row.value_ratio, row.threshold_ratio, row.target_ratio) == ("memory_avg_5m", 0.9, 0.8, 0.6)
    assert (row.mode, row.policy_hash, row.result, row.http_status) == ("Enforce", "abc123", "evicted", 201)
    assert row.projected_ratio == pytest.approx(0.775)


def test_an_intent_is_on_disk_before_anything_else_happens(ledger: Ledger, tmp_path: pathlib.Path) -> None:
    ledger.intend(run(), eviction(), at_seconds=NOW)
    with sqlite3.connect(tmp_path / "ledger.sqlite") as other:
        assert other.execute("SELECT result FROM evictions").fetchall() == [("intended",)]


def _die_after_intent(path: pathlib.Path) -> None:
    ledger = Ledger(path).open()
    ledger.intend(run(), eviction(), at_seconds=NOW)
    with ledger._written() as writer:  # killed inside the transaction that writes the outcome
        writer.execute("UPDATE evictions SET result = 'evicted'")
        os._exit(9)


def test_a_process_killed_inside_a_transaction_leaves_the_intent_and_nothing_half(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ledger.sqlite"
    victim = multiprocessing.get_context("spawn").Process(target=_die_after_intent, args=(path,))
    victim.start()
    victim.join(60)
    assert victim.exitcode == 9
    ledger = Ledger(path).open()
    assert [row.result for row in ledger.open_rows()] == ["intended"]
    with sqlite3.connect(path) as other:
        assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    ledger.close()


def test_the_past_counts_what_was_done_and_what_may_have_been(ledger: Ledger) -> None:
    for result in ("evicted", "unknown", "evicted_unconfirmed", "refused", "gone", "not_done"):
        record(ledger, result, at_seconds=NOW - 60)
    record(ledger, "evicted", at_seconds=NOW - 3700)
    history = ledger.history("Enforce", now_seconds=NOW, window_seconds=DAY)
    assert history.in_last_hour == 3
    assert history.last_by_workload == {"uid-web": NOW - 60}
    assert history.last_by_node == {"hot": NOW - 60}


def test_rows_of_another_mode_do_not_count(ledger: Ledger) -> None:
    record(ledger, "dry_run", mode="DryRun")
    assert ledger.history("Enforce", now_seconds=NOW, window_seconds=DAY).in_last_hour == 0
    assert ledger.history("DryRun", now_seconds=NOW, window_seconds=DAY).in_last_hour == 1


def test_failures_in_a_row_end_with_a_success_or_a_reset(ledger: Ledger) -> None:
    for offset, result in enumerate(["failed", "evicted", "failed", "refused"]):
        record(ledger, result, at_seconds=NOW + offset)
    assert ledger.history("Enforce", now_seconds=NOW + 9, window_seconds=DAY).failures == {
        "uid-web": Failures(2, NOW + 3)
    }
    ledger.reset_breaker("uid-web", NOW + 4)
    assert ledger.history("Enforce", now_seconds=NOW + 9, window_seconds=DAY).failures == {}
    record(ledger, "failed", at_seconds=NOW + 5)
    ledger.reset_breaker("", NOW + 6)
    assert ledger.history("Enforce", now_seconds=NOW + 9, window_seconds=DAY).failures == {}


def test_failures_outlive_every_window_and_end_by_success_or_reset_only(ledger: Ledger) -> None:
    for day in range(8):
        record(ledger, "failed", at_seconds=NOW - (90 - day) * DAY)
    history = ledger.history("Enforce", now_seconds=NOW, window_seconds=DAY)
    assert history.failures == {"uid-web": Failures(8, NOW - 83 * DAY)}
    ledger.reset_breaker("", NOW)
    assert ledger.history("Enforce", now_seconds=NOW, window_seconds=DAY).failures == {}


def test_a_5xx_after_which_the_pod_still_stood_is_a_failure(ledger: Ledger) -> None:
    for status in (500, 503, 429, None):
        row_id = record(ledger, "unknown")
        ledger.decide(row_id, "not_done", status=status, message="", at_seconds=NOW)
    assert ledger.history("Enforce", now_seconds=NOW, window_seconds=DAY).failures == {"uid-web": Failures(2, NOW)}


def test_an_accepted_dry_run_ends_the_failures_of_dry_runs(ledger: Ledger) -> None:
    for offset, result in enumerate(["refused", "dry_run", "refused"]):
        record(ledger, result, at_seconds=NOW + offset, mode="DryRun")
    history = ledger.history("DryRun", now_seconds=NOW + 9, window_seconds=DAY)
    assert history.failures == {"uid-web": Failures(1, NOW + 2)}


def test_refusals_count_by_pod_until_a_reset(ledger: Ledger) -> None:
    for offset in range(3):
        record(ledger, "refused", at_seconds=NOW + offset)
    history = ledger.history("Enforce", now_seconds=NOW + 9, window_seconds=DAY)
    assert history.refusals == {"uid-web-0": Failures(3, NOW + 2)}
    ledger.reset_breaker("uid-web", NOW + 5)
    assert ledger.history("Enforce", now_seconds=NOW + 9, window_seconds=DAY).refusals == {}


def test_what_passed_a_flow_rule_is_remembered_with_what_is_in_flight(ledger: Ledger) -> None:
    chosen = dataclasses.replace(eviction(), flow="abc")
    for result in ("evicted", "refused"):
        row_id = ledger.intend(run(), chosen, at_seconds=NOW + 1)
        ledger.decide(row_id, result, status=201, message="", at_seconds=NOW + 2)
    history = ledger.history("Enforce", now_seconds=NOW + 9, window_seconds=DAY)
    assert history.flow == {"abc": Passed((NOW + 1,), frozenset({"uid-web"}))}
    ledger.fill(1, ready_at_seconds=NOW + 5)
    assert ledger.history("Enforce", now_seconds=NOW + 9, window_seconds=DAY).flow["abc"].in_flight == frozenset()


def test_a_replacement_not_ready_yet_keeps_its_workload_in_flight(ledger: Ledger) -> None:
    row_id = record(ledger, "evicted")
    assert ledger.history("Enforce", now_seconds=NOW + 1, window_seconds=DAY).in_flight == {"uid-web"}
    ledger.fill(row_id, landed_pod="uid-new", landed_node="cool", ready_at_seconds=NOW + 5, returned=0)
    assert ledger.history("Enforce", now_seconds=NOW + 9, window_seconds=DAY).in_flight == frozenset()


def test_returns_count_inside_their_window(ledger: Ledger) -> None:
    for at_seconds in (NOW - 100, NOW - 5000):
        ledger.fill(record(ledger, "evicted", at_seconds=at_seconds), returned=1)
    assert ledger.history("Enforce", now_seconds=NOW, window_seconds=4000).returned == {"uid-web": 1}


def test_a_departed_pod_echoes_from_when_it_was_seen_to_be_gone(ledger: Ledger) -> None:
    row_id = record(ledger, "evicted")
    ledger.fill(row_id, gone_at_seconds=NOW + 30)
    departed = ledger.history("Enforce", now_seconds=NOW + 60, window_seconds=DAY).departed
    assert [(one.node, one.uid, one.gone_at_seconds) for one in departed] == [("hot", "uid-web-0", NOW + 30)]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        pytest.param(Query(), ["b-0", "a-0"], id="all, newest first"),
        pytest.param(Query(since_seconds=NOW + 5), ["b-0"], id="since"),
        pytest.param(Query(workload="a"), ["a-0"], id="by the workload's name"),
        pytest.param(Query(workload="ReplicaSet/a"), ["a-0"], id="by kind and name"),
        pytest.param(Query(workload="uid-b"), ["b-0"], id="by uid"),
        pytest.param(Query(outcome="refused"), ["b-0"], id="by outcome"),
        pytest.param(Query(namespace="other"), [], id="by namespace"),
        pytest.param(Query(node="hot", limit=1), ["b-0"], id="by node, limited"),
    ],
)
def test_queries(ledger: Ledger, query: Query, names: list[str]) -> None:
    record(ledger, "evicted", name="a")
    record(ledger, "refused", name="b", at_seconds=NOW + 10)
    assert [row.pod for row in ledger.rows(query)] == names


def test_a_run_that_evicts_nothing_says_why(ledger: Ledger) -> None:
    plan = scenes.Scene().node("hot", memory=0.9).node("cool").pod("bare", "hot", owner=None).plan()
    ledger.record_run(run(), plan, plan.summary(verb="evicted"))
    assert ledger.last_summary() == "0 evicted: 1 protected"


def test_a_file_that_is_no_ledger_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_text("this is not a database, and long enough to look like one" * 20)
    with pytest.raises(LedgerError, match=r"ledger\.sqlite.*--ledger"):
        Ledger(path).open()


def test_a_ledger_of_a_newer_version_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ledger.sqlite"
    Ledger(path).open().close()
    with sqlite3.connect(path) as other:
        other.execute(f"PRAGMA user_version = {len(schema_sql.STEPS) + 1}")
    with pytest.raises(LedgerError, match=f"schema version {len(schema_sql.STEPS) + 1}"):
        Ledger(path).open()


def test_every_write_is_synced_to_disk(ledger: Ledger) -> None:
    with ledger._written() as writer:
        assert writer.execute("PRAGMA synchronous").fetchone() == (2,)
        assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
