"""Charts of one run and one resource: load over time, a heat map, and a text alternative.

`page` makes one `Chart` for each variant and resource; the template writes them. All charts of a page share their time,
scale and order of nodes, so that variants can be compared by eye.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from policy.schema.load_policy import LoadPolicy
from simulator.report import drawing, shapes
from simulator.results.figures import HOT_RATIO, WARM_RATIO
from simulator.results.outcome import EvictedPod, Outcome, Timeline

MOST_POINTS: Final = 336  # of a line: a week in half hours
MOST_COLUMNS, MOST_ROWS = 168, 100  # of a heat map
MOST_MARKS: Final = 400
MOST_EVICTIONS: Final = 500  # lines of the table that marks link to
HOTTEST: Final = 3
WORDS: Final = 13  # lines of the table beside a chart
LABEL_GAP: Final = 62.0  # of a plot some 220 pixels high
MOST_NAMES: Final = 20  # beside a heat map
RESOURCES: Final = {"cpu": "CPU", "memory": "memory"}
COLOURS: Final = 6


class Hot(NamedTuple):
    """The line of one of the hottest nodes."""

    name: str
    path: str


class Mark(NamedTuple):
    """An eviction on a chart, linked to its line in the table; "" where the table is not that long."""

    x: float
    y: float
    title: str
    anchor: str


class Threshold(NamedTuple):
    """A line of the policy, and where its label stands."""

    y: float
    label_y: float
    label: str


class Words(NamedTuple):
    """One moment of the chart in words, and its hottest node."""

    at: str
    moment: shapes.Moment
    node: str


class Heat(NamedTuple):
    """The heat map: a path for each colour, in a drawing of `columns` x `rows` units; names of some rows, and the
    evictions on the rows of the nodes that they left.
    """

    columns: int
    rows: int
    paths: tuple[str, ...]
    nodes: tuple[str, ...]
    names: tuple[drawing.Tick, ...]
    marks: tuple[Mark, ...]
    minutes: float


class Chart(NamedTuple):
    """One resource of one run; places are those of a `drawing.Frame`."""

    key: str
    resource: str
    minutes: float
    outer: str
    inner: str
    median: str
    hottest: tuple[Hot, ...]
    thresholds: tuple[Threshold, ...]
    marks: tuple[Mark, ...]
    times: tuple[drawing.Tick, ...]
    ratios: tuple[drawing.Tick, ...]
    words: tuple[Words, ...]
    heat: Heat


def anchor(key: str, number: int) -> str:
    """The id of an eviction's line in the table of a variant."""
    return f"{key}-eviction-{number}"


def edges(resource: str, policy: LoadPolicy | None) -> tuple[float, ...]:
    """Where the six colours of a heat map end, as in the console: thirds of blue up to the load over which a node gets
    no new pods, two oranges up to the one over which it is relieved, then red; by the lines for the 5-minute average,
    and without a policy by the table's.
    """
    cool, hot, name = WARM_RATIO, HOT_RATIO, f"{resource}_avg_5m"
    if policy is not None:
        band = policy.descheduler.thresholds.get(name)
        hot = band.evict_above_ratio if band else 1.0
        cool = min(policy.filter.thresholds.get(name) or 1.0, hot)
    return cool / 3, 2 * cool / 3, cool, (cool + hot) / 2, hot


