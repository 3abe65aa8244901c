"""Scenarios from a file of real utilisation data: the file's load, generated comings and goings, requests by a rule.

`load` reads the .npz form of `load_curves.read_samples`; `scenario` makes of it what `world` plays. Use is series
x node size x a scale per owner; requests follow the stated rule; the number of nodes follows from the requests and the
fill asked for. All replicas keep the file's clock. What the file does not say stays unknown (NaN): no replica outlives
the samples of the job it plays, except over gaps of at most an hour, and every such thing is told in the scenario's
`assumptions`.
"""

import dataclasses
import functools
import math
import pathlib
import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from simulator import contention as loads
from simulator import load_curves
from simulator import scenario as scenarios
from simulator.load_curves import Trace
from simulator.workloads import arrivals, owner_profiles, scenario_builder

LONGEST_GAP_SECONDS = 3600.0
LEAST_RATIO = np.float32(0.01)  # files of ratios instead of percent stay under this
FEWEST_NODES = 3
SCALE_LIMITS = (0.1, 1.0)
CROWD = arrivals.OwnerArrivals(pods=900, service_pods=200, base_seconds=6 * arrivals.HOUR_SECONDS, rollouts_per_day=0.5)


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """Options of a scenario made from a trace.

    The scenario covers `days` from step `first_step` of the file, in steps of `step_seconds` (None: the file's own);
    a file that ends sooner is an error. Use is constant inside a step of the file, as no more was measured. `scale`
    is the median of what a replica's load is multiplied by, `scale_spread` the deviation of its logarithm: a job of
    the file is as big as a machine, a replica is not, and on average uses drawing.LARGEST_MEAN_RATIO of one at most.
    Requests at their highest fill `fill_ratio` of the nodes. Who comes and goes is `crowd`, for as long as the
    scenario is: its base comes over six hours, and each Deployment rolls every other day, because a load-aware
    scheduler has a say only where pods are placed.
    """

    days: float = 2.0
    first_step: int = loads.REPLICA_LAGS - 1
    step_seconds: float | None = None
    crowd: arrivals.OwnerArrivals = CROWD
    node: loads.Load = loads.Load(8000.0, 32 * 2.0**30)  # noqa: RUF009 - immutable
    fill_ratio: float = 0.85
    scale: float = 0.35
    scale_spread: float = 0.5
    pod_ceiling_ratio: float = 0.40


@functools.lru_cache(maxsize=2)
def load(path: pathlib.Path) -> Trace:
    """Reads a trace file, once in each process; TraceError for one that cannot be read or has nothing to play."""
    trace = load_curves.read_samples(path)
    most_ratio = np.max(trace.cpu_ratio, initial=0.0, where=np.isfinite(trace.cpu_ratio))
    if most_ratio < LEAST_RATIO:
        raise load_curves.TraceError(
            f"{path}: no sample of cpu is over {100 * most_ratio:g} % of a machine, expected some over "
            f"{100 * LEAST_RATIO:g}; ratios need a cpu_scale that makes them percent"
        )
    return trace


def scenario(trace: Trace, rule: str, seed: int, recipe: Recipe | None = None) -> scenarios.Scenario:
    """The scenario of a trace under one of `owner_profiles.RULES`; ValueError for an unknown rule, span or trace."""
    recipe = recipe or Recipe()
    casting = _Casting(trace, recipe, owner_profiles.guessing_ratio(rule), np.random.default_rng((seed, 5)))
    drafts = casting.drafts()
    if not drafts:
        raise ValueError(
            f"{trace.name}: no replica's lifetime is covered by samples; expected other steps, or another file"
        )
    nodes = scenario_builder.machines(_nodes(drafts, recipe, casting.frame), recipe.node)
    remarks = (*_assumptions(trace, rule, recipe), *casting.remarks())
    return scenario_builder.built(
        f"{trace.name}, {rule}, seed {seed}", drafts, nodes, casting.frame, assumptions=remarks
    )


