"""Caps, cool-downs, replacements that are waited for, back-off and breaker: how much may be disturbed, however hot the
nodes are.

`planning.planner` asks `Caps` before it chooses a pod and tells it of every choice. The past comes in as a `History`
from the ledger. GET /breaker and `evenload breaker` show how the `breakers` stand: one closes with the next eviction or
dry run that succeeds, or by POST /breaker/reset.
"""

import collections
import collections.abc
import hashlib
import math
from typing import Literal, NamedTuple

from descheduler.planning import relief_effect
from descheduler.planning.verdicts import Cause, Verdict, Verdicts
from descheduler.snapshot import workloads
from descheduler.snapshot.eviction_history import HOUR_SECONDS, Failures, History, PendingReplacement
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.workloads import Standings, WorkloadStatus
from kube.objects import Pod
from policy.schema.descheduler_section import Breaker, Descheduler, Growing

BY_SIZE = "bySize"
NAMED = 3  # so many workloads are named where evictions wait for replacements
State = Literal["closed", "open", "trial", "open until reset"]


class BreakerState(NamedTuple):
    """One workload: failures in a row, the last of them, and until when it rests (None: it does not, or for ever)."""

    uid: str
    namespace: str
    workload: str
    failures: int
    last_at_seconds: float
    state: State
    until_seconds: float | None


