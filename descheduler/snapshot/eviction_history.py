"""History for a plan: counts and times out of the ledger, as one immutable value.

`ledger.history_from_rows` makes it of the ledger's rows, so caps and cool-downs survive restarts; `planning.limits` and
`planning.planner` decide by it. Rows of another mode do not count: what DryRun pretended must not hold back Enforce.
"""

import collections.abc
import dataclasses
from typing import NamedTuple

HOUR_SECONDS = 3600.0
FOLLOWED_SECONDS = 24 * HOUR_SECONDS  # for so long it is learnt what became of an eviction


class PodUse(NamedTuple):
    """An evicted pod's use on its old node: millicores, bytes, and of the metric that it was evicted for its share."""

    cpu_millicores: float
    memory_bytes: float
    metric: str = ""
    share_ratio: float = 0.0


class EvictedPod(NamedTuple):
    """A pod that went a short while ago and whose load its node's windows still show: since when, and what it used."""

    node: str
    uid: str
    gone_at_seconds: float
    used: PodUse


class Failures(NamedTuple):
    """Evictions of a workload or a pod that failed in a row, and when the last of them did."""

    in_a_row: int
    last_at_seconds: float


class PastRelief(NamedTuple):
    """An eviction that took place: the node's ratio before it, the pod's share of it, when the pod had gone, and the
    node's ratio at some moments after (Unix seconds; None: not known).
    """

    run: str
    metric: str
    before_ratio: float
    share_ratio: float
    gone_at_seconds: float | None
    looks: tuple[tuple[float, float | None], ...]


class PendingReplacement(NamedTuple):
    """An eviction whose replacement was not seen Ready yet: of which workload ("Kind/name"), intended when; and until
    that is bound, where it is expected and with what use.
    """

    namespace: str
    workload: str
    workload_uid: str
    at_seconds: float
    destination: str = ""
    used: PodUse = PodUse(0.0, 0.0)


class FlowHistory(NamedTuple):
    """Evictions that a flow rule admitted: when (Unix seconds), and workloads whose replacement is not yet Ready."""

    at_seconds: tuple[float, ...] = ()
    in_flight: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class History:
    """Evictions of the past: in the last hour (in all and by node), the last per workload and per node,
    returns and failures per workload, evictions in vain per pod uid, what passed per flow rule (`flow_rules.key`).

    `in_flight` are the workloads of which an evicted pod's replacement was not seen Ready yet, `awaited` the evictions
    of the last day behind that, oldest first, `undecided` the workloads with an intent whose end is not known yet.
    `landed` is by the uid of a replacement what the pod used that it replaces, `relieved` by node the
    evictions of the last day, oldest first.
    """

    in_last_hour: int = 0
    last_hour_by_node: collections.abc.Mapping[str, int] = dataclasses.field(default_factory=dict)
    last_by_workload: collections.abc.Mapping[str, float] = dataclasses.field(default_factory=dict)
    last_by_node: collections.abc.Mapping[str, float] = dataclasses.field(default_factory=dict)
    returned: collections.abc.Mapping[str, int] = dataclasses.field(default_factory=dict)
    failures: collections.abc.Mapping[str, Failures] = dataclasses.field(default_factory=dict)
    in_vain: collections.abc.Mapping[str, Failures] = dataclasses.field(default_factory=dict)
    flow: collections.abc.Mapping[str, FlowHistory] = dataclasses.field(default_factory=dict)
    in_flight: frozenset[str] = frozenset()
    awaited: tuple[PendingReplacement, ...] = ()
    landed: collections.abc.Mapping[str, PodUse] = dataclasses.field(default_factory=dict)
    relieved: collections.abc.Mapping[str, tuple[PastRelief, ...]] = dataclasses.field(default_factory=dict)
    departed: tuple[EvictedPod, ...] = ()
    undecided: frozenset[str] = frozenset()
