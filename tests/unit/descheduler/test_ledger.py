"""The ledger: rows survive kills and reopening, the past is counted by mode, later columns are filled."""

import dataclasses
import errno
import os
import pathlib
import sqlite3
import subprocess
import sys
from collections.abc import Iterator

import pytest

from descheduler.ledger import sql_schema
from descheduler.ledger.database import LedgerCorrupt, LedgerError
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import Query, RecordedEvent, Row, Run
from descheduler.planning.plans import Eviction
from descheduler.planning.predictions import LOOK_BACKS
from descheduler.snapshot.eviction_history import Failures, FlowHistory, Measured, PendingReplacement
from tests.unit.descheduler import ledger_files, scenes
from tests.unit.descheduler.scenes import NOW

DAY = 86400.0
ROOT = pathlib.Path(__file__).parents[3]


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
    row_id = ledger.intend(run(at_seconds, mode), eviction(name), at_seconds=at_seconds).row_id
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
    assert (row.expected_5m_ratio, row.expected_30m_ratio) == pytest.approx((0.775, 0.775))
    assert row.destination_ratio == pytest.approx(0.1 + 4 / 32)


LEARNT = {"gone_at_seconds": NOW, "ready_at_seconds": NOW, **dict.fromkeys(LOOK_BACKS, 0.5)}


def test_what_is_unfinished_is_read_anew_after_every_change(ledger: Ledger, tmp_path: pathlib.Path) -> None:
    first, second = record(ledger, "evicted"), record(ledger, "evicted", at_seconds=NOW + 60)

    def unfinished(since_seconds: float = NOW) -> list[int]:
        return [row.id for row in ledger.unfinished(since_seconds)]

    assert unfinished() == [first, second]
    assert unfinished(NOW + 1) == [second]
    ledger.fill(second, **LEARNT)
    assert unfinished() == [first]
    other = Ledger(tmp_path / "ledger.sqlite").open()
    other.fill(first, **LEARNT)
    assert unfinished() == [], "another replica wrote while it led"
    third = record(other, "evicted", at_seconds=NOW - 60)
    other.close()
    assert unfinished(NOW - 30) == []
    assert unfinished(NOW - 90) == [third], "a clock that is set back asks for more than is known"


def test_what_is_unfinished_comes_oldest_first(ledger: Ledger) -> None:
    later, sooner = (record(ledger, "evicted", at_seconds=NOW + seconds) for seconds in (60, 0))
    record(ledger, "refused")
    assert [row.id for row in ledger.unfinished(NOW)] == [sooner, later]


def test_another_file_has_other_rows(ledger: Ledger) -> None:
    record(ledger, "evicted")
    assert ledger.unfinished(NOW)
    ledger.set_aside("a test", at_seconds=NOW)
    assert ledger.unfinished(NOW) == []


def test_an_intent_is_on_disk_before_anything_else_happens(ledger: Ledger, tmp_path: pathlib.Path) -> None:
    ledger.intend(run(), eviction(), at_seconds=NOW)
    with sqlite3.connect(tmp_path / "ledger.sqlite") as other:
        assert other.execute("SELECT result FROM evictions").fetchall() == [("intended",)]


@pytest.mark.parametrize("result", ["intended", "unknown", "evicted", "evicted_unconfirmed"])
def test_a_pod_whose_eviction_is_open_or_accepted_is_refused_whoever_asks(
    ledger: Ledger, tmp_path: pathlib.Path, result: str
) -> None:
    first = record(ledger, result)
    other = Ledger(tmp_path / "ledger.sqlite").open()
    row_id, refusal = other.intend(run(NOW + 60), eviction(), at_seconds=NOW + 60)
    assert refusal == f"row {first} of run {run().run} has this pod's eviction already ({result})"
    refused = other.rows(Query(limit=1))[0]
    assert (refused.id, refused.result, refused.message) == (row_id, "not_done", refusal)
    assert refused.decided_at_seconds == NOW + 60
    assert not other.intend(run(mode="DryRun"), eviction(), at_seconds=NOW).refusal, "modes do not count for another"
    other.close()


