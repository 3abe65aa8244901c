"""A span of a cluster's past, read from Prometheus page by page, kept on disk so that what broke off goes on.

`evenload whatif` calls `read` with the real door; `rebuilding` gets the answers. A page is one subject over a few
hours: small enough for a server that is busy with other things, and asked one after another, never in parallel. A page
that is whole is written to the cache directory under a name made of the server, the cluster, the expression and the
page's own hours, so another run over the same days asks only for what is missing. A page that the server itself calls
partial is used, named, and not kept.
"""

import contextlib
import dataclasses
import hashlib
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from promql.door import PrometheusDoor, RangeAnswer, Series
from promql.queries import node_queries
from simulator.history.queries import Selectors, Subject, expressions

PAGE_POINTS = 72  # six hours of five-minute steps
SETTLED_SECONDS = 600.0  # a younger page may still change: scrapes arrive late, remote writes later
# What tells clusters apart that have one address: when the cluster was made, or its longest-running machine began.
BIRTH = (
    'min(last_over_time(kube_namespace_created{{namespace="kube-system"{more}}}[{span}])) '
    "or min(node_boot_time_seconds{{{nodes}}})"
)

Progress = Callable[[Subject, int, int], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """The steps of the past: step s covers [start + s * step, start + (s + 1) * step)."""

    start_seconds: float
    step_seconds: float
    steps: int

    @property
    def end_seconds(self) -> float:
        """When the last step is over."""
        return self.begin_seconds(self.steps)

    def begin_seconds(self, step: float) -> float:
        """When a step begins."""
        return self.start_seconds + step * self.step_seconds

    @classmethod
    def until(cls, now_seconds: float, since_seconds: float, step_seconds: float) -> "Span":
        """The whole steps of a length that lie in the last `since_seconds`; ValueError if there is none."""
        last, first = math.floor(now_seconds / step_seconds), math.ceil((now_seconds - since_seconds) / step_seconds)
        if last - first < 1:
            raise ValueError(
                f"a span of {since_seconds:g} s has no whole step of {step_seconds:g} s; expected a longer --since "
                "or a shorter --step"
            )
        return cls(first * step_seconds, step_seconds, last - first)


@dataclasses.dataclass(frozen=True, slots=True)
class RecordedSeries:
    """Every subject's series over the span; `warnings` are the server's words that something may be missing."""

    span: Span
    series: Mapping[Subject, tuple[Series, ...]]
    warnings: tuple[str, ...] = ()


class Page(NamedTuple):
    """One range query: first and last moment are the ends of its first and last step."""

    expression: str
    first_seconds: float
    last_seconds: float
    step_seconds: float


class Cache:
    """Pages on disk. A file that cannot be read is asked again; one that cannot be written costs nothing but time."""

    def __init__(self, directory: Path | None, server: str) -> None:
        self._directory, self._server = directory, server

    def of(self, cluster: str) -> "Cache":
        """The pages of one of the clusters that a server's address may lead to; of "" nothing is kept."""
        return Cache(self._directory if cluster else None, f"{self._server}\n{cluster}")

    def find(self, page: Page) -> RangeAnswer | None:
        """The page, or None."""
        path = self._path(page)
        if path is None:
            return None
        try:
            return msgspec.msgpack.decode(path.read_bytes(), type=RangeAnswer)
        except (OSError, msgspec.MsgspecError):
            return None

    def keep(self, page: Page, answer: RangeAnswer) -> None:
        """Write the page, whole or not at all."""
        path = self._path(page)
        if path is None:
            return
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
                file.write(msgspec.msgpack.encode(answer))
            Path(file.name).replace(path)

    def _path(self, page: Page) -> Path | None:
        if self._directory is None:
            return None
        text = f"{self._server}\n{page}"
        return self._directory / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.page"


def read(
    prometheus: PrometheusDoor,
    span: Span,
    selectors: Selectors,
    cache: Cache,
    *,
    now_seconds: float,
    progress: Progress = lambda _subject, _done, _pages: None,
) -> RecordedSeries:
    """Everything that `queries` asks, over the span.

    Raises PromqlError; what was read until then stays in the cache.
    """
    series: dict[Subject, tuple[Series, ...]] = {}
    warnings: list[str] = []
    cache = cache.of(_cluster(prometheus, span, selectors))
    for subject, expression in expressions(span.step_seconds, selectors).items():
        parts: list[Series] = []
        pages = tuple(_pages(expression, span))
        for number, page in enumerate(pages):
            progress(subject, number, len(pages))
            answer = _answer(prometheus, page, cache, now_seconds)
            parts.extend(answer.series)
            warnings.extend(f"{subject}: {warning}" for warning in answer.warnings)
        progress(subject, len(pages), len(pages))
        series[subject] = tuple(parts)
    return RecordedSeries(span, series, tuple(dict.fromkeys(warnings)))


def _cluster(prometheus: PrometheusDoor, span: Span, selectors: Selectors) -> str:
    """Returns the label matcher that separates the cluster from others in the same Prometheus; "" where nothing does.
    An address does not: port-forwards are all localhost, Services of one name are in every cluster, and tenants differ
    by a header.
    """
    more = f",{selectors.state}" if selectors.state else ""
    answer = prometheus.query_range(
        BIRTH.format(more=more, nodes=selectors.nodes, span=node_queries.duration(span.steps * span.step_seconds)),
        start_seconds=span.end_seconds,
        end_seconds=span.end_seconds,
        step_seconds=span.step_seconds,
    )
    values = sorted(value for one in answer.series for _, value in one.points)
    return "" if answer.warnings else ",".join(map(repr, values))


def _answer(prometheus: PrometheusDoor, page: Page, cache: Cache, now_seconds: float) -> RangeAnswer:
    answer = cache.find(page)
    if answer is not None:
        return answer
    answer = prometheus.query_range(
        page.expression,
        start_seconds=page.first_seconds,
        end_seconds=page.last_seconds,
        step_seconds=page.step_seconds,
    )
    if not answer.warnings and page.last_seconds < now_seconds - SETTLED_SECONDS:
        cache.keep(page, answer)
    return answer


def _pages(expression: str, span: Span) -> Iterator[Page]:
    """The span's pages. They begin at the same hours for every request: a page read once serves again."""
    before = round(span.start_seconds / span.step_seconds) % PAGE_POINTS
    for first in range(-before, span.steps, PAGE_POINTS):
        steps = max(first, 0) + 1, min(first + PAGE_POINTS, span.steps)
        first_seconds, last_seconds = map(span.begin_seconds, steps)
        yield Page(expression, first_seconds, last_seconds, span.step_seconds)
