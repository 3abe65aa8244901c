"""The three numbers on top of the page: hot node-minutes, the highest load, and budgets broken.

`page` shows them of each variant against the first one. Over several seeds they are medians, with a verdict that counts
seeds as the table's does.
"""

import math
from typing import Final, NamedTuple

from simulator.results.comparison import Definition, Line
from simulator.results.figures import written
from simulator.results.study import Study

HOT: Final = Definition(
    "hot_node_minutes",
    "node-minutes over 80 %",
    "lower",
    "minutes",
    lambda figures: figures.cpu.hot_node_minutes + figures.memory.hot_node_minutes,
)
PEAK: Final = Definition(
    "p99_ratio",
    "node load, p99",
    "lower",
    "percent",
    lambda figures: max(figures.cpu.p99_ratio, figures.memory.p99_ratio),
)


class Number(NamedTuple):
    """One number before and after, the change in words, the verdict's word, and what it is made of."""

    key: str
    name: str
    before: str
    after: str
    change: str
    word: str
    detail: str


def of(study: Study, variant: str) -> tuple[Number, ...]:
    """The numbers of a variant against the first one of the study."""
    baseline = study.variants[0].name
    lines = {line.figure.key: line for line in study.comparison.lines}

    def parts(figure: str) -> str:
        keys = (("CPU", f"cpu_{figure}"), ("memory", f"memory_{figure}"))
        return ", ".join(f"{what} {_pair(lines[key], baseline, variant)}" for what, key in keys)

    hot, peak = (_line(study, definition) for definition in (HOT, PEAK))
    return (
        _number(hot, baseline, variant, parts("hot_node_minutes")),
        _number(peak, baseline, variant, parts("p99_ratio")),
        _broken(lines["pdb_violations"], lines["evictions"], variant),
    )


def _line(study: Study, definition: Definition) -> Line:
    values = {
        name: tuple(definition.read(one.figures) for one in outcomes) for name, outcomes in study.outcomes.items()
    }
    return Line(definition, values)


def _pair(line: Line, baseline: str, variant: str) -> str:
    before, after = (_written(line.span(name).median, line.figure.unit) for name in (baseline, variant))
    return f"{before} → {after}"


def _number(line: Line, baseline: str, variant: str, detail: str) -> Number:
    before, after = line.span(baseline).median, line.span(variant).median
    unit, verdict = line.figure.unit, line.verdict(variant, baseline)
    return Number(
        line.figure.key,
        line.figure.name,
        _written(before, unit),
        _written(after, unit),
        _change(before, after, unit),
        verdict.word,
        detail,
    )


def _written(value: float, unit: str) -> str:
    return written(value, unit) if value else "0"


def _change(before: float, after: float, unit: str) -> str:
    """`-86 %` of minutes, `-17.2 points` of a ratio; "" where there is nothing to compare with."""
    if math.isnan(before) or math.isnan(after):
        return ""
    if unit == "percent":
        return f"{100 * (after - before):+.1f} points".replace("-", "−")
    return f"{100 * (after / before - 1):+.0f} %".replace("-", "−") if before else ""


def _broken(broken: Line, evictions: Line, variant: str) -> Number:
    count, evicted = sum(broken.values[variant]), sum(evictions.values[variant])
    return Number(
        broken.figure.key,
        "disruption budgets broken",
        "",
        written(count, "count"),
        "",
        "worse" if count else "better",
        f"by {evicted:.0f} eviction{'' if evicted == 1 else 's'}",
    )
