"""A trace's load is played at its own clock, scaled, never where there was no sample; bad files are refused."""

import dataclasses
import math
import pathlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import load_curves
from simulator.workloads import arrivals, owner_profiles, trace_files
from tests.unit.simulator import scenarios

GAP = 65535
STEPS = 600
SHORT = trace_files.Recipe(days=1.0, crowd=arrivals.OwnerArrivals(pods=150, service_pods=60))
REAL = pathlib.Path("/work/shared/traces")
REAL_REASON = f"{REAL} is absent: the traces are not part of the repository (see its README)"


def codes(jobs: int = 30, seed: int = 0) -> np.ndarray:
    """Loads of 5 to 80 percent, in codes of 0.02 percent."""
    rng = np.random.default_rng(seed)
    return (rng.uniform(5, 60, (jobs, 1)) * rng.uniform(0.7, 1.3, (jobs, STEPS)) / 0.02).astype(np.uint16)


def written(path: pathlib.Path, **arrays: object) -> pathlib.Path:
    """A trace file; `arrays` replaces or (None) leaves out."""
    content = {"cpu": codes(), "mem": codes(seed=1), "cpu_scale": 0.02, "mem_scale": 0.02, "step": 300} | arrays
    np.savez(
        path, allow_pickle=False, **{name: np.asarray(value) for name, value in content.items() if value is not None}
    )
    return path


@pytest.fixture
def trace(tmp_path: pathlib.Path) -> load_curves.Trace:
    """Thirty jobs with a sample in every step."""
    return trace_files.load(written(tmp_path / "trace.npz"))


def test_a_file_is_read_in_ratios_and_its_gaps_stay(tmp_path: pathlib.Path) -> None:
    cpu = codes()
    cpu[3, 5] = GAP
    read = trace_files.load(written(tmp_path / "trace.npz", cpu=cpu))
    assert math.isnan(read.cpu_ratio[3, 5])
    assert read.cpu_ratio[0, 0] == pytest.approx(cpu[0, 0] * 0.0002, rel=1e-5)
    assert read.step_seconds == 300


def test_a_file_of_ratios_instead_of_percent_is_refused(tmp_path: pathlib.Path) -> None:
    path = written(tmp_path / "trace.npz", cpu_scale=0.0002)
    with pytest.raises(load_curves.TraceError, match=r"no sample of cpu is over 0\.\d+ %.*ratios need a cpu_scale"):
        trace_files.load(path)


def test_a_file_without_a_single_sample_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(load_curves.TraceError, match="no sample of cpu is over 0 %"):
        trace_files.load(written(tmp_path / "trace.npz", cpu=np.full((3, STEPS), GAP, np.uint16), mem=None))


def test_a_seed_gives_one_scenario(trace: load_curves.Trace) -> None:
    one, other = trace_files.scenario(trace, "mix", 1, SHORT), trace_files.scenario(trace, "mix", 1, SHORT)
    assert (one.owners, one.replicas) == (other.owners, other.replicas)
    assert trace_files.scenario(trace, "mix", 2, SHORT).replicas != one.replicas


@pytest.mark.parametrize("rule", list(owner_profiles.RULES))
def test_the_nodes_are_as_many_as_requests_fill_to_the_ratio_asked_for(trace: load_curves.Trace, rule: str) -> None:
    for fill_ratio in (0.6, 1.0):
        drawn = trace_files.scenario(trace, rule, 3, dataclasses.replace(SHORT, fill_ratio=fill_ratio))
        nodes = len(drawn.machines)
        most = scenarios.asked_ratio(drawn).max() / fill_ratio
        assert (nodes - 1) / nodes < most <= 1 + 1e-9


def test_use_is_the_jobs_own_at_the_files_clock_scaled_and_lagged(trace: load_curves.Trace) -> None:
    """Each replica's use is one job's samples, moved by 0 to 2 steps, times one factor that CPU and memory share."""
    drawn = trace_files.scenario(trace, "mix", 5, dataclasses.replace(SHORT, first_step=40))
    for replica in drawn.replicas[::10]:
        first, end = scenarios.steps(drawn, replica)
        cpu, memory = (
            values[replica.offset + first : replica.offset + end]
            for values in (drawn.usage.cpu_millicores, drawn.usage.memory_bytes)
        )
        assert any(
            _factor(cpu, trace.cpu_ratio[job, 40 + first - lag : 40 + end - lag]) / 8000
            == pytest.approx(_factor(memory, trace.memory_ratio[job, 40 + first - lag : 40 + end - lag]) / (32 * 2**30))
            for job in range(30)
            for lag in range(3)
            if not math.isnan(_factor(cpu, trace.cpu_ratio[job, 40 + first - lag : 40 + end - lag]))
        )


def _factor(values: np.ndarray, others: np.ndarray) -> float:
    ratios = values / others
    return float(ratios.mean()) if np.allclose(ratios, ratios.mean(), rtol=1e-4) else math.nan


