"""The controllers of workloads: every replica that the scenario wants has a pod, and a lost pod has a successor.

`simulator.world` calls `arrive` and `leave` as the scenario says; evictions, preemptions and lost nodes are seen on the
pods. Each replica is a place of its own: a successor fills the place of the pod that went, and goes on with its work.

| kind | its successor comes |
| --- | --- |
| Deployment, ReplicaSet, ReplicationController, Job, custom kinds | when the pod is told to end |
| StatefulSet | under the same name, when the pod is gone |
| DaemonSet | on the same node, when the pod is gone, if the node is still there |
| bare pods | never |
"""

import collections
import contextlib
import dataclasses
from collections.abc import Callable, Sequence

from kube import errors, kinds
from kube.objects import Node, Pod
from simulator.apiserver import ApiServer
from simulator.controllers import objects
from simulator.controllers.workloads import Version, Workloads
from simulator.scenario import Owner, Replica

NOWHERE = (0, 0)  # of pods and of those that are Ready
AFTER_THE_END = frozenset({kinds.STATEFUL_SETS.name, objects.DAEMON_SETS.name})


@dataclasses.dataclass(slots=True)
class _Place:
    """A replica while it is wanted; `pod` is the key of the one that fills it, "" while none does."""

    index: int
    version: Version
    pod: str = ""
    begun: bool = False  # it had a pod once
    wanted: bool = True


class Owners:
    """See the module. Indices are those of the scenario's replicas; `finish` is how a kubelet ends a Job's pod."""

    def __init__(
        self, api: ApiServer, owners: Sequence[Owner], replicas: Sequence[Replica], *, finish: Callable[[Pod], None]
    ) -> None:
        self._api = api
        self._replicas = replicas
        self._finish = finish
        self._workloads = Workloads(api, owners)
        self._places: dict[int, _Place] = {}
        self._filled: dict[str, _Place] = {}  # by key of a pod, until it is gone
        self._pods: dict[str, Pod] = {}  # the same pods as they are now
        self._standing: dict[str, tuple[int, int]] = {}  # and how they count
        self._waiting: dict[str, list[_Place]] = collections.defaultdict(list)  # for the key of a pod, or for a node
        api.subscribe(kinds.PODS, self._pod_changed)
        api.subscribe(kinds.NODES, self._node_changed)

    def arrive(self, index: int) -> None:
        """A replica is wanted from now on."""
        self._places[index] = _Place(index, self._workloads.want(self._replicas[index].owner))
        self._fill(self._places[index])

    def leave(self, index: int) -> None:
        """A replica is wanted no more: its pod ends, a Job's with success. The last one takes its owner along."""
        place = self._places.pop(index)
        place.wanted = False
        self._workloads.drop(self._replicas[index].owner)
        pod = self._pods.get(place.pod)
        if pod is None:
            return
        if place.version.owner.kind == kinds.JOBS.name and pod.phase == "Running":
            self._finish(pod)
        with contextlib.suppress(errors.NotFound):  # it went by itself
            self._api.delete(kinds.PODS, pod.name, namespace=pod.namespace, uid=pod.uid)

    def replica_of(self, pod: str) -> int | None:
        """The index of the replica that a pod ("namespace/name") fills, or filled before it began to end; None for one
        that is gone or not of the scenario.
        """
        place = self._filled.get(pod)
        return None if place is None else place.index

    def _fill(self, place: _Place) -> None:
        """Create the pod of a place, or wait for what is in its way."""
        owner = place.version.owner
        node = self._replicas[place.index].node if owner.kind == objects.DAEMON_SETS.name else ""
        name = self._name(place)
        key = f"{owner.namespace}/{name}"
        absent = node and not self._api.body(kinds.NODES, node)
        obstacle = node if absent else key if key in self._filled else ""
        if obstacle:
            self._waiting[obstacle].append(place)
            return
        place.pod, place.begun, self._filled[key] = key, True, place
        template = place.version.template(node)
        self._api.create_pod({**template.metadata, "name": name}, template.spec, namespace=owner.namespace)

    def _name(self, place: _Place) -> str:
        """An unused name; a fixed one where the pod has an identity."""
        owner, above, ordinal = place.version.owner, place.version.above, self._replicas[place.index].ordinal
        if above is None:
            return f"{owner.name}-{ordinal}" if ordinal else owner.name
        if owner.kind == kinds.STATEFUL_SETS.name:
            return f"{owner.name}-{ordinal}"
        name = self._api.generated(f"{above.name}-")
        while f"{owner.namespace}/{name}" in self._filled:
            name = self._api.generated(f"{above.name}-")
        return name

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        key = pod.key if pod is not None else ""
        place = self._filled.get(key)
        if place is None:
            return
        self._recount(place, key, new)
        if new is None:
            del self._filled[key]
        at_once = place.version.owner.kind not in AFTER_THE_END
        if place.pod == key and (new is None or (new.deleting and at_once)):
            place.pod = ""
            self._refill(place)
        if new is None:
            self._resume(key)

    def _recount(self, place: _Place, key: str, new: Pod | None) -> None:
        before, after = self._standing.pop(key, NOWHERE), _standing(new)
        if new is not None:
            self._pods[key], self._standing[key] = new, after
        else:
            self._pods.pop(key, None)
        if before != after:
            self._workloads.count(place.version, pods=after[0] - before[0], ready=after[1] - before[1])

    def _refill(self, place: _Place) -> None:
        """Give a place that is empty its pod, or the next one if its kind has successors."""
        bare = place.version.above is None
        if place.wanted and not place.pod and not (bare and place.begun):
            self._fill(place)

    def _resume(self, obstacle: str) -> None:
        for place in self._waiting.pop(obstacle, ()):
            self._refill(place)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None and new is not None:
            self._resume(new.name)


def _standing(pod: Pod | None) -> tuple[int, int]:
    """(1, 1) for a pod that counts as a replica and is Ready, (0, 0) for one that is ending or over."""
    if pod is None or pod.deleting or pod.finished:
        return NOWHERE
    return 1, int(pod.ready)
