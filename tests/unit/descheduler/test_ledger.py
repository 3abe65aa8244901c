"""The ledger: rows survive kills and reopening, the past is counted by mode, later columns are filled."""

import concurrent.futures
import contextlib
import dataclasses
import errno
import json
import os
import pathlib
import sqlite3
import subprocess
import sys

import pytest

from descheduler.ledger import sql_schema
from descheduler.ledger.database import LedgerCorrupt, LedgerError, LedgerReplaced
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import OPEN, Query, RecordedEvent, Row, Run
from descheduler.planning.departed_load import LOOK_BACKS
from descheduler.planning.plans import Eviction
from descheduler.snapshot.eviction_history import Failures
from tests.unit.descheduler import ledger_files, scenes
from tests.unit.descheduler.scenes import NOW

DAY = 86400.0
ROOT = pathlib.Path(__file__).parents[3]


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


def refused(path: pathlib.Path, text: str, kind: type[LedgerError] = LedgerError) -> pytest.RaisesExc[LedgerError]:
    """Expects an error of this very kind with this sentence after the file's name."""
    sentence = f"ledger {path}{text}"
    return pytest.raises(kind, check=lambda error: type(error) is kind and str(error) == sentence)


def test_a_row_says_all_that_was_decided(ledger: Ledger) -> None:
    chosen = dataclasses.replace(eviction(), flow="team=a", newest_sibling_at_seconds=NOW - 9)
    row_id = ledger.intend(run(), chosen, at_seconds=NOW + 1).row_id
    ledger.decide(row_id, "evicted", status=201, message="a note", at_seconds=NOW + 2)
    (row,) = ledger.rows(Query())
    assert tuple(round(value, 9) if isinstance(value, float) else value for value in row) == Row(
        id=row_id, run=run().run, at_seconds=NOW, mode="Enforce", policy_hash="abc123", namespace="default",
        pod="web-0", pod_uid="uid-web-0", owner_uid="uid-web", workload="ReplicaSet/web", workload_uid="uid-web",
        node="hot", metric="memory_avg_5m", value_ratio=0.9, threshold_ratio=0.8, target_ratio=0.6, before_ratio=0.9,
        projected_ratio=0.775, cpu_millicores=500.0, memory_bytes=4 * scenes.GIB, destination="cool",
        result="evicted", intended_at_seconds=NOW + 1, http_status=201, message="a note",
        decided_at_seconds=NOW + 2, gone_at_seconds=None, landed_pod=None, landed_node=None, landed_at_seconds=None,
        ready_at_seconds=None, load_5m_ratio=None, load_30m_ratio=None, returned=None, flow="team=a",
        newest_sibling_at_seconds=NOW - 9, expected_5m_ratio=0.775, expected_30m_ratio=0.775,
        destination_ratio=0.1 + 4 / 32,
    )  # fmt: skip


def test_a_bare_pod_has_no_owner_and_is_its_own_workload(ledger: Ledger) -> None:
    scene = scenes.Scene().node("hot", memory=0.9).node("cool").pod("bare", "hot", owner=None)
    (chosen,) = scene.plan(scenes.policy(protect={"bare": False})).evictions
    ledger.intend(run(), chosen, at_seconds=NOW)
    (row,) = ledger.rows(Query())
    assert (row.owner_uid, row.workload, row.workload_uid) == ("", "", "uid-bare")


LEARNT = {"gone_at_seconds": NOW, "ready_at_seconds": NOW, **dict.fromkeys(LOOK_BACKS, 0.5)}


def test_what_is_unfinished_is_read_anew_after_every_change(ledger: Ledger, path: pathlib.Path) -> None:
    first, second = record(ledger, "evicted"), record(ledger, "evicted", at_seconds=NOW + 60)

    def unfinished(since_seconds: float = NOW) -> list[int]:
        return [row.id for row in ledger.unfinished(since_seconds)]

    assert unfinished() == [first, second]
    assert unfinished(NOW + 1) == [second]
    ledger.fill(second, **LEARNT)
    assert unfinished() == [first]
    other = Ledger(path).open()
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
    ledger.set_aside("a test", NOW)
    assert ledger.unfinished(NOW) == []


