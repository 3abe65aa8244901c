"""Nodes that pods of a Deployment make hot, which is placed there and then set free, and the plan about them."""

import collections.abc
import itertools
from collections.abc import Callable
from typing import Any, Final

from kube import kinds, objects
from runtime.exit_codes import Exit
from tests import commands
from tests.e2e import bodies, stack, waiting

PODS = 4
_OPEN: Final = itertools.count()


def labelled(evenload: stack.Stack, node: str, labels: collections.abc.Mapping[str, str | None]) -> None:
    """Gives a node labels; None takes one away."""
    evenload.door.merge_patch(kinds.NODES, node, {"metadata": {"labels": dict(labels)}})


def filled(
    evenload: stack.Stack,
    name: str,
    node: str,
    shape: bodies.PodOptions,
    *,
    replicas: int = PODS,
    kind: kinds.Kind[Any] = kinds.DEPLOYMENTS,
) -> dict[str, objects.Pod]:
    """Returns the pods, by uid, of a Deployment (or `kind`) that stand on one node and may go to any.

    They want a label that only that node has at first, which holds however far behind the scheduler's view of the nodes
    is. It is new each time: other nodes still have the one of an earlier test.
    """
    label = {f"e2e.evenload.io/open-{next(_OPEN)}": "yes"}
    labelled(evenload, node, label)
    selected: bodies.PodOptions = {**shape, "node_selector": label}
    body = {**bodies.deployment(name, replicas, **selected), "apiVersion": kind.api_version, "kind": kind.name}
    evenload.door.create(kind, body, namespace=stack.NAMESPACE)

    def ready() -> list[objects.Pod]:
        pods = [pod for pod in evenload.pods(f"{name}-") if pod.ready]
        return pods if len(pods) == replicas else []

    pods = waiting.until(ready, f"the pods of {name} to be ready")
    for other in evenload.nodes():
        labelled(evenload, other, label)
    return {pod.uid: pod for pod in pods}


def plan(evenload: stack.Stack) -> dict[str, Any]:
    """The plan of this moment, as the command prints it."""
    return commands.document("plan", "--descheduler", evenload.descheduler.url, codes=(Exit.OK,))


def await_events(evenload: stack.Stack, reason: str, enough: Callable[[list[str]], bool]) -> list[str]:
    """Returns the notes of our Events with this reason once they are `enough`: they come after the ledger's row."""

    def notes() -> list[str]:
        events = evenload.door.list(kinds.EVENTS, namespace="", field_selector=f"reason={reason}").items
        return [event.note for event in events]

    waiting.until(lambda: enough(notes()), f"enough Events {reason}", notes)
    return notes()
