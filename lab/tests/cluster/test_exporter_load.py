"""A pod uses what it says, replicas differ in a repeatable way, and a trace plays in a loop."""

import math
import pathlib

import numpy as np
import pytest

from lab.cluster import exporter_load
from simulator import contention, load_curves

REQUESTS = contention.Load(1000.0, 1e9)


def test_a_pod_uses_what_its_annotation_says() -> None:
    found = exporter_load.profile({exporter_load.USAGE_KEY: '{"cpu_millicores": 250, "memory_bytes": 1024}'}, REQUESTS)
    used = exporter_load.usage(found, exporter_load.curves()(found), exporter_load.Replica(), 12345.0)
    assert used == contention.Load(250, 1024)
    assert not found.spreads


def test_a_pod_that_says_nothing_uses_a_tenth_of_its_requests() -> None:
    assert exporter_load.profile({}, REQUESTS) == exporter_load.Profile(100.0, 1e8)


def test_a_pod_that_says_and_asks_for_nothing_uses_a_little() -> None:
    found = exporter_load.profile({}, contention.Load())
    assert 0 < found.cpu_millicores <= 10
    assert 0 < found.memory_bytes <= 2**24


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("{", "not understood", id="truncated JSON"),
        pytest.param('["cpu"]', "not understood", id="a list"),
        pytest.param('{"cpu": 1}', "unknown field `cpu`", id="a misspelt key"),
        pytest.param('{"cpu_millicores": "much"}', "not understood", id="a word for a number"),
        pytest.param('{"cpu_millicores": -1}', "at least 0", id="a negative load"),
        pytest.param('{"series": "gooogle"}', "expected flat, google or trace", id="an unknown series"),
    ],
)
def test_an_annotation_that_is_not_understood_is_refused_with_its_key(text: str, complaint: str) -> None:
    with pytest.raises(exporter_load.LoadError, match=complaint) as refused:
        exporter_load.profile({exporter_load.USAGE_KEY: text}, REQUESTS)
    assert exporter_load.USAGE_KEY in str(refused.value)


def test_a_node_says_its_own_load_or_has_the_default() -> None:
    default = contention.SystemLoad(0.01, 0.02)
    assert exporter_load.system_load({}, default) == default
    assert exporter_load.system_load({exporter_load.SYSTEM_KEY: '{"cpu_ratio": 0.5}'}, default).cpu_ratio == 0.5
    with pytest.raises(exporter_load.LoadError, match="at least 0"):
        exporter_load.system_load({exporter_load.SYSTEM_KEY: '{"cpu_ratio": -0.5}'}, default)


def test_a_google_pod_averages_its_mean_over_the_curve() -> None:
    profile = exporter_load.Profile(500.0, 1e9, series="google", seed=4)
    curve = exporter_load.curves()(profile)
    spans = range(len(curve.cpu))
    values = [exporter_load.usage(profile, curve, exporter_load.Replica(), step * curve.step_seconds) for step in spans]
    assert sum(value.cpu_millicores for value in values) / len(values) == pytest.approx(500, rel=1e-3)
    assert len({value.cpu_millicores for value in values}) > len(values) / 2
    assert profile.spreads


def test_a_trace_pod_plays_the_job_of_its_seed() -> None:
    jobs = (load_curves.FLAT, load_curves.generate(9))
    assert exporter_load.curves(jobs)(exporter_load.Profile(1.0, 1.0, series="trace", seed=3)) is jobs[1]
    assert exporter_load.curves()(exporter_load.Profile(1.0, 1.0, series="trace", seed=3)) is load_curves.FLAT


def test_replicas_differ_by_a_level_around_one_and_a_lag_of_up_to_two_steps() -> None:
    replicas = [exporter_load.replica(seed, ordinal) for seed in range(200) for ordinal in range(4)]
    levels = [math.log(which.level) for which in replicas]
    assert sum(levels) / len(levels) == pytest.approx(0, abs=0.02)
    assert math.sqrt(sum(level**2 for level in levels) / len(levels)) == pytest.approx(0.15, abs=0.02)
    assert {which.lag_steps for which in replicas} == {0, 1, 2}
    assert exporter_load.replica(7, 1) == exporter_load.replica(7, 1)
    assert exporter_load.replica(7, 1) != exporter_load.replica(7, 2)


@pytest.mark.parametrize("speed", [1.0, 30.0, 7.3])
def test_the_trace_clock_names_the_end_of_each_step(speed: float) -> None:
    clock = exporter_load.Clock(epoch_seconds=1000.0, speed=speed)
    now = 1000.0
    for step in range(1, 50):
        now_next = clock.next_step(now, 300.0)
        assert now_next > now
        assert now_next == pytest.approx(1000.0 + step * 300.0 / speed)
        now = now_next


def test_a_curve_is_constant_inside_a_step_and_repeats() -> None:
    curve = load_curves.generate(3)
    assert exporter_load.step_at(curve, 0.0) == exporter_load.step_at(curve, 299.9) == 0
    assert exporter_load.step_at(curve, 300.0) == 1
    assert exporter_load.step_at(curve, 600.0, lag_steps=2) == 0
    assert exporter_load.step_at(curve, 300.0 * len(curve.cpu)) == 0
    assert exporter_load.step_at(curve, 0.0, lag_steps=1) == len(curve.cpu) - 1


def trace_of(path: pathlib.Path, cpu: list[list[int]]) -> pathlib.Path:
    """A trace of two jobs, whose memory has a gap."""
    memory = np.array([[65535, 50, 50], [1, 1, 1]], np.uint16)
    np.savez(path, cpu=np.array(cpu, np.uint16), mem=memory, cpu_scale=0.1, mem_scale=0.1, step=60)
    return path


def test_a_trace_is_read_with_gaps_filled_and_empty_jobs_left_out(tmp_path: pathlib.Path) -> None:
    (job,) = exporter_load.read_trace(trace_of(tmp_path / "trace.npz", [[100, 65535, 300], [65535] * 3]))
    assert job.curve.step_seconds == 60
    assert job.curve.cpu.tolist() == pytest.approx([0.6, 0.6, 1.8])
    assert job.curve.memory.tolist() == pytest.approx([1, 1, 1])


def test_a_trace_of_gaps_alone_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    path = trace_of(tmp_path / "trace.npz", [[65535] * 3, [65535] * 3])
    with pytest.raises(load_curves.TraceError, match="nothing to play") as refused:
        exporter_load.read_trace(path)
    assert str(path) in str(refused.value)
