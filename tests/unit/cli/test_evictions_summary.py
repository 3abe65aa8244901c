"""`evenload evictions --summary`: how good plans were and what is missing, in all and by node or workload."""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from descheduler.planning.departed_load import LOOK_BACKS
from runtime import clock
from tests import builders, commands
from tests.unit.cli import extenders
from tests.unit.cli.deschedulers import Descheduler, serving
from tests.unit.cli.test_evictions import cells
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW
from tests.unit.descheduler.test_ledger import record
from tests.unit.extender import worlds

EXPECTED = 0.9 - 4 / 32


@pytest.fixture
def descheduler(tmp_path: pathlib.Path) -> Iterator[Descheduler]:
    """A descheduler with an empty ledger, an hour after NOW."""
    with serving(scenes.hot_and_cool(), tmp_path, mode="Enforce") as served:
        served.world.clock.advance(3600)
        yield served


def summary(descheduler: Descheduler, *words: str, code: int | None = None) -> Any:
    """`evenload evictions --summary ...` against it."""
    return descheduler.run("evictions", "--summary", *words, code=code)


def groups(descheduler: Descheduler, *words: str) -> dict[str, Any]:
    """The JSON, by what each group is of."""
    answer = json.loads(summary(descheduler, "-o", "json", *words, code=0).stdout)
    return {group["of"]: group for group in answer["groups"]}


def judge(descheduler: Descheduler, *, error: float, name: str = "web", later: float = 0.0, **columns: Any) -> None:
    """An eviction whose node was `error` hotter than expected at every look; `columns` are filled beside it."""
    ledger = descheduler.world.ledger
    row_id = record(ledger, "evicted", name=name, at_seconds=NOW + later)
    loads = dict.fromkeys(LOOK_BACKS, EXPECTED + error)
    ledger.fill(row_id, **{**loads, "moved_5m_ratio": 0.0, "moved_30m_ratio": 0.0, **columns})


def test_errors_are_medians_and_lines_held_are_a_share(descheduler: Descheduler) -> None:
    for error in (-0.01, 0.02, 0.05):  # 0.775 + 0.05 is over the line of 0.8
        judge(descheduler, error=error, landed_node="cool", ready_at_seconds=NOW + 9, returned=0)
    whole = groups(descheduler)["all"]
    assert whole["evictions"] == 3
    assert whole["after_30m"] == {
        "judged": 3,
        "median_error_ratio": pytest.approx(0.02),
        "median_absolute_error_ratio": pytest.approx(0.02),
        "unmeasured": 0,
        "unpredicted": 0,
        "pending": 0,
    }
    assert whole["line"] == {"under": 2, "over": 1, "unknown": 0, "pending": 0}
    assert (whole["replaced"], whole["returned"], whole["landed_as_expected"]) == (3, 0, 3)


def test_a_replacement_on_another_node_with_the_best_score_is_as_expected(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = {"cool": worlds.IDLE, "as-cool": worlds.IDLE, "half": dict.fromkeys(worlds.IDLE, 0.5)}
    with serving(scenes.hot_and_cool(), tmp_path) as served, extenders.serving(loads) as extender:
        monkeypatch.setenv("EVENLOAD_EXTENDER", extender.url)
        for pod, node in (("tied", "as-cool"), ("outweighed", "half"), ("forgotten", "as-cool")):
            row_id = record(served.world.ledger, "evicted", at_seconds=clock.WallClock().now(), name=pod)
            extender.pods[f"default/{pod}"] = placed = builders.pod(pod, node=node)
            served.world.ledger.fill(row_id, landed_pod=placed.uid, landed_node=node, ready_at_seconds=NOW)
            extender.decide(tuple(loads), pod) if pod != "forgotten" else None
        assert groups(served)["all"]["landed_as_expected"] == 1
        monkeypatch.setenv("EVENLOAD_EXTENDER", "http://127.0.0.1:1")
        assert "warning: ties with the expected node are not counted as expected: " in summary(served, code=0).stderr


def test_what_nobody_measured_is_counted_and_no_error_of_0(descheduler: Descheduler) -> None:
    judge(descheduler, error=0.02)
    judge(descheduler, error=0.02, load_30m_ratio=None, moved_30m_ratio=None)
    judge(descheduler, error=0.0, expected_5m_ratio=None, expected_30m_ratio=None)
    whole = groups(descheduler)["all"]
    counts = {name: whole["after_30m"][name] for name in ("judged", "unmeasured", "unpredicted")}
    assert counts == {"judged": 1, "unmeasured": 1, "unpredicted": 1}
    assert whole["after_30m"]["median_error_ratio"] == pytest.approx(0.02)
    assert whole["line"]["unknown"] == 1
    remarks = summary(descheduler).stderr
    assert "30m: of 3 evictions 1 without a fresh reading of the node, 1 without a prediction" in remarks


def test_what_was_never_judged_has_no_figures(descheduler: Descheduler) -> None:
    record(descheduler.world.ledger, "evicted")
    whole = groups(descheduler)["all"]
    assert (whole["after_5m"]["median_error_ratio"], whole["after_5m"]["unmeasured"]) == (None, 1)
    assert cells(summary(descheduler, code=0)) == ["all", "1", "-", "-", "-", "-", "-", "-"]


def test_evictions_that_did_not_take_place_are_not_judged(descheduler: Descheduler) -> None:
    for result in ("refused", "observed", "dry_run"):
        record(descheduler.world.ledger, result)
    assert "no eviction that took place" in summary(descheduler, code=0).stderr


def test_the_table_says_it_for_people(descheduler: Descheduler) -> None:
    judge(descheduler, error=0.02, landed_node="cool", returned=0)
    judge(descheduler, error=0.05, landed_node="hot", returned=1)
    result = summary(descheduler, code=0)
    assert cells(result, 0) == [
        "OF", "EVICTED", "ERROR 5M", "ERROR 30M", "OFF BY 30M", "UNDER LINE", "CAME BACK", "AS EXPECTED",
    ]  # fmt: skip
    assert cells(result) == ["all", "2", "+3.5pp", "+3.5pp", "3.5pp", "1 of 2", "1 of 2", "1 of 2"]


def test_groups_follow_the_whole_the_worst_first(descheduler: Descheduler) -> None:
    judge(descheduler, error=0.01, name="good")
    judge(descheduler, error=-0.07, name="bad")
    assert list(groups(descheduler, "--by", "workload")) == ["all", "ReplicaSet/bad", "ReplicaSet/good"]
    assert list(groups(descheduler, "--by", "node")) == ["all", "hot"]
    document = yaml.safe_load(summary(descheduler, "--by", "node", "-o", "yaml").stdout)
    assert [group["of"] for group in document["groups"]] == ["all", "hot"]


def test_filters_narrow_the_summary(descheduler: Descheduler) -> None:
    judge(descheduler, error=0.01, name="good")
    judge(descheduler, error=-0.07, name="bad")
    assert groups(descheduler, "--workload", "bad")["all"]["evictions"] == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["-w"], "exclude each other", id="with --watch"),
        pytest.param(["-o", "jsonl"], "table, json or yaml", id="line by line"),
        pytest.param(["--outcome", "refused"], "took place", id="with an outcome"),
    ],
)
def test_bad_input_names_what_goes_together(descheduler: Descheduler, words: list[str], expected: str) -> None:
    commands.assert_refused(summary(descheduler, *words), 2, expected)
