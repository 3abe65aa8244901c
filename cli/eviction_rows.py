"""The rows of the descheduler's ledger as `evenload evictions` prints them: decoded, paged, worded and counted.

`cli.evictions` prints them. Unknown keys are left aside, so that a newer descheduler can be read; what did not happen
yet is None. The descheduler judges each prediction (`error_*_ratio`, `stayed_under_line` of GET /evictions,
docs/reference/descheduler.md#predictions); `groups` counts these for --summary, for all evictions that took place and
by node or workload. What was not measured is counted as such and is in no median.
"""

import collections
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Literal

import msgspec

from cli.common import http_client, services
from cli.common.api_types import MISSING, age, mebibytes, percent
from console.sources import Replica
from descheduler.ledger.rows import DONE
from policy.explain import wording
from runtime import clock

PAGE: Final = 1000
HEADERS: Final = ("age", "pod", "node", "load", "result", "landed", "ready", "5m", "30m")
EVENT_HEADERS: Final = ("age", "type", "reason", "object", "note")
NAMES: Final = frozenset({"pod", "node", "landed", "workload", "expected"})
GRACE_SECONDS: Final = 300.0  # so long after a moment the run that measures it may still be to come
After = Literal["5m", "30m"]
Group = dict[str, Any]  # the figures of some evictions, as the document has them
# Predictions without an error, by reason.
LEFT_OUT: Final = {
    "unmeasured": "without a fresh reading of the node",
    "unpredicted": "without a prediction",
    "pending": "too recent",
}
_AFTER_SECONDS: Final[dict[After, float]] = {"5m": 300.0, "30m": 1800.0}


class Row(msgspec.Struct, frozen=True):
    """One eviction; times are RFC 3339, ratios fractions of the node's allocatable."""

    id: int
    intended_at: str
    at: str
    run: str
    mode: str
    policy_hash: str
    namespace: str
    pod: str
    workload: str
    node: str
    metric: str
    value_ratio: float
    threshold_ratio: float
    target_ratio: float
    projected_ratio: float
    cpu_millicores: float
    memory_bytes: float
    destination: str
    result: str
    message: str = ""
    http_status: int | None = None
    gone_at: str | None = None
    landed_pod: str | None = None
    landed_node: str | None = None
    landed_at: str | None = None
    ready_at: str | None = None
    load_5m_ratio: float | None = None
    load_30m_ratio: float | None = None
    returned: bool | None = None
    expected_5m_ratio: float | None = None  # absent from a descheduler of a version before, as the five below
    expected_30m_ratio: float | None = None
    error_5m_ratio: float | None = None
    error_30m_ratio: float | None = None
    stayed_under_line: bool | None = None
    disruption: str | None = None

    def __post_init__(self) -> None:
        for text in (self.at, self.intended_at, self.landed_at, self.ready_at):
            if text is not None:
                clock.from_rfc3339(text)

    @property
    def at_seconds(self) -> float:
        """When it was asked for (Unix seconds)."""
        return clock.from_rfc3339(self.intended_at)

    @property
    def ready_after_seconds(self) -> float | None:
        """How long the workload went without the pod: from the eviction to the replacement's readiness."""
        return None if self.ready_at is None else max(0.0, clock.from_rfc3339(self.ready_at) - self.at_seconds)


class Evictions(msgspec.Struct, frozen=True):
    """GET /evictions; within the span nothing is known of before `known_since`."""

    evictions: tuple[Row, ...]
    known_since: str | None = None


class PostedEvent(msgspec.Struct, frozen=True):
    """One Event as it was posted."""

    at: str
    type: str
    reason: str
    kind: str
    name: str
    note: str
    namespace: str = ""
    related: str = ""

    def __post_init__(self) -> None:
        clock.from_rfc3339(self.at)

    @property
    def about(self) -> str:
        """The object, after its namespace where it has one."""
        name = f"{self.kind}/{self.name}"
        return f"{self.namespace} {name}" if self.namespace else name

    def cells(self, now_seconds: float) -> tuple[str, ...]:
        """The Event under EVENT_HEADERS."""
        return age(now_seconds - clock.from_rfc3339(self.at)), self.type, self.reason, self.about, self.note