@pytest.mark.parametrize("result", ["intended", "unknown", "evicted", "evicted_unconfirmed"])
def test_a_pod_whose_eviction_is_open_or_accepted_is_refused_whoever_asks(
    ledger: Ledger, path: pathlib.Path, result: str
) -> None:
    first = record(ledger, result)
    other = Ledger(path).open()
    row_id, refusal = other.intend(run(NOW + 60), eviction(), at_seconds=NOW + 60)
    assert refusal == f"row {first} of run {run().run} has this pod's eviction already ({result})"
    refused = other.rows(Query(limit=1))[0]
    assert (refused.id, refused.result, refused.message) == (row_id, "not_done", refusal)
    assert refused.decided_at_seconds == NOW + 60
    assert not other.intend(run(mode="DryRun"), eviction(), at_seconds=NOW).refusal, "modes do not count for another"
    other.close()
    record(ledger, "evicted", name="api")
    assert ledger.intend(run(), eviction(), at_seconds=NOW).refusal == refusal, "by the first row of its own pod"


@pytest.mark.parametrize("result", ["refused", "failed", "gone", "replaced", "not_done"])
def test_a_pod_whose_eviction_came_to_nothing_may_be_asked_for_again(ledger: Ledger, result: str) -> None:
    record(ledger, result)
    assert not ledger.intend(run(), eviction(), at_seconds=NOW).refusal


def die(path: str) -> None:
    """End this process, as kill -9 does, between an intent and the outcome that is being written."""
    ledger = Ledger(pathlib.Path(path)).open()
    ledger.intend(run(), eviction(), at_seconds=NOW)
    with ledger.written() as writer:  # killed inside the transaction that writes the outcome
        writer.execute("UPDATE evictions SET result = 'evicted'")
        os._exit(9)


def test_a_process_killed_inside_a_transaction_leaves_the_intent_and_nothing_half(path: pathlib.Path) -> None:
    program = "import sys; from tests.unit.descheduler import test_ledger as tests; tests.die(sys.argv[1])"
    assert subprocess.run([sys.executable, "-c", program, str(path)], cwd=ROOT, check=False).returncode == 9
    ledger = Ledger(path).open()
    assert [row.result for row in ledger.open_rows()] == ["intended"]
    with sqlite3.connect(path) as other:
        assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    ledger.close()


def test_pods_that_replaced_another_are_known_by_their_uids(ledger: Ledger) -> None:
    for landed_pod, at_seconds in (("uid-a", NOW - 60), ("uid-b", NOW), (None, NOW)):
        ledger.fill(record(ledger, "evicted", at_seconds=at_seconds), landed_pod=landed_pod)
    assert ledger.landed_pods(NOW) == {"uid-b"}
    assert ledger.landed_pods(NOW - 60) == {"uid-a", "uid-b"}


def test_rows_of_another_mode_do_not_count(ledger: Ledger) -> None:
    record(ledger, "dry_run", mode="DryRun")
    assert ledger.history("Enforce", now_seconds=NOW, window_seconds=DAY).in_last_hour == 0
    assert ledger.history("DryRun", now_seconds=NOW, window_seconds=DAY).in_last_hour == 1


def test_an_intent_of_the_last_day_counts_though_its_run_began_before(ledger: Ledger) -> None:
    ledger.intend(run(NOW - DAY - 60), eviction(), at_seconds=NOW - DAY + 60)
    (awaited,) = ledger.history("Enforce", now_seconds=NOW, window_seconds=0.0).awaited
    assert awaited.at_seconds == NOW - DAY + 60


