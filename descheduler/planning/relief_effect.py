"""Effect of evictions on the load of their node: the relief of a metric that was expected, and the one measured.

`planning.limits` asks before a pod leaves a node. A load that stays although pods went is not theirs (a system daemon,
steal time, the kernel), and further evictions disturb workloads for nothing.

Evictions of one run share their readings, so a run is judged as a whole, 5 and 30 min after it, by the better of both:

    expected = sum of a pod's share * (1 - what the window still showed of it then)
    measured = the node's ratio before the first of them - its ratio then
"""

import collections.abc
import itertools
from typing import Final, NamedTuple

from descheduler.snapshot import usage
from descheduler.snapshot.eviction_history import PastRelief
from policy.schema.load_policy import LoadPolicy

LEAST_RATIO: Final = 0.5  # of the expected relief; also of what a window must show of it to be judged by


class Effect(NamedTuple):
    """The expected and the measured relief of the last evictions from a node, as ratios of it; `in_a_row`: how many
    judgements in a row found less than half, counted by `ineffective` alone.
    """

    evictions: int
    expected_ratio: float
    measured_ratio: float
    in_a_row: int = 0


def ineffective(relieved: collections.abc.Iterable[PastRelief], metric: str, policy: LoadPolicy) -> Effect | None:
    """The effect of the last evictions where it is less than half of the expected; None while it is not, or while too
    few can be judged. `relieved` are the node's evictions, oldest first.
    """
    runs = itertools.groupby((one for one in relieved if one.metric == metric), key=lambda one: one.run)
    judged: list[Effect] = []
    last, in_a_row = None, 0
    for _, reliefs in runs:
        trial = _of_run(tuple(reliefs), policy)
        if trial is None:
            continue
        judged.append(trial)
        last = _sum(judged, policy.descheduler.cooldown.ineffective.evictions)
        failed = last is not None and last.measured_ratio < LEAST_RATIO * last.expected_ratio
        in_a_row = in_a_row + 1 if failed else 0
    return last._replace(in_a_row=in_a_row) if last is not None and in_a_row else None


def _of_run(past: tuple[PastRelief, ...], policy: LoadPolicy) -> Effect | None:
    """The better of both looks; None where neither is known yet, or the windows still show most of the pods."""
    whole_ratio = sum(one.share_ratio for one in past)
    looks = (_look(past, number, policy) for number in range(len(past[0].looks)))
    usable = [one for one in looks if one is not None and one.expected_ratio >= LEAST_RATIO * whole_ratio > 0]
    return max(usable, key=lambda one: one.measured_ratio / one.expected_ratio, default=None)


def _look(past: tuple[PastRelief, ...], number: int, policy: LoadPolicy) -> Effect | None:
    first = past[0]
    moment, load_ratio = first.looks[number]
    if load_ratio is None:
        return None
    expected_ratio = sum(
        one.share_ratio * (1.0 - usage.shown_ratio(policy, one.metric, moment - one.gone_at_seconds))
        for one in past
        if one.gone_at_seconds is not None
    )
    return Effect(len(past), expected_ratio, first.before_ratio - load_ratio)


def _sum(judged: collections.abc.Sequence[Effect], evictions: int) -> Effect | None:
    """The last runs that had so many evictions together, None if all had fewer."""
    count, expected_ratio, measured_ratio = 0, 0.0, 0.0
    for one in reversed(judged):
        count += one.evictions
        expected_ratio += one.expected_ratio
        measured_ratio += one.measured_ratio
        if count >= evictions:
            return Effect(count, expected_ratio, measured_ratio)
    return None