class Events(msgspec.Struct, frozen=True):
    """GET /events."""

    events: tuple[PostedEvent, ...]


def cells(row: Row, now_seconds: float, *, wide: bool = False) -> list[str]:
    """The row under HEADERS, and under WIDE if asked."""
    texts = [
        age(now_seconds - row.at_seconds),
        f"{row.namespace}/{row.pod}",
        row.node,
        _load(row, wide=wide),
        row.result,
        "came back" if row.returned and row.landed_node is not None else row.landed_node or MISSING,
        age(row.ready_after_seconds),
        percent(row.load_5m_ratio),
        percent(row.load_30m_ratio),
    ]
    return [*texts, *(text(row) for text in WIDE.values())] if wide else texts


# Further columns under their headers.
WIDE: Final[dict[str, Callable[[Row], str]]] = {
    "workload": lambda row: row.workload or MISSING,
    "pod uses": lambda row: f"{row.cpu_millicores:.0f}m {mebibytes(row.memory_bytes)}",
    "until": lambda row: percent(row.target_ratio),
    "projected": lambda row: percent(row.projected_ratio),
    "expected": lambda row: row.destination or MISSING,
    "mode": lambda row: row.mode,
    "http": lambda row: MISSING if row.http_status is None else str(row.http_status),
    "ended by": lambda row: row.disruption or MISSING,
    "run": lambda row: row.run,
    "policy": lambda row: row.policy_hash,
    "message": lambda row: row.message or MISSING,
}


def _load(row: Row, *, wide: bool) -> str:
    """`cpu 87%>80%`, the reading over its line, or `cpu 75% until 60%`: under the line, on the way to its target. The
    whole metric with `wide`.
    """
    over = row.value_ratio > row.threshold_ratio
    line_ratio = row.threshold_ratio if over else row.target_ratio
    name = row.metric if wide else row.metric.removesuffix("_avg_5m")
    sign = "%>" if over else "% until "
    return f"{name} {wording.compared(100 * row.value_ratio, sign, 100 * line_ratio, decimals=0)}%"


def known_since(service: Replica, since: str) -> str | None:
    """The time since which the ledger knows evictions, where that is later than the span's begin. Raises HttpError."""
    body = service.get("/evictions", since=since, limit="1")
    return http_client.decoded(body, Evictions, service.name, services.DESCHEDULER).known_since


def page(service: Replica, **query: str) -> tuple[dict[str, Any], ...]:
    """The rows that match as they came, every one of them a Row, the newest first. Raises HttpError."""
    body = service.get("/evictions", **query)
    http_client.decoded(body, Evictions, service.name, services.DESCHEDULER)
    return tuple(msgspec.json.decode(body, type=dict[str, Any])["evictions"])


def pages(service: Replica, **query: str) -> Iterator[dict[str, Any]]:
    """`page` after page, however many there are."""
    before = ""
    while True:
        rows = page(service, **query, limit=str(PAGE), before=before)
        yield from rows
        if len(rows) < PAGE:
            return
        before = str(rows[-1]["id"])


def groups(rows: Iterable[Row], by: Callable[[Row], str] | None, now_seconds: float) -> list[Group]:
    """All evictions that took place, then each group of them, the largest errors first."""
    done = [row for row in rows if row.result in DONE]
    parts = collections.defaultdict[str, list[Row]](list)
    for row in done if by is not None else ():
        parts[by(row) if by is not None else ""].append(row)
    named = [_group(name, part, now_seconds) for name, part in parts.items()]
    named.sort(key=lambda one: (-(one["after_30m"]["median_absolute_error_ratio"] or 0.0), one["of"]))
    return [_group("all", done, now_seconds), *named]


