"""The PromQL behind the node windows: one expression per window, answered for ALL nodes at once.

Pure text; the annotator asks them for the annotation and the descheduler for its snapshot, so both see the same
numbers. Written against node_exporter's series as they come, without recording rules. These properties matter:

* Every label but `cpu`, `mode` and those of the exporter's pod (`EXPORTER_LABELS`) is kept, so that two targets which
  claim the same node (a second job, another cluster behind the same Thanos) arrive as two series and are refused as a
  double, instead of being averaged away. An exporter's pod that replaces another goes on with its series: sums of both
  are weighed by what each has in the window, and a maximum is over both.
* Memory is without the pool of huge pages, in use or not: a node whose pool is reserved has no less room for its pods
  than allocatable, which is without it, too. `MemAvailable` never has it.
* Each expression ends in `and <the bare series>`: Prometheus marks series stale at the first failed scrape, so a node
  whose exporter died is missing one scrape later, although a 5m rate or a 1d maximum could still answer for it.
* Idle time is divided by the time of all modes under the same rate. Against the clock, 1 - rate(idle), a node younger
  than the window would read as busy (rate() does not extrapolate to time a series did not cover), a 1d maximum would
  remember that for a day, and a frozen exporter would read as fully loaded; so both come out right, or as NaN.
* A Prometheus that keeps idle time only, or the sums of all CPUs, would show each node idle, or the hot ones: CPU ends
  in user time by CPU, and such a node is missing.
* A CPU has a second in each, and counts for no more than 1.5: iowait and idle may fall a little, which rate() takes for
  a start from 0, and so for hours in five minutes. Idle time beyond it is left out: rather hot than idle.
* A maximum or quantile is taken over the averages of the averaging window W, as a subquery with
  step = max(W/4, window/288): at most 288 evaluations, 48 for 1h and 288 for 1d with W = 5m.
"""

import functools
import re
from typing import NamedTuple, Protocol

from promql.queries import identity
from promql.queries.identity import INSTANCE

MAX_POINTS = 288  # 1d in steps of 5m; a finer step costs Prometheus more than a peak between two steps is worth


MOST_PER_SECOND = 1.5  # of one CPU; more than a second is of late scrapes, and more than this of a counter that fell


class Window(NamedTuple):
    """A window of a resource: `statistic` (avg, max, p95, p999) over `window_seconds` of W-averages."""

    resource: str
    statistic: str
    window_seconds: float
    averaging_seconds: float


class MetricQuery(Protocol):
    """A metric as far as its query goes; `policy.metrics.Metric` is one."""

    @property
    def resource(self) -> str: ...
    @property
    def statistic(self) -> str: ...
    @property
    def window_seconds(self) -> float: ...
    @property
    def averaging_seconds(self) -> float: ...
    @property
    def query(self) -> str | None: ...


def of_metric(metric: MetricQuery, *, selector: str = "", node_label: str = INSTANCE) -> str:
    """Returns the metric's own query as it stands, or the built-in one with `selector`; see `expression`."""
    if metric.query is not None:
        return metric.query
    window = Window(metric.resource, metric.statistic, metric.window_seconds, metric.averaging_seconds)
    return expression(window, selector=selector, node_label=node_label)


@functools.lru_cache(maxsize=256)  # a policy has a dozen, asked at every sync and cycle
def expression(window: Window, *, selector: str = "", node_label: str = INSTANCE) -> str:
    """The PromQL for one window; `selector` is further matchers (`job="node-exporter"`) for every series, `node_label`
    names the node: where that is another label, `instance` is one of the exporter's.

    cpu    u = 1 - rate of idle time / rate of all time, summed over CPUs (iowait and steal count as busy)
    memory u = 1 - sum(MemAvailable) / sum(MemTotal - huge pages), over the scrapes of the window
    Both are ratios 0..1. Raises ValueError for a resource or statistic that is not known.
    """
    present = _present(window.resource, selector, node_label)
    if window.statistic == "avg":
        return f"({_average(window.resource, window.window_seconds, selector, node_label)}) and {present}"
    inner = _average(window.resource, window.averaging_seconds, selector, node_label)
    over = f"({inner})[{duration(window.window_seconds)}:{duration(step_seconds(window))}]"
    return f"{over_time(window.statistic, over)} and {present}"


def data_time(resource: str, *, selector: str = "", node_label: str = INSTANCE) -> str:
    """When the newest scrape behind a node's windows was, in Unix seconds, under the labels of `expression`.

    An instant query's own time is the evaluation, not the data; a reader that acts on the values asks this too.
    """
    if resource == "cpu":
        return f"max {_without(node_label, *_OF_A_CPU)} (timestamp({_idle(selector)}))"
    if resource == "memory":
        return f"max {_without(node_label)} (timestamp({_memory('MemAvailable_bytes', selector)}))"
    raise ValueError(f"resource {resource!r} has no built-in query, expected cpu or memory")


