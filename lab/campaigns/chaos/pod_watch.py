"""Watches pods at the apiserver as it sends them, without a reader of ours, and notes each Ready pod that leaves."""

import contextlib
import threading
import time
from typing import Any, Final

from lab.campaigns.chaos.judging import Departure, Recorded
from lab.cluster import api

PODS: Final = "api/v1/namespaces/default/pods"
WATCH_SECONDS: Final = 30.0
AGAIN_SECONDS: Final = 0.5


class PodWatch:
    """Pods by uid with their workload and whether they are Ready; `departures` are in the order of the apiserver.

    While the apiserver is away nothing is seen: a pod that left meanwhile is no departure.
    """

    def __init__(self, client: api.Api) -> None:
        self.departures: list[Departure] = []
        self._places: dict[str, tuple[str, str]] = {}  # workload and node by uid, of all pods that there were
        self._api = client
        self._ready: dict[str, tuple[str, bool]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow)

    def start(self) -> None:
        """Begins, on a thread."""
        self._thread.start()

    def end(self) -> None:
        """Ends at the next event."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def uids(self, workload: str) -> set[str]:
        """The uids of all pods that the workload had."""
        return {uid for uid, (owner, _) in self._places.items() if owner == workload}

    def corrected(self, row: Recorded) -> Recorded:
        """The row with the workload and the node that its pod had; as it is, if the pod was not seen."""
        workload, node = self._places.get(row.pod_uid, (row.workload, row.node))
        return row._replace(workload=workload, node=node)

    def _follow(self) -> None:
        while not self._stop.wait(AGAIN_SECONDS):
            with contextlib.suppress(api.ApiError):
                listed = self._api.get(PODS)
                self._ready = {}
                for pod in listed["items"]:
                    self._note(pod, leaving=_is_leaving(pod))
                version = listed["metadata"]["resourceVersion"]
                for event in self._api.watch(PODS, resource_version=version, seconds=WATCH_SECONDS):
                    if event["type"] == "ERROR" or self._stop.is_set():
                        break
                    self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        """A Ready pod leaves when its deletion begins; the Ready ones beside it are those that stay."""
        pod = event["object"]
        uid = pod["metadata"]["uid"]
        leaving = event["type"] == "DELETED" or _is_leaving(pod)
        workload, was_ready = self._ready.get(uid, ("", False))
        self._note(pod, leaving=leaving)
        if was_ready and leaving:
            left = sum(ready for owner, ready in self._ready.values() if owner == workload)
            self.departures.append(Departure(workload, pod["metadata"]["name"], uid, left, time.time()))

    def _note(self, pod: dict[str, Any], *, leaving: bool) -> None:
        metadata = pod["metadata"]
        workload = metadata.get("labels", {}).get("app", "")
        self._places[metadata["uid"]] = workload, pod.get("spec", {}).get("nodeName", "")
        if leaving:
            self._ready.pop(metadata["uid"], None)
        else:
            self._ready[metadata["uid"]] = (workload, _is_ready(pod))


def _is_leaving(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