def test_failures_outlive_every_window_and_end_by_success_or_reset_only(ledger: Ledger) -> None:
    for day in range(8):
        record(ledger, "failed", at_seconds=NOW - (90 - day) * DAY)
    ledger.reset_breaker("uid-web", NOW - 99 * DAY)
    history = ledger.history("Enforce", now_seconds=NOW, window_seconds=DAY)
    assert history.failures == {"uid-web": Failures(8, NOW - 83 * DAY)}
    ledger.reset_breaker("uid-web", NOW)
    assert ledger.history("Enforce", now_seconds=NOW, window_seconds=DAY).failures == {}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        pytest.param(Query(), ["b-0", "a-0"], id="all, newest first"),
        pytest.param(Query(since_seconds=NOW + 5), ["b-0"], id="since"),
        pytest.param(Query(workload="a"), ["a-0"], id="by the workload's name"),
        pytest.param(Query(workload="ReplicaSet/a"), ["a-0"], id="by kind and name"),
        pytest.param(Query(workload="uid-b"), ["b-0"], id="by uid"),
        pytest.param(Query(outcome="refused"), ["b-0"], id="by outcome"),
        pytest.param(Query(since_seconds=NOW + 10), ["b-0"], id="since its very moment"),
        pytest.param(Query(before_id=2), ["a-0"], id="the page after the second row"),
        pytest.param(Query(namespace="default"), ["b-0", "a-0"], id="by namespace"),
        pytest.param(Query(namespace="other"), [], id="by another namespace"),
        pytest.param(Query(node="cool"), [], id="by another node"),
        pytest.param(Query(node="hot", limit=1), ["b-0"], id="by node, limited"),
    ],
)
def test_queries(ledger: Ledger, query: Query, names: list[str]) -> None:
    record(ledger, "evicted", name="a")
    record(ledger, "refused", name="b", at_seconds=NOW + 10)
    assert [row.pod for row in ledger.rows(query)] == names


def test_a_run_that_evicts_nothing_says_why(ledger: Ledger, path: pathlib.Path) -> None:
    plan = scenes.Scene().node("hot", memory=0.9).node("cool").pod("bare", "hot", owner=None).plan()
    for summary in ("an earlier text", plan.summary(verb="evicted")):
        ledger.record_run(run(), plan, summary)
    (row,) = ledger_files.select(path, "SELECT * FROM runs")
    assert row[:6] == (run().run, NOW, "Enforce", "abc123", 0, "0 evicted: 1 protected")
    assert json.loads(str(row[6])) == {"hot": plan.nodes[0].summary}


RESTORE = "give another file with --ledger or restore it"
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


def test_a_corrupt_file_is_set_aside_at_start_and_the_new_one_knows_it(path: pathlib.Path) -> None:
    a_thousand_rows(path)
    broken = path.stat().st_size // 2
    overwritten(path, broken, b"\xff" * 8192)
    ledger = Ledger(path)
    moved_to = ledger.open_or_set_aside(NOW)
    assert moved_to == pathlib.Path(f"{path}.corrupt-2026-11-21T040000Z")
    assert moved_to.read_bytes()[broken : broken + 4] == b"\xff" * 4, "it is kept for people to look at"
    record(ledger, "evicted")
    assert ledger.set_aside_at_seconds() == NOW
    ledger.close()
    again = Ledger(path)
    assert again.open_or_set_aside(NOW + 9) is None
    assert (again.set_aside_at_seconds(), len(again.rows(Query()))) == (NOW, 1)
    again.close()


def test_a_second_corrupt_file_of_the_same_second_overwrites_no_copy(path: pathlib.Path) -> None:
    name = f"{path}.corrupt-2026-11-21T040000Z"
    pathlib.Path(f"{name}-3-wal").touch()
    for content, copy in ((NO_DATABASE, name), (NO_DATABASE + b"another", f"{name}-2"), (NO_DATABASE, f"{name}-4")):
        path.write_bytes(content)
        ledger = Ledger(path)
        assert ledger.open_or_set_aside(NOW) == pathlib.Path(copy)
        ledger.close()
        assert pathlib.Path(copy).read_bytes() == content
        cause = f"ledger {path}: file is not a database; {RESTORE}"
        assert ledger_files.select(path, "SELECT * FROM set_asides") == [(NOW, copy, cause)]


