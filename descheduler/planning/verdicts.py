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

PROTECTED, BUDGETS, CAPS, WAITING, SURGES = "protected", "PDB", "over a cap", "waiting", "to surge"


class Cause(enum.StrEnum):
    """Why a candidate is or is not evicted, with the key of the policy (under `descheduler`) that decides, so that a
    reader knows which knob it is ("" for none), and the group by which lines count it.
    """

    rule: str
    group: str

    def __new__(cls, word: str, rule: str = "", group: str = PROTECTED) -> "Cause":
        """A word with its rule and group."""
        cause = str.__new__(cls, word)
        cause._value_, cause.rule, cause.group = word, rule, group
        return cause

    CHOSEN = "chosen", "", "chosen"
    STALE_VIEW = "stale_view", "", "without a fresh view"
    UNDECODABLE = "undecodable"
    PLACEHOLDER = "placeholder"
    FINISHED = "finished"
    TERMINATING = "terminating"
    OVERSIZED = "oversized"
    MIRROR = "mirror"
    DAEMON_SET = "daemon_set"
    OPTED_OUT = "opted_out"
    NOT_SAFE_TO_EVICT = "not_safe_to_evict", "protect.markers.safeToEvict"
    DO_NOT_DISRUPT = "do_not_disrupt", "protect.markers.doNotDisrupt"
    EVICTION_COST = "eviction_cost", "protect.markers.evictionCost"
    EVICTION_IN_PROGRESS = "eviction_in_progress"
    UNRECOGNISED = "unrecognised"
    GROUP = "group", "protect.groups"
    NAMESPACE = "namespace", "protect.namespaces"
    NAMESPACE_SELECTOR = "namespace_selector", "protect.namespaceSelector"
    LABEL = "label", "protect.labelSelector"
    BARE = "bare", "protect.bare"
    PRIORITY = "priority", "protect.priorityAtLeast"
    NOT_OPTED_IN = "not_opted_in", "protect.optIn"
    YOUNG = "young", "protect.minPodAge"
    LOCAL_STORAGE = "local_storage", "protect.localStorage"
    NODE_BOUND_VOLUME = "node_bound_volume", "protect.nodeBoundVolumes"
    STORAGE_CLASS = "storage_class", "protect.storageClasses"
    JOB_WITHOUT_RETRY = "job_without_retry", "protect.jobsWithoutRetry"
    ROLLOUT = "rollout", "", WAITING
    WITHOUT_BUDGET = "without_budget", "protect.withoutBudget"
    UNKNOWN_OWNER = "unknown_owner"
    OWNER_LOOKUP_FAILED = "owner_lookup_failed"
    FEW_REPLICAS = "few_replicas", "protect.minReplicas"
    FEW_READY = "few_ready", "protect.minReadyRatio"
    SURGE = "surge", "surge", SURGES
    USAGE_UNKNOWN = "usage_unknown", "", "without fresh usage"
    BUDGET = "budget", "", BUDGETS
    SEVERAL_BUDGETS = "several_budgets", "", BUDGETS
    NO_DESTINATION = "no_destination", "thresholds", "without a destination"
    RUN_CAP = "run_cap", "limits.perRun", CAPS
    NODE_CAP = "node_cap", "limits.perNode", CAPS
    NAMESPACE_CAP = "namespace_cap", "limits.perNamespace", CAPS
    HOUR_CAP = "hour_cap", "limits.perHour", CAPS
    WORKLOAD_CAP = "workload_cap", "limits.perWorkload", CAPS
    UNREPLACED = "unreplaced", "limits.unreplaced", WAITING
    IN_FLIGHT = "in_flight", "", WAITING
    WORKLOAD_COOLDOWN = "workload_cooldown", "cooldown.workload", WAITING
    NODE_COOLDOWN = "node_cooldown", "cooldown.node", WAITING
    LOAD_NOT_FALLING = "load_not_falling", "cooldown.ineffective", WAITING
    BREAKER = "breaker", "breaker", WAITING
    BACKOFF = "backoff", "breaker.backoff", WAITING
    FLOW_NEVER = "flow_never", "flow"
    FLOW_IN_FLIGHT = "flow_in_flight", "flow", WAITING
    FLOW_RATE = "flow_rate", "flow", WAITING
    TOO_SMALL = "too_small", "", "too small to help"
    NOT_NEEDED = "not_needed", "thresholds", "not_needed"


class Verdict(NamedTuple):
    """The one answer about a candidate; `detail` holds the figures behind the cause."""

    cause: Cause
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.cause}: {self.detail}" if self.detail else str(self.cause)


Verdicts = collections.abc.Iterator[Verdict]  # of what objects to a candidate; the first of them is its verdict
NOT_COUNTED = frozenset({Cause.CHOSEN, Cause.NOT_NEEDED})
# The change by which a pod would leave, by group in the order of a line; what is not counted is a group by itself.
NEEDS = {
    PROTECTED: "a change of the pod, its workload or the policy: no load is enough",
    BUDGETS: "a PodDisruptionBudget that allows a disruption",
    "without a destination": "another node that takes it and stays under every evictUntil",
    CAPS: "a later run, or a higher cap",
    WAITING: "time: what it waits for ends, and every run looks again",
    SURGES: "another pod of its workload that is Ready on another node: then it is evicted",
    "without fresh usage": "a measured use: evenload doctor says what is missing",
    "without a fresh view": "watches that answer: evenload doctor says which do not",
    "too small to help": "more use of its own",
    Cause.NOT_NEEDED: "a node over evictAbove for overloadedFor, not left alone, and not relieved by other pods",
    Cause.CHOSEN: "mode Enforce",
}


def summary(evicted: int, causes: collections.abc.Iterable[Cause], *, verb: str) -> str:
    """One line such as "0 to evict: 41 protected, 3 PDB, 7 without a destination"; empty groups are left out. Of a run
    that only watches none is "0 evicted", too.
    """
    counts = collections.Counter(cause.group for cause in causes if cause not in NOT_COUNTED)
    parts = [f"{counts[group]} {group}" for group in NEEDS if counts[group]]
    head = f"{evicted} {verb}" if evicted or not verb.startswith("would") else "0 evicted"
    return head + (f": {', '.join(parts)}" if parts else "")
