"""Runs of every variant on every seed come back in order, from other processes as from this one, and end together."""

import dataclasses
import functools
import os
import pathlib
import signal
from collections.abc import Iterator

import pytest

from simulator import runs, scenario, workers
from simulator.results import study
from simulator.results.outcome import Outcome, Progress
from tests.unit.simulator import outcomes

STEPS = 1000
VARIANTS = (study.PLAIN, outcomes.variant())


def children() -> list[str]:
    """The processes that this one has started and that it still has to wait for."""
    tasks = pathlib.Path("/proc/self/task").iterdir()
    return [pid for task in tasks for pid in (task / "children").read_text(encoding="utf-8").split()]


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    """After each test there are only the children of before: other tests keep a process that they fork."""
    before = children()
    yield
    assert set(children()) <= set(before)


@dataclasses.dataclass(frozen=True)
class Drawn:
    """Scenarios that know their seed by their name."""

    def scenario(self, seed: int) -> scenario.Scenario:
        """One with nothing in it."""
        usage = scenario.Usage(outcomes.timeline().cpu_ratio[0], outcomes.timeline().cpu_ratio[0])
        return scenario.Scenario(f"seed {seed}", 0.0, 300.0, STEPS, (), (), (), usage)


def pretended(run_source: scenario.Scenario, variant: study.Variant, seed: int, report: runs.Report) -> Outcome:
    """A run that does nothing but tell."""
    nothing = outcomes.timeline().cpu_ratio[0]
    for step in range(1, STEPS + 1):
        report(Progress(step, STEPS, step * 300.0, nothing, nothing, step, 0, 0))
    return dataclasses.replace(outcomes.outcome(variant.name, seed), assumptions=(run_source.name,))


def failing(run_source: scenario.Scenario, variant: study.Variant, seed: int, report: runs.Report) -> Outcome:
    """One of the runs fails; the others go on for as long as they may."""
    if variant.policy is not None:
        raise ValueError(f"{run_source.name}: no such node")
    nothing = outcomes.timeline().cpu_ratio[0]
    while True:
        report(Progress(1, STEPS, 300.0, nothing, nothing, 0, 0, 0))


@pytest.mark.parametrize("workers", [1, 2])
def test_outcomes_are_by_variant_in_the_order_of_seeds(workers: int) -> None:
    turns: list[tuple[str, int, int]] = []

    def watch(variant: str, seed: int, progress: Progress) -> None:
        turns.append((variant, seed, progress.steps_done))

    done = runs.run(Drawn(), VARIANTS, (5, 3), workers=workers, watch=watch, simulate=pretended)
    assert list(done) == [variant.name for variant in VARIANTS]
    for name, results in done.items():
        assert [(one.variant, one.seed, one.assumptions) for one in results] == [
            (name, 5, ("seed 5",)),
            (name, 3, ("seed 3",)),
        ]
    first = [step for variant, seed, step in turns if (variant, seed) == ("plain", 5)]
    assert first == sorted(first)
    assert len(first) <= runs.REPORTS


def test_a_run_that_fails_ends_the_others_and_says_why() -> None:
    with pytest.raises(ValueError, match="seed 1: no such node"):
        runs.run(Drawn(), VARIANTS, (1,), workers=2, watch=lambda *_: None, simulate=failing)


def telling(run_source: scenario.Scenario, variant: study.Variant, seed: int, report: runs.Report) -> Outcome:
    """A run that says what it was given and which process it was in, and tells its last step once."""
    nothing = outcomes.timeline().cpu_ratio[0]
    report(Progress(STEPS, STEPS, STEPS * 300.0, nothing, nothing, seed, 0, 0))
    return dataclasses.replace(outcomes.outcome(variant.name, seed), assumptions=(run_source.name, str(os.getpid())))


def noted(turns: list[tuple[int, int]], turn: int, _name: str, seed: int, _progress: Progress) -> None:
    """In which turn a seed's report came."""
    turns.append((turn, seed))


def test_a_crew_keeps_its_processes_and_knows_its_sources_by_name() -> None:
    run_source = {
        name: runs.FixedSource(dataclasses.replace(Drawn().scenario(1), name=name)) for name in ("early", "late")
    }
    turns: list[tuple[int, int]] = []
    processes = set[str]()
    with runs.crew(run_source, workers=2, simulate=telling) as hired:
        for turn in range(12):
            source = ("early", "late")[turn % 2]
            seeds = (2 * turn, 2 * turn + 1)
            done = hired.run(source, VARIANTS, seeds, functools.partial(noted, turns, turn))
            assert [(one.seed, one.assumptions[0]) for one in done["plain"]] == [(seed, source) for seed in seeds]
            processes |= {one.assumptions[1] for several in done.values() for one in several}
    assert str(os.getpid()) not in processes
    assert 1 <= len(processes) <= 2
    assert all(seed // 2 == turn for turn, seed in turns)  # a report that comes late is nobody's


@pytest.mark.parametrize("workers", [1, 2])
def test_whoever_leaves_a_crew_leaves_no_process(workers: int) -> None:
    def interrupted() -> None:
        with runs.crew({"it": Drawn()}, workers=workers, simulate=telling) as hired:
            hired.run("it", VARIANTS, (1,), lambda *_: None)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()


def test_one_scenario_serves_all_seeds() -> None:
    run_source = Drawn().scenario(1)
    assert runs.FixedSource(run_source).scenario(7) is run_source


def killed(run_source: scenario.Scenario, variant: study.Variant, seed: int, report: runs.Report) -> Outcome:
    """The system takes the memory of one of the runs."""
    os.kill(os.getpid(), signal.SIGKILL)
    return pretended(run_source, variant, seed, report)


def wrong(run_source: scenario.Scenario, variant: study.Variant, seed: int, report: runs.Report) -> Outcome:
    """A mistake of ours."""
    raise AssertionError(f"{run_source.name}: not like this")


def test_a_worker_that_the_system_kills_is_named_as_that() -> None:
    with pytest.raises(workers.WorkerLost, match="want of memory: try --workers 1"):
        runs.run(Drawn(), (study.PLAIN,), (1,), workers=2, watch=lambda *_: None, simulate=killed)


def test_a_worker_that_fails_prints_where(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(workers.WorkerLost, match="a run failed with exit code 1"):
        runs.run(Drawn(), (study.PLAIN,), (1,), workers=2, watch=lambda *_: None, simulate=wrong)
    assert "AssertionError: seed 1: not like this" in capfd.readouterr().err
