"""The cluster as a run needs it, in memory: nodes, pods, budgets, owners and volumes, each kept by a reflector.

A service watches (`start`): a run reads what is there and lists nothing. A process that makes one run lists each kind
once (`begin_lists`), on two threads while its libraries are loaded: this module imports no rules, for that reason. In
a simulation nothing runs by itself: `catch_up` takes in what has happened. However it was filled, `view` is how it is
read. As the kinds are listed one after the other, a view is never of one moment exactly; what an eviction depends on is
read again right before it (`eviction.last_look`).
"""

import collections.abc
import functools
import random
import threading
from concurrent import futures
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from descheduler.snapshot import interned_pods
from descheduler.snapshot.interned_pods import Pod
from kube import errors, kinds
from kube.cache import reflector, watch_status
from kube.door import KubeDoor
from kube.objects import (
    CsiNode,
    Deployment,
    DisruptionBudget,
    Job,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from runtime.clock import Clock

if TYPE_CHECKING:
    from kube.http.client import Client

UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"  # a finished pod neither uses nor holds anything


class ClusterView(NamedTuple):
    """All objects at a moment, and for how long each watch has heard nothing (seconds, by the kind's plural)."""

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    budgets: tuple[DisruptionBudget, ...]
    namespaces: tuple[Namespace, ...]
    replica_sets: tuple[ReplicaSet, ...]
    deployments: tuple[Deployment, ...]
    stateful_sets: tuple[StatefulSet, ...]
    replication_controllers: tuple[ReplicationController, ...]
    jobs: tuple[Job, ...]
    claims: tuple[PersistentVolumeClaim, ...]
    volumes: tuple[PersistentVolume, ...]
    csi_nodes: tuple[CsiNode, ...]
    silent_seconds: collections.abc.Mapping[str, float]


class ClusterWatch:
    """A reflector for each kind of `ClusterView`. Constructing starts nothing."""

    def __init__(self, door: KubeDoor, *, clock: Clock, rng: random.Random) -> None:
        make = functools.partial(reflector.Reflector, door, clock=clock, rng=rng, cached_start=True)
        # By the field of ClusterView, in the order in which they are listed. Budgets are last: what they allow is not
        # older than the owners.
        self._by_field: dict[str, reflector.Reflector[Any]] = {
            "nodes": make(kinds.NODES),
            "pods": make(interned_pods.PODS, field_selector=UNFINISHED),
            "namespaces": make(kinds.NAMESPACES),
            "replica_sets": make(kinds.REPLICA_SETS),
            "deployments": make(kinds.DEPLOYMENTS),
            "stateful_sets": make(kinds.STATEFUL_SETS),
            "replication_controllers": make(kinds.REPLICATION_CONTROLLERS),
            "jobs": make(kinds.JOBS),
            "claims": make(kinds.CLAIMS),
            "volumes": make(kinds.VOLUMES),
            "csi_nodes": make(kinds.CSI_NODES),
            "budgets": make(kinds.BUDGETS),
        }
        self._by_plural = {one.kind.plural: one for one in self._by_field.values()}
        self._lists: list[futures.Future[None]] = []
        self.watches = watch_status.Watches(self._by_plural)

    def start(self, stop: threading.Event) -> None:
        """Watches everything until `stop` is set."""
        for one in self._by_field.values():
            one.start(stop)

    def begin_lists(self) -> None:
        """Lists everything once, on threads of their own: pods take as long as all other kinds together."""
        pods = self._by_field["pods"]
        pool = futures.ThreadPoolExecutor(2, thread_name_prefix="list")
        of_pods = pool.submit(pods.list_once)
        self._lists = [pool.submit(_list_all, [one for one in self._by_field.values() if one is not pods]), of_pods]
        pool.shutdown(wait=False)  # nothing else is submitted; the threads end with the lists

    def wait(self) -> None:
        """Waits until the lists that have begun are over, however they ended."""
        futures.wait(self._lists)

    def catch_up(self) -> None:
        """Takes in on the caller's thread what has happened; for a door whose watches end, as a simulated one's."""
        for one in self._by_field.values():
            one.catch_up()

    def view(self) -> ClusterView:
        """Returns everything as of now. Raises KubeError if a list has failed or a kind was not listed yet."""
        for one in self._lists:
            one.result()
        for plural, watch in self._by_plural.items():
            if not watch.synced.is_set():
                raise errors.NotListed(f"{plural} are not listed yet" + (f": {watch.problem}" if watch.problem else ""))
        return ClusterView(
            **{field: tuple(one.snapshot().values()) for field, one in self._by_field.items()},
            silent_seconds={plural: one.age_seconds() for plural, one in self._by_plural.items()},
        )


class WatchConnection(NamedTuple):
    """The door of a process and its watch of the cluster."""

    door: "Client"
    watch: ClusterWatch


def _list_all(reflectors: collections.abc.Iterable[reflector.Reflector[Any]]) -> None:
    for one in reflectors:
        one.list_once()
