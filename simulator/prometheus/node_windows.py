"""Windows of nodes over the scrapes that were taken, for all nodes at once.

After Prometheus' engine (v3: a range is open to the left), asked by `door`. An average of CPU is idle time against all
time between the first and the last scrape of the window, so exactly the growth of the counter; an average of memory is
the mean of the values scraped. A maximum or percentile is taken over the averages at the multiples of the step inside
the window; these never change once they are over, so each is computed once and kept.
"""

import math

import numpy as np

from policy import metrics as load_metrics
from promql.queries import node_queries
from promql.queries.node_queries import Window
from simulator.usage import node_usage
from simulator.usage.node_usage import Flags, Floats, Numbers
from simulator.usage.ring_table import RingTable

SPARE_SECONDS = 3600.0  # how far back an instant may lie for which evaluations are kept
LOOKBACK_SECONDS = 300.0  # Prometheus' own: an older sample answers no instant query


class NodeWindows:
    """Windows over one book. Values are arrays in the order of the scenario's machines, NaN where there is none."""

    def __init__(self, book: node_usage.UsageBook) -> None:
        self._book = book
        self._scraping = book.scraping
        self._first, self._last = book.node_scrapes()
        self._all_joined, self._none_left = int(self._first.max()), int(self._last.min())
        self._points: dict[Window, RingTable] = {}
        self._moment = (-math.inf, -1)  # the time and the end of the scrapes that `_values` are of
        self._values: dict[Window, Floats] = {}

    def last_scrape(self, at_seconds: float) -> int:
        """The number of the last scrape that a query of a time can see."""
        return min(self._scraping.last(at_seconds), self._book.scraped.end - 1)

    def present(self, at_seconds: float) -> Flags:
        """Which nodes the last scrape found; staleness marks end the series of the others."""
        number = self.last_scrape(at_seconds)
        fresh = at_seconds - self._scraping.seconds(number) < LOOKBACK_SECONDS
        return (self._first <= number) & (number <= self._last) & fresh

    def value(self, window: Window, at_seconds: float) -> Floats:
        """The window of every node at a time, by the rules of `node_queries.expression`; not to be written to.

        Several ask at one moment, and get the same.
        """
        moment = (at_seconds, self._book.scraped.end)
        if moment != self._moment:
            self._moment, self._values = moment, {}
        if window not in self._values:
            self._values[window] = self._value(window, at_seconds)
        return self._values[window]

    def _value(self, window: Window, at_seconds: float) -> Floats:
        if window.statistic == load_metrics.AVERAGE:
            values = self._average(window.resource, window.window_seconds, at_seconds)
        else:
            values = _over(window.statistic, self._evaluated(window, at_seconds))
        present = self.present(at_seconds)
        return values if present.all() else np.where(present, values, np.nan)

    def counts(self, window_seconds: float, at_seconds: float) -> Numbers:
        """How many scrapes of every node lie inside a window."""
        first, last = self._span(window_seconds, at_seconds)
        return np.asarray(np.maximum(np.minimum(last, self._last) - np.maximum(first, self._first) + 1, 0))

    def _span(self, seconds: float, at_seconds: float) -> tuple[int, int]:
        """First and last scrape in the window before a time."""
        return self._scraping.last(at_seconds - seconds) + 1, self.last_scrape(at_seconds)

    def _average(self, resource: str, seconds: float, at_seconds: float) -> Floats:
        """The average of every node over `seconds` before a time, of those that come or go over what it covers."""
        first, last = self._span(seconds, at_seconds)
        if first >= self._all_joined and last <= self._none_left:
            return self._mean(resource, first, last)
        firsts, lasts = np.maximum(first, self._first), np.minimum(last, self._last)
        values = np.full(len(firsts), np.nan)
        for own_first, own_last in set(zip(firsts.tolist(), lasts.tolist(), strict=True)):
            same = (firsts == own_first) & (lasts == own_last)
            values[same] = self._mean(resource, own_first, own_last)[same]
        return values

    def _mean(self, resource: str, first: int, last: int) -> Floats:
        """The average of nodes between two scrapes, both included."""
        scraped, is_cpu = self._book.scraped, resource == load_metrics.CPU
        if last < first + is_cpu:  # a counter grows between two
            return np.full(len(self._first), np.nan)
        if is_cpu:
            grown = scraped[last][node_usage.CPU_RATIO] - scraped[first][node_usage.CPU_RATIO]
            return np.asarray(grown / ((last - first) * self._scraping.every_seconds))
        grown = scraped[last][node_usage.MEMORY_RATIO] - scraped[first - 1][node_usage.MEMORY_RATIO]
        return np.asarray(grown / (last - first + 1))

    def _evaluated(self, window: Window, at_seconds: float) -> Floats:
        """The averages at the multiples of the subquery's step in (at - window, at], [instants, nodes]."""
        step_seconds = _step_seconds(window)
        end = _multiple(at_seconds, step_seconds) + 1
        first = _multiple(at_seconds - window.window_seconds, step_seconds) + 1
        if at_seconds > self._book.now_seconds:  # what is still to be scraped belongs to no kept average
            return self._at_multiples(window, first, end)
        points = self._points.get(window)
        if points is None or first > points.end:
            spare = math.ceil(SPARE_SECONDS / step_seconds)
            points = self._points[window] = RingTable((len(self._first),), begin=first, capacity=end - first + spare)
        if end > points.end:
            points.append(self._at_multiples(window, points.end, end))
        return points.between(first, end) if first >= points.oldest else self._at_multiples(window, first, end)

    def _at_multiples(self, window: Window, first: int, end: int) -> Floats:
        step_seconds = _step_seconds(window)
        values = np.empty((end - first, len(self._first)))
        for number in range(first, end):
            values[number - first] = self._average(window.resource, window.averaging_seconds, number * step_seconds)
        return values


def _step_seconds(window: Window) -> float:
    """The subquery's step as the text says it, in whole milliseconds."""
    return round(node_queries.step_seconds(window) * 1000) / 1000


def _multiple(at_seconds: float, step_seconds: float) -> int:
    return round(at_seconds * 1000) // round(step_seconds * 1000)


def _over(statistic: str, averages: Floats) -> Floats:
    """Maximum or percentile over the first axis, of what is there (NaN is not); NaN where nothing is."""
    if statistic == load_metrics.MAXIMUM:
        return np.asarray(np.fmax.reduce(averages, axis=0, initial=np.nan))
    return _quantile(node_queries.quantile_ratio(statistic), averages)


def _quantile(ratio: float, averages: Floats) -> Floats:
    """Prometheus' quantile: linear between the two ranks around ratio * (n - 1)."""
    ordered = np.sort(averages, axis=0)  # NaN last
    counts = np.isfinite(averages).sum(axis=0)
    rank = ratio * np.maximum(counts - 1, 0)
    lower, upper, nodes = np.floor(rank).astype(np.int64), np.ceil(rank).astype(np.int64), np.arange(len(counts))
    if not len(ordered):
        return np.full(len(counts), np.nan)
    return np.asarray(ordered[lower, nodes] + (ordered[upper, nodes] - ordered[lower, nodes]) * (rank - lower))
