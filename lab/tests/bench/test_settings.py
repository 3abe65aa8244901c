"""Each setting changes what its name says, and the parts of a trace stay apart."""

import pathlib

import numpy as np
import pytest

from lab.bench import settings
from simulator import scenario
from simulator.workloads import trace_files


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Twelve jobs of two days."""
    codes = np.random.default_rng(1).uniform(500, 2000, (12, 2 * 576)).astype(np.uint16)
    file = tmp_path_factory.mktemp("trace") / "trace.npz"
    np.savez(file, cpu=codes, mem=codes, cpu_scale=0.02, mem_scale=0.02, step=300)
    return file


@pytest.fixture(scope="module")
def drawn(trace: pathlib.Path) -> dict[str, scenario.Scenario]:
    """The scenario of a seed in each setting."""
    recipe = trace_files.Recipe(days=0.5, step_seconds=100.0, crowd=settings.CROWD)
    return {name: source.scenario(1) for name, source in settings.sources(trace, "judged", recipe).items()}


def test_a_fuller_cluster_has_fewer_nodes(drawn: dict[str, scenario.Scenario]) -> None:
    numbers = [len(drawn[name].machines) for name in ("low pressure", "guessing owners", "high pressure", "full")]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) == 4


def test_mixed_sizes_are_half_and_half_as_much_again(drawn: dict[str, scenario.Scenario]) -> None:
    plain = drawn["guessing owners"].machines[0].capacity
    sizes = {each.capacity.cpu_millicores / plain.cpu_millicores for each in drawn["mixed sizes"].machines}
    assert sizes == {0.5, 1.5}


def test_services_alone_are_spread_by_a_constraint(drawn: dict[str, scenario.Scenario]) -> None:
    spread = {each.kind for each in drawn["topology spread"].owners if "topologySpreadConstraints" in each.pod_spec}
    assert "Deployment" in spread
    assert "Job" not in spread
    assert not any(each.pod_spec for each in drawn["guessing owners"].owners)


def test_bursts_bring_larger_batches(drawn: dict[str, scenario.Scenario]) -> None:
    def most(name: str) -> int:
        arrivals = [each.arrives_seconds for each in drawn[name].replicas]
        return int(np.unique(arrivals, return_counts=True)[1].max())

    assert most("bursts") > most("guessing owners")


def test_generated_load_of_the_parts_has_other_seeds(trace: pathlib.Path) -> None:
    tuned, judged = (settings.sources(trace, part)["daily"].scenario(1) for part in ("tuned", "judged"))
    assert tuned.replicas != judged.replicas
