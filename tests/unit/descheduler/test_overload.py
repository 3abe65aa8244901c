"""Overload confirmed over time: fresh readings only, one in between starts again, relief goes on to the target."""

import pytest

from descheduler.planning import overload
from descheduler.planning.overload import Memory
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.usage import NodeUsage
from policy.schema.load_policy import LoadPolicy
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW

POLICY = scenes.policy()  # 0.80 for 3 min, until 0.60; stale after 5 min
METRIC = "memory_avg_5m"


def after(
    *readings: tuple[float, float | None], memory: Memory | None = None, policy: LoadPolicy = POLICY
) -> tuple[Memory, float]:
    """The memory after readings (seconds since NOW, ratio or None for none) of one node, and the last moment."""
    memory, now_seconds = memory or Memory(), NOW
    for offset_seconds, ratio in readings:
        now_seconds = NOW + offset_seconds
        memory = overload.observe(memory, usages(ratio, now_seconds), NodePolicies(policy), now_seconds=now_seconds)
    return memory, now_seconds


def usages(ratio: float | None, at_seconds: float) -> dict[str, NodeUsage]:
    """One node's reading."""
    return {} if ratio is None else {"node": NodeUsage("node", {METRIC: ratio}, at_seconds)}


@pytest.mark.parametrize(
    ("readings", "since_offset_seconds"),
    [
        pytest.param([(0, 0.9)], None, id="one reading confirms nothing"),
        pytest.param([(0, 0.9), (90, 0.9), (179, 0.9)], None, id="not long enough"),
        pytest.param([(0, 0.9), (90, 0.81), (180, 0.9)], 0, id="over the line for as long as asked"),
        pytest.param([(0, 0.9), (90, 0.8), (180, 0.9)], None, id="a reading on the line starts again"),
        pytest.param([(0, 0.9), (90, 0.7), (180, 0.9), (360, 0.9)], 180, id="confirmed on the second try"),
        pytest.param([(0, 0.9), (90, None), (180, 0.9)], 0, id="a missing reading says nothing"),
        pytest.param([(0, 0.9), (301, 0.9), (310, 0.9)], None, id="a gap longer than staleAfter forgets"),
        pytest.param([(0, 0.9), (300, 0.9)], 0, id="a gap as long as staleAfter does not"),
        pytest.param([(0, 0.9), (180, 0.9), (181, None)], None, id="without a reading now nothing is done"),
        pytest.param([(0, 0.9), (90, float("nan")), (180, 0.9)], 0, id="a value that is no ratio says nothing"),
        pytest.param([(0, 0.9), (180, 0.9), (190, 1.6)], None, id="and is not acted on"),
        pytest.param([(0, 0.9), (180, 0.9), (190, 0.79)], None, id="under the line again before anything was done"),
    ],
)
def test_confirmation(readings: list[tuple[float, float | None]], since_offset_seconds: float | None) -> None:
    memory, now_seconds = after(*readings)
    last = readings[-1][1]
    found = overload.confirmed(memory, usages(last, now_seconds), NodePolicies(POLICY), now_seconds=now_seconds)
    expected = [] if since_offset_seconds is None else [("node", NOW + since_offset_seconds)]
    assert [(one.node, one.since_seconds) for one in found] == expected


@pytest.mark.parametrize(
    ("ratio", "goes_on"),
    [pytest.param(0.7, True, id="between the lines"), pytest.param(0.6, False, id="on the target line")],
)
def test_relief_goes_on_to_the_target_once_a_pod_was_evicted(ratio: float, goes_on: bool) -> None:
    memory, _ = after((0, 0.9), (180, 0.9))
    memory, now_seconds = after(
        (190, ratio), memory=overload.with_relief(memory, [("node", METRIC)], now_seconds=NOW + 180)
    )
    found = overload.confirmed(memory, usages(ratio, now_seconds), NodePolicies(POLICY), now_seconds=now_seconds)
    assert bool(found) is goes_on
    memory, now_seconds = after((200, 0.7), memory=memory)
    again = overload.confirmed(memory, usages(0.7, now_seconds), NodePolicies(POLICY), now_seconds=now_seconds)
    assert bool(again) is goes_on, "once at the target, relief is over"


def test_a_stale_reading_is_not_acted_on() -> None:
    memory, _ = after((0, 0.9), (180, 0.9))
    assert overload.confirmed(memory, usages(0.9, NOW + 180), NodePolicies(POLICY), now_seconds=NOW + 481) == ()


@pytest.mark.parametrize(("gap_seconds", "expected"), [(900, True), (901, False)])
def test_runs_further_apart_than_stale_after_confirm_up_to_one_and_a_half_intervals(
    gap_seconds: float, expected: bool
) -> None:
    rare = scenes.policy(interval="10m")
    memory, now_seconds = after((0, 0.9), (gap_seconds, 0.9), policy=rare)
    found = overload.confirmed(memory, usages(0.9, now_seconds), NodePolicies(rare), now_seconds=now_seconds)
    assert bool(found) is expected


@pytest.mark.parametrize(("ratio", "expected"), [(0.8, False), (0.81, True), (None, False)])
def test_a_reading_on_the_line_is_not_over_it(ratio: float | None, expected: bool) -> None:
    assert overload.over_a_line(usages(ratio, NOW), NodePolicies(POLICY)) is expected


def test_a_node_that_is_gone_is_forgotten() -> None:
    memory, _ = after((0, 0.9), (301, None))
    assert memory == Memory()


@pytest.mark.parametrize(("silent_seconds", "goes_on"), [(300, True), (301, False)])
def test_relief_of_a_node_without_readings_is_forgotten_like_its_overload(silent_seconds: float, goes_on: bool) -> None:
    relieved = overload.with_relief(Memory(), [("node", METRIC)], now_seconds=NOW)
    memory, _ = after((0, 0.7), (silent_seconds, None), memory=relieved)
    again = NOW + silent_seconds + 10  # also another node of that name
    found = overload.confirmed(memory, usages(0.7, again), NodePolicies(POLICY), now_seconds=again)
    assert bool(found) is goes_on


def test_a_node_over_the_second_line_only_is_found() -> None:
    usage = {"node": NodeUsage("node", {METRIC: 0.1, "cpu_avg_5m": 0.9}, NOW)}
    memory = Memory(relieving={("node", "cpu_avg_5m"): NOW})
    found = overload.confirmed(memory, usage, NodePolicies(POLICY), now_seconds=NOW)
    assert [(one.metric, round(one.excess_ratio, 9)) for one in found] == [("cpu_avg_5m", 0.3)]
