"""The invariants of a run with faults, one function each, which yields a sentence for everything that broke it. Pure.

Evictions come from the apiserver's audit log, departures from its watch of pods, rows from the ledger's file.
"""

import collections
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

HOUR_SECONDS: Final = 3600.0
CLOCK_SECONDS: Final = 0.002  # the audit log has microseconds, the ledger floats of another process of this machine
GAP_SECONDS: Final = 5.0
OTHERS_SECONDS: Final = 20.0  # until then a budget's status may not know of a pod that others deleted
OPEN: Final = ("intended", "unknown", "in_progress")
DONE: Final = ("evicted", "evicted_unconfirmed")


class EvictionCall(NamedTuple):
    """A call of the eviction API: by which account, when (Unix seconds), and its answer."""

    account: str
    namespace: str
    pod: str
    pod_uid: str
    at_seconds: float
    status: int
    dry_run: bool

    @property
    def accepted(self) -> bool:
        """True if the apiserver evicted the pod."""
        return self.status == 201 and not self.dry_run


class Deletion(NamedTuple):
    """A pod that an account of ours deleted, or asked to; "" for all pods of a namespace."""

    namespace: str
    pod: str


class Recorded(NamedTuple):
    """A row of the ledger."""

    id: int
    run: str
    pod_uid: str
    node: str
    result: str
    intended_at_seconds: float
    namespace: str = ""
    workload: str = ""


class Departure(NamedTuple):
    """A Ready pod that began to leave, and how many pods of its workload were Ready without it."""

    workload: str
    pod: str
    pod_uid: str
    left: int
    at_seconds: float


class Jump(NamedTuple):
    """From when until when (Unix seconds) the clock of a descheduler was wrong, and by how much."""

    from_seconds: float
    until_seconds: float
    by_seconds: float


class Caps(NamedTuple):
    """The limits of the policy: evictions in a run, of these from a node and in a namespace, and in an hour; the rests
    of a node and of a workload (seconds).
    """

    per_run: int
    per_node: int
    per_namespace: int
    per_hour: int
    node_seconds: float
    workload_seconds: float


def by_the_true_clock(rows: Iterable[Recorded], jumps: Collection[Jump]) -> list[Recorded]:
    """Returns the rows by the right time: those that were written while a clock was wrong say that wrong time.

    Jumps are hours and a run is shorter, so a time tells whether it is a wrong one.
    """
    return [row._replace(intended_at_seconds=_true_seconds(row.intended_at_seconds, jumps)) for row in rows]


def _true_seconds(at_seconds: float, jumps: Collection[Jump]) -> float:
    """Of several jumps that explain a time, the latest: its clock was wrong for the shortest time."""
    right = [
        at_seconds - jump.by_seconds
        for jump in jumps
        if jump.from_seconds <= at_seconds - jump.by_seconds <= jump.until_seconds + CLOCK_SECONDS
    ]
    return right[-1] if right else at_seconds


def without_a_row(calls: Iterable[EvictionCall], rows: Iterable[Recorded]) -> Iterator[str]:
    """Every accepted eviction has exactly one row, written before the apiserver was asked, and done or still open."""
    by_uid: dict[str, list[Recorded]] = collections.defaultdict(list)
    for row in rows:
        if row.result in (*DONE, *OPEN):
            by_uid[row.pod_uid].append(row)
    for one in calls:
        if not one.accepted:
            continue
        found = by_uid.get(one.pod_uid, [])
        if len(found) != 1:
            yield f"the accepted eviction of {one.namespace}/{one.pod} has {len(found)} rows, 1 expected"
        elif found[0].intended_at_seconds > one.at_seconds + CLOCK_SECONDS:
            late_seconds = found[0].intended_at_seconds - one.at_seconds
            yield f"the row of {one.namespace}/{one.pod} was written {late_seconds:.3f} s after the call"


def without_an_eviction(
    calls: Iterable[EvictionCall], rows: Iterable[Recorded], gaps_seconds: Collection[float] = ()
) -> Iterator[str]:
    """Every row that says evicted has an eviction that the apiserver accepted. An apiserver that was killed within
    moments after it (`gaps_seconds`) has answered and not written its line.
    """
    accepted = {one.pod_uid for one in calls if one.accepted}
    for row in rows:
        killed = any(0 <= moment - row.intended_at_seconds < GAP_SECONDS for moment in gaps_seconds)
        if row.result == "evicted" and row.pod_uid not in accepted and not killed:
            yield f"row {row.id} says evicted, and the apiserver accepted no eviction of that pod"


def twice(calls: Iterable[EvictionCall]) -> Iterator[str]:
    """No pod is evicted twice."""
    counted = collections.Counter((one.namespace, one.pod, one.pod_uid) for one in calls if one.accepted)
    for (namespace, pod, _), count in counted.items():
        if count > 1:
            yield f"{namespace}/{pod} was evicted {count} times"


