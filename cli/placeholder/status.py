"""`evenload placeholder status`: the room held, per node and in all, what waits, and what was preempted lately.

It lists the placeholder pods and kube-scheduler's Events about them, both in one namespace (or in all with -A), and
needs no other right (deploy/rbac/placeholder.yaml). `holding` makes the figures.
"""

import collections
from typing import Any, Final

import click

from cli.common import api_types, output
from cli.placeholder import choice, holding
from cli.placeholder.holding import Holding, Room
from kube import config, door, errors, kinds
from runtime import clock, exit_codes

HEADERS: Final = ("node", "held", "waiting", "preempted/1h", "cpu", "memory")
WIDE_HEADERS: Final = ("set", "preset", "priority", *HEADERS, "other")
WHOLE_CLUSTER: Final = "*"


@click.command("status", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-n", "--namespace", default=choice.NAMESPACE, show_default=True, metavar="NAME", help="Where they are.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Wherever they are.")
@click.option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config, else in-cluster.")
@click.option("--context", metavar="NAME", help="A context of the kubeconfig.")
@click.option("--no-headers", is_flag=True, help="Rows only.")
@output.option("table", "wide", "json", "yaml")
def main(namespace: str, output_format: str, *, all_namespaces: bool, no_headers: bool, **cluster: Any) -> None:
    """Show how much room placeholders hold, how many wait, and how many made way in the last hour.

    Reads only. -o wide has rows for each set of placeholders. Exit code 0: all hold room; 1: there are none, or some
    wait for a node; 4: Events could not be read, so how many made way is not known.

    \b
    Examples:
      evenload placeholder status
      evenload placeholder status -A -o wide
      evenload placeholder status -o json | jq .waiting
    """
    where = "" if all_namespaces else namespace
    now_seconds = clock.WallClock().now()
    with exit_codes.reported(errors.KubeError, codes=output.REFUSAL_CODES):
        status, refused = read(config.connect(**cluster), where, now_seconds)
    if output_format in ("json", "yaml"):
        output.data(output.structured(document(status, now_seconds), output_format))
    elif status.sets:
        wide = output_format == "wide"
        output.data(output.table(*(_wide(status) if wide else _narrow(status)), no_headers=no_headers))
    for remark in remarks(status, refused, where, now_seconds):
        output.say(remark)
    known = exit_codes.Exit.PARTIAL if status.preemptions is None else exit_codes.Exit.OK
    raise SystemExit(int(exit_codes.Exit.FINDINGS if status.short else known))


def read(kube: door.KubeDoor, namespace: str, now_seconds: float) -> tuple[Holding, str]:
    """The room held in a namespace ("": in all), and why Events were not read, "" when they were."""
    pods = kube.list(kinds.PODS, namespace=namespace, label_selector=holding.SELECTOR).items
    try:
        selector = f"reason={holding.PREEMPTED}"
        events = kube.list(kinds.EVENTS, namespace=namespace, field_selector=selector).items
    except errors.Forbidden as error:
        return holding.holding(pods, None, now_seconds), error.message
    return holding.holding(pods, events, now_seconds), ""


def document(held_room: Holding, now_seconds: float) -> dict[str, Any]:
    """The figures with units in their names; null is what is not known."""
    waiting = held_room.waiting_since_seconds
    return {
        "at": clock.to_rfc3339(now_seconds),
        **_room(holding.total(room for one in held_room.sets for room in one.nodes.values())),
        "waiting": len(waiting),
        "longest_waiting_seconds": round(now_seconds - waiting[0]) if waiting else None,
        "preempted_last_hour": held_room.preempted(),
        "nodes": [
            {"node": node, **_room(room), "preempted_last_hour": held_room.preempted(node=node)}
            for node, room in held_room.rooms.items()
        ],
        "sets": [_set(one, held_room.preempted(one.owner)) for one in held_room.sets],
        "preemptions": None if held_room.preemptions is None else [_preemption(one) for one in held_room.preemptions],
    }


def _set(group: holding.Set, preempted: int | None) -> dict[str, Any]:
    return {
        "namespace": group.owner.namespace,
        "name": group.owner.name,
        "preset": group.preset or None,
        "priority": group.priority,
        **_room(holding.total(group.nodes.values())),
        "waiting": len(group.waiting_since_seconds),
        "preempted_last_hour": preempted,
        "nodes": [{"node": node, **_room(room)} for node, room in group.nodes.items()],
    }


def _preemption(preemption: holding.Preemption) -> dict[str, Any]:
    return {
        "at": clock.to_rfc3339(preemption.at_seconds),
        "namespace": preemption.owner.namespace,
        "set": preemption.owner.name,
        "placeholder": preemption.placeholder,
        "node": preemption.node or None,
        "by": preemption.preemptor or None,
        "by_uid": preemption.preemptor_uid or None,
    }


def _room(room: Room) -> dict[str, Any]:
    requests = room.requests
    figures = {"cpu_millicores": requests.cpu_millicores, "memory_bytes": requests.memory_bytes}
    return {"held": room.held, **figures, "other": dict(requests.extended)}


def _narrow(held_room: Holding) -> tuple[tuple[str, ...], list[list[object]]]:
    """A row for the cluster, then one for each node."""
    rooms = held_room.rooms
    rows = [_row(node, room, held_room.preempted(node=node)) for node, room in rooms.items()]
    waiting = len(held_room.waiting_since_seconds)
    whole = _row(WHOLE_CLUSTER, holding.total(rooms.values()), held_room.preempted(), waiting)
    return HEADERS, [row[:-1] for row in (whole, *rows)]


def _wide(held_room: Holding) -> tuple[tuple[str, ...], list[list[object]]]:
    """Returns the table with one row per set."""
    rows: list[list[object]] = []
    for one in held_room.sets:
        lead = [str(one.owner), one.preset or "-", one.priority]
        room = holding.total(one.nodes.values())
        whole = _row(WHOLE_CLUSTER, room, held_room.preempted(one.owner), len(one.waiting_since_seconds))
        nodes = [_row(node, room, held_room.preempted(one.owner, node)) for node, room in one.nodes.items()]
        rows += [[*lead, *row] for row in (whole, *nodes)]
    return WIDE_HEADERS, rows


def _row(node: str, room: Room, preempted: int | None, waiting: int | str = api_types.MISSING) -> list[object]:
    """A row of the table; those that wait are on no node."""
    requests = room.requests
    other = ", ".join(f"{name} {amount:g}" for name, amount in requests.extended.items())
    amounts = [f"{requests.cpu_millicores:.0f}m", api_types.mebibytes(requests.memory_bytes), other or "-"]
    return [node, room.held, waiting, api_types.MISSING if preempted is None else preempted, *amounts]


def remarks(held_room: Holding, refused: str, namespace: str, now_seconds: float) -> list[str]:
    """Returns remarks on the figures and the next step, for stderr."""
    if not held_room.sets:
        where = f"in {namespace} (-A looks everywhere)" if namespace else "in any namespace"
        return [f"no placeholders {where}; next: {output.program()} placeholder render | kubectl apply -f -"]
    rows = []
    waiting = held_room.waiting_since_seconds
    preemptors = collections.Counter(one.preemptor for one in held_room.preemptions or () if one.preemptor)
    if preemptors:
        rows.append(f"made way for {api_types.few(name for name, _ in preemptors.most_common())}")
    if refused:
        rows.append(f"how many made way is not known: {refused}; deploy/rbac/placeholder.yaml has the right to read it")
    if waiting:
        age = api_types.age(now_seconds - waiting[0])
        rows.append(f"{len(waiting)} wait, the longest for {age}; next: kubectl describe one to see what it waits for")
    return rows
