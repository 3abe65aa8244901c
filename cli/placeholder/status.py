"""`evenload placeholder status`: the room held, per node and in all, what waits, and what was preempted lately.

It lists the placeholder pods and kube-scheduler's Events about them, both in one namespace (or in all with -A), and
needs no other right (deploy/rbac/placeholder.yaml). A set is the Deployment that made the pods. Preemptions are known
from those Events alone (reason Preempted, regarding the victim): the victims themselves are gone at once, and the
scheduler's metric counts victims of all kinds. The apiserver keeps Events for an hour (--event-ttl), so the count is of
the last hour at most, and too low where they are kept for less. With --as buffers the room is what an autoscaler says
in the status of CapacityBuffers.
"""

import collections
import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import click

from cli.common import api_types, output
from cli.placeholder import buffers, choice
from kube import config, door, errors, kinds
from kube.objects import NOTHING, Event, Pod, Resources
from kube.pods import compact, pod_view
from runtime import clock, exit_codes

HEADERS: Final = ("node", "held", "waiting", "preempted/1h", "cpu", "memory")
WIDE_HEADERS: Final = ("set", "preset", "priority", *HEADERS, "other")
WHOLE_CLUSTER: Final = buffers.ANYWHERE
SELECTOR: Final = f"{compact.PLACEHOLDER_LABEL}=true"
PREEMPTED: Final = "Preempted"  # kube-scheduler's reason (pkg/scheduler/framework/preemption)
HOUR_SECONDS: Final = 3600.0
_ON_NODE: Final = re.compile(r" on node ([a-z0-9][-a-z0-9.]*[a-z0-9]|[a-z0-9])")
_BY_UID: Final = re.compile(r" by \S+ ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")


class Room(NamedTuple):
    """Requests of some placeholders together, and their number."""

    held: int
    requests: Resources


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
class Holding:
    """The placeholders of each set, and the preemptions of the last hour, the newest first; None where Events could not
    be read.
    """

    sets: dict[Owner, list[Pod]]
    preemptions: tuple[Preemption, ...] | None

    @property
    def pods(self) -> list[Pod]:
        """The placeholders of all sets."""
        return [pod for pods in self.sets.values() for pod in pods]

    @property
    def short(self) -> bool:
        """Whether room is missing: no placeholders at all, or some that order nodes and wait."""
        return not self.sets or any(preset(pods) != "soak" and waiting(pods) for pods in self.sets.values())

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
        return rooms(self.pods, [one.node for one in self.preemptions or () if one.node])


@click.command("status", context_settings={"help_option_names": ["-h", "--help"]})
@choice.form_option
@click.option("-n", "--namespace", default=choice.NAMESPACE, show_default=True, metavar="NAME", help="Where they are.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Wherever they are.")
@click.option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config, else in-cluster.")
@click.option("--context", metavar="NAME", help="A context of the kubeconfig.")
@click.option("--no-headers", is_flag=True, help="Rows only.")
@output.option("table", "wide", "json", "yaml")
def main(namespace: str, output_format: str, *, all_namespaces: bool, no_headers: bool, **cluster: Any) -> None:
    """Show the room that placeholders hold.

    It counts those that wait, and that made way in the last hour, too. Reads only. -o wide has rows for each set of
    placeholders. Exit code 0: all hold room; 1: there are none, or some wait for a node; 4: Events could not be read,
    so how many made way is not known.

    \b
    Examples:
      evenload placeholder status
      evenload placeholder status -A -o wide
      evenload placeholder status -o json | jq .waiting
    """
    where, form = "" if all_namespaces else namespace, cluster.pop("form")
    now_seconds = clock.WallClock().now()
    with exit_codes.reported(errors.KubeError, codes=output.REFUSAL_CODES):
        kube = config.connect(**cluster)
        if form == "buffers":
            listed = buffers.read(kube, where)
            status, rows = buffered(listed), [one.remark() for one, _ in listed if one.provided < one.spec.replicas]
        else:
            status, refused = read(kube, where, now_seconds)
            rows = remarks(status, refused, now_seconds)
    if output_format in ("json", "yaml"):
        output.data(output.structured(document(status, now_seconds), output_format))
    elif status.sets:
        wide = output_format == "wide"
        output.data(output.table(*(_wide(status) if wide else _narrow(status)), no_headers=no_headers))
    for remark in rows if status.sets else [absent(where, form)]:
        output.say(remark)
    known = exit_codes.Exit.PARTIAL if status.preemptions is None else exit_codes.Exit.OK
    raise SystemExit(int(exit_codes.Exit.FINDINGS if status.short else known))