class _Casting:
    """Gives each life a job of the trace that has samples for it, and remembers what had to be left out."""

    def __init__(self, trace: Trace, recipe: Recipe, guessing_ratio: float, rng: np.random.Generator) -> None:
        self._file = scenario_builder.Frame(
            trace.step_seconds, round(recipe.days * arrivals.DAY_SECONDS / trace.step_seconds)
        )
        step_seconds = recipe.step_seconds or trace.step_seconds
        self.frame = scenario_builder.Frame(step_seconds, round(self._file.seconds / step_seconds), trace.step_seconds)
        self._trace, self._recipe, self._guessing_ratio, self._rng = trace, recipe, guessing_ratio, rng
        self._mean_ratios = _means(trace)
        self._until = covered_until(trace, _window(trace, recipe, self._file))
        self._used = np.zeros(len(trace.cpu_ratio), np.intp)
        self._cut_short = self._left_out = self._unknown_steps = 0

    def drafts(self) -> list[scenario_builder.Draft]:
        """Every life for which there are samples."""
        crowd = dataclasses.replace(self._recipe.crowd, seconds=self.frame.seconds)
        every = (self._draft(number, life) for number, life in enumerate(arrivals.draw(crowd, self._rng)))
        return [each for each in every if each is not None]

    def remarks(self) -> tuple[str, ...]:
        """Returns the remarks on gaps that a reader of the result needs."""
        counts = {
            "owners leave early, when the samples of the job they play end": self._cut_short,
            "owners are left out, because no job has samples when they would arrive": self._left_out,
            "steps of owners lie in short gaps of the file: their use is unknown there": self._unknown_steps,
        }
        return tuple(f"{number} {what}." for what, number in counts.items() if number)

    def _draft(self, number: int, life: arrivals.Life) -> scenario_builder.Draft | None:
        first_step, end_step = self._file.steps_of(life)
        job = self._job(first_step, end_step)
        until_step = int(self._until[job, first_step])
        if until_step <= first_step:
            self._left_out += 1
            return None
        if until_step < end_step:
            self._cut_short += 1
            life = life.until(until_step * self._file.step_seconds)
        return self._played(number, life, job)

    def _job(self, first_step: int, end_step: int) -> int:
        """Of the jobs that have samples for the whole life, else for the longest part of it: one seldom used so far."""
        reach = np.minimum(self._until[:, first_step], end_step)
        fit = np.flatnonzero(reach == reach.max())
        seldom = fit[self._used[fit] == self._used[fit].min()]
        job = int(self._rng.choice(seldom))
        self._used[job] += 1
        return job

    def _played(self, number: int, life: arrivals.Life, job: int) -> scenario_builder.Draft:
        recipe, rng = self._recipe, self._rng
        mean_ratios = self._mean_ratios[job]
        drawn = float(np.clip(math.exp(rng.normal(math.log(recipe.scale), recipe.scale_spread)), *SCALE_LIMITS))
        scale = min(drawn, owner_profiles.LARGEST_MEAN_RATIO / float(np.fmax(*mean_ratios)))
        mean = owner_profiles.times(recipe.node, loads.Load(*(scale * mean_ratios).tolist()))
        whole = load_curves.Curve(
            self._trace.cpu_ratio[job] / np.float32(mean_ratios[0]),
            self._trace.memory_ratio[job] / np.float32(mean_ratios[1]),
            self._file.step_seconds,
        )
        guessing = bool(rng.random() < self._guessing_ratio)
        requests = owner_profiles.requests(owner_profiles.use(mean, whole), guessing, rng)
        levels, lags = scenario_builder.levels_and_lags(life.slots, self.frame, rng)
        curve = scenario_builder.cut_once(whole, recipe.first_step, self.frame, life)
        self._unknown_steps += int(np.isnan(curve.cpu[self.frame.look_back : -scenario_builder.AFTER]).sum())
        return scenario_builder.Draft(
            name=f"{life.kind.lower()}-{'guessed' if guessing else 'fitting'}-requests-{number:04d}",
            life=life,
            first_step=self.frame.steps_of(life)[0],
            curve=curve,
            mean=mean,
            requests=owner_profiles.fitting(requests, recipe.node, recipe.pod_ceiling_ratio),
            levels=levels,
            lags=lags,
        )


