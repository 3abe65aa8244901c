"""The peers' formulas give the numbers that their sources give by hand, of what a scheduler may see and of no more."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.peers import crane, formula, koordinator, trimaran
from lab.peers.observations import Observations
from simulator.contention import Load
from simulator.kernel import VirtualClock
from simulator.scenario import Machine, Scenario, Usage
from simulator.scheduling import extenders
from tests import builders

START, STEP = 1_000_000.0 - 1_000_000.0 % 10_800, 300.0
NODE = Load(8000.0, 32 * 2.0**30)
GIB = 2.0**30
NONE = np.zeros(0, np.float32)


class Written:
    """A usage book as written down here: [steps, nodes] of CPU; memory is half of it."""

    def __init__(self, *steps: tuple[float, ...]) -> None:
        self._cpu = np.array(steps, np.float32)

    def node_ratio(self, resource: str) -> npt.NDArray[np.float32]:
        """See seen.Book."""
        return self._cpu if resource == "cpu" else self._cpu / np.float32(2)


def world(*steps: tuple[float, ...], at_seconds: float | None = None, step_seconds: float = STEP) -> Observations:
    """What is seen of nodes named a, b, ... during the step after those given."""
    names = "abcdefgh"[: len(steps[0])]
    machines = tuple(Machine(name, NODE) for name in names)
    scenario = Scenario("written", START, step_seconds, len(steps) + 1, machines, (), (), Usage(NONE, NONE))
    clock = VirtualClock(START + len(steps) * step_seconds if at_seconds is None else START + at_seconds)
    # The step that is not over is NaN in the book; whatever is in later rows must not be looked at.
    return Observations(scenario, Written(*steps, tuple(99.0 for _ in names)), clock)


def formula_input(
    observations: Observations, cpu_millicores: float = 0.0, memory_bytes: float = 0.0
) -> formula.FormulaInput:
    """A pod that asks all nodes for so much."""
    rows = np.arange(len(observations.capacity))
    return formula.FormulaInput(observations, rows, np.array([cpu_millicores, memory_bytes]), observations.bound())


def bind(observations: Observations, name: str, node: str, cpu: str = "1000m", memory: str = "1Gi") -> None:
    """A pod is bound now."""
    pending = builders.pod(name, cpu=cpu, memory=memory)
    observations.pod_changed(None, pending)
    observations.pod_changed(pending, builders.pod(name, node=node, cpu=cpu, memory=memory))


def test_what_is_seen_are_whole_steps_that_are_over() -> None:
    seen = world((0.1,), (0.5,), (0.3,), at_seconds=3 * STEP + 299)
    assert seen.mean(STEP)[0] == pytest.approx([0.3, 0.15])
    assert seen.mean(3 * STEP)[0] == pytest.approx([0.3, 0.15])
    assert seen.maximum(3 * STEP)[0] == pytest.approx([0.5, 0.25])
    assert seen.deviation(3 * STEP)[0] == pytest.approx([np.std([0.1, 0.5, 0.3]), np.std([0.05, 0.25, 0.15])])


def test_in_short_steps_maxima_and_deviations_are_of_five_minute_means() -> None:
    loads = [0.1, 0.4, 0.1, 0.7, 0.1, 0.1]
    seen = world(*[(load,) for load in loads], step_seconds=100.0)
    means = [np.mean(loads[at : at + 3]) for at in range(4)]
    assert seen.mean(300.0)[0, 0] == pytest.approx(means[-1])
    assert seen.maximum(600.0)[0, 0] == pytest.approx(max(means))
    assert seen.maximum(300.0)[0, 0] == pytest.approx(means[-1])
    assert seen.deviation(600.0)[0, 0] == pytest.approx(np.std(means))


def test_what_was_not_measured_is_left_out_and_never_nought() -> None:
    seen = world((math.nan, math.nan), (0.4, math.nan))
    assert seen.mean(2 * STEP)[0] == pytest.approx([0.4, 0.2])
    assert np.isnan(seen.mean(2 * STEP)[1]).all()
    assert np.isnan(seen.maximum(2 * STEP)[1]).all()
    assert np.isnan(seen.deviation(2 * STEP)[1]).all()
    assert np.isnan(world((0.5,), at_seconds=10.0).mean(STEP)).all(), "nothing is over yet"


def test_placements_are_seen_until_the_pod_is_gone_or_long_ago() -> None:
    clock_at = 2 * STEP + 10
    seen = world((0.1, 0.1), (0.1, 0.1), at_seconds=clock_at)
    bind(seen, "one", "b", cpu="500m", memory="2Gi")
    bind(seen, "two", "a")
    agent = builders.pod("agent", node="a", owner=("DaemonSet", "agent"))
    seen.pod_changed(None, agent)
    bound = seen.bound()
    assert bound.rows.tolist() == [1, 0]
    assert bound.requests.tolist() == [[500, 2 * GIB], [1000, GIB]]
    assert len(bound.since(START + clock_at - 1).rows) == 2
    assert len(bound.since(START + clock_at).rows) == 0
    assert len(bound.until(START + clock_at).rows) == 2
    seen.pod_changed(builders.pod("two", node="a"), None)
    assert seen.bound().rows.tolist() == [1]


def test_crane_weighs_headroom_by_maxima_as_old_as_their_sync_periods() -> None:
    seen = world(*[(0.5,)] * 35, (0.75,), (0.25,), at_seconds=37 * STEP)
    # The last five minutes: 0.25; the hour as of 36 steps: 0.75; the day as of 36 steps: 0.75. Memory is half of it.
    headroom = 0.2 * (1 - 0.25) + 0.8 * (1 - 0.75) + 0.2 * (1 - 0.125) + 0.8 * (1 - 0.375)
    assert crane.Crane().points(formula_input(seen)).tolist() == [math.trunc(100 * headroom / 2)]
    before = world(*[(0.5,)] * 35, (0.75,), at_seconds=36 * STEP - 1)
    old = 0.2 * (1 - 0.5) + 0.8 * (1 - 0.5) + 0.2 * (1 - 0.25) + 0.8 * (1 - 0.25)
    assert crane.Crane().points(formula_input(before)).tolist() == [math.trunc(100 * old / 2)]


def test_a_metric_that_crane_does_not_have_adds_weight_and_no_points() -> None:
    seen = world((math.nan, 0.5), at_seconds=STEP)
    assert crane.Crane().points(formula_input(seen)).tolist() == [0, math.trunc(100 * (0.5 + 0.75) / 2)]


def test_crane_takes_ten_points_for_each_hot() -> None:
    seen = world((0.5, 0.5), at_seconds=STEP + 170)
    for number in range(10):
        bind(seen, f"web-{number}", "a")
    seen._clock.move_to(START + STEP + 290)  # type: ignore[attr-defined]
    assert crane.Crane().points(formula_input(seen)).tolist() == [math.trunc(62.5) - 20, math.trunc(62.5)]


def test_cranes_hot_value_counts_what_was_bound_before_its_last_sync() -> None:
    seen = world((0.1, 0.1), at_seconds=STEP + 100)
    for number in range(5):
        bind(seen, f"web-{number}", "a")
    assert crane.hot_value(formula_input(seen)).tolist() == [0, 0], "bound after the sync"
    seen._clock.move_to(START + STEP + 240)  # type: ignore[attr-defined]
    assert crane.hot_value(formula_input(seen)).tolist() == [1, 0], (
        "five within five minutes; within the last minute, none"
    )


def test_crane_rejects_over_its_limits_only() -> None:
    seen = world((0.66, 0.65, math.nan), (0.66, 0.65, math.nan), (0.66, 0.65, math.nan))
    rejected = crane.Crane().rejected(formula_input(seen))
    over = np.any(list(rejected.values()), axis=0)
    assert over.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("percent", "points"),
    [(0, 40), (20, 70), (40, 100), (70, 20), (100, 0), (130, 0)],
)
def test_target_load_packing_rises_to_the_target_and_falls_behind_it(percent: float, points: float) -> None:
    assert trimaran.packing_points(np.array([float(percent)])).tolist() == [points]


def test_target_load_packing_predicts_the_pod_and_those_not_seen_yet() -> None:
    seen = world((0.1, 0.1), at_seconds=STEP + 5)
    bind(seen, "web-1", "a", cpu="400m")
    # a: 10 % + 1.5 x 400m of 8 cores + 1.5 x 800m = 10 + 7.5 + 15 = 32.5 %; b: 25 %
    assert trimaran.TargetLoadPacking().points(formula_input(seen, 800)).tolist() == [
        math.floor(60 * 32.5 / 40 + 40 + 0.5),
        math.floor(60 * 25 / 40 + 40 + 0.5),
    ]
    # A pod that asks for nothing is thought to use a core: 10 + 12.5 (+ 7.5 on a) %
    assert trimaran.TargetLoadPacking().points(formula_input(seen)).tolist() == [85, math.floor(60 * 22.5 / 40 + 40.5)]


def test_risk_is_load_with_the_request_and_its_deviation_of_the_riskier_resource() -> None:
    seen = world((0.2, math.nan), (0.4, math.nan), (0.6, math.nan))
    deviation = float(np.std([0.2, 0.4, 0.6]))
    risk = (0.4 + 0.1 + deviation) / 2
    assert trimaran.RiskBalancing().points(formula_input(seen, 800)).tolist() == [round(100 * (1 - risk)), 0]


@given(st.floats(0, 3), st.floats(0, 3))
def test_risk_points_lie_between_nought_and_a_hundred(mean: float, deviation: float) -> None:
    (points,) = trimaran.risk_points(np.array([mean]), np.array([deviation]))
    assert 0 <= points <= 100


def test_koordinator_estimates_the_pod_and_those_not_reported_yet() -> None:
    seen = world((0.25, 0.25), at_seconds=STEP + 5)
    bind(seen, "web-1", "a", cpu="1000m", memory="2Gi")
    used = koordinator.used(formula_input(seen, 2000, 4 * GIB))
    assert used[0] == pytest.approx([2000 + 850 + 1700, 4 * GIB + 1.4 * GIB + 2.8 * GIB])
    assert used[1] == pytest.approx([2000 + 1700, 4 * GIB + 2.8 * GIB])
    assert koordinator.estimate(np.zeros(2)).tolist() == [250, 200 * 2**20]
    cpu, memory = math.floor(100 * (1 - 3700 / 8000)), math.floor(100 * (1 - 6.8 / 32))
    assert koordinator.LoadAware().points(formula_input(seen, 2000, 4 * GIB))[1] == math.floor((cpu + memory) / 2)


def test_koordinator_rejects_by_the_estimate_with_the_pod_and_lets_the_unmeasured_pass() -> None:
    seen = world((0.5, 0.45, math.nan))
    over = np.any(list(koordinator.LoadAware().rejected(formula_input(seen, 2000)).values()), axis=0)
    # 50 % + 85 % of 2 of 8 cores = 71 %; 45 % + 21 % = 66 %
    assert over.tolist() == [True, True, False]
    assert not np.any(list(koordinator.LoadAware().rejected(formula_input(world((0.44,)), 2000)).values()))


@pytest.mark.parametrize(
    "peer_formula", [crane.Crane(), trimaran.TargetLoadPacking(), trimaran.RiskBalancing(), koordinator.LoadAware()]
)
@given(loads=st.lists(st.one_of(st.just(math.nan), st.floats(0, 1)), min_size=3, max_size=3))
def test_points_are_known_and_between_nought_and_a_hundred(peer_formula: formula.Formula, loads: list[float]) -> None:
    seen = world(*[tuple(loads)] * 3)
    points = peer_formula.points(formula_input(seen, 500, GIB))
    assert ((points >= 0) & (points <= 100)).all()


def test_a_peer_answers_as_an_extender_with_points_of_a_hundred() -> None:
    seen = world((0.75, 0.25), (0.75, 0.25), (0.75, 0.25))
    peer = formula.Peer(crane.Crane(), seen, weight=3)
    pending = builders.pod("web-1")
    found = peer.filter(pending, ["b", "a"])
    assert (peer.weight, found.passed) == (3, ["b"])
    assert found.failed == {"a": "Load[cpu_usage_avg_5m] of node is too high"}
    assert found.unresolvable == {}
    assert peer.prioritize(pending, ["b", "a"]).tolist() == [8.1, 4.3]
    assert extenders.points([peer], pending, ["b", "a"]).tolist() == [243, 129], "a whole point of 100 counts"


def test_a_peer_lets_a_daemon_sets_pod_pass_and_leaves_victims_alone() -> None:
    peer = formula.Peer(crane.Crane(), world((0.9,)), weight=1)
    agent = builders.pod("agent", owner=("DaemonSet", "agent"))
    assert peer.filter(agent, ["a"]).passed == ["a"]
    victims = {"a": extenders.Victims((), 0)}
    assert peer.preempt(agent, victims) == victims