class Caps:
    """Counts what a plan has chosen so far and says whether one more is allowed."""

    def __init__(self, policies: NodePolicies, history: History, standings: Standings, *, now_seconds: float) -> None:
        self.unreplaced = unreplaced(history.awaited, standings, now_seconds)
        self._waiting_by_namespace = collections.Counter(one.namespace for one in self.unreplaced)
        self._policies = policies
        self._policy = policies.whole.descheduler
        self._history = history
        self._now_seconds = now_seconds
        self._by_node: collections.Counter[str] = collections.Counter()
        self._by_pool: collections.Counter[str] = collections.Counter()
        self._by_namespace: collections.Counter[str] = collections.Counter()
        self._by_workload: collections.Counter[str] = collections.Counter()

    @property
    def brake(self) -> Verdict | None:
        """Why no pod at all may leave: so many evictions before this run wait for a Ready replacement."""
        count, most = len(self.unreplaced), self._policy.limits.unreplaced
        if count < most:
            return None
        evictions = "1 eviction waits" if count == 1 else f"{count} evictions wait"
        waiting = f"{evictions} for a Ready replacement, {most} allowed (limits.unreplaced)"
        names = list(dict.fromkeys(f"{one.workload} in {one.namespace}" for one in self.unreplaced))
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return Verdict(Cause.UNREPLACED, f"{waiting}: {', '.join(names[:NAMED])}{more}")

    def left(self) -> tuple[int, int]:
        """Evictions still allowed in this run, and in this hour, those of the plan counted."""
        limits, chosen = self._policy.limits, self._by_node.total()
        return max(0, limits.per_run - chosen), max(0, limits.per_hour - self._history.in_last_hour - chosen)

    def verdict(self, pod: Pod, standing: WorkloadStatus | None, metric: str, *, beside: int = 0) -> Verdict | None:
        """Why this pod must wait, if it must: for its node's sake, by its namespace's cap, after evictions of it
        without effect, or after what its workload has been through. So many of that, of one group, leave `beside` it.
        """
        return next(self._verdicts(pod, standing, metric, beside=beside), None)

    def count(self, pod: Pod, standing: WorkloadStatus | None, *, number: int = 1) -> None:
        """Counts a chosen pod; `number` -1 takes it back."""
        self._by_node[pod.node_name] += number
        self._by_pool[self._policies.pool_name(pod.node_name)] += number
        self._by_namespace[pod.namespace] += number
        if standing is not None:
            self._by_workload[standing.workload.uid] += number
            self._waiting_by_namespace[pod.namespace] += number

    def _verdicts(self, pod: Pod, standing: WorkloadStatus | None, metric: str, *, beside: int) -> Verdicts:
        yield from self._of_node(pod.node_name, metric)
        limits, namespace = self._policy.limits, pod.namespace
        yield from _full(
            Cause.NAMESPACE_CAP, self._by_namespace[namespace], limits.per_namespace, f"a run in {namespace}"
        )
        waiting, most = self._waiting_by_namespace[namespace], limits.unreplaced_per_namespace
        if standing is not None:
            words = f"in {namespace} without a Ready replacement (limits.unreplacedPerNamespace)"
            yield from _full(Cause.UNREPLACED, waiting, most, words)
        if (standing.workload.uid if standing is not None else pod.uid) in self._history.undecided:
            name = standing.workload if standing is not None else "it"
            yield Verdict(Cause.IN_FLIGHT, f"{name} has an eviction that has not ended, or of which no answer was seen")
        if (failed := self._history.in_vain.get(pod.uid)) is not None:
            span_seconds = pause_seconds(self._policy.breaker, pod.uid, failed.in_a_row, grown=failed.in_a_row - 1)
            words = f"{failed.in_a_row} evictions of it without effect, "
            yield from self._rest(Cause.BACKOFF, failed.last_at_seconds, span_seconds, before=words)
        if standing is not None:
            yield from self._of_workload(standing, beside)

    def _of_node(self, node: str, metric: str) -> Verdicts:
        """Why the node as a whole must wait, if it must: its cool-down, its own cap, the caps of the run and the hour,
        those of its pool, or a load that does not fall. Evictions from nodes that have gone since count in each pool.
        """
        limits, pool, history = self._policy.limits, self._policies.pool(node), self._history
        chosen, waiting = self._by_node.total(), self._waiting_by_namespace.total()
        yield from _full(Cause.RUN_CAP, chosen, limits.per_run, "a run")
        yield from _full(Cause.HOUR_CAP, history.in_last_hour + chosen, limits.per_hour, "an hour")
        yield from _full(Cause.UNREPLACED, waiting, limits.unreplaced, "without a Ready replacement")
        per_node = self._policies.on(node).descheduler.limits.per_node
        yield from _full(Cause.NODE_CAP, self._by_node[node], per_node, "a run and node")
        if pool is not None:
            caps, in_pool, past = pool.descheduler.limits, self._by_pool[pool.name], history.last_hour_by_node.items()
            counted = in_pool + sum(count for node, count in past if self._policies.may_be_in(node, pool))
            yield from _full(Cause.RUN_CAP, in_pool, caps.per_run, f"a run in pool {pool.name}")
            yield from _full(Cause.HOUR_CAP, counted, caps.per_hour, f"an hour in pool {pool.name}")
        last, cooldown = history.last_by_node.get(node), self._policy.cooldown
        yield from self._rest(Cause.NODE_COOLDOWN, last, cooldown.node_seconds)
        effect = relief_effect.ineffective(history.relieved.get(node, ()), metric, self._policies.whole)
        if effect is not None:
            words = (
                f"{effect.evictions} evictions should have lowered {metric} by {effect.expected_ratio:.2f} and lowered "
                f"it by {effect.measured_ratio:.2f}: its load does not come from its pods; "
            )
            span_seconds = grown_seconds(cooldown.ineffective, effect.in_a_row)
            yield from self._rest(Cause.LOAD_NOT_FALLING, last, span_seconds, before=words)

    def _of_workload(self, standing: WorkloadStatus, beside: int) -> Verdicts:
        workload, history, away = standing.workload, self._history, standing.unavailable + beside
        ready = f"{standing.ready} ready of {workload.replicas}"
        chosen = self._by_workload[workload.uid] > beside
        if chosen or (workload.uid in history.in_flight and standing.unavailable > 0):
            yield Verdict(Cause.IN_FLIGHT, f"{workload} waits for a replacement, {ready}")
        if workload.ordered and away > 0:
            waits = f"starts its pods in order, {ready}"
            yield Verdict(Cause.IN_FLIGHT, f"{workload} {waits}: a replacement might have to wait")
        cap = workload_cap(self._policy.limits.per_workload, workload.replicas)
        if away >= cap:
            yield Verdict(Cause.WORKLOAD_CAP, f"{workload} has {away} unavailable, {cap} allowed")
        last, returned = history.last_by_workload.get(workload.uid), history.returned.get(workload.uid, 0)
        came_back = f", came back {returned} times" if returned else ""
        span_seconds = workload_cooldown_seconds(self._policy, returned)
        yield from self._rest(Cause.WORKLOAD_COOLDOWN, last, span_seconds, after=came_back)
        failures = history.failures.get(workload.uid)
        if failures is not None and failures.in_a_row >= self._policy.breaker.failures:
            span_seconds = breaker_seconds(self._policy, workload.uid, failures.in_a_row)
            words = f"{failures.in_a_row} failures in a row, "
            yield from self._rest(Cause.BREAKER, failures.last_at_seconds, span_seconds, before=words)

    def _rest(
        self, cause: Cause, since: float | None, span_seconds: float, *, before: str = "", after: str = ""
    ) -> Verdicts:
        """How much is left of a pause, nothing once it is over; words go `before` and `after` that."""
        left_seconds = 0.0 if since is None else since + span_seconds - self._now_seconds
        left = "open until it is reset" if math.isinf(left_seconds) else f"{left_seconds:.0f} s left"
        if left_seconds > 0:
            yield Verdict(cause, f"{before}{left}{after}")


