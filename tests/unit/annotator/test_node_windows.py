"""Windows kept in memory: averages by coverage, maxima by what was observed, and what a restart goes on from."""

import math

import numpy as np
import pytest

from annotator.collect.last_good_values import NodeSet
from annotator.collect.node_windows import ConfirmedReading, NodeWindows
from policy import metrics
from policy.contract.load_annotation import Reading, Windows
from policy.metrics import Metric
from policy.rules.sample_windows import Samples
from tests import builders

NOW = 1_795_233_600.0  # 2026-11-21T04:00:00Z
CPU, CPU_1H, CPU_1D, MEMORY = metrics.BUILT_IN[:4]
HOUR, DAY = 3600.0, 86400.0


class Bench:
    """Nodes whose samples come every `step_seconds`, read when they end."""

    def __init__(self, *names: str, step_seconds: float = 15.0) -> None:
        self.windows = NodeWindows()
        self.now = NOW
        self.step = step_seconds
        self.live(*(names or ("a",)))

    def live(self, *names: str, metrics_in_force: tuple[Metric, ...] = metrics.BUILT_IN) -> None:
        self.names = names
        self.windows.follow(NodeSet.of([builders.node(name) for name in names]), metrics_in_force)

    def sample(self, cpu: float, memory: float = 0.5, *, at: float | None = None, length: float | None = None) -> None:
        """One sample of every node."""
        nodes = len(self.names)
        at_seconds = np.full(nodes, self.now if at is None else at)
        ratios = np.tile([cpu, memory], (nodes, 1))
        taken = Samples(at_seconds, np.full(nodes, self.step if length is None else length), ratios)
        self.windows.add(taken, now_seconds=self.now)

    def run(self, seconds: float, cpu: float, memory: float = 0.5) -> None:
        """Samples of a steady load for so long."""
        for _ in range(round(seconds / self.step)):
            self.now += self.step
            self.sample(cpu, memory)

    def value(self, metric: Metric = CPU, name: str = "a") -> float | None:
        ratio = float(self.windows.values(metric, now_seconds=self.now)[self.names.index(name)])
        return None if math.isnan(ratio) else round(ratio, 4)

    def carried(self, name: str = "a") -> dict[str, ConfirmedReading]:
        """What a node would carry now."""
        values = {one.name: self.value(one, name) for one in self.windows.metrics}
        held = {metric: ratio for metric, ratio in values.items() if ratio is not None}
        return {name: ConfirmedReading(Reading(self.now, held, windows=self.windows.extent(name)), self.now)}

    def restarted(self, after_seconds: float = 0.0) -> "Bench":
        """Another process, so much later, which goes on from what node a carries."""
        after = Bench()
        after.live("a", metrics_in_force=self.windows.metrics)
        after.now = self.now + after_seconds
        after.windows.resume(self.carried(), now_seconds=after.now)
        return after

    def extent(self) -> Windows:
        """Since when node a is observed, and when its peaks were."""
        found = self.windows.extent("a")
        assert found is not None
        return found


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_an_average_needs_samples_of_half_of_its_window(bench: Bench) -> None:
    bench.run(135, 0.4)
    assert [bench.value(one) for one in (CPU, CPU_1H, MEMORY)] == [None] * 3
    bench.run(15, 0.4)
    assert [bench.value(one) for one in (CPU, CPU_1H, CPU_1D, MEMORY)] == [0.4, 0.4, 0.4, 0.5]


def test_an_average_weighs_samples_by_the_seconds_they_have_of_the_window(bench: Bench) -> None:
    bench.run(300, 0.2)
    bench.run(75, 0.6)
    assert bench.value() == 0.3, "75 s of 300 s at 0.6"


def test_a_sample_of_other_length_counts_for_its_length() -> None:
    bench = Bench(step_seconds=60)
    bench.run(240, 0.2)
    bench.now += 60
    bench.sample(1.0, length=20)
    assert bench.value() == 0.36, "the time since the sample before, of which it tells 20 s"


def test_the_same_time_twice_is_one_sample(bench: Bench) -> None:
    bench.run(300, 0.2)
    for _ in range(50):
        bench.sample(1.0)
        bench.sample(1.0, at=bench.now - 5)
    assert bench.value() == 0.2


