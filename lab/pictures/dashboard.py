"""`python -m lab.pictures.dashboard`: draw the panels of dashboard.json over a run of the demo, with matplotlib.

It is no screenshot of Grafana. It runs the second phase of `make run` on a real control plane, sends the dashboard's
queries to its Prometheus, draws each answer at its panel's place, and ends the cluster. `make -C lab pictures` calls
it.
"""

import contextlib
import json
import pathlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from matplotlib import axes, figure, ticker
from PIL import Image
from rich import console

from lab.cluster import state
from lab.cluster.demo import arrival_plan, display, phases
from lab.pictures import panels
from policy.loading import loader
from promql.door import Series
from promql.http import client
from runtime import clock

ROOT: Final = pathlib.Path(__file__).parents[2]
DASHBOARD: Final = ROOT / "deploy" / "monitoring" / "dashboard.json"
PICTURE: Final = ROOT / "docs" / "pictures" / "dashboard.png"
POLICY: Final = ROOT / "deploy" / "policies" / "demo.yaml"
SEED, SETTLE_SECONDS, STEP_SECONDS = 1, 30.0, 1.0
RATE_INTERVAL: Final = "4s"  # Grafana takes four scrapes
CAPTION: Final = (
    "The panels of dashboard.json over a run of the demo, drawn by matplotlib; not a screenshot of Grafana. "
    "The demo's 5m, 1h and 1d last 5, 15 and 45 seconds."
)
COLUMN_PIXELS, ROW_PIXELS, CAPTION_PIXELS, DOTS_PER_INCH = 54, 23, 30, 100
COLORS: Final = 64
MOST_LEGENDS: Final = 6
GREY: Final = "#6b6b6b"
TITLE_SIZES: Final = {"stat": 6, "timeseries": 7}
Ask = Callable[[str], Sequence[Series]]
Span = tuple[float, float]


def main() -> None:
    """Runs the demo and writes the picture."""
    page = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    with demo() as result, contextlib.closing(client.connect(result.prometheus_url)) as door:
        end_seconds = clock.WallClock().now()
        start_seconds = end_seconds - result.observed_seconds

        def ask(expression: str) -> Sequence[Series]:
            answer = door.query_range(
                expression, start_seconds=start_seconds, end_seconds=end_seconds, step_seconds=STEP_SECONDS
            )
            return answer.series

        query = panels.values_query(page, "metric")
        values = sorted(labels[query.legend] for labels in door.query(query.expression).labels)
        shown = list(panels.on_page(page, values, RATE_INTERVAL))
        save(drawn(shown, ask, (start_seconds, end_seconds)), PICTURE)


@contextlib.contextmanager
def demo() -> Iterator[phases.PhaseResult]:
    """The demo's cluster with the services after a run, ended with the body."""
    policy = loader.load(POLICY.read_text(encoding="utf-8"), str(POLICY))
    with tempfile.TemporaryDirectory(prefix="evenload-picture-") as name:
        directory = pathlib.Path(name)
        plan, least_seconds = arrival_plan.plan(SEED), policy.descheduler.protect.min_pod_age_seconds
        settings = phases.Settings(plan, POLICY, SETTLE_SECONDS, least_seconds, directory)
        try:
            with display.opened(console.Console(stderr=True), {}) as view:
                outcome = phases.Phase("evenload", settings, view, clock.WallClock()).run(keep=True)
            if outcome.running is None:
                raise phases.PhaseError(f"the cluster in {directory} was not left running")
            yield outcome.running
        finally:
            if (recorded := state.read(directory)) is not None:
                state.stop(recorded)
                state.clean(directory)


