"""Surges: a Deployment has a replica more until another pod is Ready in place of one that is evicted then.

A `Surge` is a row of the ledger; `eviction.surges` takes it from state to state:

    scaling_up -> waiting -> scaling_down -> finished (the pod was evicted) | undone
    any of these -> abandoned (another client changed the replicas); none of these: failed, DryRun, Observe

`snapshot.cluster_reader` asks for the `refusals` of the Deployments that opt in.
"""

import collections.abc
import functools
import itertools
import math
from typing import Any, Final, NamedTuple

from kube import errors, kinds, lookups
from kube.api import quantities
from kube.door import ScalesDoor
from kube.objects import Deployment, PersistentVolume, Pod

Reasons = collections.abc.Iterator[str]
Listed = collections.abc.Callable[[kinds.Kind[Any], str], tuple[Any, ...]]
OPT_IN: Final = "evenload.io/surge"  # a label of the Deployment; deploy/guard goes by it, too
SCALING_UP, WAITING, SCALING_DOWN = OPEN = ("scaling_up", "waiting", "scaling_down")
FINISHED, UNDONE, ABANDONED, FAILED = "finished", "undone", "abandoned", "failed"
ABANDONED_SECONDS: Final = 86400.0  # who changed the replicas, as GitOps does, would do so again


class Surge(NamedTuple):
    """One surge as recorded: for a pod of a node, with the replicas that its Deployment had before. Pods of its
    ReplicaSet (`owner_uid`) that are made later than `newest_sibling_at_seconds` are new.
    """

    id: int
    run: str
    at_seconds: float
    mode: str
    policy_hash: str
    namespace: str
    workload: str
    workload_uid: str
    owner_uid: str
    pod: str
    pod_uid: str
    node: str
    newest_sibling_at_seconds: float
    replicas: int
    state: str
    changed_at_seconds: float
    message: str

    def rest(self, cooldown_seconds: float, now_seconds: float) -> str:
        """Why its workload has no other one yet, "" if it may."""
        if self.state in OPEN:
            return "its surge is open"
        rest_seconds = max(cooldown_seconds, ABANDONED_SECONDS if self.state == ABANDONED else 0.0)
        left_seconds = self.changed_at_seconds + rest_seconds - now_seconds
        return f"the last was {self.state} ({self.message}), {left_seconds:.0f} s left" if left_seconds > 0 else ""

    def new_pods(self, pods: collections.abc.Iterable[Pod]) -> list[Pod]:
        """The new ones of these that are bound to a node and stay there."""
        mine = [(pod, pod.owner) for pod in pods if pod.namespace == self.namespace and pod.node_name]
        owned = [pod for pod, owner in mine if owner is not None and owner.uid == self.owner_uid and not pod.deleting]
        return [pod for pod in owned if pod.created_at_seconds > self.newest_sibling_at_seconds]


def refusals(
    door: ScalesDoor,
    deployments: collections.abc.Iterable[Deployment],
    pods: collections.abc.Mapping[str, Pod],
    volumes: collections.abc.Mapping[str, PersistentVolume],
) -> dict[str, str]:
    """Returns why no other pod comes first, "" where one may, by uid of the Deployments that opt in and have one of the
    `pods` (by the same uid): a request for each, and four for each namespace. `volumes` are by "namespace/claim".
    """
    listed = functools.cache(functools.partial(_listed, door))
    consenting = [one for one in deployments if one.labels.get(OPT_IN) == "true" and one.uid in pods]

    def refusal(owner: Deployment) -> str:
        pod, scaled = pods[owner.uid], _scaled(door, owner, listed)
        return next(itertools.chain(_bound(owner, pod, volumes), scaled, _full(owner, pod, listed)), "")

    return lookups.answers({one.uid: functools.partial(refusal, one) for one in consenting}, str)


def _listed(door: ScalesDoor, kind: kinds.Kind[Any], namespace: str) -> tuple[Any, ...]:
    """The objects of a namespace; none of a kind that the cluster does not have."""
    try:
        return door.list(kind, namespace=namespace).items
    except errors.NotFound:
        return ()


def _bound(deployment: Deployment, pod: Pod, volumes: collections.abc.Mapping[str, PersistentVolume]) -> Reasons:
    """Why two pods cannot stand side by side, on two nodes."""
    if deployment.spec.strategy.type == "Recreate":
        yield "its strategy is Recreate"
    if pod.host_ports or pod.spec.host_network:
        yield "it has ports of its node"
    for claim in (one.claim for one in pod.spec.volumes if one.claim):
        volume = volumes.get(f"{pod.namespace}/{claim}")
        if volume is None or volume.one_node_at_a_time:
            yield f"claim {claim} is for one node at a time"


def _scaled(door: ScalesDoor, deployment: Deployment, listed: Listed) -> Reasons:
    """Names the writer of its replicas that would set them back."""
    name, namespace = deployment.name, deployment.namespace
    for kind in kinds.AUTOSCALERS:
        yield from (f"{kind.name} {one.name} scales it" for one in listed(kind, namespace) if one.scales(name))
    scalers = door.get(kinds.DEPLOYMENT_SCALES, name, namespace=namespace).metadata.scalers
    yield from (f"{one.manager} applies its replicas" for one in scalers if one.operation == "Apply")


def _full(deployment: Deployment, pod: Pod, listed: Listed) -> Reasons:
    """Names a quota that might refuse one more such pod. The limits of pods are not read."""
    for quota in listed(kinds.QUOTAS, deployment.namespace):
        used = quota.status.get("used", {})
        for name, hard in quota.status.get("hard", {}).items():
            resource = name.removeprefix("requests.").removeprefix("count/")
            need = 1.0 if resource == "pods" else pod.requests.get(resource) / (1000 if resource == "cpu" else 1)
            need = math.inf if name.startswith("limits.") else need
            if need and quantities.amount(str(used.get(name, 0))) + need > quantities.amount(str(hard)):
                yield f"quota {quota.name} may have no room: {name} is {used.get(name, 0)} of {hard}"
