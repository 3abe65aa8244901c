"""Rows of the ledger: one per eviction, per run, per Event; the results of evictions; the filters of queries.

`ledger.ledger` stores and finds them, `eviction.evictor` and `eviction.followup` write them through it,
`ledger.history_from_rows` makes a history of them, `http.views` shows them.

    intended -> evicted | dry_run | observed | refused (429) | gone (404) | replaced (409) | failed | unknown
                | in_progress (429 of a controller that moves the pod itself) -> evicted | failed
    later: intended (a crash), unknown -> evicted_unconfirmed where the pod has gone; where it still stands an intent of
    which nobody knows whether it was asked for is not_done, one that was not answered has failed
"""

import dataclasses
from typing import Final, NamedTuple

from descheduler.planning.plans import Eviction

DONE: Final = ("evicted", "evicted_unconfirmed")
OPEN: Final = ("intended", "unknown", "in_progress")
# What occupies caps: also intents whose end is not known yet, so that a crash loop cannot evict without limit.
COUNTED: Final = (*DONE, *OPEN, "dry_run", "observed")
BARRING: Final = (*OPEN, *DONE)  # a pod with such a row is not evicted again
FAILED: Final = ("failed", "refused")
# After what a pod is left alone for a while; an answer of 404 or 409 about a pod that is still there is a webhook's.
IN_VAIN: Final = (*FAILED, "gone", "replaced")
ENDS_FAILURES: Final = (*DONE, "dry_run")
RESULTS: Final = (*COUNTED, *FAILED, "gone", "replaced", "not_done")


class Run(NamedTuple):
    """The columns that all rows of one run share."""

    run: str
    at_seconds: float
    mode: str
    policy_hash: str


class Intent(NamedTuple):
    """The row of an eviction that is about to be asked for, and why it must not be ("" if it may)."""

    row_id: int
    refusal: str


class Row(NamedTuple):
    """One eviction as recorded: column names and types of `sql_schema`."""

    id: int
    run: str
    at_seconds: float
    mode: str
    policy_hash: str
    namespace: str
    pod: str
    pod_uid: str
    owner_uid: str
    workload: str
    workload_uid: str
    node: str
    metric: str
    value_ratio: float
    threshold_ratio: float
    target_ratio: float
    before_ratio: float
    projected_ratio: float
    cpu_millicores: float
    memory_bytes: float
    destination: str
    result: str
    intended_at_seconds: float
    http_status: int | None
    message: str
    decided_at_seconds: float | None
    gone_at_seconds: float | None
    landed_pod: str | None
    landed_node: str | None
    landed_at_seconds: float | None
    ready_at_seconds: float | None
    load_5m_ratio: float | None
    load_30m_ratio: float | None
    returned: int | None
    flow: str = ""  # `flow_rules.key` of the rule that let it pass
    newest_sibling_at_seconds: float | None = None  # None: written by a version that did not ask
    # `predictions`: the metric on the node as expected, what other evictions moved meanwhile, as measured in between.
    expected_5m_ratio: float | None = None
    expected_30m_ratio: float | None = None
    moved_5m_ratio: float | None = None
    moved_30m_ratio: float | None = None
    load_10m_ratio: float | None = None
    load_15m_ratio: float | None = None
    load_20m_ratio: float | None = None
    load_25m_ratio: float | None = None
    destination_ratio: float | None = None  # with the pod on it, the most that was expected
    destination_30m_ratio: float | None = None
    disruption: str | None = None  # the reason of the pod's condition DisruptionTarget, seen while it left


class RecordedEvent(NamedTuple):
    """An Event as it was posted: the cluster drops its own after an hour."""

    at_seconds: float
    reason: str
    warning: int
    kind: str
    namespace: str
    name: str
    related: str
    note: str


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """The filters of GET /evictions; "" and None match everything."""

    since_seconds: float | None = None
    namespace: str = ""
    pod: str = ""
    node: str = ""
    workload: str = ""
    outcome: str = ""
    limit: int = 500
    before_id: int | None = None  # for the next page: the last id of the page before


def intent(run: Run, eviction: Eviction) -> dict[str, str | float | None]:
    """The columns of an eviction that is about to be asked for."""
    pod, overload, workload = eviction.pod, eviction.overload, eviction.workload
    return {
        **run._asdict(),
        "namespace": pod.namespace,
        "pod": pod.name,
        "pod_uid": pod.uid,
        "owner_uid": pod.owner.uid if pod.owner is not None else "",
        "workload": str(workload) if workload is not None else "",
        "workload_uid": workload.uid if workload is not None else pod.uid,
        "node": pod.node_name,
        "metric": overload.metric,
        "value_ratio": overload.value_ratio,
        "threshold_ratio": overload.evict_above_ratio,
        "target_ratio": overload.evict_until_ratio,
        "before_ratio": eviction.before_ratio,
        "projected_ratio": eviction.projected_ratio,
        "cpu_millicores": eviction.used.cpu_millicores,
        "memory_bytes": eviction.used.memory_bytes,
        "destination": eviction.destination,
        "result": "intended",
        "flow": eviction.flow,
        "newest_sibling_at_seconds": eviction.newest_sibling_at_seconds,
        "expected_5m_ratio": eviction.expected_5m_ratio,
        "expected_30m_ratio": eviction.expected_30m_ratio,
        "destination_ratio": eviction.destination_ratio,
    }
