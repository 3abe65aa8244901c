"""`evenload evictions`: the table, filters, machine formats, the export of everything, watching, the picture."""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from cli import eviction_rows, evictions
from descheduler.ledger.rows import Query, RecordedEvent
from tests import clocks, commands
from tests.unit.cli.deschedulers import Descheduler, serving
from tests.unit.cli.test_story import ROW
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW
from tests.unit.descheduler.test_ledger import record


@pytest.fixture
def descheduler(tmp_path: pathlib.Path) -> Iterator[Descheduler]:
    """A descheduler that evicted web-0 from node hot a minute ago."""
    with serving(scenes.hot_and_cool(), tmp_path, mode="Enforce") as served:
        served.world.service.run()
        served.world.clock.advance(60)
        yield served


def fill(descheduler: Descheduler, **columns: Any) -> None:
    """What became of the only eviction."""
    (row,) = descheduler.world.ledger.rows(Query())
    descheduler.world.ledger.fill(row.id, **columns)


def cells(result: Any, line: int = 1) -> list[str]:
    """A line of the table, column by column; the age in the first is counted by the wall clock."""
    return [cell.strip() for cell in result.stdout.splitlines()[line].split("   ") if cell.strip()]


def test_a_row_says_who_why_and_what_is_not_known_yet(descheduler: Descheduler) -> None:
    result = descheduler.run("evictions", code=0)
    assert " ".join(result.stdout.splitlines()[0].split()) == ("AGE POD NODE LOAD RESULT LANDED READY 5M 30M")
    assert cells(result)[1:] == ["default/web-0", "hot", "memory 90%>80%", "evicted", "-", "-", "-", "-"]


def test_a_row_says_where_it_landed_and_what_it_helped(descheduler: Descheduler) -> None:
    fill(
        descheduler, landed_node="cool", ready_at_seconds=NOW + 21, load_5m_ratio=0.78, load_30m_ratio=0.61, returned=0
    )
    assert cells(descheduler.run("evictions"))[4:] == ["evicted", "cool", "21s", "78%", "61%"]
    fill(descheduler, landed_node="hot", returned=1)
    assert cells(descheduler.run("evictions"))[5] == "came back"


def test_a_reading_under_its_line_is_relief_that_goes_on() -> None:
    row = eviction_rows.Row(**{**ROW, "metric": "x", "value_ratio": 0.7})
    assert eviction_rows.cells(row, NOW)[3] == "x 70% until 60%"


def test_wide_adds_the_run_its_policy_and_the_apiservers_answer(descheduler: Descheduler) -> None:
    (row,) = descheduler.world.ledger.rows(Query())
    wide = cells(descheduler.run("evictions", "-o", "wide"))[9:]
    assert wide == [
        "ReplicaSet/web", "500m 4096Mi", "60%", "78%", "cool", "Enforce", "201", "-", row.run, row.policy_hash, "-",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "count"),
    [
        pytest.param(["--since", "2h"], 1, id="since, a span"),
        pytest.param(["--since", "7d"], 1, id="since, days"),
        pytest.param(["--since", "30s"], 0, id="since, too late"),
        pytest.param(["--node", "hot", "--workload", "web", "-n", "default", "--outcome", "evicted"], 1, id="all"),
        pytest.param(["--outcome", "refused"], 0, id="another outcome"),
    ],
)
def test_rows_are_filtered_by_the_descheduler(descheduler: Descheduler, words: list[str], count: int) -> None:
    result = descheduler.run("evictions", *words, "--no-headers")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, count)
    assert ("no such eviction" in result.stderr) == (count == 0)


def test_json_lines_are_the_whole_ledger_page_by_page(
    descheduler: Descheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction_rows, "PAGE", 2)
    for number in range(4):
        record(descheduler.world.ledger, "evicted", at_seconds=NOW + number)
    rows = [json.loads(line) for line in descheduler.run("evictions", "-o", "jsonl").stdout.splitlines()]
    assert [row["id"] for row in rows] == [5, 4, 3, 2, 1]
    assert descheduler.asked.count("GET /evictions") == 4, "three pages, and since when it knows any"


def test_watching_prints_each_row_again_when_something_becomes_known(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = {"id": 1, "result": "intended"}, {"id": 2, "result": "evicted"}
    answers = iter([(first,), (first,), (second, {**first, "result": "evicted"})])
    clock = clocks.ManualClock(NOW, on_wait=lambda _: None)
    wish = evictions.Wish({}, "jsonl", no_headers=False)
    with pytest.raises(StopIteration):
        evictions.follow(lambda: next(answers), wish, clock)
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["id"], row["result"]) for row in printed] == [(1, "intended"), (1, "evicted"), (2, "evicted")]


def test_events_are_what_was_told(descheduler: Descheduler) -> None:
    result = descheduler.run("evictions", "--events", "--node", "hot", "--no-headers", code=0)
    assert "NodeOverloaded" in result.stdout
    assert "Node/hot" in result.stdout
    told = [json.loads(line) for line in descheduler.run("evictions", "--events", "-o", "jsonl").stdout.splitlines()]
    assert [one["kind"] for one in told] == ["ReplicaSet", "Node", "Pod"]


def test_rows_of_pods_that_left_for_a_larger_one_are_ended_and_shown(descheduler: Descheduler) -> None:
    """Builds between 0.1.0 and 0.2.0 could evict from nodes under their lines, for a pod that no other node took."""
    ledger, under = descheduler.world.ledger, {"value_ratio": 0.45, "before_ratio": 0.45, "projected_ratio": 0.4}
    for name, result in (("small", "evicted"), ("tiny", "intended")):
        row_id = record(ledger, result, name=name)
        ledger.decide(row_id, result, status=None, message="room for default/big-0: memory_avg_5m 0.45", at_seconds=NOW)
        ledger.fill(row_id, **under)
    ledger.tell(RecordedEvent(NOW, "NodeMakesRoom", 0, "Node", "", "hot", "", "room for default/big-0"))
    descheduler.world.service.run()
    rows = {line[1]: line for line in (cells(descheduler.run("evictions", "-o", "wide"), line) for line in (1, 2, 3))}
    assert rows["default/small-0"][2:5] == ["hot", "memory_avg_5m 45% until 60%", "evicted"]
    assert rows["default/tiny-0"][2:5] == ["hot", "memory_avg_5m 45% until 60%", "evicted_unconfirmed"]
    assert "room for default/big-0: memory_avg_5m 0.45" in rows["default/tiny-0"]
    assert "NodeMakesRoom" in descheduler.run("evictions", "--events").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--outcome", "lost"], "evicted_unconfirmed", id="no outcome"),
        pytest.param(["--since", "yesterday"], "yesterday", id="no time"),
        pytest.param(["-w", "-o", "json"], "-o jsonl", id="a document that never ends"),
        pytest.param(["-w", "--events"], "exclude each other", id="two things at once"),
        pytest.param(["--by", "node"], "--by needs --summary", id="groups of rows"),
        pytest.param(["--events", "--outcome", "evicted"], "--since and --node", id="no filter of Events"),
    ],
)
def test_bad_input_is_said_and_nothing_printed(descheduler: Descheduler, words: list[str], message: str) -> None:
    commands.assert_refused(descheduler.run("evictions", *words), 2, message)
