"""Placeholders hold room for a burst: the real kube-scheduler preempts them and the burst starts at once.

The manifests are the shipped ones of deploy/placeholder, applied as they are; only the number of replicas is set so
that they fill what is free.
"""

import collections.abc
import pathlib

import pytest
import yaml

from kube import errors, kinds, objects
from tests.e2e import bodies, policies, stack, waiting

pytestmark = pytest.mark.cluster
MANIFESTS = pathlib.Path(__file__).parents[2] / "deploy" / "placeholder"
PLACEHOLDER = "evenload.io/placeholder=true"
BURST: bodies.PodOptions = {"cpu_request": "600m", "memory_request": "512Mi", "priority_class": "high-priority"}
FITTING = 26  # of 300 millicores each, on a node of 8 cores
# As docs/placeholder.md says to: with it a burst may be left waiting (kubernetes/kubernetes#141694).
GATES = {"SchedulerAsyncPreemption": False}


@pytest.fixture
def full() -> collections.abc.Iterator[stack.Stack]:
    """Three nodes whose free room is all held by placeholders, Evenload's extender in charge."""
    with stack.started(3, policies.write, GATES) as running:
        running.start(running.annotator, running.extender)
        running.use_extender()
        waiting.eventually(lambda: len(running.readings()) == 3, 90, "three annotated nodes")
        apply(running, replicas=3 * FITTING + 6)
        waiting.eventually(lambda: len(placeholders(running, pending=False)) == 3 * FITTING, 90, "the nodes to be full")
        waiting.eventually(lambda: admits_burst(running), 90, "pods of the burst's priority class to be admitted")
        yield running


def apply(running: stack.Stack, *, replicas: int) -> None:
    """Creates every object of the shipped manifests in the namespace of the tests."""
    for path in sorted(MANIFESTS.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if document["kind"] == "PriorityClass":
                running.door.create(kinds.PRIORITY_CLASSES, document)
            elif document["kind"] == "Deployment":
                document["spec"]["replicas"] = replicas
                document["metadata"]["namespace"] = stack.NAMESPACE
                running.door.create(kinds.DEPLOYMENTS, document, namespace=stack.NAMESPACE)


def admits_burst(running: stack.Stack) -> bool:
    """Whether the apiserver would take a pod of the burst: its admission learns of a new class by a watch."""
    try:
        running.door.create(kinds.PODS, bodies.pod("burst", **BURST), namespace=stack.NAMESPACE, dry_run=True)
    except errors.Forbidden:
        return False
    return True


def placeholders(running: stack.Stack, *, pending: bool) -> list[objects.Pod]:
    """The living placeholder pods, either those that wait or those that hold room."""
    pods = running.door.list(kinds.PODS, namespace=stack.NAMESPACE, label_selector=PLACEHOLDER).items
    return [pod for pod in pods if not pod.deleting and bool(pod.node_name) is not pending]


def test_a_high_priority_burst_takes_the_placeholders_room_and_starts_at_once(full: stack.Stack) -> None:
    held_before = len(placeholders(full, pending=False))
    full.create_pods("burst-", 8, **BURST)
    full.placed("burst-", 8)
    waiting.eventually(lambda: all(pod.ready for pod in full.pods("burst-")), 90, "the burst to run")
    assert len(placeholders(full, pending=False)) < held_before
    waiting.eventually(lambda: len(placeholders(full, pending=True)) >= 8, 90, "the displaced placeholders to wait")


def test_a_burst_does_not_kill_placeholders_on_a_node_that_stays_hot(full: stack.Stack) -> None:
    full.heat("node-0", cpu_ratio=0.9)
    held = {pod.uid for pod in placeholders(full, pending=False) if pod.node_name == "node-0"}
    assert held
    full.create_pods("burst-", 6, **BURST)
    landed = full.placed("burst-", 6)
    assert not [pod.name for pod in landed if pod.node_name == "node-0"]
    assert held == {pod.uid for pod in placeholders(full, pending=False) if pod.node_name == "node-0"}
