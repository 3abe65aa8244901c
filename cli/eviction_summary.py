"""How good the descheduler's plans were, out of the rows of its ledger: the figures of `evenload evictions --summary`.

`cli.evictions` prints them. The descheduler judges each prediction (`error_*_ratio`, `stayed_under_line` of GET
/evictions, docs/reference/descheduler.md#predictions); here they are counted, for all evictions that took place and by
node or workload. What was not measured is counted as such and is in no median.
"""

import collections
import collections.abc
import statistics
from typing import Final, Literal

import msgspec

from cli.common.api_types import MISSING, percent
from cli.eviction_rows import Row
from descheduler.ledger.rows import DONE
from runtime import clock

GRACE_SECONDS: Final = 300.0  # so long after a moment the run that measures it may still be to come
After = Literal["5m", "30m"]
_AFTER_SECONDS: Final[dict[After, float]] = {"5m": 300.0, "30m": 1800.0}


class Errors(msgspec.Struct, frozen=True):
    """The prediction errors of one moment: their medians (ratios of the node, above 0: hotter than planned), and how
    many predictions have none, by reason.
    """

    judged: int
    median_error_ratio: float | None
    median_absolute_error_ratio: float | None
    unmeasured: int
    unpredicted: int
    pending: int


class Line(msgspec.Struct, frozen=True):
    """Evictions by whether their node stayed at or under its line until 30 minutes later."""

    under: int
    over: int
    unknown: int
    pending: int


class Group(msgspec.Struct, frozen=True):
    """The figures of some evictions; `landed_as_expected` are replacements on the node that the plan expected."""

    of: str
    evictions: int
    after_5m: Errors
    after_30m: Errors
    line: Line
    replaced: int
    returned: int
    landed_as_expected: int


def groups(
    rows: collections.abc.Iterable[Row], by: collections.abc.Callable[[Row], str] | None, now_seconds: float
) -> list[Group]:
    """All evictions that took place, then each group of them, the largest errors first."""
    done = [row for row in rows if row.result in DONE]
    parts = collections.defaultdict[str, list[Row]](list)
    for row in done if by is not None else ():
        parts[by(row) if by is not None else ""].append(row)
    named = [_group(name, part, now_seconds) for name, part in parts.items()]
    named.sort(key=lambda one: (-(one.after_30m.median_absolute_error_ratio or 0.0), one.of))
    return [_group("all", done, now_seconds), *named]


# The columns under their headers.
_COLUMNS: Final[dict[str, collections.abc.Callable[[Group], str]]] = {
    "of": lambda group: group.of or MISSING,
    "evicted": lambda group: str(group.evictions),
    "error 5m": lambda group: _points(group.after_5m.median_error_ratio),
    "error 30m": lambda group: _points(group.after_30m.median_error_ratio),
    "off by 30m": lambda group: _points(group.after_30m.median_absolute_error_ratio).lstrip("+"),
    "under line 30m": lambda group: _under(group.line.under, group.line.under + group.line.over),
    "came back": lambda group: _of(group.returned, group.replaced),
    "as expected": lambda group: _of(group.landed_as_expected, group.replaced),
}
HEADERS: Final = tuple(_COLUMNS)


def cells(group: Group) -> list[str]:
    """The group under HEADERS."""
    return [text(group) for text in _COLUMNS.values()]


def remarks(whole: Group) -> list[str]:
    """Names the evictions that the figures leave out, in a sentence for each moment."""
    texts = []
    for after, judged in (("5m", whole.after_5m), ("30m", whole.after_30m)):
        counts = (
            (judged.unmeasured, "without a fresh reading of the node"),
            (judged.unpredicted, "without a prediction"),
            (judged.pending, "too recent"),
        )
        left_out = [f"{count} {words}" for count, words in counts if count]
        if left_out:
            texts.append(f"{after}: of {whole.evictions} evictions {', '.join(left_out)}")
    return texts


def _group(name: str, rows: collections.abc.Sequence[Row], now_seconds: float) -> Group:
    return Group(
        of=name,
        evictions=len(rows),
        after_5m=_judged([(row.error_5m_ratio, row.expected_5m_ratio, row) for row in rows], "5m", now_seconds),
        after_30m=_judged([(row.error_30m_ratio, row.expected_30m_ratio, row) for row in rows], "30m", now_seconds),
        line=_line(rows, now_seconds),
        replaced=sum(1 for row in rows if row.landed_node is not None),
        returned=sum(1 for row in rows if row.returned),
        landed_as_expected=sum(1 for row in rows if row.landed_node is not None and row.landed_node == row.destination),
    )


def _judged(
    figures: collections.abc.Sequence[tuple[float | None, float | None, Row]], after: After, now_seconds: float
) -> Errors:
    """The predictions of rows, each with its error and what was expected."""
    errors = [error for error, _, _ in figures if error is not None]
    left_out = collections.Counter(
        "unpredicted" if expected is None else "pending" if _pending(row, after, now_seconds) else "unmeasured"
        for error, expected, row in figures
        if error is None
    )
    median = statistics.median(errors) if errors else None
    off_by = statistics.median(map(abs, errors)) if errors else None
    counts = (left_out[reason] for reason in ("unmeasured", "unpredicted", "pending"))
    return Errors(len(errors), median, off_by, *counts)


def _line(rows: collections.abc.Iterable[Row], now_seconds: float) -> Line:
    stayed = [(row.stayed_under_line, _pending(row, "30m", now_seconds)) for row in rows]
    under, over = (sum(1 for one, _ in stayed if one is wanted) for wanted in (True, False))
    pending = sum(1 for one, soon in stayed if one is None and soon)
    return Line(under, over, len(stayed) - under - over - pending, pending)


def _pending(row: Row, after: After, now_seconds: float) -> bool:
    """The moment has not come, or came less than GRACE_SECONDS ago."""
    return now_seconds < clock.from_rfc3339(row.at) + _AFTER_SECONDS[after] + GRACE_SECONDS


def _under(count: int, whole: int) -> str:
    return f"{percent(count / whole)} ({_of(count, whole)})" if whole else MISSING


def _of(count: int, whole: int) -> str:
    return f"{count} of {whole}" if whole else MISSING


def _points(ratio: float | None) -> str:
    """A difference of ratios in percentage points."""
    return MISSING if ratio is None else f"{100 * ratio:+.1f}pp"
