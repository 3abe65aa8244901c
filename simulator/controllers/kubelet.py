"""The kubelets of all nodes: a bound pod runs after a while, a deleted one ends after a while.

Subscribes to the simulated apiserver's pods; nothing is asked of it but `finish`, with which a Job's pod is done.
Containers never fail and images are always there: what is modelled is how long things take, not what goes wrong.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from kube import kinds
from kube.objects import Pod
from simulator.apiserver import ApiServer
from simulator.kernel import Kernel

Condition = dict[str, str]
STARTED = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
SERVING = ("Ready", "ContainersReady")


class Kubelet:
    """`start_seconds` from binding to Ready; `grace_seconds` from deletion to the end, the pod's own grace at most."""

    def __init__(
        self, api: ApiServer, kernel: Kernel, *, start_seconds: float = 0.0, grace_seconds: float = 0.0
    ) -> None:
        self._api = api
        self._kernel = kernel
        self._start_seconds = start_seconds
        self._grace_seconds = grace_seconds
        api.subscribe(kinds.PODS, self._changed)

    def finish(self, pod: Pod) -> None:
        """Its containers have done their work and exited with 0; nothing happens where the pod is gone."""
        if body := self._body(pod):
            self._report(pod, body, _conditions(SERVING, "False", self._api.stamp), phase="Succeeded")

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or not new.node_name:
            return
        if old is None or not old.node_name:
            self._after(self._start_seconds, functools.partial(self._start, new))
        if new.deleting and (old is None or not old.deleting):
            grace_seconds = min(self._grace_seconds, new.metadata.deletion_grace_period_seconds or 0)
            self._after(grace_seconds, functools.partial(self._end, new))

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        """Without a while to wait, it has happened when the call returns that caused it."""
        if seconds > 0:
            self._kernel.after(seconds, action)
        else:
            action()

    def _start(self, pod: Pod) -> None:
        body = self._body(pod)
        if not body or "deletionTimestamp" in body["metadata"] or body["status"]["phase"] != "Pending":
            return
        now = self._api.stamp
        self._report(pod, body, _conditions(STARTED, "True", now), phase="Running", startTime=now)

    def _end(self, pod: Pod) -> None:
        if self._body(pod):
            self._api.remove(kinds.PODS, pod.name, namespace=pod.namespace)

    def _report(self, pod: Pod, body: Mapping[str, Any], changed: tuple[Condition, ...], **fields: str) -> None:
        """Write the status: these conditions beside the others that the pod has."""
        types = [one["type"] for one in changed]
        others = [one for one in body["status"].get("conditions", ()) if one["type"] not in types]
        status = {**body["status"], **fields, "conditions": [*changed, *others]}
        self._api.rewrite(kinds.PODS, pod.name, {"status": status}, namespace=pod.namespace)

    def _body(self, pod: Pod) -> Mapping[str, Any]:
        """The pod as it is now; empty where it is gone, or another one has its name."""
        body = self._api.body(kinds.PODS, pod.name, namespace=pod.namespace)
        return body if body and body["metadata"]["uid"] == pod.uid else {}


@functools.lru_cache(maxsize=64)  # pods come and go in crowds
def _conditions(types: tuple[str, ...], status: str, since: str) -> tuple[Condition, ...]:
    return tuple([{"type": one, "status": status, "lastTransitionTime": since} for one in types])
