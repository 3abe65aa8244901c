"""Use of pods over a window, as the kubelet's cAdvisor series show it: CPU cores and memory bytes of all pods.

After Prometheus' engine, asked by `door`. Nothing is kept of a single pod: within a step it uses its wish times its
node's factor, so its counter grows by the wish times the growth of the factor's integral, which the book has at every
scrape and where every step begins; and so do the sums over a gauge's samples. A pod has no series while its use is not
known, and no value for a window of which a part is not.
"""

import math
from typing import NamedTuple

import numpy as np

from simulator.usage import node_usage
from simulator.usage.node_usage import Floats, Numbers

FURTHEST_INTERVALS = 1.1  # rate() extrapolates over a gap of up to so many intervals, and over half of one otherwise


class PodValues(NamedTuple):
    """A value for each of these places of `UsageBook.pods`."""

    places: Numbers
    values: Floats

    @property
    def known(self) -> "PodValues":
        """Those that have one."""
        there = np.isfinite(self.values)
        return self if there.all() else PodValues(self.places[there], self.values[there])


NONE = PodValues(np.empty(0, np.int64), np.empty(0))


class _ScrapedPods(NamedTuple):
    """Pods with their nodes, and the first and the last scrape of each in a window."""

    places: Numbers
    nodes: Numbers
    first: Numbers
    last: Numbers

    def only(self, which: Numbers) -> "_ScrapedPods":
        return _ScrapedPods(self.places[which], self.nodes[which], self.first[which], self.last[which])


class _Span(NamedTuple):
    """From where to where of its node's cumulated factor each pod is asked about, and during which steps."""

    low: Floats
    high: Floats
    steps: range


