"""The rows of the descheduler's ledger as `evenload evictions` prints them: decoded, paged, worded column by column.

`cli.evictions` prints them. Unknown keys are left aside, so that a newer descheduler can be read; what did not happen
yet is None.
"""

import collections.abc
from typing import Any, Final

import msgspec

from cli.common import http_client, services
from cli.common.api_types import MISSING, age, mebibytes, percent
from console.sources import Replica
from policy.explain import wording
from runtime import clock

PAGE: Final = 1000
HEADERS: Final = ("age", "pod", "node", "load", "result", "landed", "ready", "5m", "30m")
EVENT_HEADERS: Final = ("age", "type", "reason", "object", "note")
NAMES: Final = frozenset({"pod", "node", "landed", "workload", "expected on"})


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
    """GET /evictions."""

    evictions: tuple[Row, ...]


class PostedEvent(msgspec.Struct, frozen=True):
    """One Event as it was posted."""

    at: str
    type: str
    reason: str
    kind: str
    name: str
    note: str
    namespace: str = ""

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
WIDE: Final[dict[str, collections.abc.Callable[[Row], str]]] = {
    "workload": lambda row: row.workload or MISSING,
    "pod uses": lambda row: f"{row.cpu_millicores:.0f}m {mebibytes(row.memory_bytes)}",
    "until": lambda row: percent(row.target_ratio),
    "projected": lambda row: percent(row.projected_ratio),
    "expected on": lambda row: row.destination or MISSING,
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


def page(service: Replica, **query: str) -> tuple[dict[str, Any], ...]:
    """The rows that match as they came, every one of them a Row, the newest first. Raises HttpError."""
    body = service.get("/evictions", **query)
    http_client.decoded(body, Evictions, service.name, services.DESCHEDULER)
    return tuple(msgspec.json.decode(body, type=dict[str, Any])["evictions"])


def pages(service: Replica, **query: str) -> collections.abc.Iterator[dict[str, Any]]:
    """`page` after page, however many there are."""
    before = ""
    while True:
        rows = page(service, **query, limit=str(PAGE), before=before)
        yield from rows
        if len(rows) < PAGE:
            return
        before = str(rows[-1]["id"])
