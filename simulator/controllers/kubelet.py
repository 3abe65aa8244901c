"""The kubelets of all nodes: a bound pod runs after a while, a deleted one ends after a while.

Subscribes to the simulated apiserver's pods; nothing is asked of it but `finish`, with which a Job's pod is done.
Containers never fail and images are always there: what is modelled is how long things take, not what goes wrong.
"""

import functools
from typing import Any

from kube import errors, kinds
from kube.objects import Pod
from runtime import clock as clocks
from simulator.apiserver import ApiServer
from simulator.controllers.later import Later

STARTED = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
DONE = ("Ready", "ContainersReady")


class Kubelet:
    """`start_seconds` from binding to Ready; `grace_seconds` from deletion to the end, the pod's own grace at most."""

    def __init__(
        self,
        api: ApiServer,
        clock: clocks.Clock,
        later: Later,
        *,
        start_seconds: float = 0.0,
        grace_seconds: float = 0.0,
    ) -> None:
        self._api = api
        self._door = api.door(waits=False)
        self._clock = clock
        self._later = later
        self._start_seconds = start_seconds
        self._grace_seconds = grace_seconds
        api.subscribe(kinds.PODS, self._changed)

    def finish(self, pod: Pod) -> None:
        """Its containers have done their work and exited with 0."""
        conditions = [_condition(one.type, one.status, self._stamp()) for one in pod.status.conditions]
        self._report(
            pod, "Succeeded", [{**one, "status": "False"} if one["type"] in DONE else one for one in conditions]
        )

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or not new.node_name:
            return
        if old is None or not old.node_name:
            self._later.after(self._start_seconds, functools.partial(self._start, new))
        if new.deleting and (old is None or not old.deleting):
            grace_seconds = min(self._grace_seconds, new.deletion_grace_seconds or 0.0)
            self._later.after(grace_seconds, functools.partial(self._end, new))

    def _start(self, pod: Pod) -> None:
        current = self._same(pod)
        if current is None or current.deleting or current.phase != "Pending":
            return
        scheduled = [_condition(one.type, one.status, _text(one)) for one in current.status.conditions]
        begun = [_condition(name, "True", self._stamp()) for name in STARTED]
        self._report(current, "Running", [*begun, *scheduled])

    def _end(self, pod: Pod) -> None:
        if self._same(pod) is not None:
            self._api.remove(kinds.PODS, pod.name, namespace=pod.namespace)

    def _report(self, pod: Pod, phase: str, conditions: list[dict[str, Any]]) -> None:
        status = {"phase": phase, "qosClass": pod.qos_class, "conditions": conditions}
        started = pod.started_at_seconds
        status["startTime"] = self._stamp() if started is None else clocks.to_rfc3339(started)
        self._api.rewrite(kinds.PODS, pod.name, {"status": status}, namespace=pod.namespace)

    def _same(self, pod: Pod) -> Pod | None:
        """The pod as it is now; None where it is gone, or another one has its name."""
        try:
            current = self._door.get(kinds.PODS, pod.name, namespace=pod.namespace)
        except errors.NotFound:
            return None
        return current if current.uid == pod.uid else None

    def _stamp(self) -> str:
        return clocks.to_rfc3339(self._clock.now())


def _condition(type_: str, status: str, since: str) -> dict[str, Any]:
    return {"type": type_, "status": status, "lastTransitionTime": since}


def _text(condition: Any) -> str:
    return clocks.to_rfc3339(condition.last_transition_time.timestamp())
