"""The words in which the descheduler says what it decided about a pod: one cause per candidate, never none, never two.

`planning.planner` asks `planning.protections`, `planning.limits`, `planning.flow_rules`, `planning.disruption_budgets`
and `placement.destinations` in this order, and `eviction.last_look` before the call; the first that objects gives the
verdict, whatever the order of `Cause`. The plan, the log line, the Events, the metrics and GET /plan repeat them. A
cause is a low-cardinality word; figures stand in the verdict's detail.
"""

import collections
import collections.abc
import enum
from typing import NamedTuple


class Cause(enum.StrEnum):
    """Why a candidate is or is not evicted."""

    CHOSEN = "chosen"
    STALE_VIEW = "stale_view"
    UNDECODABLE = "undecodable"
    PLACEHOLDER = "placeholder"
    FINISHED = "finished"
    TERMINATING = "terminating"
    OVERSIZED = "oversized"
    MIRROR = "mirror"
    DAEMON_SET = "daemon_set"
    OPTED_OUT = "opted_out"
    NOT_SAFE_TO_EVICT = "not_safe_to_evict"
    DO_NOT_DISRUPT = "do_not_disrupt"
    EVICTION_IN_PROGRESS = "eviction_in_progress"
    UNRECOGNISED = "unrecognised"
    GROUP = "group"
    NAMESPACE = "namespace"
    NAMESPACE_SELECTOR = "namespace_selector"
    LABEL = "label"
    BARE = "bare"
    PRIORITY = "priority"
    NOT_OPTED_IN = "not_opted_in"
    YOUNG = "young"
    LOCAL_STORAGE = "local_storage"
    NODE_BOUND_VOLUME = "node_bound_volume"
    STORAGE_CLASS = "storage_class"
    JOB_WITHOUT_RETRY = "job_without_retry"
    ROLLOUT = "rollout"
    WITHOUT_BUDGET = "without_budget"
    UNKNOWN_OWNER = "unknown_owner"
    OWNER_LOOKUP_FAILED = "owner_lookup_failed"
    FEW_REPLICAS = "few_replicas"
    FEW_READY = "few_ready"
    USAGE_UNKNOWN = "usage_unknown"
    BUDGET = "budget"
    SEVERAL_BUDGETS = "several_budgets"
    NO_DESTINATION = "no_destination"
    RUN_CAP = "run_cap"
    NODE_CAP = "node_cap"
    NAMESPACE_CAP = "namespace_cap"
    HOUR_CAP = "hour_cap"
    WORKLOAD_CAP = "workload_cap"
    UNREPLACED = "unreplaced"
    IN_FLIGHT = "in_flight"
    WORKLOAD_COOLDOWN = "workload_cooldown"
    NODE_COOLDOWN = "node_cooldown"
    LOAD_NOT_FALLING = "load_not_falling"
    BREAKER = "breaker"
    BACKOFF = "backoff"
    FLOW_NEVER = "flow_never"
    FLOW_IN_FLIGHT = "flow_in_flight"
    FLOW_RATE = "flow_rate"
    TOO_SMALL = "too_small"
    NOT_NEEDED = "not_needed"


class Verdict(NamedTuple):
    """The one answer about a candidate; `detail` holds the figures behind the cause."""

    cause: Cause
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.cause}: {self.detail}" if self.detail else str(self.cause)


