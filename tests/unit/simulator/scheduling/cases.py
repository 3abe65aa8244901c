"""Small clusters for the tests of `simulator.scheduling`: a scheduler that was told of nodes and pods."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kube import objects
from simulator.scheduling.extenders import ExtenderPort
from simulator.scheduling.scheduler import Scheduler
from tests import builders

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def scheduler(
    nodes: Sequence[objects.Node], pods: Sequence[objects.Pod] = (), extenders: Sequence[ExtenderPort] = ()
) -> Scheduler:
    """A scheduler that knows these."""
    made = Scheduler(extenders, np.random.default_rng(1))
    for node in nodes:
        made.node_changed(None, node)
    for pod in pods:
        made.pod_changed(None, pod)
    return made


def tainted(effect: str, key: str = "old") -> builders.Mutator:
    """A taint without a value."""
    return lambda body: body["spec"].update(taints=[{"key": key, "effect": effect}])


def spec(**fields: Any) -> builders.Mutator:
    """Fields of a pod's spec."""
    return lambda body: body["spec"].update(fields)


def near(label: str, key: str = HOST, *, anti: bool = False, weight: int = 0) -> builders.Mutator:
    """A term about pods with app=label: required, or preferred with a weight."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": label}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": term}]}
    return spec(affinity={"podAntiAffinity" if anti else "podAffinity": preferred if weight else required})


def spread(key: str, *, hard: bool = True, **fields: Any) -> builders.Mutator:
    """A spread rule over app=web with skew 1."""
    rule = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return spec(topologySpreadConstraints=[rule | fields])


def bound(name: str, node: str, **fields: Any) -> objects.Pod:
    """A pod on a node, of no owner unless given."""
    return builders.pod(name, node=node, **{"owner": None, **fields})


def pending(name: str = "new", **fields: Any) -> objects.Pod:
    """A pod without a node, of no owner unless given."""
    return builders.pod(name, **{"owner": None, **fields})