class PodWindows:
    """Windows of pods over one book. `last` is the newest scrape that a query can see."""

    def __init__(self, book: node_usage.UsageBook) -> None:
        self._book = book
        self._scraping = book.scraping
        self._node_first, self._node_last = book.node_scrapes()

    def present(self, last: int) -> Numbers:
        """The places of the pods that the scrape found."""
        book, at_seconds = self._book, self._scraping.seconds(last)
        if last <= book.scraped.begin:
            return NONE.places
        places = book.pods.seen_between(at_seconds, at_seconds)
        wishes = book.pods.wishes(places, self._step(at_seconds))
        known = np.isfinite(wishes[0]) & np.isfinite(wishes[1])
        return places[known & book.machines.there_at(at_seconds)[book.pods.node[places]]]

    def cpu_cores(self, window_seconds: float, at_seconds: float, last: int) -> PodValues:
        """Mean cores by `pod_queries.cpu_cores`: rate() of the counters, of those with two scrapes.

        A pod that ended inside the window is still in it, as with every rate.
        """
        window_first = self._first(window_seconds, at_seconds)
        places = self._book.pods.seen_between(self._scraping.seconds(window_first), self._scraping.seconds(last))
        scraped = self._scraped_pods(places, window_first, last)
        scraped = scraped.only(np.flatnonzero(scraped.first < scraped.last))
        if not len(scraped.places):
            return NONE
        at_first = self._book.scraped.at(scraped.first, node_usage.CPU_FACTOR, scraped.nodes)
        at_last = self._book.scraped.at(scraped.last, node_usage.CPU_FACTOR, scraped.nodes)
        increase = self._used(node_usage.CPU_RATIO, scraped, _Span(at_first, at_last, self._steps(window_first, last)))
        sampled_seconds = (scraped.last - scraped.first) * self._scraping.every_seconds
        covered_seconds = sampled_seconds + self._reached(at_seconds - self._scraping.seconds_of(scraped.last))
        covered_seconds += self._before(scraped, increase, at_first, at_seconds - window_seconds)
        return PodValues(scraped.places, increase / 1000.0 * covered_seconds / sampled_seconds / window_seconds).known

    def memory_bytes(self, window_seconds: float, at_seconds: float, last: int) -> PodValues:
        """Mean bytes by `pod_queries.memory_bytes`: avg_over_time() of the gauges, of those that are there."""
        window_first = self._first(window_seconds, at_seconds)
        scraped = self._scraped_pods(self.present(last), window_first, last)
        if not len(scraped.places):
            return NONE
        before = self._book.scraped.at(scraped.first - 1, node_usage.MEMORY_FACTOR, scraped.nodes)
        at_last = self._book.scraped.at(scraped.last, node_usage.MEMORY_FACTOR, scraped.nodes)
        summed = self._used(node_usage.MEMORY_RATIO, scraped, _Span(before, at_last, self._steps(window_first, last)))
        return PodValues(scraped.places, summed / (scraped.last - scraped.first + 1)).known

    def _first(self, window_seconds: float, at_seconds: float) -> int:
        """The first scrape in a window that there was."""
        return max(self._scraping.last(at_seconds - window_seconds), self._book.scraped.begin) + 1

    def _scraped_pods(self, places: Numbers, window_first: int, last: int) -> _ScrapedPods:
        pods, nodes = self._book.pods, self._book.pods.node[places]
        own_first = np.maximum(self._scraping.last_of(pods.begun_seconds[places]) + 1, self._node_first[nodes])
        own_last = np.minimum(
            self._scraping.last_before(pods.ended_seconds[places] + node_usage.MOMENT_SECONDS), self._node_last[nodes]
        )
        scraped = _ScrapedPods(places, nodes, np.maximum(own_first, window_first), np.minimum(own_last, last))
        return scraped.only(np.flatnonzero(scraped.first <= scraped.last))

    def _used(self, resource: int, scraped: _ScrapedPods, span: _Span) -> Floats:
        """Wish times growth of the cumulated factor, step by step; NaN where a wish of the time is not known."""
        total, low = np.zeros(len(scraped.places)), span.low
        for step in span.steps:
            end = self._begin(resource, step + 1)[scraped.nodes] if step + 1 < span.steps.stop else np.inf
            high = np.maximum(np.minimum(span.high, end), low)
            grown = high > low
            if grown.any():  # the first step of a window may be over before its first scrape
                wishes = self._book.pods.wishes(scraped.places, step)[resource]
                total += np.where(grown, wishes * (high - low), 0.0)
            low = high
        return total

    def _begin(self, resource: int, step: int) -> Floats:
        """The cumulated factor of every node where a step begins: of a gauge, after the last scrape before it."""
        if resource == node_usage.CPU_RATIO:
            return np.asarray(self._book.factor_seconds[step])
        number = self._scraping.last(self._book.machines.step_seconds[step] - node_usage.MOMENT_SECONDS)
        return np.asarray(self._book.scraped[max(number, self._book.scraped.begin)][node_usage.MEMORY_FACTOR])

    def _before(self, scraped: _ScrapedPods, increase: Floats, at_first: Floats, begin_seconds: float) -> Floats:
        """How far rate() extrapolates to the left of each first sample: not beyond where the counter was zero.

        Of a pod whose first scrape is older than the window the counter is taken to be far from zero.
        """
        pods, interval_seconds = self._book.pods, self._scraping.every_seconds
        first_seconds = self._scraping.seconds_of(scraped.first)
        reach_seconds = self._reached(first_seconds - begin_seconds)
        begun_seconds = pods.begun_seconds[scraped.places]
        young = np.flatnonzero((first_seconds - begun_seconds <= interval_seconds) & (increase > 0))
        if len(young):
            its = scraped.only(young)
            span = _Span(
                pods.begun_factor_seconds[its.places],
                at_first[young],
                range(self._step(float(begun_seconds[young].min())), self._step(float(first_seconds[young].max())) + 1),
            )
            counted = self._used(node_usage.CPU_RATIO, its, span)
            sampled_seconds = (its.last - its.first) * interval_seconds
            reach_seconds[young] = np.fmin(reach_seconds[young], sampled_seconds * counted / increase[young])
        return reach_seconds

    def _reached(self, gaps_seconds: Floats) -> Floats:
        """How far rate() extrapolates into gaps at an end of its range."""
        interval_seconds = self._scraping.every_seconds
        return np.where(gaps_seconds >= FURTHEST_INTERVALS * interval_seconds, interval_seconds / 2, gaps_seconds)

    def _steps(self, first: int, last: int) -> range:
        return range(self._step(self._scraping.seconds(first - 1)), self._step(self._scraping.seconds(last)) + 1)

    def _step(self, at_seconds: float) -> int:
        scenario = self._book.scenario
        return min(max(math.floor((at_seconds - scenario.start_seconds) / scenario.step_seconds), 0), scenario.steps)
