"""Flow rules: how fast evictions of one sort may follow each other, by `descheduler.flow` of the policy.

Of the rules that match a pod the last one decides. `planning.planner` asks the `Gate` before it chooses a pod and tells
it of every choice, `planning.protections` asks for `Never`. What passed before comes from the ledger, under the key of
the rule that decided then (`History.flow`), so a restart opens no gate. A gate stands beside the caps and cool-downs of
`planning.limits`: `Exempt` lifts the flow rules before it, nothing else.

    {inFlight: n}              at most n evictions whose replacement is not Ready yet
    {perMinute: n}             at most n in any 60 seconds
    {perMinute: n, burst: b}   a bucket of b, refilled n times a minute; an eviction takes one
"""

import collections
import collections.abc
import dataclasses
import hashlib
import json

from descheduler.planning.verdicts import Cause, Verdict
from descheduler.snapshot import usage
from descheduler.snapshot.eviction_history import FlowHistory
from descheduler.snapshot.workloads import Standings, WorkloadStatus
from kube.objects import Pod
from policy.schema.descheduler_section import FlowRule, Match

MINUTE_SECONDS = 60.0
NOTHING = FlowHistory()
WHOLE = 1.0 - usage.ROUNDING  # a token refilled by sums of floats


def deciding(rules: collections.abc.Sequence[FlowRule], pod: Pod, standing: WorkloadStatus | None) -> FlowRule | None:
    """The last rule that matches the pod and its workload's kind (the owner's where the workload is unknown)."""
    kind = standing.workload.kind if standing is not None else pod.owner.kind if pod.owner is not None else "Pod"
    return next((rule for rule in reversed(rules) if _matches(rule.match, pod, kind)), None)


def key(rule: FlowRule) -> str:
    """Returns the ledger's key of a rule: 12 hex digits over its conditions, so that a changed rate keeps its past."""
    conditions = rule.match.model_dump(by_alias=True, exclude_defaults=True)
    text = json.dumps(conditions, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def tokens(at_seconds: collections.abc.Iterable[float], *, per_minute: int, burst: int, now_seconds: float) -> float:
    """Returns the tokens that a bucket of `burst`, full before the first of these times, holds now: min(burst, held +
    rate * gap) - 1 for each, never under 0.
    """
    held, last_seconds = float(burst), None
    for moment in (*sorted(at_seconds), None):
        until_seconds = now_seconds if moment is None else moment
        if last_seconds is not None:
            held = min(burst, held + max(0.0, until_seconds - last_seconds) * per_minute / MINUTE_SECONDS)
        if moment is not None:
            held, last_seconds = max(0.0, held - 1.0), moment
    return held


@dataclasses.dataclass(slots=True)
class Gate:
    """Counts what a plan has chosen under each rule and says whether one more passes."""

    rules: collections.abc.Sequence[FlowRule]
    past: collections.abc.Mapping[str, FlowHistory]
    standings: Standings
    _: dataclasses.KW_ONLY
    now_seconds: float
    _chosen: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter, init=False)

    def verdict(self, pod: Pod, standing: WorkloadStatus | None) -> Verdict | None:
        """Why the pod must wait for its rule, None if it passes (`Never` is a protection and judged there)."""
        rule = deciding(self.rules, pod, standing)
        if rule is None:
            return None
        name, which = key(rule), named(self.rules, rule)
        past, chosen = self.past.get(name, NOTHING), self._chosen[name]
        if (limit := rule.allow.in_flight) is not None:
            waiting = (self.standings(uid) for uid in past.in_flight)
            away = chosen + sum(1 for standing in waiting if standing is not None and standing.unavailable > 0)
            return None if away < limit else Verdict(Cause.FLOW_IN_FLIGHT, f"{away} of {limit} in flight, {which}")
        if (rate := rule.allow.per_minute) is None:
            return None
        times = (*past.at_seconds, *[self.now_seconds] * chosen)
        if (burst := rule.allow.burst) is not None:
            held = tokens(times, per_minute=rate, burst=burst, now_seconds=self.now_seconds)
            detail = f"bucket of {burst} holds {held:.2f}, {rate} a minute, {which}"
            return None if held >= WHOLE else Verdict(Cause.FLOW_RATE, detail)
        passed = sum(1 for moment in times if moment > self.now_seconds - MINUTE_SECONDS)
        detail = f"{passed} of {rate} in the last minute, {which}"
        return None if passed < rate else Verdict(Cause.FLOW_RATE, detail)

    def count(self, pod: Pod, standing: WorkloadStatus | None, *, number: int = 1) -> str:
        """Counts a chosen pod (-1 takes it back); the key of the rule that decided, "" where none matches."""
        rule = deciding(self.rules, pod, standing)
        if rule is None:
            return ""
        self._chosen[key(rule)] += number
        return key(rule)


def named(rules: collections.abc.Sequence[FlowRule], rule: FlowRule) -> str:
    """A rule as people find it in the file: "flow rule 2 of 3"."""
    return f"flow rule {rules.index(rule) + 1} of {len(rules)}"


def _matches(match: Match, pod: Pod, kind: str) -> bool:
    return (
        (not match.namespaces or pod.namespace in match.namespaces)
        and (not match.kinds or kind in match.kinds)
        and match.label_selector.matches(pod.labels)
        and (match.priority_below is None or pod.priority < match.priority_below)
    )
