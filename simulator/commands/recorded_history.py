"""A cluster's recorded past from the command line: out of its Prometheus, page by page, or out of a file.

`evenload whatif` and `tune` share it. `options` are what says where the past is, `obtained` gets it, with a bar on
stderr; `with_measured` adds in a sentence what really happened, which is what a replay is held to.
"""

import contextlib
import dataclasses
import pathlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import click
from rich import progress as rich_progress

from cli import prometheus_finding
from cli.common import option_types, output
from kube import errors as kube_errors
from promql import errors
from promql.http import options as promql_options
from runtime import clock
from simulator.commands import screen
from simulator.history import past_file, reader, rebuilding
from simulator.history.queries import Selectors, Subject
from simulator.history.reader import Cache, Span
from simulator.history.rebuilding import Past
from simulator.results import figures
from simulator.scenario import Scenario

MOST_POINTS_APART: Final = 10.0
CACHE: Final = pathlib.Path("~/.cache/evenload/history")
REPORTED: Final = (kube_errors.KubeError, errors.PromqlError, past_file.HistoryError, ValueError, OSError)
_FILE: Final = click.Path(dir_okay=False, path_type=pathlib.Path)


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Where the past is, how much of it, and where it is kept."""
    matchers = "Further matchers for"
    for option in reversed(
        (
            click.option("--prometheus", default="", metavar="URL", help="Default: a Service, through the apiserver."),
            promql_options.connection_options,
            click.option("--kubeconfig", metavar="FILE", help="To find Prometheus by. Default: as kubectl."),
            click.option("--context", metavar="NAME", help="A context of the kubeconfig."),
            click.option("--since", type=option_types.SPAN, default="7d", show_default=True, metavar="SPAN",
                help="How far to look back."),
            click.option("--step", type=option_types.SPAN, default="5m", show_default=True, metavar="SPAN",
                help="How fine: use is the mean over so long."),
            click.option("--node-selector", default="", metavar="MATCHERS", help=f"{matchers} node-exporter's series."),
            click.option("--pod-selector", default="", metavar="MATCHERS", help=f"{matchers} cAdvisor's series."),
            click.option("--state-selector", default="", metavar="MATCHERS",
                help=f"{matchers} kube-state-metrics' series."),
            click.option("--cache", type=click.Path(file_okay=False, path_type=pathlib.Path), default=CACHE,
                show_default=True, metavar="DIR", help="Where pages are kept, so that what broke off goes on."),
            click.option("--save", type=_FILE, metavar="FILE", help="Keep the past in one file, for --history."),
            click.option("--history", type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path),
                metavar="FILE", help="A past that --save kept, instead of Prometheus."),
        )
    ):  # fmt: skip
        command = option(command)
    return command


def obtained(
    *,
    prometheus: str,
    connection: promql_options.Connection,
    kubeconfig: str | None,
    context: str | None,
    since: float,
    step: float,
    node_selector: str,
    pod_selector: str,
    state_selector: str,
    cache: pathlib.Path,
    save: pathlib.Path | None,
    history: pathlib.Path | None,
) -> Past:
    """The past. Raises what CODES names."""
    if history is not None:
        if prometheus:
            output.fail("--history with --prometheus: the past is in the file, or in Prometheus; give one of them")
        if save is not None:
            output.fail("--save with --history: the past is kept already; copy the file")
        return past_file.load(history)
    screen.refuse_early(save)
    door = prometheus_finding.connect(prometheus, connection, kubeconfig, context)
    now_seconds = clock.WallClock().now()
    span = Span.until(now_seconds, since, step)
    selectors, answers = Selectors(node_selector, pod_selector, state_selector), Cache(cache.expanduser(), door.name)
    with _watched() as progress:
        recorded = reader.read(door, span, selectors, answers, now_seconds=now_seconds, progress=progress)
    past = rebuilding.rebuild(recorded, f"{door.name}, {clock.to_rfc3339(span.start_seconds)} and on")
    if save is not None:
        past_file.save(past, save)
        output.say(f"history: {save}")
    return past


@contextlib.contextmanager
def _watched() -> Iterator[reader.Progress]:
    """A bar on a terminal; elsewhere a line for each subject."""
    console = screen.console(stderr=True)
    columns = (rich_progress.TextColumn("{task.description}"), rich_progress.BarColumn(), "{task.percentage:.0f} %")
    with rich_progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("asking Prometheus", total=len(Subject))

        def move(subject: Subject, done: int, pages: int) -> None:
            before = list(Subject).index(subject)
            bar.update(task, description=f"asking Prometheus: {subject}", completed=before + done / pages)
            if bar.disable and done == pages:
                output.say(f"read {subject} ({pages} pages)")

        yield move


def _measured(past: Past) -> Iterator[tuple[str, figures.Load | None]]:
    """The load of each resource as it was, None where it was never measured."""
    timeline = past.measured
    for resource, ratios in (("CPU", timeline.cpu_ratio), ("memory", timeline.memory_ratio)):
        try:
            yield resource, figures.load_over(ratios, timeline.step_seconds)
        except ValueError:
            yield resource, None


def unlike(past: Past, replayed: Sequence[figures.Figures]) -> Iterator[str]:
    """Why the runs without Evenload are no ground for a decision: a sentence for each resource whose mean is more than
    MOST_POINTS_APART from what was measured, or that was not.
    """
    for resource, load in _measured(past):
        if load is None:
            yield f"{resource} was never measured, so nothing says how far to trust the replay: do not decide by it"
            continue
        each = [run.cpu.mean_ratio if resource == "CPU" else run.memory.mean_ratio for run in replayed]
        points = 100 * abs(statistics.fmean(each) - load.mean_ratio)
        if points > MOST_POINTS_APART:
            yield (
                f"the replay differs by {points:.0f} points of mean {resource} from what was measured: do not decide "
                "by it; the sentences below the table name what it lacks"
            )


def with_measured(past: Past) -> Scenario:
    """The scenario, whose first assumption says the measured load of the nodes."""
    sentences = [
        f"{resource} was never measured"
        if load is None
        else f"{resource} mean {load.mean_ratio:.1%}, p99 {load.p99_ratio:.1%}, spread {load.spread_ratio:.1%}, "
        f"{load.hot_node_minutes:.0f} node-minutes over 80 %"
        for resource, load in _measured(past)
    ]
    trust = "how near the replay without Evenload comes is how far to trust it"
    assumptions = (f"really measured: {'; '.join(sentences)}; {trust}", *past.scenario.assumptions)
    return dataclasses.replace(past.scenario, assumptions=assumptions)


def warn(past: Past) -> None:
    """Tell on stderr what the server said against its own answers."""
    for sentence in past.warnings:
        output.say(f"Prometheus calls an answer partial: {sentence}")
