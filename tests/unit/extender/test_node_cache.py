"""The node table: annotations and heartbeats in, columns out, and what a bad annotation does (nothing but a reason)."""

import math
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.state import node_cache
from policy import metrics
from policy.contract import heartbeat, load_annotation, relief_hint
from tests import builders
from tests.unit.extender import worlds

NAMES = metrics.names(metrics.BUILT_IN)


def table(**loads: dict[str, float] | str | None) -> node_cache.NodeTable:
    made = node_cache.NodeTable(NAMES)
    for name, load in loads.items():
        made.node_changed(None, worlds.node(name, load))
    return made


def test_a_reading_becomes_a_row_with_nan_for_what_is_absent() -> None:
    loads = table(b={"cpu_avg_5m": 0.5}, a={"memory_max_1d": 0.25}).loads()
    assert (loads.names[node_cache.UNKNOWN], sorted(loads.index)) == ("", ["a", "b"])
    assert [loads.names[loads.index[name]] for name in ("a", "b")] == ["a", "b"]
    row = loads.values[loads.index["b"]]
    assert row[0] == 0.5
    assert np.isnan(row[1:]).all()
    assert loads.effective_seconds[loads.index["a"]] == worlds.NOW
    np.testing.assert_allclose(loads.per_allocatable[loads.index["a"]], [1 / 8000, 1 / (32 * 2**30)])


def test_unknown_names_share_a_row_without_a_reading() -> None:
    loads = table(a=worlds.IDLE).loads()
    rows = loads.rows(["nope", "a", ""])
    assert rows.tolist() == [node_cache.UNKNOWN, 1, node_cache.UNKNOWN]
    assert np.isnan(loads.values[node_cache.UNKNOWN]).all()
    assert math.isnan(loads.effective_seconds[node_cache.UNKNOWN])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "no annotation"),
        ("{", "annotation unusable: not_json"),
        ('{"v":2,"at":"2026-11-21T04:00:00Z","m":{}}', "annotation unusable: version"),
        ('{"v":1,"at":"yesterday","m":{}}', "annotation unusable: no_time"),
    ],
    ids=["no annotation", "garbage", "another version", "no time"],
)
def test_a_node_without_a_usable_annotation_says_why(text: str | None, problem: str) -> None:
    made = table(a=text)
    assert made.facts()["a"].problem == problem
    assert math.isnan(made.loads().effective_seconds[1])


def test_the_view_is_the_same_object_until_something_changes() -> None:
    made = table(a=worlds.IDLE, b=worlds.IDLE)
    first = made.loads()
    assert made.loads() is first
    made.node_changed(worlds.node("a", worlds.IDLE), worlds.node("a", worlds.HOT))
    second = made.loads()
    assert first.values[1, 0] == 0.1, "a view handed out does not change"
    assert second.values[1, 0] == 0.9
    assert second.index is first.index, "no renumbering for a change of values"


def test_changes_that_do_not_concern_load_change_nothing() -> None:
    made = table(a=worlds.IDLE)
    first = made.loads()
    cordoned = worlds.node("a", worlds.IDLE, mutate=lambda body: body["spec"].update(unschedulable=True))
    made.node_changed(worlds.node("a", worlds.IDLE), cordoned)
    assert made.loads() is first
    assert made.facts()["a"].conditions == ("SchedulingDisabled",), "people see it at once"
    made.node_changed(cordoned, worlds.node("a", worlds.IDLE, cpu="16"))
    assert made.loads().per_allocatable[1, 0] == 1 / 16000


def test_nodes_that_come_and_go_leave_the_rows_of_others_alone() -> None:
    made = table(b=worlds.IDLE)
    before = made.loads()
    made.node_changed(None, worlds.node("a", worlds.HOT))
    loads = made.loads()
    assert (before.index, loads.index) == ({"b": 1}, {"b": 1, "a": 2})
    assert loads.values[1:, 0].tolist() == [0.1, 0.9]
    made.node_changed(worlds.node("b", worlds.IDLE), None)
    loads = made.loads()
    assert (loads.names, loads.index) == (("", "", "a"), {"a": 2})
    assert np.isnan(loads.values[1]).all()
    made.node_changed(None, worlds.node("c", worlds.IDLE))
    assert made.loads().index == {"a": 2, "c": 1}, "a row that was left is given away"


