"""The order in which an overloaded node's pods are considered: who may best be moved comes first.

`planning.planner` takes the first of the pods still in question, and orders them again after every choice, because the
remaining excess has changed by then. The order is total (uids end every tie), so a plan does not depend on the order in
which anything was listed.

Of equal priority, pods over their request go first: descheduler looks at priority and QoS alone, where a pod that
requests what it uses pays for one that does not. Costs are compared with those of the same owner's pods, as a
ReplicaSet's controller does; docs/decisions has why.
"""

import collections
import collections.abc
from typing import NamedTuple

from descheduler.snapshot import pod_annotations
from kube.objects import Pod

COSTS = (pod_annotations.DELETION_COST, pod_annotations.EVICTION_COST)  # in Koordinator's order
QOS_RANK = {"BestEffort": 0, "Burstable": 1, "Guaranteed": 2}

# A pod that uses less than this share of the remaining excess does not relieve the node: evicting fifty of them is a
# a disturbance of every pod and a remedy for nothing.
WORTHWHILE_SHARE = 0.02


class Use(NamedTuple):
    """A pod's use of the hot resource, the part of it still to be moved, and the pod's request: in one unit."""

    used: float
    excess: float
    requested: float


class Rank(NamedTuple):
    """Smaller goes first: whether it is to come last, priority, whether it uses no more than it requests, QoS, whether
    the pod alone does not cover the excess.
    """

    last: bool
    priority: int
    within_request: bool
    qos: int
    falls_short: bool


class Key(NamedTuple):
    """Smaller goes first: rank, fit, age (newest first), uid."""

    rank: Rank
    misfit: float
    negative_created_seconds: float
    uid: str


def key(pod: Pod, use: Use, *, last: bool) -> Key:
    """The key of a pod; `last` if all others go before it.

    Best cover with least disturbance: of the pods that cover the excess alone the smallest, otherwise the largest.
    """
    covers = use.used >= use.excess
    rank = Rank(last, pod.priority, use.used <= use.requested, QOS_RANK.get(pod.status.qos_class, 2), not covers)
    return Key(rank, use.used if covers else -use.used, -pod.created_at_seconds, pod.uid)


def ordered(pods: collections.abc.Iterable[Pod], key_of: collections.abc.Callable[[Pod], Key]) -> list[Pod]:
    """The pods by their keys; of one owner's that are equal in rank, the cheaper to lose takes the earlier place.

    The owner knows which of its pods it can spare. Among pods of others its figures mean nothing: anyone who may create
    a pod may write any.
    """
    keyed = sorted((key_of(pod), pod.uid, pod) for pod in pods)
    ranked = [pod for _, _, pod in keyed]
    if not any(key in pod.annotations for pod in ranked for key in COSTS):
        return ranked
    places: dict[tuple[Rank, str], list[int]] = collections.defaultdict(list)
    for place, (one, _, pod) in enumerate(keyed):
        if pod.owner is not None:
            places[one.rank, pod.owner.uid].append(place)
    costs = lambda pod: [cost(pod, key) for key in COSTS]  # noqa: E731
    for those in places.values():
        for place, pod in zip(those, sorted([ranked[place] for place in those], key=costs), strict=True):
            ranked[place] = pod
    return ranked


def worthwhile(use: Use) -> bool:
    """Whether moving the pod brings the node noticeably nearer to its target."""
    return use.used > 0 and use.used >= WORTHWHILE_SHARE * use.excess


def cost(pod: Pod, key: str) -> int:
    """The owner's word on which pod is cheapest to lose, by one of COSTS; 0 where it is absent or not a number."""
    try:
        return int(pod.annotations[key])
    except (KeyError, ValueError):
        return 0