def _counted(rows: Iterable[Recorded]) -> list[Recorded]:
    """Those that count in caps and rests, in the order of their intents."""
    counted = (row for row in rows if row.result in (*DONE, *OPEN))
    return sorted(counted, key=lambda row: (row.intended_at_seconds, row.id))


def over_caps(rows: Iterable[Recorded], caps: Caps) -> Iterator[str]:
    """No run, no node and no namespace in it, and no hour has more evictions than the policy allows, over restarts and
    changes of the leader.
    """
    counted = _counted(rows)
    counts = collections.Counter[tuple[str, str, int]]()
    for row in counted:
        counts[row.run, "", caps.per_run] += 1
        counts[row.run, f" from {row.node}", caps.per_node] += 1
        counts[row.run, f" in {row.namespace}", caps.per_namespace] += 1
    for (run, place, most), count in counts.items():
        if count > most:
            yield f"run {run} has {count} evictions{place}, {most} allowed"
    for first, last in zip(counted, counted[caps.per_hour :], strict=False):
        span_seconds = last.intended_at_seconds - first.intended_at_seconds
        if span_seconds < HOUR_SECONDS:
            yield f"{caps.per_hour + 1} evictions within {span_seconds:.0f} s, {caps.per_hour} an hour allowed"


def restless(rows: Iterable[Recorded], caps: Caps) -> Iterator[str]:
    """A node rests after a run in which pods left it, a workload after each eviction of its pods."""
    counted = _counted(rows)
    for column, least_seconds in (("node", caps.node_seconds), ("workload", caps.workload_seconds)):
        by_name: dict[str, list[Recorded]] = collections.defaultdict(list)
        for row in counted:
            by_name[getattr(row, column)].append(row)
        for name, group in by_name.items():
            for before, after in itertools.pairwise(group):
                rest_seconds = after.intended_at_seconds - before.intended_at_seconds
                is_of_a_run = column == "node" and before.run == after.run
                if not is_of_a_run and rest_seconds < least_seconds:
                    yield f"{name} rested {rest_seconds:.1f} s as a {column}, {least_seconds:g} s expected"


def unprotected(calls: Iterable[EvictionCall], protected: Collection[str]) -> Iterator[str]:
    """No eviction of a protected pod is even asked for."""
    for one in calls:
        if one.pod_uid in protected:
            yield f"the eviction of {one.namespace}/{one.pod} was asked for, which is protected"


def deleted(deletions: Iterable[Deletion]) -> Iterator[str]:
    """No account of ours deletes a pod: budgets only hold for evictions."""
    for one in deletions:
        yield f"an account of ours deleted a pod: {one.namespace}/{one.pod}"


def under_budget(
    departures: Iterable[Departure],
    by_us: Collection[str],
    least: Mapping[str, int],
    others: Mapping[str, Sequence[float]],
) -> Iterator[str]:
    """No Ready pod leaves by an account of ours (`by_us`, uids and names) so that fewer are Ready than its budget
    demands (`least`, by workload). The apiserver trusts a budget's status, so departures are left out that follow one
    by `others` (by workload, Unix seconds) within moments.
    """
    for one in departures:
        if not {one.pod, one.pod_uid}.isdisjoint(by_us) and one.left < least.get(one.workload, 0):
            taken = others.get(one.workload, ())
            if not any(0 <= one.at_seconds - moment < OTHERS_SECONDS for moment in taken):
                words = f"{one.workload} had {one.left} Ready pods without {one.pod}"
                yield f"{words}, which left by us; {least[one.workload]} demanded"


def tracebacks(logs: Mapping[str, str]) -> Iterator[str]:
    """No service logs a traceback."""
    for name, text in logs.items():
        if "Traceback (most recent call last)" in text:
            after = text.split("Traceback (most recent call last)", 1)[1].splitlines()
            last = next((line for line in after if line and not line.startswith((" ", ":"))), "")
            yield f"{name} logged a traceback: {last}"


def exit_codes(codes: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Every service that was told to end by SIGTERM ends with 0."""
    for name, code in codes:
        if code != 0:
            yield f"{name} ended with {code} at SIGTERM, 0 expected"


def grown(before: Mapping[str, float], after: Mapping[str, float], most_mebibytes: float) -> Iterator[str]:
    """No process that ran all the time, or since a restart, has grown by more than that."""
    for name, mebibytes in after.items():
        if name in before and mebibytes - before[name] > most_mebibytes:
            words = f"{name} grew from {before[name]:.0f} to {mebibytes:.0f} MiB"
            yield f"{words}, at most {most_mebibytes:.0f} more expected"