def read(kube: door.KubeDoor, namespace: str, now_seconds: float) -> tuple[Holding, str]:
    """The room held in a namespace ("": in all), and why Events were not read, "" when they were."""
    pods = kube.list(kinds.PODS, namespace=namespace, label_selector=SELECTOR).items
    try:
        selector = f"reason={PREEMPTED}"
        events = kube.list(kinds.EVENTS, namespace=namespace, field_selector=selector).items
    except errors.Forbidden as error:
        return holding(pods, None, now_seconds), error.message
    return holding(pods, events, now_seconds), ""


def holding(pods: Iterable[Pod], events: Iterable[Event] | None, now_seconds: float) -> Holding:
    """Adds up the pods and Events of a moment (Unix seconds); `events` None: they could not be read."""
    by_owner: dict[Owner, list[Pod]] = collections.defaultdict(list)
    for pod in pods:
        if pod.labels.get(compact.PLACEHOLDER_LABEL) == "true" and not (pod.finished or pod.deleting):
            by_owner[owner_of(pod)].append(pod)
    sets = dict(sorted(by_owner.items()))
    return Holding(sets, None if events is None else _preemptions(events, list(sets), now_seconds))


def buffered(listed: Iterable[tuple[buffers.CapacityBuffer, Pod]]) -> Holding:
    """The buffers, each with its template, as the pods that they stand for; none of those can be preempted."""
    sets = {Owner(one.namespace, one.name): one.pods(template) for one, template in listed}
    return Holding({owner: pods for owner, pods in sets.items() if pods}, ())


def owner_of(pod: Pod) -> Owner:
    """The Deployment behind a pod, as the ReplicaSet's name tells; else the owner itself, or the pod."""
    return Owner(pod.namespace, pod_view.workload(pod)[1] or pod.name)


def preset(pods: Iterable[Pod]) -> str:
    """The preset of a set, "" where its pods do not say it."""
    return _first(pods).annotations.get(compact.PRESET_ANNOTATION, "")


def _first(pods: Iterable[Pod]) -> Pod:
    return min(pods, key=lambda pod: pod.name)


def waiting(pods: Iterable[Pod]) -> list[float]:
    """The creation times (Unix seconds) of those that wait, the longest first."""
    return sorted(pod.created_at_seconds for pod in pods if not pod.node_name)


def room(pods: Iterable[Pod]) -> Room:
    """The room that placeholders hold on nodes."""
    requests = [pod.requests for pod in pods if pod.node_name]
    return Room(len(requests), functools.reduce(Resources.plus, requests, NOTHING))


def rooms(pods: Iterable[Pod], lost: Iterable[str] = ()) -> dict[str, Room]:
    """The room on each node, and on those that lost theirs."""
    by_node: dict[str, list[Pod]] = {node: [] for node in lost}
    for pod in pods:
        by_node.setdefault(pod.node_name, []).append(pod)
    return {node: room(by_node[node]) for node in sorted(by_node) if node not in ("", buffers.ANYWHERE)}


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


def document(held_room: Holding, now_seconds: float) -> dict[str, Any]:
    """The figures with units in their names; null is what is not known."""
    waiting_since_seconds = waiting(held_room.pods)
    return {
        "at": clock.to_rfc3339(now_seconds),
        **_room(room(held_room.pods)),
        "waiting": len(waiting_since_seconds),
        "longest_waiting_seconds": round(now_seconds - waiting_since_seconds[0]) if waiting_since_seconds else None,
        "preempted_last_hour": held_room.preempted(),
        "nodes": [
            {"node": node, **_room(one), "preempted_last_hour": held_room.preempted(node=node)}
            for node, one in held_room.rooms.items()
        ],
        "sets": [_set(owner, pods, held_room.preempted(owner)) for owner, pods in held_room.sets.items()],
        "preemptions": None if held_room.preemptions is None else [_preemption(one) for one in held_room.preemptions],
    }


