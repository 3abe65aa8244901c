"""How much room placeholders hold, how many wait, and which were preempted: pure, from pods and Events as read.

`status` reads both and prints what is made here. A set is the Deployment that made the pods. Preemptions are known from
kube-scheduler's own Events (reason Preempted, regarding the victim): the victims themselves are gone at once, and the
scheduler's metric counts victims of all kinds. The apiserver keeps Events for an hour (--event-ttl), so the count is of
the last hour at most, and too low where they are kept for less.
"""

import collections
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kube.objects import NOTHING, Event, Pod, Resources
from kube.pods import compact, pod_view

SELECTOR: Final = f"{compact.PLACEHOLDER_LABEL}=true"
PREEMPTED: Final = "Preempted"  # kube-scheduler's reason (pkg/scheduler/framework/preemption)
HOUR_SECONDS: Final = 3600.0
_ON_NODE: Final = re.compile(r" on node ([a-z0-9][-a-z0-9.]*[a-z0-9]|[a-z0-9])")
_BY_UID: Final = re.compile(r" by \S+ ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")


class Room(NamedTuple):
    """Requests of some placeholders together, and their number."""

    held: int = 0
    requests: Resources = NOTHING


class Owner(NamedTuple):
    """A set: the namespace and name of its Deployment."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Preemption(NamedTuple):
    """A placeholder that made way, when (Unix seconds), where and for which pod; "" is what the Event does not say."""

    at_seconds: float
    owner: Owner
    placeholder: str
    node: str
    preemptor: str
    preemptor_uid: str


@dataclass(frozen=True, slots=True)
class Set:
    """One set: where its placeholders hold room, and the creation times (Unix seconds) of those that wait."""

    owner: Owner
    preset: str
    priority: int
    nodes: dict[str, Room]
    waiting_since_seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Holding:
    """All sets, and the preemptions of the last hour, the newest first; None where Events could not be read."""

    sets: tuple[Set, ...]
    preemptions: tuple[Preemption, ...] | None

    @property
    def waiting_since_seconds(self) -> tuple[float, ...]:
        """The creation times of all that wait, the longest first."""
        return tuple(sorted(since for one in self.sets for since in one.waiting_since_seconds))

    @property
    def short(self) -> bool:
        """Whether room is missing: no placeholders at all, or some that order nodes and wait."""
        return not self.sets or any(one.preset != "soak" and one.waiting_since_seconds for one in self.sets)

    def preempted(self, owner: Owner | None = None, node: str = "") -> int | None:
        """How many made way in the last hour, of all sets or of one, everywhere or on a node.

        None when that is not known; on a node also when one made way that no node is known of.
        """
        if self.preemptions is None or (node and not all(one.node for one in self.preemptions)):
            return None
        return sum(owner in (None, one.owner) and node in ("", one.node) for one in self.preemptions)

    @property
    def rooms(self) -> dict[str, Room]:
        """Room by node, of all sets; a node that lost its last placeholder in this hour is there with none."""
        lost = [(one.node, Room()) for one in self.preemptions or () if one.node]
        return per_node([*lost, *(room for one in self.sets for room in one.nodes.items())])


def holding(pods: Iterable[Pod], events: Iterable[Event] | None, now_seconds: float) -> Holding:
    """Adds up the pods and Events of a moment (Unix seconds); `events` None: they could not be read."""
    by_owner: dict[Owner, list[Pod]] = collections.defaultdict(list)
    for pod in pods:
        if pod.labels.get(compact.PLACEHOLDER_LABEL) == "true" and not (pod.finished or pod.deleting):
            by_owner[owner_of(pod)].append(pod)
    sets = tuple(_set(owner, by_owner[owner]) for owner in sorted(by_owner))
    return Holding(sets, None if events is None else _preemptions(events, [one.owner for one in sets], now_seconds))


def owner_of(pod: Pod) -> Owner:
    """The Deployment behind a pod, as the ReplicaSet's name tells; else the owner itself, or the pod."""
    return Owner(pod.namespace, pod_view.workload(pod)[1] or pod.name)


def _set(owner: Owner, pods: Sequence[Pod]) -> Set:
    nodes = per_node((pod.node_name, Room(1, pod.requests)) for pod in pods if pod.node_name)
    waiting = tuple(sorted(pod.created_at_seconds for pod in pods if not pod.node_name))
    first = min(pods, key=lambda pod: pod.name)
    return Set(owner, first.annotations.get(compact.PRESET_ANNOTATION, ""), first.priority, nodes, waiting)


def total(rooms: Iterable[Room]) -> Room:
    """The sum."""
    held, requests = 0, NOTHING
    for room in rooms:
        held, requests = held + room.held, requests.plus(room.requests)
    return Room(held, requests)


def per_node(rooms: Iterable[tuple[str, Room]]) -> dict[str, Room]:
    """The sum of the rooms of each node, by its name."""
    by_node: dict[str, list[Room]] = collections.defaultdict(list)
    for node, room in rooms:
        by_node[node].append(room)
    return {node: total(by_node[node]) for node in sorted(by_node)}


def _preemptions(events: Iterable[Event], owners: Sequence[Owner], now_seconds: float) -> tuple[Preemption, ...]:
    """The Events about placeholders of known sets: a pod that has gone is known by its name alone, NAME-HASH-RANDOM."""
    preemptions = []
    for event in events:
        at_seconds = event.created_at_seconds if event.event_time is None else event.event_time.timestamp()
        if event.reason != PREEMPTED or event.regarding.kind != "Pod" or at_seconds <= now_seconds - HOUR_SECONDS:
            continue
        owner = next((one for one in owners if _was_created(one, event)), None)
        if owner is not None:
            on_node = _ON_NODE.search(event.note)  # "Preempted by pod UID on node NAME": the Event has no field for it
            node = on_node[1] if on_node else ""
            preemptions.append(Preemption(at_seconds, owner, event.regarding.name, node, *_preemptor(event)))
    return tuple(sorted(preemptions, reverse=True))


def _was_created(owner: Owner, event: Event) -> bool:
    pattern = rf"{re.escape(owner.name)}-[a-z0-9]{{1,10}}-[a-z0-9]{{5}}"
    return event.regarding.namespace == owner.namespace and re.fullmatch(pattern, event.regarding.name) is not None


def _preemptor(event: Event) -> tuple[str, str]:
    """Name and uid. kube-scheduler 1.36 leaves `related` empty (its preemptor has a type that it cannot refer to), and
    only the note has the uid; older ones have it in `related`.
    """
    if event.related is not None:
        return f"{event.related.namespace}/{event.related.name}", event.related.uid
    match = _BY_UID.search(event.note)
    return "", match[1] if match else ""
