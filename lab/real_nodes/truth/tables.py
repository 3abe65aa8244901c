"""The tables of a run in Markdown."""

import statistics
from collections.abc import Iterator, Sequence

from lab.real_nodes.truth import figures, recorder, scenes
from lab.real_nodes.truth.measuring import Run

NONE = "-"
NAMES = {"cpu": "CPU", "memory": "memory"}
MINUTES = {scenes.SHORTEST: "1 min", scenes.SHIPPED: "5 min"}


def all_of(run: Run) -> Iterator[str]:
    """Readings, relief and delays."""
    yield table(("error, points: mean, worst", *figures.PHASES), readings(run))
    yield table(("relief", "evictions", "predicted, points", "off the cgroup: mean, worst"), relief(run))
    columns = [f"{NAMES[scene.case.resource]}, {scene.case.part}" for scene in run.scenes]
    yield table(("seconds after the load began, until", *columns), delays(run))


def table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def readings(run: Run) -> Iterator[list[str]]:
    """Rows of the errors of readings by phase."""
    for scene in run.scenes:
        window, suffix = f"{scene.case.window_seconds:.0f}", scene.case.metric.partition("_")[2]
        for name, source, of_pods in (
            ("node", window, False),
            ("annotation", f"{recorder.ANNOTATION} {suffix}", False),
            ("pods", window, True),
        ):
            errors = figures.errors_of(run, scene, source, of_pods=of_pods)
            cells = [
                f"{errors[phase].mean:.1f}, {errors[phase].worst:.1f}" if phase in errors else NONE
                for phase in figures.PHASES
            ]
            yield [f"{name}, {NAMES[scene.case.resource]}, {MINUTES[scene.case.part]}", *cells]


def relief(run: Run) -> Iterator[list[str]]:
    """Rows of predicted and measured relief."""
    for scene in run.scenes:
        every = list(figures.reliefs(run, scene))
        if every:
            errors = [abs(each.predicted - each.measured) for each in every]
            predicted = ", ".join(f"{each.predicted:.1f}" for each in every)
            cells = [str(len(every)), predicted, f"{statistics.fmean(errors):.1f}, {max(errors):.1f}"]
            yield [f"{NAMES[scene.case.resource]}, {scene.case.part}", *cells]


def delays(run: Run) -> Iterator[list[str]]:
    """Rows of the moments from the load to a Ready replacement."""
    every = [figures.delays_seconds(run, scene) for scene in run.scenes]
    for name in every[0]:
        values = [each[name] for each in every]
        yield [name, *(NONE if value is None else f"{value:.0f}" for value in values)]