def test_after_a_gap_of_over_two_minutes_a_sample_counts_for_its_own_window_only(bench: Bench) -> None:
    bench.run(300, 0.2)
    bench.now += 200
    bench.sample(1.0)
    assert bench.value() is None, "100 s of before and 15 s are under half of 300 s"
    bench.run(120, 1.0)
    assert bench.value() is None, "135 s"
    bench.run(15, 1.0)
    assert bench.value() == 1.0


def test_a_maximum_is_the_highest_average_and_leaves_with_its_window(bench: Bench) -> None:
    bench.run(300, 0.2)
    bench.run(300, 0.9)
    bench.run(1800, 0.3)
    assert (bench.value(), bench.value(CPU_1H), bench.value(CPU_1D)) == (0.3, 0.9, 0.9)
    bench.run(HOUR - 1500, 0.3)
    assert (bench.value(CPU_1H), bench.value(CPU_1D)) == (0.3, 0.9)


def test_a_node_of_which_nothing_is_heard_loses_its_windows(bench: Bench) -> None:
    bench.run(300, 0.9)
    bench.now += 151
    assert bench.value() is None
    assert bench.value(CPU_1H) is None, "no maximum without the current average"
    bench.run(150, 0.1)
    assert (bench.value(), bench.value(CPU_1H)) == (0.1, 0.9), "it was that high within the hour"


def test_a_ratio_that_is_missing_in_the_newest_sample_takes_its_resource_away_at_once(bench: Bench) -> None:
    bench.run(300, 0.4)
    bench.now += 15
    bench.sample(math.nan)
    assert (bench.value(), bench.value(CPU_1D), bench.value(MEMORY)) == (None, None, 0.5)


def test_windows_say_since_when_a_node_is_observed_without_a_gap(bench: Bench) -> None:
    bench.run(600, 0.2)
    assert bench.extent().since_seconds == NOW
    assert set(bench.extent().peaks) == {one.name for one in metrics.BUILT_IN if one.statistic == "max"}
    bench.now += 301
    bench.sample(0.2)
    assert bench.extent().since_seconds == bench.now - 15
    assert bench.windows.extent("nobody") is None


def test_a_restart_goes_on_from_what_the_node_carries(bench: Bench) -> None:
    bench.run(300, 0.2)
    bench.run(300, 0.9)
    bench.run(1800, 0.3)
    after = bench.restarted(45)
    after.sample(0.3)
    assert (after.value(), after.value(CPU_1H), after.value(CPU_1D)) == (0.3, 0.9, 0.9)
    assert after.extent().since_seconds == NOW
    after.run(HOUR - 1500, 0.3)
    assert (after.value(CPU_1H), after.value(CPU_1D)) == (0.3, 0.9), "a peak keeps its time, however often one restarts"


@pytest.mark.parametrize("hour_first", [False, True])
def test_a_restart_goes_on_from_averages_over_different_windows(bench: Bench, hour_first: bool) -> None:
    hour = Metric("cpu_avg_1h", "cpu", "avg", HOUR, HOUR)
    every = (hour, *metrics.BUILT_IN) if hour_first else (*metrics.BUILT_IN, hour)
    bench.live("a", metrics_in_force=every)
    bench.run(HOUR - 300, 0.3)
    bench.run(300, 0.9)
    after = bench.restarted()
    for one in (CPU, hour, MEMORY):
        assert after.value(one) == pytest.approx(bench.value(one), abs=0.001)
    after.run(1800, 0.3)
    assert after.value(CPU) == 0.3
    assert after.value(hour) == pytest.approx(0.35, abs=0.01), "five of these minutes were hot, not thirty"


@pytest.mark.parametrize("hour_first", [False, True])
def test_an_average_is_as_sharp_beside_that_of_an_hour(bench: Bench, hour_first: bool) -> None:
    hour = Metric("cpu_avg_1h", "cpu", "avg", HOUR, HOUR)
    bench.live("a", metrics_in_force=(hour, *metrics.BUILT_IN) if hour_first else (*metrics.BUILT_IN, hour))
    bench.run(HOUR, 0.3)
    bench.run(300, 0.9)
    assert (bench.value(CPU), bench.value(CPU_1H)) == (0.9, 0.9), "nothing of the minutes before"
    assert bench.value(hour) == pytest.approx(0.35, abs=0.01)