def drawn(page: Sequence[panels.Panel], ask: Ask, span: Span) -> figure.Figure:
    """All panels at their places, each with the answers to its queries over the span, in Unix seconds."""
    width = panels.COLUMNS * COLUMN_PIXELS
    height = max(panel.top + panel.height for panel in page) * ROW_PIXELS + CAPTION_PIXELS
    result = figure.Figure(figsize=(width / DOTS_PER_INCH, height / DOTS_PER_INCH), dpi=DOTS_PER_INCH)
    result.text(0.5, 1 - 16 / height, CAPTION, ha="center", fontsize=8, color=GREY)
    for panel in page:
        top = CAPTION_PIXELS + panel.top * ROW_PIXELS
        left = panel.left * COLUMN_PIXELS
        if panel.kind == "row":
            result.text(8 / width, 1 - (top + 16) / height, panel.title, fontsize=9, weight="bold")
            continue
        result.text(
            (left + 8) / width, 1 - (top + 14) / height, panel.title, fontsize=TITLE_SIZES[panel.kind], weight="bold"
        )
        wide, high = panel.width * COLUMN_PIXELS, panel.height * ROW_PIXELS
        inside = (left + 44, top + 20, wide - 54, high - (84 if panel.kind == "timeseries" else 24))
        place = (inside[0] / width, 1 - (inside[1] + inside[3]) / height, inside[2] / width, inside[3] / height)
        _draw(result.add_axes(place), panel, ask, span)
    return result


def save(picture: figure.Figure, path: pathlib.Path) -> None:
    """Writes a PNG of few colours, a third of the size."""
    picture.savefig(path)
    with Image.open(path) as image:
        image.convert("RGB").quantize(COLORS).save(path, optimize=True)


def _draw(plot: axes.Axes, panel: panels.Panel, ask: Ask, span: Span) -> None:
    lines = {
        label(query.legend, series.labels): series
        for query in panel.queries
        for series in ask(query.expression)
        if any(np.isfinite(value) for _, value in series.points)
    }
    if panel.kind == "stat" or not lines:
        plot.axis("off")
        text = "No data"
        if lines:
            (_, last), *_ = reversed(next(iter(lines.values())).points)
            text = number(last, panel.unit)
        plot.text(
            0.45, 0.5, text, ha="center", va="center", fontsize=15 if lines else 8, color="#1f77b4" if lines else GREY
        )
        return
    _draw_lines(plot, panel, lines, span[0])
    plot.set_xlim(0, span[1] - span[0])
    highest = max(value for series in lines.values() for _, value in series.points if np.isfinite(value))
    plot.set_ylim(bottom=0, top=None if highest > 0 else 1)
    plot.grid(visible=True, alpha=0.25, linewidth=0.5)
    plot.tick_params(labelsize=5, length=2, width=0.5)
    plot.yaxis.set_major_locator(ticker.MaxNLocator(4))
    plot.yaxis.set_major_formatter(lambda value, _: number(value, panel.unit))
    plot.xaxis.set_major_formatter(lambda value, _: f"{value:.0f} s")
    for spine in plot.spines.values():
        spine.set_linewidth(0.4)
    handles, labels = plot.get_legend_handles_labels()
    more = [f"and {len(labels) - MOST_LEGENDS} more"] if len(labels) > MOST_LEGENDS else []
    plot.legend(
        [*handles[:MOST_LEGENDS], *(plot.plot([], [], " ") if more else [])], labels[:MOST_LEGENDS] + more,
        loc="upper left", bbox_to_anchor=(-0.06, -0.16), ncols=2, fontsize=5, frameon=False, handlelength=1.2,
    )  # fmt: skip


def _draw_lines(plot: axes.Axes, panel: panels.Panel, lines: Mapping[str, Series], start_seconds: float) -> None:
    """Lines over the seconds of the run, or stacked areas."""
    moments = sorted({moment for series in lines.values() for moment, _ in series.points})
    seconds = [moment - start_seconds for moment in moments]
    rows: dict[str, Any] = {}
    for name, series in lines.items():
        values = dict(series.points)
        rows[name] = [values.get(moment, np.nan) for moment in moments]
    if panel.stacked:
        plot.stackplot(seconds, np.nan_to_num(np.array(list(rows.values()))), labels=list(rows), alpha=0.7)
        return
    for name, row in rows.items():
        plot.plot(seconds, row, label=name, linewidth=0.9)


def label(legend: str, labels: Mapping[str, str]) -> str:
    """A series' name in the legend."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), legend)


def number(value: float, unit: str) -> str:
    """A value as Grafana's units write it."""
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "s" and 0 < abs(value) < 1:
        return f"{1000 * value:.3g} ms"
    if abs(value) >= 1000:
        return f"{value / 1000:.3g} k"
    return f"{value:.3g}{ {'s': ' s', 'reqps': ' req/s'}.get(unit, '') }"


if __name__ == "__main__":
    main()
