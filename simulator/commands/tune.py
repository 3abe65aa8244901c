"""`evenload tune`: a policy fitted to a goal, on part of a past or of a generated workload, judged on the rest.

The console script loads this module when `tune` is asked for. `simulator.tuning` searches and judges, each trial is a
run of the simulator (`simulator.runs`); the policy is written with what every changed line was.
"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click
from rich import progress as rich_progress

from cli.common import output, policy_files
from policy.schema.load_policy import LoadPolicy
from runtime import exit_codes
from simulator import runs
from simulator.commands import recorded_history, screen, simulate, studies
from simulator.results.study import Variant
from simulator.tuning import fitting, goal, policy_file, searching, space
from simulator.tuning.fitting import FittedPolicy
from simulator.tuning.goal import Aim, Goal, Score
from simulator.tuning.searching import NotInstalled, Settings, Trial
from simulator.tuning.space import Part
from simulator.workers import WorkerLost
from simulator.workloads import splitting
from simulator.world import setup

_NAME: Final = "tuned"
LEAST_STEPS: Final = 10  # of a past: fewer are no two parts
_LEARNED, _HELD = "learned", "held"
_VARIED: Final = (Part.FILTER.value, Part.SCORE.value, Part.DESCHEDULER.value)


@dataclasses.dataclass(frozen=True, slots=True)
class Halves:
    """The two halves of the data: a source and its seeds for learning and for holding back, and the words for both."""

    learned: runs.Source
    learned_seeds: tuple[int, ...]
    held: runs.Source
    held_seeds: tuple[int, ...]
    words: str


@dataclasses.dataclass(frozen=True, slots=True)
class _TuneRequest:
    """The options that say how to search."""

    aim: str
    evictions_per_day: float
    vary: tuple[str, ...]
    trials: int
    learn: float
    seed: int
    seed_count: int
    workers: int | None
    generated: bool
    nodes: int | None
    days: float | None


@click.command("tune", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--policy", type=policy_files.FILE, metavar="FILE", help="Where to begin. Default: the shipped defaults.")
@click.option(
    "--aim",
    type=click.Choice([one.value for one in Aim]),
    default=Aim.HOT.value,
    show_default=True,
    help="What to make small.",
)
@click.option("--evictions-per-day", type=click.FloatRange(min=0), default=24.0, show_default=True, metavar="N",
    help="At most so many.")  # fmt: skip
@click.option("--vary", type=click.Choice([one.value for one in Part]), multiple=True, default=_VARIED,
    show_default=True, help="What may be moved; repeatable.")  # fmt: skip
@click.option("--trials", type=click.IntRange(2, 10_000), default=40, show_default=True, help="How long to look.")
@click.option("--learn", type=click.FloatRange(0.2, 0.8), default=0.6, show_default=True, metavar="SHARE",
    help="How much of a past is searched; the rest is held back.")  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of the search, and the first run."
)
@click.option("--seeds", "seed_count", type=click.IntRange(1, 100), default=2, show_default=True,
    help="Runs of every trial.")  # fmt: skip
@click.option("--workers", type=click.IntRange(min=1), metavar="N",
    help="Runs of a trial at a time. Default: one a processor.")  # fmt: skip
@click.option(
    "--generated", is_flag=True, help="Tune on a generated workload instead of a past: good for trying it out."
)
@click.option("--nodes", type=click.IntRange(2, 5000), metavar="N", help="How many nodes are generated. Default: 40.")
@click.option("--days", type=click.FloatRange(0.05, 62), metavar="N", help="How long is generated. Default: 1.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=pathlib.Path), metavar="FILE",
    help="Where the policy goes. Default: stdout.")  # fmt: skip
@recorded_history.options
def main(policy: str | None, out: pathlib.Path | None, **options: Any) -> None:
    """Fit a policy to a goal: search thresholds and weights on one part of a past, judge them on the rest.

    The policy is written with what every changed line was; figures and warnings go to stderr. Exit code 1: something
    speaks against using it, as a gain that did not carry over to what was held back.

    \b
    Examples:
      evenload tune --prometheus http://prometheus:9090 --since 7d --policy now.yaml --out tuned.yaml
      evenload tune --history week.npz --evictions-per-day 10 --vary descheduler --trials 80
      evenload tune --generated --nodes 20 --trials 20
    """
    screen.refuse_early(out)
    start = studies.given_or_shipped(policy)
    request = _TuneRequest(**{field.name: options.pop(field.name) for field in dataclasses.fields(_TuneRequest)})
    _refuse(request, options)
    with exit_codes.reported(*recorded_history.REPORTED, WorkerLost, NotInstalled):
        halves = _generated(request) if request.generated else _past(request, options)
        fitted = _fit(start, halves, request)
    remarks = _remarks(fitted, halves, start)
    text = policy_file.commented(fitted.start, fitted.policy, remarks)
    for line in remarks:
        output.say(line)
    _write(text, out)
    if fitted.warnings:
        raise SystemExit(int(exit_codes.Exit.FINDINGS))


def _refuse(request: _TuneRequest, options: Mapping[str, Any]) -> None:
    """Refuses options that would have no effect."""
    if request.generated and (options["history"] is not None or options["prometheus"]):
        output.fail("--generated with --history or --prometheus: tune on a generated workload, or on a past")
    if not request.generated and (request.nodes is not None or request.days is not None):
        output.fail("--nodes and --days are of a generated workload: give --generated, or leave them out")


def _write(text: str, out: pathlib.Path | None) -> None:
    """The policy to its file, or to stdout, as it is where the file cannot be written: a search takes long."""
    if out is None:
        output.data(text.rstrip("\n"))
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        output.data(text.rstrip("\n"))
        output.fail(f"{out} cannot be written: {error.strerror or error}; the policy is on stdout")


def _generated(request: _TuneRequest) -> Halves:
    """Workloads of other seeds are held back."""
    shape = {"nodes": request.nodes, "days": request.days}
    source = simulate.generated({name: value for name, value in shape.items() if value is not None})
    learned = tuple(range(request.seed, request.seed + request.seed_count))
    held = tuple(one + request.seed_count for one in learned)
    words = f"searched on generated workloads of seeds {_list(learned)}; held back were those of seeds {_list(held)}"
    return Halves(source, learned, source, held, words)


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _past(request: _TuneRequest, options: Mapping[str, Any]) -> Halves:
    """The later part of the past is held back: it is what comes after the search in life, too."""
    past = recorded_history.obtained(**options)
    recorded_history.warn(past)
    scenario, seeds = past.scenario, tuple(range(request.seed, request.seed + request.seed_count))
    if scenario.steps < LEAST_STEPS:
        raise ValueError(
            f"tune needs a past of {LEAST_STEPS} steps, and this has {scenario.steps}, of {scenario.step_seconds:g} s: "
            "give a longer --since or a shorter --step"
        )
    first = round(request.learn * scenario.steps)
    early, late = splitting.part(scenario, 0, first), splitting.part(scenario, first, scenario.steps)
    words = f"searched on the first {first} of {scenario.steps} steps of {scenario.name}; the others were held back"
    return Halves(runs.FixedSource(early), seeds, runs.FixedSource(late), seeds, words)


def _fit(start: Variant, halves: Halves, request: _TuneRequest) -> FittedPolicy:
    if start.policy is None:
        raise ValueError("kube-scheduler alone has no policy to tune")
    wanted = Goal(Aim(request.aim), request.evictions_per_day)
    dimensions = space.dimensions(start.policy, [Part(one) for one in request.vary])
    workers = min(request.workers or runs.processors(), max(len(halves.learned_seeds), len(halves.held_seeds)))
    sources = {_LEARNED: halves.learned, _HELD: halves.held}
    with runs.crew(sources, workers=workers) as crew, _watched(wanted) as watch:
        learned = _tried(crew, _LEARNED, halves.learned_seeds, wanted)
        held = _tried(crew, _HELD, halves.held_seeds, wanted)
        return fitting.fit(
            start.policy,
            dimensions,
            learned,
            held,
            goal=wanted,
            settings=Settings(request.trials, request.seed),
            progress=watch,
        )


def _tried(crew: runs.Crew, source: str, seeds: tuple[int, ...], wanted: Goal) -> fitting.Try:
    """A policy, run on every seed and judged."""

    def tried(policy: LoadPolicy) -> Score:
        # A trial is short; the bar counts trials.
        outcomes = crew.run(source, [Variant(_NAME, policy)], seeds, lambda *_: None)
        return goal.score(outcomes[_NAME], wanted)

    return tried


@contextlib.contextmanager
def _watched(wanted: Goal) -> Iterator[searching.Progress]:
    """A bar on a terminal with the best so far; elsewhere a line for each ten trials."""
    console = screen.console(stderr=True)
    columns = (rich_progress.TextColumn("{task.description}"), rich_progress.BarColumn(),
        rich_progress.TimeRemainingColumn())  # fmt: skip
    with rich_progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(str(wanted), total=1.0)

        def watch(done: int, trials: int, best: Trial | None) -> None:
            text = f"{done} of {trials} trials"
            if best is not None:
                score = best.score
                text += f"; best: {score.value:.4g} {wanted.aim}, {score.evictions_per_day:.1f} evictions a day"
            bar.update(task, description=text, completed=done / trials)
            if bar.disable and done % 10 == 0:
                output.say(text)

        yield watch


def _remarks(fitted: FittedPolicy, halves: Halves, start: Variant) -> tuple[str, ...]:
    """Prints remarks for the reader of the policy."""
    wanted = fitted.goal
    return (
        f"evenload tune: {wanted}, from {start.source or start.name}, {len(fitted.trials)} trials",
        halves.words,
        f"where it was searched: {_change(fitted.given_learned, fitted.found_learned, wanted)}",
        f"on what was held back: {_change(fitted.given_held, fitted.found_held, wanted)}",
        *(("nothing better was found: this is the given policy",) if fitted.policy is fitted.start else ()),
        *setup.unanswered(fitted.start),
        *(f"warning: {sentence}" for sentence in fitted.warnings),
    )


def _change(before: Score, after: Score, wanted: Goal) -> str:
    return (
        f"{before.value:.4g} -> {after.value:.4g} {wanted.aim}, "
        f"{before.evictions_per_day:.1f} -> {after.evictions_per_day:.1f} evictions a day"
    )