def _means(trace: Trace) -> npt.NDArray[np.float64]:
    """Mean CPU and memory of each job [jobs, 2] over its samples; NaN where it has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of an empty mean: NaN is what is meant
        return np.stack([np.nanmean(trace.cpu_ratio, axis=1), np.nanmean(trace.memory_ratio, axis=1)], axis=1)


def _window(trace: Trace, recipe: Recipe, frame: scenario_builder.Frame) -> slice:
    """The steps of the file that the scenario covers; ValueError for more than it has."""
    window = slice(recipe.first_step, recipe.first_step + frame.steps)
    if frame.steps < 1 or window.start < 0 or window.stop > trace.cpu_ratio.shape[1]:
        raise ValueError(
            f"{trace.name}: {recipe.days:g} days from step {recipe.first_step} are steps {window.start} to "
            f"{window.stop}, expected at least one within the file's {trace.cpu_ratio.shape[1]}"
        )
    return window


def covered_until(trace: Trace, window: slice) -> npt.NDArray[np.intp]:
    """For each job and step of the window [jobs, steps]: up to which step it has samples from there on without a long
    gap; the step itself where it has none. A job that never uses CPU has none: it is no load.
    """
    known = np.isfinite(trace.cpu_ratio[:, window]) & (np.nanmax(trace.cpu_ratio, axis=1, initial=0.0) > 0)[:, None]
    longest = round(LONGEST_GAP_SECONDS / trace.step_seconds)
    steps = known.shape[1]
    until = np.zeros(known.shape, np.intp)
    end, begin = np.full(len(known), -1), np.full(len(known), steps + longest + 1)
    for step in reversed(range(steps)):
        bridged = begin - step <= longest + 1
        end = np.where(known[:, step] & ~bridged, step + 1, end)
        begin = np.where(known[:, step], step, begin)
        until[:, step] = np.where(known[:, step] | (begin - step <= longest), np.maximum(end, step), step)
    return until


def _nodes(drafts: Sequence[scenario_builder.Draft], recipe: Recipe, frame: scenario_builder.Frame) -> int:
    """As many nodes as the highest sum of requests fills to the ratio asked for."""
    most = scenario_builder.asked_by_step(drafts, frame).max(axis=1)
    one = np.array([recipe.node.cpu_millicores, recipe.node.memory_bytes]) * recipe.fill_ratio
    return max(FEWEST_NODES, math.ceil(float((most / one).max())))


def _assumptions(trace: Trace, rule: str, recipe: Recipe) -> tuple[str, ...]:
    remarks = (
        f"Load is that of {len(trace.cpu_ratio)} jobs of {trace.name}, each a share of a node times about "
        f"{recipe.scale:g}; who comes when is drawn as in the Azure region of 2016.",
        f"{owner_profiles.sentence(rule)} As many nodes as requests fill to {100 * recipe.fill_ratio:.0f} %.",
    )
    if np.isnan(trace.memory_ratio).all():
        return (*remarks, "The file has no memory series: memory use is unknown, and requests are the least.")
    return remarks


@dataclasses.dataclass(frozen=True, slots=True)
class TracedScenarios:
    """A trace file's load; arrivals and requests (by `rule`) follow the seed."""

    path: pathlib.Path
    rule: str
    recipe: Recipe

    def scenario(self, seed: int) -> scenarios.Scenario:
        """The workload of a seed; load_curves.TraceError for the file, ValueError for a recipe that it cannot serve."""
        return scenario(load(self.path), self.rule, seed, self.recipe)
