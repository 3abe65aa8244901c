"""Nodes that become hot by pods which may go elsewhere later (a Deployment placed on one node and then set free), and
the plan about them.
"""

import collections.abc
from collections.abc import Callable
from typing import Any, Final

from kube import kinds, objects
from runtime.exit_codes import Exit
from tests import commands
from tests.e2e import bodies, stack, waiting

PODS = 4
EVENT_SECONDS: Final = 90.0


def labelled(evenload: stack.Stack, node: str, labels: collections.abc.Mapping[str, str | None]) -> None:
    """Gives a node labels; None takes one away."""
    evenload.door.merge_patch(kinds.NODES, node, {"metadata": {"labels": dict(labels)}})


def filled(evenload: stack.Stack, name: str, node: str, shape: bodies.PodOptions) -> dict[str, objects.Pod]:
    """Returns the pods, by uid, of a Deployment that stand on one node and may go to any."""
    label = f"e2e.evenload.io/{name}"
    labelled(evenload, node, {label: "yes"})
    selected: bodies.PodOptions = {**shape, "node_selector": {label: "yes"}}
    body = bodies.deployment(name, PODS, **selected)
    evenload.door.create(kinds.DEPLOYMENTS, body, namespace=stack.NAMESPACE)

    def ready() -> list[objects.Pod]:
        pods = [pod for pod in evenload.pods(f"{name}-") if pod.ready]
        return pods if len(pods) == PODS else []

    pods = waiting.until(ready, f"the pods of {name} to be ready")
    for other in evenload.nodes():
        labelled(evenload, other, {label: "yes"})
    return {pod.uid: pod for pod in pods}


def plan(evenload: stack.Stack) -> dict[str, Any]:
    """The plan of this moment, as the command prints it."""
    return commands.document("plan", "--descheduler", evenload.descheduler.url, codes=(Exit.OK,))


def await_events(evenload: stack.Stack, reason: str, enough: Callable[[list[str]], bool]) -> list[str]:
    """Returns the notes of our Events with this reason, of pods, owners and nodes, once they are `enough`.

    A row of the ledger says that a pod was evicted before its Events are written.
    """

    def notes() -> list[str]:
        events = evenload.door.list(kinds.EVENTS, namespace="", field_selector=f"reason={reason}").items
        return [event.note for event in events]

    waiting.eventually(lambda: enough(notes()), EVENT_SECONDS, f"enough Events {reason}", notes)
    return notes()