@pytest.mark.parametrize("result", ["refused", "failed", "gone", "replaced", "not_done"])
def test_a_pod_whose_eviction_came_to_nothing_may_be_asked_for_again(ledger: Ledger, result: str) -> None:
    record(ledger, result)
    assert not ledger.intend(run(), eviction(), at_seconds=NOW).refusal


def die(path: str) -> None:
    """End this process, as kill -9 does, between an intent and the outcome that is being written."""
    ledger = Ledger(pathlib.Path(path)).open()
    ledger.intend(run(), eviction(), at_seconds=NOW)
    with ledger._file.written() as writer:  # killed inside the transaction that writes the outcome
        writer.execute("UPDATE evictions SET result = 'evicted'")
        os._exit(9)


def test_a_process_killed_inside_a_transaction_leaves_the_intent_and_nothing_half(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ledger.sqlite"
    program = "import sys; from tests.unit.descheduler import test_ledger as tests; tests.die(sys.argv[1])"
    assert subprocess.run([sys.executable, "-c", program, str(path)], cwd=ROOT, check=False).returncode == 9
    ledger = Ledger(path).open()
    assert [row.result for row in ledger.open_rows()] == ["intended"]
    with sqlite3.connect(path) as other:
        assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    ledger.close()


def test_the_past_counts_what_was_done_and_what_may_have_been(ledger: Ledger) -> None:
    for result in ("evicted", "unknown", "evicted_unconfirmed", "refused", "gone", "not_done"):
        record(ledger, result, at_seconds=NOW - 60)
    record(ledger, "in_progress", at_seconds=NOW - 60)
    record(ledger, "evicted", at_seconds=NOW - 3700)
    history = ledger.history("Enforce", now_seconds=NOW, window_seconds=DAY)
    assert history.in_last_hour == 4
    assert history.undecided == {"uid-web"}
    assert history.last_by_workload == {"uid-web": NOW - 60}
    assert history.last_by_node == {"hot": NOW - 60}


def test_the_past_counts_from_the_intent_and_not_from_the_start_of_its_run(ledger: Ledger) -> None:
    for began_seconds, stalled_seconds in ((NOW - 3610, 20), (NOW - 10, 3)):
        at_seconds = began_seconds + stalled_seconds
        done = ledger.intend(run(began_seconds), eviction(), at_seconds=at_seconds).row_id
        ledger.decide(done, "evicted", status=201, message="", at_seconds=at_seconds)
    failed = ledger.intend(run(NOW - 10), eviction("api"), at_seconds=NOW - 6).row_id
    ledger.decide(failed, "failed", status=403, message="", at_seconds=NOW - 5)
    history = ledger.history("Enforce", now_seconds=NOW, window_seconds=0.0)
    assert history.in_last_hour == ledger.in_last_hour("Enforce", now_seconds=NOW) == 2
    assert history.last_by_workload == {"uid-web": NOW - 7}
    assert history.last_by_node == {"hot": NOW - 7}
    assert history.in_vain["uid-api-0"] == history.failures["uid-api"] == Failures(1, NOW - 6)


def test_a_replacement_that_landed_is_known_by_what_the_evicted_pod_used(ledger: Ledger) -> None:
    row_id = record(ledger, "evicted")
    record(ledger, "evicted", name="api")
    ledger.fill(row_id, landed_pod="uid-web-9")
    landed = ledger.history("Enforce", now_seconds=NOW, window_seconds=0.0).landed
    assert landed == {"uid-web-9": Measured(500.0, 4 * scenes.GIB, "memory_avg_5m", 0.9 - 0.775)}


def test_what_a_node_showed_after_its_evictions_is_known_for_a_day(ledger: Ledger) -> None:
    record(ledger, "evicted", at_seconds=NOW - DAY - 60)
    row_id = record(ledger, "evicted", at_seconds=NOW - 600)
    ledger.fill(row_id, gone_at_seconds=NOW - 590, load_5m_ratio=0.88)
    (one,) = ledger.history("Enforce", now_seconds=NOW, window_seconds=0.0).relieved["hot"]
    assert (one.metric, one.before_ratio, one.gone_at_seconds) == ("memory_avg_5m", 0.9, NOW - 590)
    assert one.share_ratio == pytest.approx(0.125)
    assert one.looks == ((NOW - 300, 0.88), (NOW + 1200, None))


def test_an_eviction_awaits_its_replacement_for_a_day(ledger: Ledger) -> None:
    for mode, result in (("Enforce", "evicted"), ("Enforce", "unknown"), ("Enforce", "refused"), ("DryRun", "dry_run")):
        record(ledger, result, at_seconds=NOW - 60, mode=mode)
    record(ledger, "evicted", at_seconds=NOW - DAY + 60)
    replaced = record(ledger, "evicted")
    record(ledger, "evicted", at_seconds=NOW - DAY - 60)
    ledger.fill(replaced, ready_at_seconds=NOW)
    history = ledger.history("Enforce", now_seconds=NOW, window_seconds=0.0)
    awaited = PendingReplacement("default", "ReplicaSet/web", "uid-web", NOW - 60)
    assert history.awaited == (awaited._replace(at_seconds=NOW - DAY + 60), awaited, awaited)
    assert ledger.history("DryRun", now_seconds=NOW, window_seconds=0.0).awaited == ()


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


def test_an_accepted_dry_run_ends_the_failures_of_dry_runs(ledger: Ledger) -> None:
    for offset, result in enumerate(["refused", "dry_run", "refused"]):
        record(ledger, result, at_seconds=NOW + offset, mode="DryRun")
    history = ledger.history("DryRun", now_seconds=NOW + 9, window_seconds=DAY)
    assert history.failures == {"uid-web": Failures(1, NOW + 2)}


@pytest.mark.parametrize("result", ["refused", "failed", "gone", "replaced"])
def test_evictions_in_vain_count_by_pod_until_a_reset(ledger: Ledger, result: str) -> None:
    for offset in range(3):
        record(ledger, result, at_seconds=NOW + offset)
    history = ledger.history("Enforce", now_seconds=NOW + 9, window_seconds=DAY)
    assert history.in_vain == {"uid-web-0": Failures(3, NOW + 2)}
    ledger.reset_breaker("uid-web", NOW + 5)
    assert ledger.history("Enforce", now_seconds=NOW + 9, window_seconds=DAY).in_vain == {}


def test_what_passed_a_flow_rule_is_remembered_with_what_is_in_flight(ledger: Ledger) -> None:
    chosen = dataclasses.replace(eviction(), flow="abc")
    for result in ("evicted", "refused"):
        row_id = ledger.intend(run(), chosen, at_seconds=NOW + 1).row_id
        ledger.decide(row_id, result, status=201, message="", at_seconds=NOW + 2)
    history = ledger.history("Enforce", now_seconds=NOW + 9, window_seconds=DAY)
    assert history.flow == {"abc": FlowHistory((NOW + 1,), frozenset({"uid-web"}))}
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


def test_a_run_that_evicts_nothing_says_why(ledger: Ledger, tmp_path: pathlib.Path) -> None:
    plan = scenes.Scene().node("hot", memory=0.9).node("cool").pod("bare", "hot", owner=None).plan()
    ledger.record_run(run(), plan, plan.summary(verb="evicted"))
    assert ledger_files.last_summary(tmp_path / "ledger.sqlite") == "0 evicted: 1 protected"


NO_DATABASE = b"this is not a database, and long enough to look like one" * 200


def overwritten(path: pathlib.Path, at_bytes: int, with_bytes: bytes) -> None:
    """What a bad disk does: other bytes in the middle of the file."""
    with path.open("r+b") as file:
        file.seek(at_bytes)
        file.write(with_bytes)


def a_thousand_rows(path: pathlib.Path) -> None:
    """A closed ledger of many pages."""
    ledger = Ledger(path).open()
    for number in range(1000):
        ledger.tell(RecordedEvent(NOW, "NodeOverloaded", 0, "Pod", "default", f"web-{number}", "Node/hot", "x" * 200))
    ledger.close()


def test_a_file_that_is_no_ledger_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(NO_DATABASE)
    with pytest.raises(LedgerCorrupt, match=r"ledger\.sqlite.*--ledger"):
        Ledger(path).open()


def test_a_corrupt_file_is_set_aside_at_start_and_the_new_one_knows_it(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ledger.sqlite"
    a_thousand_rows(path)
    broken = path.stat().st_size // 2
    overwritten(path, broken, b"\xff" * 8192)
    ledger = Ledger(path)
    moved_to = ledger.open_or_set_aside(at_seconds=NOW)
    assert moved_to == tmp_path / "ledger.sqlite.corrupt-2026-11-21T040000Z"
    assert moved_to.read_bytes()[broken : broken + 4] == b"\xff" * 4, "it is kept for people to look at"
    record(ledger, "evicted")
    assert ledger.set_aside_at_seconds() == NOW
    ledger.close()
    again = Ledger(path)
    assert again.open_or_set_aside(at_seconds=NOW + 9) is None
    assert (again.set_aside_at_seconds(), len(again.rows(Query()))) == (NOW, 1)
    again.close()


def test_a_second_corrupt_file_of_the_same_second_overwrites_no_copy(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ledger.sqlite"
    copies = []
    for content in (NO_DATABASE, NO_DATABASE + b"another"):
        path.write_bytes(content)
        ledger = Ledger(path)
        copies.append(ledger.open_or_set_aside(at_seconds=NOW))
        ledger.close()
    assert [copy.read_bytes() for copy in copies if copy] == [NO_DATABASE, NO_DATABASE + b"another"]


def test_a_file_that_another_replica_has_replaced_is_opened_and_not_set_aside_again(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ledger.sqlite"
    first, second = Ledger(path).open(), Ledger(path).open()
    assert first.set_aside("malformed", at_seconds=NOW) is not None
    record(first, "evicted")
    assert second.set_aside("malformed", at_seconds=NOW + 1) is None
    assert [row.result for row in second.rows(Query())] == ["evicted"]
    record(second, "refused")
    assert len(first.rows(Query())) == 2
    first.close()
    second.close()


def test_a_sound_file_is_opened_as_it_is(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ledger.sqlite"
    a_thousand_rows(path)
    ledger = Ledger(path)
    assert ledger.open_or_set_aside(at_seconds=NOW) is None
    assert ledger.set_aside_at_seconds() is None
    assert len(ledger.events(limit=2000)) == 1000
    ledger.close()


def test_a_write_ahead_log_never_plays_into_the_next_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path).open()
    record(ledger, "evicted")
    assert (tmp_path / "ledger.sqlite-wal").stat().st_size > 0
    ledger.set_aside("the test says so", at_seconds=NOW)
    assert ledger.rows(Query()) == []
    with sqlite3.connect(tmp_path / "ledger.sqlite") as other:
        assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    ledger.close()


def test_a_file_removed_while_it_is_open_is_noticed_before_a_row_is_lost(
    ledger: Ledger, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "ledger.sqlite").unlink()
    with pytest.raises(LedgerCorrupt, match="was removed"):
        ledger.intend(run(), eviction(), at_seconds=NOW)
    with pytest.raises(LedgerCorrupt):
        ledger.rows(Query())


def test_a_full_disk_is_no_corruption(ledger: Ledger) -> None:
    with ledger._file.written() as writer:
        pages = writer.execute("PRAGMA page_count").fetchone()[0]
    with ledger._file.written() as writer:
        writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LedgerError, match="full") as caught:
        ledger.tell(RecordedEvent(NOW, "NodeOverloaded", 0, "Pod", "default", "web-0", "", "x" * 100_000))
    assert not isinstance(caught.value, LedgerCorrupt)


def test_a_ledger_of_the_first_version_is_brought_to_this_one_with_its_rows(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ledger.sqlite"
    columns = [name for name in Row._fields if name in sql_schema.STEPS[0]]
    with sqlite3.connect(path) as old:
        old.executescript(f"{sql_schema.STEPS[0]} PRAGMA user_version = 1;")
        values = [NOW if name.endswith("_seconds") else 1 for name in columns]
        old.execute(f"INSERT INTO evictions ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})", values)  # noqa: S608
    old.close()
    ledger = Ledger(path).open()
    assert [row.at_seconds for row in ledger.rows(Query())] == [NOW]
    ledger.tell(RecordedEvent(NOW, "NodeOverloaded", 0, "Pod", "default", "web-0", "", "a note"))
    assert [one.note for one in ledger.events()] == ["a note"]
    ledger.close()


def test_a_ledger_of_the_version_before_keeps_its_rows_without_a_prediction(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with sqlite3.connect(path) as old:
        for step in sql_schema.STEPS[:4]:
            old.executescript(step)
        before = {name for _, name, *_ in old.execute("PRAGMA table_info(evictions)")}
        columns = [name for name in Row._fields if name in before]
        marks = ", ".join("?" * len(columns))
        old.execute(f"INSERT INTO evictions ({', '.join(columns)}) VALUES ({marks})", [1] * len(columns))  # noqa: S608
        old.execute("PRAGMA user_version = 4")
    old.close()
    ledger = Ledger(path).open()
    (row,) = ledger.rows(Query())
    assert (row.load_30m_ratio, row.expected_30m_ratio, row.moved_30m_ratio) == (1, None, None)
    record(ledger, "evicted")
    assert ledger.rows(Query())[0].expected_30m_ratio == pytest.approx(0.775)
    ledger.close()


def test_old_rows_go_and_open_intents_stay(ledger: Ledger) -> None:
    for result, at_seconds in (("evicted", NOW - DAY), ("intended", NOW - DAY), ("evicted", NOW)):
        record(ledger, result, at_seconds=at_seconds)
        ledger.tell(RecordedEvent(at_seconds, "NodeOverloaded", 0, "Node", "", "hot", "", ""))
    assert ledger.prune(NOW - 60) == 1
    assert [(row.result, row.at_seconds) for row in ledger.rows(Query())] == [("evicted", NOW), ("intended", NOW - DAY)]
    assert [one.at_seconds for one in ledger.events()] == [NOW]


def test_events_are_found_by_time_and_object(ledger: Ledger) -> None:
    for at_seconds, name in ((NOW - 60, "hot"), (NOW, "cool")):
        ledger.tell(RecordedEvent(at_seconds, "NodeOverloaded", 1, "Node", "", name, "", "a note"))
    assert [one.name for one in ledger.events()] == ["cool", "hot"]
    assert [one.name for one in ledger.events(since_seconds=NOW)] == ["cool"]
    assert [one.at_seconds for one in ledger.events(name="hot")] == [NOW - 60]


def test_a_ledger_of_a_newer_version_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ledger.sqlite"
    Ledger(path).open().close()
    with sqlite3.connect(path) as other:
        other.execute(f"PRAGMA user_version = {len(sql_schema.STEPS) + 1}")
    with pytest.raises(LedgerError, match=f"schema version {len(sql_schema.STEPS) + 1}"):
        Ledger(path).open()


def test_a_file_system_without_locks_is_refused_with_the_next_step(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(LedgerError, match=r"ledger\.sqlite\.lock cannot be locked: give a file on a local disk"):
        Ledger(tmp_path / "ledger.sqlite").open()


def test_every_write_is_synced_to_disk(ledger: Ledger) -> None:
    with ledger._file.written() as writer:
        assert writer.execute("PRAGMA synchronous").fetchone() == (2,)
        assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_ledger_of_ones_own_reads_what_was_just_written(tmp_path: pathlib.Path) -> None:
    opened = Ledger(tmp_path / "ledger.sqlite", alone=True).open()
    assert opened.rows(Query()) == []
    record(opened, "evicted")
    assert [row.result for row in opened.rows(Query())] == ["evicted"]
    opened.close()
    assert [row.result for row in Ledger(tmp_path / "ledger.sqlite").open().rows(Query())] == ["evicted"]
