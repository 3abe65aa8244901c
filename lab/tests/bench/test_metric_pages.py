"""Totals and quantiles between two pages of /metrics."""

import math

import pytest

from lab.bench import metric_pages
from lab.bench.metric_pages import Page


def page(fast: int, slow: int, endless: int = 0) -> Page:
    """A histogram of two series, of which the second has nothing."""
    counts = (("0.1", fast), ("0.5", fast + slow), ("+Inf", fast + slow + endless))
    lines = ["# TYPE wait_seconds histogram"]
    for verb, factor in (("filter", 1), ("preempt", 0)):
        lines += [f'wait_seconds_bucket{{le="{bound}",verb="{verb}"}} {factor * count}' for bound, count in counts]
        lines += [
            f'wait_seconds_count{{verb="{verb}"}} {factor * counts[-1][1]}',
            f'wait_seconds_sum{{verb="{verb}"}} 0',
        ]
    return Page("\n".join(lines) + "\n")


def test_a_total_adds_up_the_series_with_the_labels() -> None:
    assert page(3, 1).total("wait_seconds_count") == 4
    assert page(3, 1).total("wait_seconds_count", verb="preempt") == 0
    assert page(3, 1).total("absent") == 0


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        pytest.param(0.25, 0.05, id="in the middle of the first bucket"),
        pytest.param(0.75, 0.3, id="in the middle of the second"),
        pytest.param(1.0, 0.5, id="all"),
    ],
)
def test_a_quantile_is_of_what_came_between_the_pages(share: float, expected: float) -> None:
    before, after = page(1000, 10), page(1050, 60)
    assert metric_pages.quantile(before, after, "wait_seconds", share, verb="filter") == pytest.approx(expected)


def test_what_is_beyond_every_bound_is_shown_as_the_last_bound() -> None:
    assert metric_pages.quantile(page(0, 0), page(0, 1, 9), "wait_seconds", 0.99) == 0.5


def test_a_quantile_of_nothing_is_not_a_number() -> None:
    assert math.isnan(metric_pages.quantile(page(3, 1), page(3, 1), "wait_seconds", 0.5))
