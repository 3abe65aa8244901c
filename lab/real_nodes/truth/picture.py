"""The picture of a run: the cgroups of all nodes over time, with the steps and the evictions."""

import pathlib
from typing import Final

from matplotlib import axes, figure
from PIL import Image

from lab.real_nodes.truth import figures
from lab.real_nodes.truth.measuring import NODES, Run, Scene

INCHES, DOTS_PER_INCH, COLORS = (9.6, 6.0), 100, 64
STEP_SECONDS: Final = 5.0
MEAN_SECONDS: Final = 15.0
GREY: Final = "#6b6b6b"
RED: Final = "#c62828"
LABELS: Final = {"memory": "memory that cannot be had back, % of 2 GiB", "cpu": "CPU, % of a processor"}
CAPTION: Final = "cgroups of three real nodes, means of 15 s"


def drawn(run: Run) -> figure.Figure:
    """Memory above CPU, over the minutes of the run."""
    drawing = figure.Figure(figsize=INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    drawing.suptitle(CAPTION, fontsize=9)
    plots = drawing.subplots(len(LABELS), 1, sharex=True)
    for plot, resource in zip(plots, LABELS, strict=True):
        _draw(plot, run, resource)
    plots[-1].set_xlabel("minutes", fontsize=8)
    return drawing


def save(drawing: figure.Figure, path: pathlib.Path) -> None:
    """Writes a PNG of few colours."""
    drawing.savefig(path)
    with Image.open(path) as image:
        image.convert("RGB").quantize(COLORS).save(path, optimize=True)


def _draw(plot: axes.Axes, run: Run, resource: str) -> None:
    begin_seconds = min(scene.rest_at_seconds for scene in run.scenes)
    end_seconds = max(scene.end_at_seconds for scene in run.scenes)
    count = int((end_seconds - begin_seconds) / STEP_SECONDS)
    times = [begin_seconds + STEP_SECONDS * number for number in range(count)]
    for name in NODES:
        history = figures.History(run.record.samples, name)
        values = [history.mean(resource, each - MEAN_SECONDS / 2, each + MEAN_SECONDS / 2) for each in times]
        points = [(each, value) for each, value in zip(times, values, strict=True) if value is not None]
        minutes = [(each - begin_seconds) / 60 for each, _ in points]
        plot.plot(minutes, [value for _, value in points], linewidth=1.2, label=name)
    for scene in run.scenes:
        if scene.case.resource == resource:
            _mark(plot, run, scene, begin_seconds)
    plot.set_ylim(0, 100)
    plot.set_ylabel(LABELS[resource], fontsize=8)
    plot.tick_params(labelsize=8)
    plot.grid(visible=True, alpha=0.25, linewidth=0.5)
    plot.legend(loc="lower right", fontsize=8, ncols=3)


def _mark(plot: axes.Axes, run: Run, scene: Scene, begin_seconds: float) -> None:
    """Marks a scene: both lines over its minutes, the step, and each eviction."""
    first, last = ((each - begin_seconds) / 60 for each in (scene.step_at_seconds, scene.end_at_seconds))
    for ratio in (scene.case.line_ratio, scene.case.until_ratio):
        plot.plot([first, last], [100 * ratio] * 2, color=GREY, linewidth=0.7, linestyle="--")
    marks = [(first, f"load on {scene.case.node}, {scene.case.part}", GREY)]
    for pod in figures.evicted(run, scene):
        marks.append(((pod.leaving_at_seconds - begin_seconds) / 60, pod.owner, RED))
    for minute, text, color in marks:
        plot.axvline(minute, color=color, linewidth=0.8, linestyle=":" if color == GREY else "-")
        side = "right" if color == GREY else "left"
        plot.text(minute, 101, text, fontsize=6, color=color, ha=side, va="bottom")
