"""What is tuned on one part of a trace is judged on other jobs and days; all contestants get the same arrivals."""

import dataclasses
import pathlib

import numpy as np
import pytest

from simulator import peer_comparison
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
        own = whole.only(range(part, 12, 2))
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
    chosen = [each for each in peer_comparison.ALL if each.name in ("plain", "koordinator", "oracle", "evenload")]
    source = peer_comparison.TraceSource(path, "guessing", RECIPE)
    found = peer_comparison.held(source, chosen, [1], workers=1, watch=lambda _variant, _seed, _progress: None)
    assert list(found) == [each.name for each in chosen]
    every = [outcomes[0] for outcomes in found.values()]
    assert {outcome.figures.pods_bound for outcome in every} == {24}
    assert all(not outcome.unplaced for outcome in every)
    assert len({outcome.timeline.cpu_ratio.tobytes() for outcome in every}) > 1
    assert found["evenload"][0].figures.effectiveness.total_schedule_count > 0


@pytest.mark.parametrize(
    ("name", "combine", "incoming_pod"),
    [
        ("field", "mean", False),
        ("field, worst, incoming", "worst", True),
        ("weights", "mean", False),
        ("worst, weights", "worst", False),
        ("weights .5 .5 0", "worst", True),
        ("mean, incoming, weights 1 0 0", "mean", True),
    ],
)
def test_a_contestants_score_is_as_its_name_says(name: str, combine: str, incoming_pod: bool) -> None:
    (policy,) = [
        one.variant.policy for one in peer_comparison.VARIANTS if one.name == f"{peer_comparison.OURS}, {name}"
    ]
    assert policy is not None
    assert (policy.score.combine, policy.score.incoming_pod) == (combine, incoming_pod)


def test_no_two_contestants_are_the_same() -> None:
    played = [(one.variant.policy, one.weight) for one in peer_comparison.VARIANTS]
    assert not [one for one in played if played.count(one) > 1]
