"""Nodes that become hot by pods which may go elsewhere later: a Deployment placed on one node and then set free."""

import collections.abc

from kube import kinds, objects
from tests.e2e import bodies, stack, waiting

PODS = 4


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

    pods = waiting.eventually(ready, 90, f"the pods of {name} to be ready")
    for other in evenload.nodes():
        labelled(evenload, other, {label: "yes"})
    return {pod.uid: pod for pod in pods}