# The key of the policy (under `descheduler`) that decides, so that a reader knows which knob it is.
RULES: dict[Cause, str] = {
    Cause.NOT_SAFE_TO_EVICT: "protect.markers.safeToEvict",
    Cause.DO_NOT_DISRUPT: "protect.markers.doNotDisrupt",
    Cause.NAMESPACE: "protect.namespaces",
    Cause.NAMESPACE_SELECTOR: "protect.namespaceSelector",
    Cause.LABEL: "protect.labelSelector",
    Cause.BARE: "protect.bare",
    Cause.PRIORITY: "protect.priorityAtLeast",
    Cause.NOT_OPTED_IN: "protect.optIn",
    Cause.YOUNG: "protect.minPodAge",
    Cause.LOCAL_STORAGE: "protect.localStorage",
    Cause.NODE_BOUND_VOLUME: "protect.nodeBoundVolumes",
    Cause.STORAGE_CLASS: "protect.storageClasses",
    Cause.JOB_WITHOUT_RETRY: "protect.jobsWithoutRetry",
    Cause.WITHOUT_BUDGET: "protect.withoutBudget",
    Cause.FEW_REPLICAS: "protect.minReplicas",
    Cause.FEW_READY: "protect.minReadyRatio",
    Cause.NO_DESTINATION: "thresholds",
    Cause.RUN_CAP: "limits.perRun",
    Cause.NODE_CAP: "limits.perNode",
    Cause.NAMESPACE_CAP: "limits.perNamespace",
    Cause.HOUR_CAP: "limits.perHour",
    Cause.WORKLOAD_CAP: "limits.perWorkload",
    Cause.UNREPLACED: "limits.unreplaced",
    Cause.WORKLOAD_COOLDOWN: "cooldown.workload",
    Cause.NODE_COOLDOWN: "cooldown.node",
    Cause.LOAD_NOT_FALLING: "cooldown.ineffective",
    Cause.BREAKER: "breaker",
    Cause.BACKOFF: "breaker.backoff",
    Cause.FLOW_NEVER: "flow",
    Cause.FLOW_IN_FLIGHT: "flow",
    Cause.FLOW_RATE: "flow",
    Cause.NOT_NEEDED: "thresholds",
}


NOT_COUNTED = frozenset({Cause.CHOSEN, Cause.NOT_NEEDED})
GROUPS: dict[str, frozenset[Cause]] = {
    "PDB": frozenset({Cause.BUDGET, Cause.SEVERAL_BUDGETS}),
    "without a destination": frozenset({Cause.NO_DESTINATION}),
    "over a cap": frozenset({Cause.RUN_CAP, Cause.NODE_CAP, Cause.NAMESPACE_CAP, Cause.HOUR_CAP, Cause.WORKLOAD_CAP}),
    "waiting": frozenset(
        {
            Cause.UNREPLACED,
            Cause.ROLLOUT,
            Cause.IN_FLIGHT,
            Cause.WORKLOAD_COOLDOWN,
            Cause.NODE_COOLDOWN,
            Cause.LOAD_NOT_FALLING,
            Cause.BREAKER,
            Cause.BACKOFF,
            Cause.FLOW_IN_FLIGHT,
            Cause.FLOW_RATE,
        }
    ),
    "without fresh usage": frozenset({Cause.USAGE_UNKNOWN}),
    "without a fresh view": frozenset({Cause.STALE_VIEW}),
    "too small to help": frozenset({Cause.TOO_SMALL}),
}
GROUP_OF = {cause: group for group, members in GROUPS.items() for cause in members}
# By group or verdict; the rest is protected.
NEEDS = {
    "PDB": "a PodDisruptionBudget that allows a disruption",
    "without a destination": "another node that takes it and stays under every evictUntil",
    "over a cap": "a later run, or a higher cap",
    "waiting": "time: what it waits for ends, and every run looks again",
    "without fresh usage": "a measured use: evenload doctor says what is missing",
    "without a fresh view": "watches that answer: evenload doctor says which do not",
    "too small to help": "more use of its own",
    Cause.NOT_NEEDED: "a node over evictAbove for overloadedFor, not left alone, and not relieved by other pods",
    Cause.CHOSEN: "mode Enforce",
}


def needs(cause: Cause) -> str:
    """Names the change by which a pod with this verdict would leave."""
    return NEEDS.get(GROUP_OF.get(cause, cause), "a change of the pod, its workload or the policy: no load is enough")


def summary(evicted: int, causes: collections.abc.Iterable[Cause], *, verb: str) -> str:
    """One line such as "0 evicted: 41 protected, 3 PDB, 7 without a destination"; empty groups are left out.

    None is "evicted" whatever the verb: it is as true of a plan.
    """
    counts = collections.Counter(GROUP_OF.get(cause, "protected") for cause in causes if cause not in NOT_COUNTED)
    parts = [f"{counts[group]} {group}" for group in ("protected", *GROUPS) if counts[group]]
    head = f"{evicted} {verb}" if evicted or verb.startswith("evicted") else "0 evicted"
    return head + (f": {', '.join(parts)}" if parts else "")
