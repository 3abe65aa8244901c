"""The playground's question: how would a day have been under another policy.

A replay runs the policy in force and the one tried on one day, each in a process of its own: a recorded day
(`evenload whatif --save`), or a generated one of 20 nodes.
"""

import collections.abc
import pathlib
from typing import Any, Final

import numpy as np

from console.sources import Json, Report, SourceError
from policy.loading import loader
from policy.schema import load_policy, problems
from policy.schema.load_policy import LoadPolicy
from runtime import reloading
from simulator import runs
from simulator.history import past_file
from simulator.report import headline
from simulator.results import figures
from simulator.results.outcome import Outcome, Progress
from simulator.results.study import Study, Variant
from simulator.workers import WorkerLost
from simulator.workloads import generator

SOURCE: Final = "policy"
IN_FORCE, TRIED = "in force", "tried"
SEED: Final = 9
SHAPE: Final = generator.Shape(nodes=20, pods=450)
POINTS: Final = 288


def replaying(history: pathlib.Path | None) -> collections.abc.Callable[[str, Json, Report], Json]:
    """The replay over a recorded day, or over the generated one. Raises past_file.HistoryError for what is none."""
    source: runs.Source = generator.GeneratedScenarios(SHAPE)
    title = f"a generated day of {SHAPE.nodes} nodes"
    if history is not None:
        scenario = past_file.load(history).scenario
        source, title = runs.FixedSource(scenario), scenario.name
    return lambda text, in_force, report: replay(source, title, text, in_force, report=report)


def replay(source: runs.Source, title: str, text: str, in_force: Json, *, report: Report) -> Json:
    """Both days, as the page draws them. SourceError for a text that is no policy."""
    now = LoadPolicy.of(in_force) if in_force else load_policy.defaults()
    variants = (Variant(IN_FORCE, now, SOURCE, IN_FORCE), _tried(text))
    shares = dict.fromkeys((one.name for one in variants), 0.0)

    def watch(variant: str, _seed: int, progress: Progress) -> None:
        shares[variant] = progress.steps_done / progress.steps
        report(sum(shares.values()) / len(shares))

    try:
        outcomes = runs.run(source, variants, (SEED,), workers=runs.processors(), watch=watch)
    except (WorkerLost, ValueError) as error:
        raise SourceError(f"the replay ended: {error}") from error
    return _answer(Study(title, {}, variants, (SEED,), outcomes))


def _tried(text: str) -> Variant:
    try:
        policy = loader.load(text, SOURCE)
    except problems.PolicyError as error:
        raise SourceError(f"this is no policy: {error.problems[0].text(SOURCE)}") from error
    return Variant(TRIED, policy, SOURCE, reloading.content_hash(text.encode()), text)


def _answer(study: Study) -> Json:
    compared = study.comparison
    days = [study.outcomes[variant.name][0] for variant in study.variants]
    timeline = days[0].timeline
    steps = _steps(timeline.cpu_ratio)
    return {
        "title": f"{study.title}: {IN_FORCE}, and as {TRIED}",
        "numbers": [one._asdict() for one in headline.of(study, TRIED)],
        "nodes": list(timeline.nodes),
        "at_seconds": [timeline.start_seconds + float(step) * timeline.step_seconds for step in steps],
        "days": [_day(outcome, steps) for outcome in days],
        "figures": [
            {"name": line.figure.name, "values": [line.text(variant.name) for variant in study.variants]}
            for line in compared.lines
        ],
    }


def _steps(ratios: Any) -> Any:
    return np.unique(np.linspace(0, len(ratios) - 1, min(POINTS, len(ratios))).round().astype(int))


def _day(outcome: Outcome, steps: Any) -> Json:
    cpu = np.asarray(outcome.timeline.cpu_ratio, dtype=np.float64)
    with np.errstate(all="ignore"):
        spread, peaks = np.nanstd(cpu, axis=1), np.nanmax(np.where(np.isnan(cpu), -1.0, cpu), axis=0)
    return {
        "name": outcome.variant,
        "hot_nodes": [int(count) for count in (cpu[steps] > figures.HOT_RATIO).sum(axis=1)],
        "spread": [_number(value) for value in spread[steps]],
        "peaks": [None if peak < 0 else round(float(peak), 3) for peak in peaks],
    }


def _number(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)
