"""The figures of several variants beside each other, over one seed or many: who did better, and how surely.

Pure. `lab.cluster.demo` compares two phases of one seed, `commands.simulate` policies over seeds; `table` prints what
`of` gives and `report` shows it. The first variant is what the others are judged against, seed by seed: the same
arrivals make two runs comparable, so a verdict counts seeds and never compares the medians of different ones.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from simulator.results.figures import Figures, written

SAME_RATIO = 0.005  # a relative change under half a percent is no news


class Definition(NamedTuple):
    """One figure: its stable `key` (JSON), its name for people, which way is better ("" for neither), its unit."""

    key: str
    name: str
    better: str
    unit: str
    read: Callable[[Figures], float]


def _effectiveness(key: str, name: str, better: str, unit: str) -> Definition:
    return Definition(key, name, better, unit, lambda figures: float(getattr(figures.effectiveness, key)))


def _loads(resource: str, key: str) -> tuple[Definition, ...]:
    def figure(field: str, name: str, better: str, unit: str) -> Definition:
        return Definition(
            f"{key}_{field}", name, better, unit, lambda figures: float(getattr(getattr(figures, key), field))
        )

    return (
        figure("hot_node_minutes", f"node-minutes over 80 % {resource}", "lower", "minutes"),
        figure("warm_node_minutes", f"node-minutes over 65 % {resource}", "lower", "minutes"),
        figure("p99_ratio", f"node {resource}, p99", "lower", "percent"),
        figure("spread_ratio", f"node {resource}, spread between nodes", "lower", "percent"),
        figure("mean_ratio", f"node {resource}, mean", "", "percent"),
    )


# What people ask about first; the annotator's own figures, which take some explaining, come last.
DEFINITIONS = (
    *_loads("CPU", "cpu"),
    *_loads("memory", "memory"),
    Definition("evictions", "evictions", "", "count", lambda figures: figures.evictions),
    Definition("pdb_violations", "PDB violations", "lower", "count", lambda figures: figures.pdb_violations),
    Definition("pods_bound", "pods bound in all", "", "count", lambda figures: figures.pods_bound),
    Definition("pods_pending", "pods pending at the end", "lower", "count", lambda figures: figures.pods_pending),
    _effectiveness("cpu_utilization_total_avg", "CPU of chosen nodes at scheduling, mean", "lower", "percent"),
    _effectiveness("memory_utilization_total_avg", "memory of chosen nodes at scheduling, mean", "lower", "percent"),
    _effectiveness("total_schedule_count", "placements judged", "", "count"),
    _effectiveness("effective_dynamic_schedule_count", "of them under the median node (CPU ½, memory ½)", "", "half"),
    _effectiveness("effective_schedule_ratio", "effective_schedule_ratio: share under the median", "higher", "ratio"),
)


class Span(NamedTuple):
    """A figure over the seeds: NaN where no seed gave a number."""

    median: float
    low: float
    high: float


class Verdict(NamedTuple):
    """On how many seeds a variant's figure was better, worse, the same; all 0 where the figure takes no side."""

    better: int = 0
    worse: int = 0
    same: int = 0

    @property
    def word(self) -> str:
        """better or worse where no seed says otherwise, mixed where seeds disagree, same, or "" for no side."""
        if self.better and self.worse:
            return "mixed"
        return "better" if self.better else "worse" if self.worse else "same" if self.same else ""

    @property
    def words(self) -> str:
        """The word, and over several seeds how many say so: `better 7 of 8`, `mixed 5+ 3-`."""
        seeds = sum(self)
        if seeds < 2 or self.word in ("", "same"):
            return self.word
        if self.word == "mixed":
            return f"mixed {self.better}+ {self.worse}-"
        return f"{self.word} {max(self.better, self.worse)} of {seeds}"


class Line(NamedTuple):
    """One figure of every variant: per variant a value for each seed, in the order of the seeds."""

    figure: Definition
    values: Mapping[str, tuple[float, ...]]

    def span(self, variant: str) -> Span:
        """Median, least and greatest over the seeds."""
        known = [value for value in self.values[variant] if not math.isnan(value)]
        return Span(statistics.median(known), min(known), max(known)) if known else Span(*(math.nan,) * 3)

    def text(self, variant: str) -> str:
        """`54.3 %`, and over several seeds `54.3 % (50.1-58.0)`."""
        span, unit = self.span(variant), self.figure.unit
        if len(self.values[variant]) < 2 or math.isnan(span.median):
            return written(span.median, unit)
        low, high = (written(value, unit).removesuffix(" %") for value in (span.low, span.high))
        return f"{written(span.median, unit)} ({low}-{high})"

    def verdict(self, variant: str, baseline: str) -> Verdict:
        """Seed by seed against another variant; a seed without a number on both sides is left out."""
        if not self.figure.better or variant == baseline:
            return Verdict()
        pairs = zip(self.values[baseline], self.values[variant], strict=True)
        words = [_judged(before, after, self.figure.better) for before, after in pairs]
        return Verdict(words.count("better"), words.count("worse"), words.count("same"))


def _judged(before: float, after: float, better: str) -> str:
    change = after - before
    if math.isnan(change):
        return ""
    if abs(change) <= SAME_RATIO * max(abs(before), abs(after)):
        return "same"
    return "better" if (change < 0) == (better == "lower") else "worse"


class Comparison(NamedTuple):
    """Every figure of every variant; the first variant is the baseline."""

    variants: tuple[str, ...]
    seeds: tuple[int, ...]
    lines: tuple[Line, ...]

    @property
    def baseline(self) -> str:
        """Returns the variant that the others are compared with."""
        return self.variants[0]

    def summary(self, variant: str) -> str:
        """One sentence that hides nothing."""
        sided = [line for line in self.lines if line.figure.better]
        words = {line.figure.name: line.verdict(variant, self.baseline).word for line in sided}
        better = sum(word == "better" for word in words.values())
        sentences = [f"{better} of {len(sided)} figures that can be better or worse got better"]
        for word, title in (("mixed", "better on some seeds, worse on others"), ("worse", "worse")):
            names = [name for name, verdict in words.items() if verdict == word]
            sentences += [f"{title}: {', '.join(names)}"] if names else []
        return "; ".join([*sentences, *([] if "worse" in words.values() else ["none got worse"])]) + "."


def of(variants: Mapping[str, Sequence[Figures]], seeds: Sequence[int]) -> Comparison:
    """The comparison of variants, each with figures for the same seeds in the same order; the first is the baseline.

    ValueError where a variant has not one result a seed.
    """
    for name, results in variants.items():
        if len(results) != len(seeds):
            raise ValueError(f"variant {name} has {len(results)} results, expected one for each of {len(seeds)} seeds")
    lines = (
        Line(definition, {name: tuple(map(definition.read, results)) for name, results in variants.items()})
        for definition in DEFINITIONS
    )
    return Comparison(tuple(variants), tuple(seeds), tuple(lines))