def test_a_corrupt_file_that_cannot_be_replaced_stays_where_it_is(path: pathlib.Path) -> None:
    new = pathlib.Path(f"{path}.new")
    path.write_bytes(NO_DATABASE)
    new.mkdir()
    sentence = f"cannot be replaced: [Errno 21] Is a directory: '{new}'; make room beside it or move it by hand"
    with refused(path, f" is corrupt and {sentence}"):
        Ledger(path).open_or_set_aside(NOW)
    assert path.read_bytes() == NO_DATABASE


def test_a_new_ledger_is_begun_in_spite_of_one_that_was_begun_before(path: pathlib.Path) -> None:
    for name in ("", ".new", ".new-wal", ".new-shm"):
        pathlib.Path(f"{path}{name}").write_bytes(NO_DATABASE)
    ledger = Ledger(path)
    assert ledger.open_or_set_aside(NOW) is not None
    assert ledger.rows(Query()) == []
    ledger.close()
    assert not list(path.parent.glob("*.new*"))


def test_a_new_ledger_has_its_place_also_after_a_power_cut(
    ledger: Ledger, path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    monkeypatch.setattr("os.fsync", lambda file: synced.append((os.fstat(file).st_ino, path.stat().st_ino)))
    ledger.set_aside("malformed", NOW)
    assert synced == [(path.parent.stat().st_ino, path.stat().st_ino)], "the directory, with the new file in it"


def test_beginning_again_sets_aside_what_is_corrupt_and_opens_what_is_sound(
    ledger: Ledger, path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"{path}.corrupt-2026-11-21T0400"
    ledger.begin_again(LedgerCorrupt("malformed"), at_seconds=NOW)
    assert ledger_files.select(path, "SELECT * FROM set_asides") == [(NOW, f"{name}00Z", "malformed")]
    record(ledger, "evicted")
    ledger.begin_again(LedgerReplaced("moved away and back"), at_seconds=NOW + 1)
    assert len(ledger.rows(Query())) == 1
    ledger.close()
    path.write_bytes(NO_DATABASE)
    ledger.begin_again(LedgerReplaced("another file"), at_seconds=NOW + 2)
    assert ledger.rows(Query()) == []
    lines = [vars(one)["msg"] for one in caplog.records]
    assert [(one["level"], one["event"], one["cause"], one.get("moved_to")) for one in lines] == [
        ("error", "ledger set aside, a new one begun", "malformed", f"{name}00Z"),
        ("warning", "ledger opened again", "moved away and back", None),
        ("error", "ledger set aside, a new one begun", "another file", f"{name}02Z"),
    ]


def test_a_file_that_another_replica_has_replaced_is_opened_and_not_set_aside_again(path: pathlib.Path) -> None:
    first, second = Ledger(path).open(), Ledger(path).open()
    assert first.set_aside("malformed", NOW) is not None
    record(first, "evicted")
    assert second.set_aside("malformed", NOW + 1) is None
    assert [row.result for row in second.rows(Query())] == ["evicted"]
    record(second, "refused")
    assert len(first.rows(Query())) == 2
    first.close()
    second.close()


def test_a_write_ahead_log_never_plays_into_the_next_file(path: pathlib.Path) -> None:
    ledger = Ledger(path).open()
    record(ledger, "evicted")
    assert pathlib.Path(f"{path}-wal").stat().st_size > 0
    ledger.set_aside("the test says so", NOW)
    assert ledger.rows(Query()) == []
    with sqlite3.connect(path) as other:
        assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    ledger.close()


def test_a_file_removed_while_it_is_open_is_noticed_before_a_row_is_lost(ledger: Ledger, path: pathlib.Path) -> None:
    path.unlink()
    with refused(path, " was removed while it was open", LedgerCorrupt):
        ledger.intend(run(), eviction(), at_seconds=NOW)
    with refused(path, ": unable to open database file; nothing can be read from it", LedgerCorrupt):
        ledger.rows(Query())


@pytest.mark.parametrize(("removed", "kind"), [(False, LedgerReplaced), (True, LedgerCorrupt)])
def test_a_file_that_is_not_open_is_to_be_opened_and_one_that_is_gone_to_be_begun(
    ledger: Ledger, path: pathlib.Path, *, removed: bool, kind: type[LedgerError]
) -> None:
    ledger.close()
    if removed:
        path.unlink()
    with refused(path, " is not open; the next run opens it", kind) as caught:
        ledger.intend(run(), eviction(), at_seconds=NOW)
    ledger.begin_again(caught.value, at_seconds=NOW)
    assert ledger.set_aside_at_seconds() == (NOW if removed else None)


def test_a_write_that_fails_leaves_nothing_half_and_the_next_one_goes_on(ledger: Ledger, path: pathlib.Path) -> None:
    row_id = record(ledger, "evicted")
    refusal = ": no such column: colour; nothing is evicted without a record"
    with refused(path, refusal), ledger.written() as writer:
        writer.execute("UPDATE evictions SET result = 'failed'")
        writer.execute("UPDATE evictions SET colour = 'red'")
    ledger.fill(row_id, landed_node="cool")
    assert [(row.result, row.landed_node) for row in ledger.rows(Query())] == [("evicted", "cool")]


def test_a_transaction_keeps_other_processes_from_writing_before_it_reads(ledger: Ledger, path: pathlib.Path) -> None:
    with contextlib.closing(sqlite3.connect(path, timeout=0)) as other:
        with ledger.written(), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.execute("BEGIN IMMEDIATE")


def test_threads_write_one_after_another(ledger: Ledger, path: pathlib.Path) -> None:
    uids = [f"uid-{number}" for number in range(200)]
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda uid: ledger.open().reset_breaker(uid, NOW), uids))
    rows = ledger_files.select(path, "SELECT workload_uid FROM breaker_resets")
    assert sorted(str(uid) for (uid,) in rows) == sorted(uids)