def test_more_nodes_than_rows_make_more_rows() -> None:
    made = table(**{f"n{at}": {"cpu_avg_5m": at / 1000} for at in range(300)})
    loads = made.loads()
    assert [loads.values[loads.index[f"n{at}"], 0] for at in range(300)] == [at / 1000 for at in range(300)]


BUCKET_MATES = ("node-3", "node-27", "b")  # the first two are confirmed together
TEXTS = (None, worlds.load_text(worlds.IDLE), worlds.load_text(worlds.HOT, worlds.NOW + 30), "{")
OWN = '{"cpu_avg_5m": 0.9}'
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(BUCKET_MATES), st.sampled_from((*TEXTS, "gone")), st.sampled_from((None, OWN))),
        st.dictionaries(st.sampled_from(BUCKET_MATES), st.sampled_from(TEXTS[1:3])),
    ),
    max_size=12,
)


@given(EVENTS)
def test_when_the_view_is_read_makes_no_difference(
    events: list[tuple[str, str | None, str | None] | dict[str, str]],
) -> None:
    assert heartbeat.bucket_of("node-3") == heartbeat.bucket_of("node-27")
    often, once = node_cache.NodeTable(NAMES), node_cache.NodeTable(NAMES)
    for number, event in enumerate(events):
        at_seconds = worlds.NOW + 30 * number
        for made in (often, once):
            if isinstance(event, dict):
                made.heartbeat_changed(worlds.beat(event, at_seconds), at_seconds)
            elif event[1] == "gone":
                made.node_changed(worlds.node(event[0], None), None)
            else:
                made.node_changed(None, worlds.node(event[0], event[1], thresholds=event[2]))
        often.loads()
    read, unread = often.loads(), once.loads()
    assert (read.names, read.index, read.reliefs) == (unread.names, unread.index, unread.reliefs)
    np.testing.assert_array_equal(read.values, unread.values)
    np.testing.assert_array_equal(read.effective_seconds, unread.effective_seconds)
    np.testing.assert_array_equal(read.per_allocatable, unread.per_allocatable)
    np.testing.assert_array_equal(cast("object", read.own_limits), cast("object", unread.own_limits))


def test_a_matching_heartbeat_renews_a_quiet_node_only() -> None:
    made = table(a=worlds.IDLE, b=worlds.IDLE)
    text = worlds.load_text(worlds.IDLE)
    made.heartbeat_changed(worlds.beat({"a": text, "b": text}, worlds.NOW + 60), worlds.NOW + 60)
    assert made.loads().effective_seconds[1:3].tolist() == [worlds.NOW + 60] * 2
    assert made.heartbeat_state().matches
    made.heartbeat_changed(worlds.beat({"a": text, "b": "else"}, worlds.NOW + 120), worlds.NOW + 120)
    assert made.loads().effective_seconds[1:3].tolist() == [worlds.NOW + 120, worlds.NOW + 60]
    assert made.heartbeat_state().differing == ("b",)


AHEAD = worlds.beat({"a": worlds.load_text(worlds.IDLE)}, worlds.NOW + 150)
OLDER = worlds.beat({"a": worlds.load_text(worlds.IDLE)}, worlds.NOW - 1)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "was deleted"),
        (AHEAD | {"v": "2"}, "not a usable heartbeat"),
        (AHEAD, "ahead of the clock"),
        (OLDER, "older than the last"),
    ],
    ids=["deleted", "of another version", "of a clock ahead of ours", "of a clock behind the last one's"],
)
def test_a_heartbeat_that_renews_nothing_ends_the_match(data: dict[str, str] | None, problem: str) -> None:
    made, text = table(a=worlds.IDLE), worlds.load_text(worlds.IDLE)
    made.heartbeat_changed(worlds.beat({"a": text}, worlds.NOW), worlds.NOW)
    assert made.heartbeat_state().matches
    made.heartbeat_changed(data, worlds.NOW + 60)
    state = made.heartbeat_state()
    assert (state.matches, problem in state.problem) == (False, True)
    made.heartbeat_changed(worlds.beat({"a": text}, worlds.NOW + 90), worlds.NOW + 90)
    assert made.heartbeat_state().matches