def test_restarts_do_not_prolong_a_peak(bench: Bench) -> None:
    bench.run(300, 0.2)
    bench.run(300, 0.9)
    peak_until = bench.now + HOUR
    highest = []
    while bench.now < peak_until + 1800:
        bench = bench.restarted()
        bench.run(60, 0.3)
        highest.append((bench.now, bench.value(CPU_1H)))
    assert {ratio for at, ratio in highest if at < peak_until} == {0.9}
    assert all(ratio is not None and ratio < 0.8 for at, ratio in highest if at >= peak_until)
    assert highest[-1][1] == pytest.approx(0.3, abs=0.01)


def test_after_a_long_outage_a_restart_has_the_peaks_and_no_average(bench: Bench) -> None:
    bench.run(600, 0.9)
    after = bench.restarted(900)
    after.sample(0.1)
    assert after.value() is None
    after.run(150, 0.1)
    assert (after.value(), after.value(CPU_1H)) == (0.1, 0.9)
    assert after.extent().since_seconds == bench.now + 900 - 15, "the hole is said"


def test_a_reading_without_times_of_peaks_is_not_gone_on_from(bench: Bench) -> None:
    written_from_prometheus = ConfirmedReading(Reading(NOW, {"cpu_avg_5m": 0.9, "cpu_max_1d": 0.9}), NOW)
    bench.windows.resume({"a": written_from_prometheus, "gone": written_from_prometheus}, now_seconds=NOW)
    bench.run(150, 0.1)
    assert bench.value(CPU_1D) == 0.1
    ahead = Reading(NOW, {"cpu_max_1h": 0.9}, windows=Windows(NOW, {"cpu_max_1h": NOW + DAY}))
    bench.windows.resume({"a": ConfirmedReading(ahead, NOW)}, now_seconds=NOW)
    bench.run(300, 0.1)
    assert bench.value(CPU_1H) == 0.1, "a peak of the future is none"


def test_what_this_process_knows_is_not_given_up_for_an_older_annotation(bench: Bench) -> None:
    bench.run(300, 0.9)
    carried = bench.carried()
    bench.run(1800, 0.6)
    bench.windows.resume(carried, now_seconds=bench.now)
    bench.run(HOUR - 1500, 0.3)
    assert (bench.value(), bench.value(CPU_1H)) == (0.3, 0.6), "which the annotation does not have"
    newer = {"a": ConfirmedReading(Reading(bench.now, {"cpu_avg_5m": 0.1}, windows=Windows(NOW, {})), bench.now + 30)}
    bench.now += 30
    bench.windows.resume(newer, now_seconds=bench.now)
    bench.now += 15
    bench.sample(0.1)
    assert (bench.value(), bench.value(CPU_1H)) == (0.1, 0.1), "another replica led meanwhile"


def test_a_new_machine_of_the_same_name_begins_with_nothing_and_others_keep_theirs() -> None:
    bench = Bench("a", "b")
    bench.run(300, 0.4)
    replaced = builders.node("a", metadata={"uid": "another"})
    bench.windows.follow(NodeSet.of([builders.node("c"), builders.node("b"), replaced]), metrics.BUILT_IN)
    bench.names = ("c", "b", "a")
    assert [bench.value(CPU, name) for name in bench.names] == [None, 0.4, None]
    assert [bench.value(CPU_1D, name) for name in bench.names] == [None, 0.4, None]


def test_a_metric_that_changes_begins_with_nothing_and_others_go_on(bench: Bench) -> None:
    bench.run(300, 0.9)
    shorter = Metric("cpu_max_1h", "cpu", "max", 1800.0, 300.0)
    bench.live("a", metrics_in_force=(CPU, shorter, CPU_1D))
    bench.run(300, 0.2)
    assert (bench.value(shorter), bench.value(CPU_1D)) == (0.865, 0.9), "of the averages since"


def test_a_clock_that_is_set_back_ends_what_is_of_the_future(bench: Bench) -> None:
    bench.run(600, 0.9)
    bench.now -= HOUR
    bench.sample(0.2)
    assert bench.value() is None
    bench.run(300, 0.2)
    assert (bench.value(), bench.value(CPU_1H)) == (0.2, 0.2)


def test_samples_that_come_faster_than_slots_are_merged() -> None:
    bench = Bench(step_seconds=1)
    bench.run(300, 0.2)
    bench.run(150, 0.6)
    assert bench.value() == pytest.approx(0.4, abs=0.01)
