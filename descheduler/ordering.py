"""The order in which an overloaded node's pods are considered: who may best be moved comes first.

`planning.py` takes the smallest key among the pods still in question, and orders them anew after every choice, because
the remaining excess has changed by then. The order is total (uids end every tie), so a plan does not depend on the
order in which anything was listed.
"""

from typing import NamedTuple

from descheduler import keys
from kube.objects import Pod

QOS_RANK = {"BestEffort": 0, "Burstable": 1, "Guaranteed": 2}

# A pod that uses less than this share of the remaining excess does not relieve the node: evicting fifty of them is a
# disturbance for everybody and a remedy for nothing.
WORTHWHILE_SHARE = 0.02


class Key(NamedTuple):
    """Smaller goes first: whether it is to come last, priority, QoS, whether the pod alone covers the excess, deletion
    cost, fit, age (newest first), uid.
    """

    last: bool
    priority: int
    qos: int
    falls_short: bool
    deletion_cost: int
    misfit: float
    negative_created_seconds: float
    uid: str


def key(pod: Pod, used: float, excess: float, *, last: bool) -> Key:
    """The key of a pod that uses `used` of the hot resource while `excess` (same unit) remains to be moved; `last` if
    all others go before it.

    Best cover with least disturbance: of the pods that cover the excess alone the smallest, otherwise the largest; the
    owner's deletion cost comes before the fit, since the owner knows which pod it can spare.
    """
    covers = used >= excess
    return Key(
        last=last,
        priority=pod.priority,
        qos=QOS_RANK.get(pod.qos_class, 2),
        falls_short=not covers,
        deletion_cost=deletion_cost(pod),
        misfit=used if covers else -used,
        negative_created_seconds=-pod.created_at_seconds,
        uid=pod.uid,
    )


def worthwhile(used: float, excess: float) -> bool:
    """Whether moving the pod brings the node noticeably nearer to its target."""
    return used > 0 and used >= WORTHWHILE_SHARE * excess


def deletion_cost(pod: Pod) -> int:
    """The owner's word on which pod is cheapest to lose, lower first; 0 where it is absent or not a number."""
    text = pod.annotations.get(keys.DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0