def test_a_patch_seen_after_its_heartbeat_is_confirmed_when_it_arrives() -> None:
    made = table(a=worlds.IDLE)
    made.loads()
    newer = worlds.load_text(worlds.HOT, worlds.NOW + 30)
    made.heartbeat_changed(worlds.beat({"a": newer}, worlds.NOW + 60), worlds.NOW + 60)
    assert made.loads().effective_seconds[1] == worlds.NOW
    made.node_changed(worlds.node("a", worlds.IDLE), worlds.node("a", newer))
    assert made.loads().effective_seconds[1] == worlds.NOW + 60


def test_other_metrics_lay_out_the_columns_anew() -> None:
    made = table(a={"cpu_avg_5m": 0.5, "gpu_avg_5m": 0.75})
    made.loads()
    made.use(made.laid_out(("gpu_avg_5m", "cpu_avg_5m")))
    assert made.loads().values[1].tolist() == [0.75, 0.5]


def test_what_changes_while_columns_are_laid_out_is_in_them() -> None:
    made = table(stays={"cpu_avg_5m": 0.1}, changes={"cpu_avg_5m": 0.2}, goes={"cpu_avg_5m": 0.3})
    layout = made.laid_out(("x", "cpu_avg_5m"))
    made.node_changed(worlds.node("changes", None), worlds.node("changes", {"cpu_avg_5m": 0.4}))
    made.node_changed(worlds.node("goes", {"cpu_avg_5m": 0.3}), None)
    for at in range(100):
        made.node_changed(None, worlds.node(f"comes-{at}", {"cpu_avg_5m": 0.5, "x": 0.6}))
    made.use(layout)
    loads = made.loads()
    found = {name: loads.values[row].tolist() for name, row in loads.index.items()}
    assert found["stays"][1] == 0.1
    assert found["changes"][1] == 0.4
    assert all(found[f"comes-{at}"] == [0.6, 0.5] for at in range(100))
    assert len(found) == 102


def test_a_node_that_cannot_be_taken_in_stays_as_it_was_and_disturbs_nobody_else() -> None:
    """No text of an annotation can do that; what a client hands over in breach of its own types can."""
    made, text = table(a=worlds.IDLE, b=worlds.IDLE), worlds.load_text(worlds.IDLE)
    made.loads()
    for name in ("b", "new"):
        odd = builders.node(name, annotations={load_annotation.KEY: worlds.load_text(worlds.HOT)})
        cast("dict[str, object]", odd.annotations)[relief_hint.KEY] = 5
        with pytest.raises(TypeError):
            made.node_changed(None, odd)
    made.heartbeat_changed(worlds.beat({"a": text, "b": text}, worlds.NOW + 60), worlds.NOW + 60)
    loads = made.loads()
    assert loads.values[1:3, 0].tolist() == [0.1, 0.1]
    assert loads.effective_seconds[1:3].tolist() == [worlds.NOW + 60] * 2
    assert made.heartbeat_state().matches


def test_an_allocatable_that_cannot_be_read_is_unknown_and_disturbs_nobody_else() -> None:
    made = table(a=worlds.IDLE)
    made.node_changed(None, worlds.node("odd", worlds.IDLE, cpu="a lot"))
    text = worlds.load_text(worlds.IDLE)
    made.heartbeat_changed(worlds.beat({"a": text, "odd": text}, worlds.NOW + 60), worlds.NOW + 60)
    loads = made.loads()
    assert loads.effective_seconds[1:3].tolist() == [worlds.NOW + 60] * 2
    assert loads.per_allocatable[loads.index["odd"]].tolist() == [0.0, 0.0]
