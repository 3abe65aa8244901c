"""What is tuned on one part of a trace is judged on other jobs and days; all contestants get the same arrivals."""

import dataclasses
import pathlib

import numpy as np
import pytest

from lab.peers import catalogue
from lab.peers import comparison as peer_comparison
from lab.peers.comparison import Contestant
from simulator.workloads import arrivals, trace_files

STEPS = 300
RECIPE = trace_files.Recipe(days=0.25, crowd=arrivals.OwnerArrivals(pods=24, service_pods=12, base_seconds=3600.0))


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    """Twelve jobs: job j uses 10 + j percent of CPU, in the second half of the days twice that."""
    levels = np.repeat(10.0 + np.arange(12)[:, None], STEPS, axis=1)
    levels[:, STEPS // 2 :] *= 2
    wiggle = np.random.default_rng(1).uniform(0.9, 1.1, levels.shape)
    codes = (levels * wiggle / 0.02).astype(np.uint16)
    file = tmp_path / "trace.npz"
    np.savez(file, cpu=codes, mem=codes, cpu_scale=0.02, mem_scale=0.02, step=300)
    return file


def test_parts_have_other_jobs_and_other_days(path: pathlib.Path) -> None:
    whole = trace_files.load(path)
    for part in (0, 1):
        drawn = peer_comparison.TraceSource(path, "mix", RECIPE, part).scenario(1)
        own = peer_comparison.taken(whole, list(range(part, 12, 2)))
        assert np.array_equal(own.cpu_ratio, whole.cpu_ratio[part::2])
        begin = RECIPE.first_step + part * STEPS // 2
        expected = trace_files.scenario(own, "mix", 1, dataclasses.replace(RECIPE, first_step=begin))
        assert drawn.replicas == expected.replicas
        assert np.array_equal(drawn.usage.cpu_millicores, expected.usage.cpu_millicores)


def test_with_a_share_of_the_cpu_memory_is_what_fills_nodes(path: pathlib.Path) -> None:
    def proportion(cpu_share: float) -> float:
        drawn = peer_comparison.TraceSource(path, "careful", RECIPE, 0, cpu_share).scenario(1)
        return float(np.nansum(drawn.usage.cpu_millicores) / np.nansum(drawn.usage.memory_bytes))

    assert proportion(0.4) == pytest.approx(0.4 * proportion(1.0), rel=0.05)


def test_all_contestants_get_the_same_arrivals_and_each_its_own_placements(path: pathlib.Path) -> None:
    chosen = [
        Contestant("plain"),
        *(Contestant(name, peer=name) for name in catalogue.NAMES),
        Contestant("evenload", sections={}),
    ]
    source = peer_comparison.TraceSource(path, "guessing", RECIPE)
    found = peer_comparison.held(source, chosen, [1], workers=1, watch=lambda _variant, _seed, _progress: None)
    assert list(found) == [each.name for each in chosen]
    every = [outcomes[0] for outcomes in found.values()]
    assert {outcome.figures.pods_bound for outcome in every} == {24}
    assert all(not outcome.unplaced for outcome in every)
    assert len({outcome.timeline.cpu_ratio.tobytes() for outcome in every}) > 1
    assert found["evenload"][0].figures.effectiveness.total_schedule_count > 0


def test_the_weight_of_a_peer_is_that_of_its_plugin(path: pathlib.Path) -> None:
    chosen = [Contestant(f"koordinator {weight}", peer="koordinator", weight=weight) for weight in (0, 1, 100)]
    source = peer_comparison.TraceSource(path, "guessing", RECIPE)
    outcomes = peer_comparison.held(source, chosen, [1], workers=1, watch=lambda _variant, _seed, _progress: None)
    assert len({each[0].timeline.cpu_ratio.tobytes() for each in outcomes.values()}) == 3


def test_a_repeated_trace_plays_the_first_steps_of_each_day_again(path: pathlib.Path) -> None:
    whole = trace_files.load(path)
    repeated = peer_comparison.repeated(whole, 36)
    assert np.array_equal(repeated.cpu_ratio[:, :36], whole.cpu_ratio[:, :36])
    assert np.array_equal(repeated.cpu_ratio[:, 36:72], whole.cpu_ratio[:, :36])
    assert np.array_equal(repeated.memory_ratio[:, 288:300], whole.memory_ratio[:, 288:300]), "another day begins"