def _full(cause: Cause, count: int, most: int | None, words: str) -> Verdicts:
    """Why a cap allows no more, nothing while it does; a cap of None is none."""
    if most is not None and count >= most:
        yield Verdict(cause, f"{count} of {most} {words}")


def unreplaced(
    awaited: collections.abc.Iterable[PendingReplacement],
    standings: Standings,
    now_seconds: float,
) -> tuple[PendingReplacement, ...]:
    """The evictions whose workload still misses a pod for them, oldest first; of each workload no more than it misses.

    One that was rolled out, scaled down or is done misses none; a deleted one neither. Where the scale of an owner of
    another kind was not read in this run, an eviction waits for an hour.
    """
    by_workload: dict[str, list[PendingReplacement]] = collections.defaultdict(list)
    for one in awaited:
        by_workload[one.workload_uid].append(one)
    waiting: list[PendingReplacement] = []
    for uid, pending in by_workload.items():
        standing = standings(uid)
        if standing is not None:
            waiting += pending[max(0, len(pending) - standing.unavailable) :]
        elif pending[0].workload.partition("/")[0] not in workloads.LISTED:
            waiting += [one for one in pending if now_seconds - one.at_seconds <= HOUR_SECONDS]
    return tuple(sorted(waiting, key=lambda one: (one.at_seconds, one.namespace, one.workload)))


def workload_cap(per_workload: str | int, replicas: int) -> int:
    """How many of a workload's replicas may be missing at once, those that an eviction takes included.

    bySize: under 4 replicas 1, 4 to 10: 2, above: 10 % rounded up (so that 11 replicas are allowed no less than 10
    are). A percentage is rounded up, too, as that of a budget's maxUnavailable.
    """
    if isinstance(per_workload, int):
        return per_workload
    if per_workload != BY_SIZE:
        return math.ceil(replicas * int(per_workload.removesuffix("%")) / 100)
    if replicas < 4:
        return 1
    return 2 if replicas <= 10 else math.ceil(replicas / 10)


def workload_cooldown_seconds(descheduler: Descheduler, returned: int) -> float:
    """The workload's cool-down: `cooldown.workload`, or initial * factor^(n-1) up to max once its pods came back n
    times in the window.
    """
    cooldown = descheduler.cooldown
    if returned == 0:
        return cooldown.workload_seconds
    return max(cooldown.workload_seconds, grown_seconds(cooldown.returned, returned))


def grown_seconds(rest: Growing, times: int) -> float:
    """initial * factor^(n-1), at most max."""
    return min(rest.max_seconds, rest.initial_seconds * rest.factor ** min(times - 1, 64))


def breaker_seconds(descheduler: Descheduler, uid: str, in_a_row: int) -> float:
    """How long a workload rests after so many failures in a row, counted from the last one; then one trial is allowed.

    backoff * factor^(n - failures), at most max, stretched by up to `jitter` of itself; infinite once `steps` trials
    have failed. The jitter is drawn from the uid and the count: workloads that failed together do not try again
    together, and the plan stays a function of its input.
    """
    breaker = descheduler.breaker
    trials_failed = max(in_a_row - breaker.failures, 0)
    return math.inf if trials_failed >= breaker.steps else pause_seconds(breaker, uid, in_a_row, grown=trials_failed)


def pause_seconds(breaker: Breaker, uid: str, in_a_row: int, *, grown: int) -> float:
    """backoff * factor^grown * (1 + jitter * drawn), at most max; `drawn` in [0, 1) from the uid and the count."""
    drawn_ratio = int.from_bytes(hashlib.sha256(f"{uid}/{in_a_row}".encode()).digest()[:4]) / 2**32
    stretched = 1.0 + breaker.jitter_ratio * drawn_ratio
    return min(breaker.max_seconds, breaker.backoff_seconds * breaker.factor ** min(grown, 64) * stretched)


def breakers(
    failures: collections.abc.Mapping[str, Failures],
    named: collections.abc.Callable[[str], tuple[str, str]],
    descheduler: Descheduler,
    *,
    now_seconds: float,
) -> tuple[BreakerState, ...]:
    """The breakers, most failures first; `named` gives a workload's namespace and "Kind/name" by its uid."""
    states: list[BreakerState] = []
    for uid, failed in failures.items():
        state = BreakerState(uid, *named(uid), failed.in_a_row, failed.last_at_seconds, "closed", None)
        if failed.in_a_row >= descheduler.breaker.failures:
            until_seconds = failed.last_at_seconds + breaker_seconds(descheduler, uid, failed.in_a_row)
            passing = state._replace(
                state="open" if now_seconds < until_seconds else "trial", until_seconds=until_seconds
            )
            state = state._replace(state="open until reset") if math.isinf(until_seconds) else passing
        states.append(state)
    return tuple(sorted(states, key=lambda one: (-one.failures, one.namespace, one.workload, one.uid)))