def test_a_file_of_any_name_is_read_without_a_right_to_write(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = pathlib.Path("new/a?mode=rwc#b%20c d/ledger.sqlite")
    ledger = Ledger(path).open()
    record(ledger, "evicted")
    assert len(ledger.rows(Query())) == 1
    readonly = ": attempt to write a readonly database; nothing can be read from it"
    with refused(path, readonly), ledger.reading() as reader:
        reader.execute("DELETE FROM evictions")
    ledger.close()


def test_a_full_disk_is_no_corruption(ledger: Ledger, path: pathlib.Path) -> None:
    with ledger.written() as writer:
        pages = writer.execute("PRAGMA page_count").fetchone()[0]
    with ledger.written() as writer:
        writer.execute(f"PRAGMA max_page_count = {pages}")
    with refused(path, ": database or disk is full; nothing is evicted without a record"):
        ledger.tell(RecordedEvent(NOW, "NodeOverloaded", 0, "Pod", "default", "web-0", "", "x" * 100_000))


def older(path: pathlib.Path, *, version: int) -> None:
    """A ledger of an earlier version with a row in which everything is 1."""
    with contextlib.closing(sqlite3.connect(path)) as old, old:
        old.executescript(f"{' '.join(sql_schema.STEPS[:version])} PRAGMA user_version = {version};")
        columns = [name for _, name, *_ in old.execute("PRAGMA table_info(evictions)") if name in Row._fields]
        old.execute(f"INSERT INTO evictions ({', '.join(columns)}) VALUES ({', '.join('1' * len(columns))})")  # noqa: S608


def test_a_ledger_of_the_first_version_is_brought_to_this_one_with_its_rows(path: pathlib.Path) -> None:
    older(path, version=1)
    ledger = Ledger(path).open()
    assert [row.at_seconds for row in ledger.rows(Query())] == [1]
    ledger.tell(RecordedEvent(NOW, "NodeOverloaded", 0, "Pod", "default", "web-0", "", "a note"))
    assert [one.note for one in ledger.events()] == ["a note"]
    ledger.close()


def test_a_ledger_of_the_version_before_keeps_its_rows_without_a_prediction(path: pathlib.Path) -> None:
    older(path, version=4)
    ledger = Ledger(path).open()
    (row,) = ledger.rows(Query())
    assert (row.load_30m_ratio, row.expected_30m_ratio, row.moved_30m_ratio) == (1, None, None)
    record(ledger, "evicted")
    assert ledger.rows(Query())[0].expected_30m_ratio == pytest.approx(0.775)
    ledger.close()


def test_old_rows_go_and_open_intents_stay(ledger: Ledger, path: pathlib.Path) -> None:
    for at_seconds in (NOW - 61, NOW - 60):
        for result in ("evicted", "intended", "unknown", "in_progress"):
            record(ledger, result, at_seconds=at_seconds, name=result)
        ledger.tell(RecordedEvent(at_seconds, "NodeOverloaded", 0, "Node", "", "hot", "", ""))
        ledger.record_run(run(at_seconds), scenes.Scene().plan(), "")
        ledger.reset_breaker("uid-web", at_seconds)
        with ledger.written() as writer:
            writer.execute("INSERT INTO set_asides VALUES (?, '', '')", [at_seconds])
    assert ledger.prune(NOW - 60) == 1
    assert sorted(row.result for row in ledger.rows(Query()) if row.at_seconds == NOW - 61) == sorted(OPEN)
    for table in ("events", "runs", "breaker_resets", "set_asides"):
        assert ledger_files.select(path, f"SELECT at_seconds FROM {table}") == [(NOW - 60,)]  # noqa: S608
    assert len(ledger.rows(Query())) == 7


def test_events_are_found_by_time_and_object(ledger: Ledger) -> None:
    for at_seconds, name in ((NOW - 60, "hot"), (NOW, "cool")):
        ledger.tell(RecordedEvent(at_seconds, "NodeOverloaded", 1, "Node", "", name, "", "a note"))
    assert [one.name for one in ledger.events()] == ["cool", "hot"]
    assert [one.name for one in ledger.events(since_seconds=NOW)] == ["cool"]
    assert [one.at_seconds for one in ledger.events(name="hot")] == [NOW - 60]
    assert [one.name for one in ledger.events(limit=1)] == ["cool"]


def test_a_ledger_of_a_newer_version_is_refused(path: pathlib.Path) -> None:
    ledger_files.of_a_newer_version(path)
    newer = len(sql_schema.STEPS) + 1
    with refused(path, f": it has schema version {newer}, this version of Evenload knows up to {newer - 1}; {RESTORE}"):
        Ledger(path).open()


def test_a_file_system_without_locks_is_refused_with_the_next_step(
    path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    next_step = f"{path}.lock cannot be locked: give a file on a local disk with --ledger"
    with refused(path, f": [Errno {errno.ENOLCK}] No locks available; {next_step}"):
        Ledger(path).open()
    below = path / "ledger.sqlite"
    path.touch()
    with refused(below, f": [Errno {errno.EEXIST}] File exists: '{path}'; {RESTORE}"):
        Ledger(below).open()


@pytest.mark.parametrize(
    ("alone", "synchronous", "locking"), [(False, 2, "normal"), (True, 0, "exclusive")], ids=["a service's", "alone"]
)
def test_every_write_of_a_service_is_synced_to_disk_and_waits_for_others(
    path: pathlib.Path, *, alone: bool, synchronous: int, locking: str
) -> None:
    ledger = Ledger(path, alone=alone).open()
    with ledger.written() as writer, ledger.reading() as reader:
        expected = {"synchronous": synchronous, "locking_mode": locking, "journal_mode": "wal", "busy_timeout": 10_000}
        assert {name: writer.execute(f"PRAGMA {name}").fetchone()[0] for name in expected} == expected
        assert reader.execute("PRAGMA busy_timeout").fetchone() == (10_000,)
    ledger.close()


def test_a_ledger_of_ones_own_reads_what_was_just_written(path: pathlib.Path) -> None:
    opened = Ledger(path, alone=True).open()
    assert opened.rows(Query()) == []
    record(opened, "evicted")
    assert [row.result for row in opened.rows(Query())] == ["evicted"]
    opened.close()
    assert [row.result for row in Ledger(path).open().rows(Query())] == ["evicted"]