def of(outcome: Outcome, key: str, resource: str, policy: LoadPolicy | None, *, scale: LoadPolicy | None) -> Chart:
    """The chart of a run's resource (cpu or memory); `key` tells variants apart in ids, by the lines of
    `scale` go the colours of all variants.
    """
    timeline = outcome.timeline
    ratios = timeline.cpu_ratio if resource == "cpu" else timeline.memory_ratio
    end_seconds = timeline.start_seconds + len(ratios) * timeline.step_seconds
    frame = drawing.Frame(timeline.start_seconds, end_seconds)
    marks = _marks(frame, key, resource, policy, moved=outcome.moved)
    size = shapes.steps_per_point(len(ratios), MOST_POINTS)
    times = timeline.start_seconds + (np.arange(-(-len(ratios) // size)) + 0.5) * size * timeline.step_seconds
    band, peaks = shapes.band(ratios, size), shapes.peaks(ratios, size)
    return Chart(
        key=f"{key}-{resource}",
        resource=RESOURCES[resource],
        minutes=size * timeline.step_seconds / 60,
        outer=drawing.area(frame, times, band.least, band.greatest),
        inner=drawing.area(frame, times, band.p10, band.p90),
        median=drawing.line(frame, times, band.median),
        hottest=tuple(
            Hot(timeline.nodes[node], drawing.line(frame, times, peaks[:, node]))
            for node in shapes.hottest(ratios, HOTTEST)
        ),
        thresholds=_thresholds(frame, resource, policy),
        marks=tuple(mark for mark, _ in marks),
        times=drawing.time_ticks(frame),
        ratios=drawing.ratio_ticks(frame),
        words=_words(timeline, ratios),
        heat=_heat(timeline, ratios, marks, edges(resource, scale)),
    )


def lines(resource: str, policy: LoadPolicy | None) -> Mapping[str, float]:
    """Returns a policy's lines for a resource: label -> ratio; the table's two lines where there is no policy."""
    if policy is None:
        return {"warm": WARM_RATIO, "hot": HOT_RATIO}
    known = {metric.name for metric in policy.metrics_in_force if metric.resource == resource}
    ratios = {f"filter {name}": ratio for name, ratio in policy.filter.thresholds.items() if ratio and name in known}
    for name, band in policy.descheduler.thresholds.items():
        if name in known:
            ratios |= {f"evict above, {name}": band.evict_above_ratio, f"evict until, {name}": band.evict_until_ratio}
    return ratios


def _thresholds(frame: drawing.Frame, resource: str, policy: LoadPolicy | None) -> tuple[Threshold, ...]:
    limits = lines(resource, policy)
    ticks = sorted(drawing.Tick(frame.y(ratio), f"{label} {100 * ratio:g} %") for label, ratio in limits.items())
    labels = drawing.apart(ticks, LABEL_GAP)
    return tuple(Threshold(tick.at, label.at, tick.label) for tick, label in zip(ticks, labels, strict=True))


def _marks(
    frame: drawing.Frame, key: str, resource: str, policy: LoadPolicy | None, *, moved: tuple[EvictedPod, ...]
) -> tuple[tuple[Mark, str], ...]:
    """The evictions for a metric of this resource, at their time and value, and their node; of very many an even
    sample.
    """
    known = {metric.name for metric in policy.metrics_in_force if metric.resource == resource} if policy else set()
    ours = [(number, one) for number, one in enumerate(moved) if one.metric in known]
    every = shapes.steps_per_point(len(ours), MOST_MARKS)
    return tuple(
        (
            Mark(
                frame.x(one.at_seconds),
                frame.y(one.value),
                f"{drawing.written(one.at_seconds)}: {one.pod} left {one.node}, {one.metric} {percent(one.value)}",
                anchor(key, number) if number < MOST_EVICTIONS else "",
            ),
            one.node,
        )
        for number, one in ours[::every]
    )


def _words(timeline: Timeline, ratios: shapes.Floats) -> tuple[Words, ...]:
    return tuple(
        Words(
            drawing.written(timeline.start_seconds + moment.step * timeline.step_seconds),
            moment,
            timeline.nodes[moment.hottest],
        )
        for moment in shapes.moments(ratios, WORDS)
    )


def _heat(
    timeline: Timeline, ratios: shapes.Floats, marks: tuple[tuple[Mark, str], ...], ends: tuple[float, ...]
) -> Heat:
    """The heat map of the hottest MOST_ROWS nodes, in the order in which the scenario has them."""
    hottest = sorted(shapes.hottest(ratios, MOST_ROWS))
    size = shapes.steps_per_point(len(ratios), MOST_COLUMNS)
    classes = shapes.heat(ratios[:, hottest], size, ends)
    nodes = tuple(timeline.nodes[at] for at in hottest)
    middles = {node: round(drawing.SIZE * (row + 0.5) / len(nodes), 1) for row, node in enumerate(nodes)}
    every = shapes.steps_per_point(len(nodes), MOST_NAMES)
    return Heat(
        columns=len(classes),
        rows=len(hottest),
        paths=drawing.cells(classes, COLOURS),
        nodes=nodes,
        names=tuple(drawing.Tick(middles[node], node) for node in nodes[::every]),
        marks=tuple(mark._replace(y=middles[node]) for mark, node in marks if node in middles),
        minutes=size * timeline.step_seconds / 60,
    )


def percent(ratio: float) -> str:
    """A ratio as people read it, a dash where there is none."""
    return "-" if np.isnan(ratio) else f"{100 * ratio:.0f} %"