def scrapes(resource: str, window_seconds: float, *, selector: str = "") -> str:
    """How many scrapes of a node a window holds: the median over all nodes, one series. ValueError as `data_time`."""
    if resource not in ("cpu", "memory"):
        raise ValueError(f"resource {resource!r} has no built-in query, expected cpu or memory")
    # of memory also for CPU: one series a node, from the same scrape of the same exporter
    counted = f"count_over_time({_memory('MemAvailable_bytes', selector)}[{duration(window_seconds)}])"
    return f"quantile(0.5, sum {_without()} ({counted}))"


def known_share(seconds: float, *, selector: str = "") -> str:
    """The share of the nodes with series now that had series so long ago; without a series if none had."""
    series = _memory("MemAvailable_bytes", selector)
    now, then = (f"max {_without()} ({each})" for each in (series, f"{series} offset {duration(seconds)}"))
    return f"count({then} and {now}) / count({now})"


def memory_bytes(*, selector: str = "") -> str:
    """The memory of a machine that the memory windows are a share of: without pools of huge pages."""
    names = ("MemTotal_bytes", "Hugetlb_bytes", "HugePages_Total", "Hugepagesize_bytes")
    total, pools, pages, page_bytes = (_memory(name, selector) for name in names)
    return _ordinary(total, pools, pages, page_bytes)


def _ordinary(total: str, pools: str, pages: str, page_bytes: str) -> str:
    """The total without all pools; an older kernel says only that of the default size, and an exporter maybe none."""
    return f"{total} - ({pools} or {pages} * {page_bytes} or 0 * {total})"


def step_seconds(window: Window) -> float:
    """The subquery's step: fine enough to overlap the averages, coarse enough to bound the cost."""
    return max(window.averaging_seconds / 4, window.window_seconds / MAX_POINTS)


def duration(seconds: float) -> str:
    """A PromQL duration, "300s" or "1500ms"; ValueError below one millisecond."""
    millis = round(seconds * 1000)
    if millis < 1:
        raise ValueError(f"a window of {seconds!r} s is not usable in PromQL, expected at least 0.001")
    return f"{millis // 1000}s" if millis % 1000 == 0 else f"{millis}ms"


def _average(resource: str, seconds: float, selector: str, node_label: str) -> str:
    span = duration(seconds)
    if resource == "cpu":
        without, most = _without(node_label, *_OF_A_CPU), f"{MOST_PER_SECOND:g}"
        idle, all_modes = (f"rate({series}[{span}])" for series in (_idle(selector), _CPU_SECONDS + _braces(selector)))
        # per CPU, since its modes are eight times as many series to hold
        per_cpu = f"clamp_max(sum without (mode) ({all_modes}), {most})"
        return f"1 - sum {without} ({idle} <= {most}) / sum {without} ({per_cpu})"
    if resource == "memory":
        available, total, pools, pages = (
            f"sum_over_time({_memory(name, selector)}[{span}])"
            for name in ("MemAvailable_bytes", "MemTotal_bytes", "Hugetlb_bytes", "HugePages_Total")
        )
        page_bytes = f"max_over_time({_memory('Hugepagesize_bytes', selector)}[{span}])"
        ordinary = _ordinary(total, pools, pages, page_bytes)
        return f"1 - sum {_without(node_label)} ({available}) / sum {_without(node_label)} ({ordinary})"
    raise ValueError(f"resource {resource!r} has no built-in query, expected cpu or memory; give the metric a `query`")


_CPU_SECONDS = "node_cpu_seconds_total"
_IN_USE = 'cpu!="",mode="user"'
_OF_A_CPU = ("cpu", "mode")


def _present(resource: str, selector: str, node_label: str) -> str:
    if resource == "cpu":
        return f"max {_without(node_label, *_OF_A_CPU)} ({_CPU_SECONDS}{_braces(_IN_USE, selector)})"
    return f"max {_without(node_label)} ({_memory('MemAvailable_bytes', selector)})"


def _without(node_label: str = INSTANCE, *labels: str) -> str:
    """The clause that keeps the labels of a target and drops these, and those of the exporter's pod."""
    instance = () if node_label == INSTANCE else (INSTANCE,)
    return f"without ({', '.join((*labels, *identity.EXPORTER_LABELS, *instance))})"


def _memory(name: str, selector: str) -> str:
    return f"node_memory_{name}{_braces(selector)}"


def over_time(statistic: str, over: str) -> str:
    """A maximum or percentile over a range or subquery; ValueError for a statistic that is not known."""
    if statistic == "max":
        return f"max_over_time({over})"
    return f"quantile_over_time({quantile_ratio(statistic):g}, {over})"


def quantile_ratio(statistic: str) -> float:
    """The share behind a percentile: p95 is 0.95, p999 is 0.999. ValueError for a statistic that is none."""
    percentile = re.fullmatch(r"p([1-9][0-9]{0,2})", statistic)
    if percentile is None:
        raise ValueError(f"statistic {statistic!r} is not known, expected avg, max or a percentile such as p95 or p999")
    digits = percentile[1]
    return int(digits) / (1000 if len(digits) == 3 else 100)


def _idle(selector: str) -> str:
    return _CPU_SECONDS + _braces('mode="idle"', selector)


def _braces(*matchers: str) -> str:
    every = ",".join(filter(None, matchers))
    return f"{{{every}}}" if every else ""
