"""From rows of the ledger to what they say to the next plan: the one place where an outcome becomes a reason to wait.

`ledger.ledger` selects the rows, `planning.planner` and `planning.limits` decide by the `History`. Times are those of
the intents: a run that stalls asks for its evictions long after it began. Pure: the same rows give the same history.
"""

import collections
import collections.abc
import operator

from descheduler.ledger import prediction_errors
from descheduler.ledger.rows import COUNTED, DONE, ENDS_FAILURES, FAILED, IN_VAIN, OPEN, Row
from descheduler.planning.departed_load import LOOK_BACKS
from descheduler.snapshot.eviction_history import (
    FOLLOWED_SECONDS,
    HOUR_SECONDS,
    EvictedPod,
    Failures,
    FlowHistory,
    History,
    PastRelief,
    PendingReplacement,
    PodUse,
)

Rows = collections.abc.Sequence[Row]
Words = collections.abc.Collection[str]  # of results
Resets = collections.abc.Mapping[str, float]  # Unix seconds by workload uid, "" for all


def history(rows: Rows, failing: Rows, resets: Resets, *, now_seconds: float, window_seconds: float) -> History:
    """Builds the planner's history from rows of one mode, oldest first: those of the window, and all of workloads that
    ever failed. Counts returns for `window_seconds`; `resets` are those of breakers.
    """
    counted = [row for row in rows if row.result in COUNTED]
    done = [row for row in counted if row.result in DONE]
    went = ((row, row.intended_at_seconds if row.gone_at_seconds is None else row.gone_at_seconds) for row in done)
    lately = [row for row in counted if row.intended_at_seconds > now_seconds - HOUR_SECONDS]
    return History(
        in_last_hour=len(lately),
        last_hour_by_node=collections.Counter(row.node for row in lately),
        last_by_workload={row.workload_uid: row.intended_at_seconds for row in counted},
        last_by_node={row.node: row.intended_at_seconds for row in counted},
        returned=collections.Counter(
            row.workload_uid for row in done if row.returned and row.intended_at_seconds > now_seconds - window_seconds
        ),
        failures=_failures(failing, operator.attrgetter("workload_uid"), FAILED, resets, ends=ENDS_FAILURES),
        in_vain=_failures(rows, operator.attrgetter("pod_uid"), IN_VAIN, resets),
        flow=_flows(counted),
        in_flight=frozenset(row.workload_uid for row in counted if _in_flight(row)),
        awaited=tuple(
            PendingReplacement(
                row.namespace,
                row.workload,
                row.workload_uid,
                row.intended_at_seconds,
                *((row.destination, _measured(row)) if row.landed_pod is None else ()),
            )
            for row in counted
            if _in_flight(row) and row.workload and row.intended_at_seconds > now_seconds - FOLLOWED_SECONDS
        ),
        landed={row.landed_pod: _measured(row) for row in done if row.landed_pod is not None},
        relieved=_relieved(row for row in done if row.intended_at_seconds > now_seconds - FOLLOWED_SECONDS),
        departed=tuple(EvictedPod(row.node, row.pod_uid, gone, _measured(row)) for row, gone in went),
        undecided=frozenset(row.workload_uid for row in rows if row.result in OPEN),
    )


def _failures(
    rows: Rows, key: collections.abc.Callable[[Row], str], failed: Words, resets: Resets, *, ends: Words = frozenset()
) -> dict[str, Failures]:
    """Failures in a row since the last reset, or result that `ends` them, by uid; `rows` oldest first."""
    failures: dict[str, Failures] = {}
    for row in rows:
        uid, reset_at_seconds = key(row), max(resets.get(row.workload_uid, 0.0), resets.get("", 0.0))
        if row.result in ends:
            failures.pop(uid, None)
        elif row.result in failed and row.intended_at_seconds > reset_at_seconds:
            before = failures[uid].in_a_row if uid in failures else 0
            failures[uid] = Failures(before + 1, row.intended_at_seconds)
    return failures


def _flows(counted: collections.abc.Iterable[Row]) -> dict[str, FlowHistory]:
    """Returns the evictions that each flow rule admitted, by its key."""
    times: dict[str, list[float]] = {}
    waiting: dict[str, set[str]] = {}
    for row in counted:
        if row.flow:
            times.setdefault(row.flow, []).append(row.intended_at_seconds)
            waiting.setdefault(row.flow, set()).update({row.workload_uid} if _in_flight(row) else ())
    return {key: FlowHistory(tuple(times[key]), frozenset(waiting[key])) for key in times}


def _in_flight(row: Row) -> bool:
    return row.result in (*DONE, *OPEN) and row.ready_at_seconds is None


def _relieved(done: collections.abc.Iterable[Row]) -> dict[str, tuple[PastRelief, ...]]:
    """The evictions by node, with the load that the node had afterwards."""
    by_node: dict[str, list[PastRelief]] = collections.defaultdict(list)
    for row in done:
        looks = tuple(
            (row.at_seconds + LOOK_BACKS[column], getattr(row, column)) for column in prediction_errors.JUDGED
        )
        share_ratio = row.before_ratio - row.projected_ratio
        one = PastRelief(row.run, row.metric, row.before_ratio, share_ratio, row.gone_at_seconds, looks)
        by_node[row.node].append(one)
    return {node: tuple(reliefs) for node, reliefs in by_node.items()}


def _measured(row: Row) -> PodUse:
    return PodUse(row.cpu_millicores, row.memory_bytes, row.metric, row.before_ratio - row.projected_ratio)