def _set(owner: Owner, pods: Sequence[Pod], preempted: int | None) -> dict[str, Any]:
    return {
        "namespace": owner.namespace,
        "name": owner.name,
        "preset": preset(pods) or None,
        "priority": _first(pods).spec.priority,
        **_room(room(pods)),
        "waiting": len(waiting(pods)),
        "preempted_last_hour": preempted,
        "nodes": [{"node": node, **_room(one)} for node, one in rooms(pods).items()],
    }


def _preemption(preemption: Preemption) -> dict[str, Any]:
    return {
        "at": clock.to_rfc3339(preemption.at_seconds),
        "namespace": preemption.owner.namespace,
        "set": preemption.owner.name,
        "placeholder": preemption.placeholder,
        "node": preemption.node or None,
        "by": preemption.preemptor or None,
        "by_uid": preemption.preemptor_uid or None,
    }


def _room(figures: Room) -> dict[str, Any]:
    held, requests = figures
    amounts = {"cpu_millicores": requests.cpu_millicores, "memory_bytes": requests.memory_bytes}
    return {"held": held, **amounts, "other": dict(requests.extended)}


def _narrow(held_room: Holding) -> tuple[tuple[str, ...], list[list[object]]]:
    """A row for the cluster, then one for each node."""
    pods = held_room.pods
    whole = _row(WHOLE_CLUSTER, room(pods), held_room.preempted(), len(waiting(pods)))
    rows = [_row(node, one, held_room.preempted(node=node)) for node, one in held_room.rooms.items()]
    return HEADERS, [row[:-1] for row in (whole, *rows)]


def _wide(held_room: Holding) -> tuple[tuple[str, ...], list[list[object]]]:
    """Returns the table with one row per set."""
    rows: list[list[object]] = []
    for owner, pods in held_room.sets.items():
        lead = [str(owner), preset(pods), _first(pods).spec.priority]
        whole = _row(WHOLE_CLUSTER, room(pods), held_room.preempted(owner), len(waiting(pods)))
        nodes = [_row(node, one, held_room.preempted(owner, node)) for node, one in rooms(pods).items()]
        rows += [[*lead, *row] for row in (whole, *nodes)]
    return WIDE_HEADERS, rows


def _row(node: str, figures: Room, preempted: int | None, count: int | str = api_types.MISSING) -> list[object]:
    """A row of the table; those that wait are on no node, and counted for the whole alone."""
    held, requests = figures
    other = ", ".join(f"{name} {amount:g}" for name, amount in requests.extended.items())
    amounts = [f"{requests.cpu_millicores:.0f}m", api_types.mebibytes(requests.memory_bytes), other or "-"]
    return [node, held, count, api_types.MISSING if preempted is None else preempted, *amounts]


def remarks(held_room: Holding, refused: str, now_seconds: float) -> list[str]:
    """Returns remarks on the figures and the next step, for stderr."""
    rows = []
    since_seconds = waiting(held_room.pods)
    preemptors = collections.Counter(one.preemptor for one in held_room.preemptions or () if one.preemptor)
    if preemptors:
        rows.append(f"made way for {api_types.few(name for name, _ in preemptors.most_common())}")
    if refused:
        rows.append(f"how many made way is not known: {refused}; deploy/rbac/placeholder.yaml has the right to read it")
    if since_seconds:
        age = api_types.age(now_seconds - since_seconds[0])
        rows.append(f"{len(since_seconds)} wait, the longest for {age}; next: kubectl describe pod NAME -n NAMESPACE")
    return rows


def absent(namespace: str, form: choice.Form) -> str:
    """The remark where a namespace ("": any) has no placeholders of that form, with the next step."""
    where = f"in {namespace} (-A looks everywhere)" if namespace else "in any namespace"
    step = f"{output.program()} placeholder render --as {form} | kubectl apply -f -"
    return f"no placeholders as {form} {where}; next: {step}"