# Figures of a group under their headers.
FIGURES: Final[dict[str, Callable[[Group], str]]] = {
    "of": lambda group: group["of"] or MISSING,
    "evicted": lambda group: str(group["evictions"]),
    "error 5m": lambda group: _points(group["after_5m"]["median_error_ratio"]),
    "error 30m": lambda group: _points(group["after_30m"]["median_error_ratio"]),
    "off by 30m": lambda group: _points(group["after_30m"]["median_absolute_error_ratio"]).lstrip("+"),
    "under line": lambda group: _of(group["line"]["under"], group["line"]["under"] + group["line"]["over"]),
    "came back": lambda group: _of(group["returned"], group["replaced"]),
    "as expected": lambda group: _of(group["landed_as_expected"], group["replaced"]),
}


def remarks(whole: Group) -> list[str]:
    """Names the evictions that the figures leave out, in a sentence for each moment."""
    texts = []
    for after in ("5m", "30m"):
        counts = ((whole[f"after_{after}"][reason], words) for reason, words in LEFT_OUT.items())
        if left_out := [f"{count} {words}" for count, words in counts if count]:
            texts.append(f"{after}: of {whole['evictions']} evictions {', '.join(left_out)}")
    return texts


def _group(name: str, rows: Sequence[Row], now_seconds: float) -> Group:
    """Counts a group; `landed_as_expected` are replacements on the node that the plan expected."""
    landed = [row for row in rows if row.landed_node is not None]
    return {
        "of": name,
        "evictions": len(rows),
        "after_5m": _judged([(row.error_5m_ratio, row.expected_5m_ratio, row) for row in rows], "5m", now_seconds),
        "after_30m": _judged([(row.error_30m_ratio, row.expected_30m_ratio, row) for row in rows], "30m", now_seconds),
        "line": _line(rows, now_seconds),
        "replaced": len(landed),
        "returned": sum(bool(row.returned) for row in rows),
        "landed_as_expected": sum(row.landed_node == row.destination for row in landed),
    }


def _judged(
    judged: Sequence[tuple[float | None, float | None, Row]], after: After, now_seconds: float
) -> dict[str, float | None]:
    """The predictions of one moment, each with its error and what was expected: the medians of errors (ratios of the
    node, above 0: hotter than planned), and how many predictions have none, by reason.
    """
    errors = [error for error, _, _ in judged if error is not None]
    left_out = collections.Counter(
        "unpredicted" if expected is None else "pending" if is_pending(row, after, now_seconds) else "unmeasured"
        for error, expected, row in judged
        if error is None
    )
    return {
        "judged": len(errors),
        "median_error_ratio": statistics.median(errors) if errors else None,
        "median_absolute_error_ratio": statistics.median(map(abs, errors)) if errors else None,
        **{reason: left_out[reason] for reason in LEFT_OUT},
    }


def _line(rows: Iterable[Row], now_seconds: float) -> dict[str, int]:
    """Evictions by whether their node stayed at or under its line until 30 minutes later."""
    stayed = [(row.stayed_under_line, is_pending(row, "30m", now_seconds)) for row in rows]
    under, over = (sum(1 for one, _ in stayed if one is wanted) for wanted in (True, False))
    recent = sum(1 for one, soon in stayed if one is None and soon)
    return {"under": under, "over": over, "unknown": len(stayed) - under - over - recent, "pending": recent}


def is_pending(row: Row, after: After, now_seconds: float) -> bool:
    """Whether the moment has not come, or came less than GRACE_SECONDS ago."""
    return now_seconds < clock.from_rfc3339(row.at) + _AFTER_SECONDS[after] + GRACE_SECONDS


def _of(count: int, whole: int) -> str:
    return f"{count} of {whole}" if whole else MISSING


def _points(ratio: float | None) -> str:
    """A difference of ratios in percentage points."""
    return MISSING if ratio is None else f"{100 * ratio:+.1f}pp"