def test_in_shorter_steps_use_stays_constant_inside_a_step_of_the_file(trace: load_curves.Trace) -> None:
    whole, fine = (
        trace_files.scenario(trace, "mix", 2, dataclasses.replace(SHORT, step_seconds=step_seconds))
        for step_seconds in (None, 100.0)
    )
    assert (fine.steps, fine.step_seconds) == (3 * whole.steps, 100.0)
    pairs = list(zip(whole.replicas, fine.replicas, strict=True))
    assert all(one.leaves_seconds == other.leaves_seconds for one, other in pairs)
    for one, other in (pair for pair in pairs if pair[0].leaves_seconds > pair[0].arrives_seconds + 900):
        assert (one.arrives_seconds, one.level) == (other.arrives_seconds, other.level)
        step = math.floor((one.arrives_seconds - whole.start_seconds) / 300) + 1
        coarse = whole.usage.cpu_millicores[one.offset + step]
        assert fine.usage.cpu_millicores[other.offset + 3 * step : other.offset + 3 * step + 3].tolist() == [coarse] * 3


def test_nobody_outlives_the_samples_of_the_job_it_plays(tmp_path: pathlib.Path) -> None:
    cpu = codes()
    cpu[:, 200:260] = GAP  # five hours: too long to bridge
    drawn = trace_files.scenario(trace_files.load(written(tmp_path / "trace.npz", cpu=cpu)), "mix", 1, SHORT)
    for replica in drawn.replicas:
        first, end = scenarios.steps(drawn, replica)
        assert np.isfinite(drawn.usage.cpu_millicores[replica.offset + first + 2 : replica.offset + end]).all()
    told = " ".join(drawn.assumptions)
    assert "owners leave early" in told
    assert "owners are left out" in told


def test_the_use_in_a_short_gap_is_unknown_and_said_to_be(tmp_path: pathlib.Path) -> None:
    cpu = codes()
    cpu[:, 100:105] = GAP
    drawn = trace_files.scenario(trace_files.load(written(tmp_path / "trace.npz", cpu=cpu)), "mix", 1, SHORT)
    there = [replica for replica in drawn.replicas if scenarios.steps(drawn, replica)[0] < 90]
    staying = [replica for replica in there if scenarios.steps(drawn, replica)[1] > 120]
    assert staying
    for replica in staying:
        assert np.isnan(drawn.usage.cpu_millicores[replica.offset + 98 + 2 : replica.offset + 98 + 7]).any()
    assert "use is unknown there" in " ".join(drawn.assumptions)


def test_a_file_that_says_nothing_of_memory_leaves_it_unknown(tmp_path: pathlib.Path) -> None:
    drawn = trace_files.scenario(trace_files.load(written(tmp_path / "trace.npz", mem=None)), "guessing", 1, SHORT)
    assert np.isnan(drawn.usage.memory_bytes).all()
    assert {owner.requests.memory_bytes for owner in drawn.owners} == {owner_profiles.MIN_REQUEST.memory_bytes}
    assert "no memory series" in " ".join(drawn.assumptions)


def test_jobs_are_used_evenly_and_a_part_of_the_trace_keeps_to_itself(trace: load_curves.Trace) -> None:
    part = dataclasses.replace(trace, cpu_ratio=trace.cpu_ratio[2:7:2], memory_ratio=trace.memory_ratio[2:7:2])
    drawn = trace_files.scenario(part, "mix", 1, SHORT)
    assert len(drawn.owners) > 3


@pytest.mark.parametrize(
    ("recipe", "complaint"),
    [
        pytest.param(
            {"first_step": 500}, "steps 500 to 788, expected at least one within the file's 600", id="too late"
        ),
        pytest.param({"days": 3.0}, "steps 2 to 866", id="too long"),
        pytest.param({"days": 0.0}, "at least one", id="no time at all"),
    ],
)
def test_a_span_that_the_file_does_not_have_is_refused(
    trace: load_curves.Trace, recipe: dict[str, float], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        trace_files.scenario(trace, "mix", 1, dataclasses.replace(SHORT, **recipe))  # type: ignore[arg-type]


def test_a_file_whose_jobs_have_no_sample_in_the_span_is_refused(tmp_path: pathlib.Path) -> None:
    cpu = codes()
    cpu[:, :400] = GAP
    read = trace_files.load(written(tmp_path / "trace.npz", cpu=cpu))
    with pytest.raises(ValueError, match="no replica's lifetime is covered by samples"):
        trace_files.scenario(read, "mix", 1, SHORT)


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(1, 4))
def test_coverage_reaches_over_short_gaps_only(known: list[bool], longest: int) -> None:
    values = np.where(known, np.float32(0.5), np.float32(np.nan))[None, :]
    one = load_curves.Trace("one", values, values, trace_files.LONGEST_GAP_SECONDS / longest)
    until = trace_files.covered_until(one, slice(0, len(known)))[0]
    for step in range(len(known)):
        assert until[step] == _reach(known, step, longest)


def _reach(known: list[bool], step: int, longest: int) -> int:
    """The slow way: go on while the next sample comes within the longest gap."""
    reached = step
    while True:
        after = [at for at in range(reached, min(len(known), reached + longest + 1)) if known[at]]
        if not after:
            return reached
        reached = after[0] + 1


@pytest.mark.skipif(not REAL.is_dir(), reason=REAL_REASON)
@pytest.mark.parametrize("rule", ["guessing", "careful"])
def test_the_google_jobs_make_a_scenario_in_which_requests_mislead_or_not(rule: str) -> None:
    read = trace_files.load(REAL / "google2011_jobs" / "google2011_jobs.npz")
    drawn = trace_files.scenario(read, rule, 1)
    assert read.cpu_ratio.shape == (251, 2880)
    ratios = scenarios.used_per_request(drawn)
    assert (np.percentile(ratios, 90) / np.percentile(ratios, 10) > 4) == (rule == "guessing")
