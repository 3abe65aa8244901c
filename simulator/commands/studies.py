"""A question to the simulator from the command line: policies in, progress on stderr, the answer as asked for.

`evenload simulate`, `demo`, `whatif` and `tune` share it: they differ in where scenarios come from. `prepared` reads
the policy files, `played` lets everything happen (simulator.runs), `show` prints and writes what came of it.
"""

import contextlib
import dataclasses
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import click
from rich import progress as rich_progress

from cli import policy_presets
from cli.common import output, policy_files
from policy.loading import loader
from policy.schema import load_policy, problems
from runtime import exit_codes, reloading
from simulator import runs, world
from simulator.commands import screen
from simulator.report import document, page
from simulator.results import table
from simulator.results.outcome import Progress
from simulator.results.study import PLAIN, Study, Variant
from simulator.scenario import Scenario
from simulator.workers import WorkerLost

WIDE: Final = 240  # columns where there is no terminal: a table there is read by a pager or a program
_DAY_SECONDS: Final = 86_400.0


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of every command that simulates: policies, seeds, services left out, processors, HTML, -o."""
    for option in reversed(
        (
            click.option(
                "--policy", "policies", multiple=True, type=policy_files.FILE, metavar="FILE",
                help="A policy to try; repeatable. Default: the shipped defaults.",
            ),
            click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="The first seed."),
            click.option(
                "--seeds", "seed_count", type=click.IntRange(1, 1000), default=1, show_default=True,
                help="How many seeds, counted up from the first.",
            ),
            click.option("--as-written", is_flag=True, help="Keep descheduler.mode; without it all act as in Enforce."),
            click.option("--no-extender", is_flag=True, help="Leave placing to kube-scheduler alone."),
            click.option("--no-descheduler", is_flag=True, help="Evict nothing."),
            click.option(
                "--workers", type=click.IntRange(min=1), metavar="N", help="Runs at a time. Default: one a processor."
            ),
            click.option(
                "--html", type=click.Path(dir_okay=False, path_type=pathlib.Path), metavar="FILE",
                help="Write a report with charts, evictions and decisions explained.",
            ),
            output.option("table", "json", "yaml"),
        )
    ):  # fmt: skip
        command = option(command)
    return command


@dataclasses.dataclass(frozen=True, slots=True)
class Wish:
    """The values of `options`."""

    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    simulation: runs.Simulation
    workers: int
    html: pathlib.Path | None
    output_format: str


def prepared(
    *,
    policies: Sequence[str],
    seed: int,
    seed_count: int,
    as_written: bool,
    no_extender: bool,
    no_descheduler: bool,
    workers: int | None,
    html: pathlib.Path | None,
    output_format: str,
) -> Wish:
    """The options' values as what to play; a policy that is refused ends the command with code 2."""
    screen.refuse_early(html)
    conditions = world.Setup(None, enforce=not as_written, extender=not no_extender, descheduler=not no_descheduler)
    return Wish(
        variants=(PLAIN, *_named([_read(file) for file in policies] or [shipped()])),
        seeds=tuple(range(seed, seed + seed_count)),
        simulation=runs.Simulation(conditions),
        workers=workers or runs.processors(),
        html=html,
        output_format=output_format,
    )


def _read(file: str) -> Variant:
    try:
        content, text = policy_files.text(file)
        policy = loader.load(text, policy_files.name(file))
    except problems.PolicyError as error:
        policy_files.refuse(error)
    source = policy_files.name(file)
    return Variant(pathlib.PurePath(source).stem, policy, source, reloading.content_hash(content), text)


def given_or_shipped(file: str | None) -> Variant:
    """One policy file, or the shipped defaults; one that is refused ends the command with code 2."""
    return shipped() if file is None else _read(file)


def shipped(preset: str = policy_presets.PRESETS[0], name: str = "") -> Variant:
    """Returns a shipped policy as a variant."""
    text = policy_presets.text(preset)
    policy: load_policy.LoadPolicy = loader.load(text, preset)
    return Variant(name or preset, policy, f"preset {preset}", reloading.content_hash(text.encode()), text)


def _named(variants: Sequence[Variant]) -> Iterator[Variant]:
    """With names of their own: files of one name in two directories get a number, and none is called plain."""
    taken = {PLAIN.name}
    for variant in variants:
        name, number = variant.name, 1
        while name in taken:
            number += 1
            name = f"{variant.name}-{number}"
        taken.add(name)
        yield dataclasses.replace(variant, name=name)


def facts(scenario: Scenario, wish: Wish) -> dict[str, object]:
    """Returns the command that repeats the study, and its size."""
    seeds = wish.seeds[0] if len(wish.seeds) == 1 else f"{wish.seeds[0]} to {wish.seeds[-1]}"
    return {
        "seed" if len(wish.seeds) == 1 else "seeds": seeds,
        "nodes": len(scenario.machines),
        "pods": len(scenario.replicas),
        "owners": len(scenario.owners),
        "days": round((scenario.end_seconds - scenario.start_seconds) / _DAY_SECONDS, 3),
        "step s": round(scenario.step_seconds),
    }


def played(title: str, source: runs.Source, wish: Wish, watch: runs.Watch, *, fields: Mapping[str, object]) -> Study:
    """Everything that was asked for, run; `watch` sees it go on, `fields` are the study's facts."""
    with exit_codes.reported(WorkerLost):
        outcomes = runs.run(
            source, wish.variants, wish.seeds, workers=wish.workers, watch=watch, simulate=wish.simulation
        )
    return Study(title, fields, wish.variants, wish.seeds, outcomes)


@contextlib.contextmanager
def watched(wish: Wish) -> Iterator[runs.Watch]:
    """A bar on a terminal; elsewhere a line for each run that is over."""
    console = screen.console(stderr=True)
    amount = len(wish.variants) * len(wish.seeds)
    shares: dict[tuple[str, int], float] = {}
    columns = (rich_progress.TextColumn("{task.description}"), rich_progress.BarColumn(), "{task.percentage:.0f} %",
        rich_progress.TimeRemainingColumn())  # fmt: skip
    with rich_progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"{amount} runs", total=amount)

        def watch(variant: str, seed: int, progress: Progress) -> None:
            shares[variant, seed] = progress.steps_done / progress.steps
            bar.update(task, completed=sum(shares.values()))
            if bar.disable and progress.steps_done == progress.steps:
                over = sum(share == 1 for share in shares.values())
                output.say(f"{variant}, seed {seed}: done ({over} of {amount})")

        yield watch


def show(study: Study, wish: Wish) -> None:
    """Prints the answer, writes the report, and ends with code 1 where something must not be overlooked."""
    if wish.html is not None:
        _write(study, wish.html)  # first: a reader of stdout that goes away (`| head`) must not cost the report
    if wish.output_format == "table":
        console = screen.console(width=None if sys.stdout.isatty() else WIDE)
        table.print_table(study.comparison, study.facts, console, title=study.title)
        console.print("what this rests on:", style="dim", highlight=False)
        for sentence in study.assumptions:
            console.print(f"- {sentence}", style="dim", highlight=False, markup=False, soft_wrap=True)
    else:
        output.data(output.structured(document.of(study), wish.output_format))
    findings = study.findings()
    for sentence in findings:
        output.say(sentence)
    if findings:
        raise SystemExit(int(exit_codes.Exit.FINDINGS))


def _write(study: Study, path: pathlib.Path) -> None:
    try:
        path.write_text(page.render(study), encoding="utf-8")
    except OSError as error:
        output.fail(f"{path} cannot be written: {error.strerror or error}")
    output.say(f"report: {path}")
