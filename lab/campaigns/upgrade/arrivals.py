"""New pods that arrive all the time, each deleted once it is bound: the load on kube-scheduler and the extenders."""

import collections
import contextlib
import threading
import time
from typing import Any, Final

from lab.campaigns.chaos import sabotages
from lab.cluster import api
from tests.e2e import bodies

PODS: Final = "api/v1/namespaces/default/pods"
EVENTS: Final = "apis/events.k8s.io/v1/namespaces/default/events"
NAME: Final = "arrival-"
EVERY_SECONDS: Final = 0.2
BOUND_SECONDS: Final = 30.0


class Arrivals:
    """A thread that creates pods; `bound` counts those that were placed, `late` are sentences about the others."""

    def __init__(self, client: api.Api, *, every_seconds: float = EVERY_SECONDS) -> None:
        self.bound = 0
        self.late: list[str] = []
        self._api = client
        self._every_seconds = every_seconds
        self._waiting: collections.OrderedDict[str, float] = collections.OrderedDict()  # since when (monotonic)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._arrive)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def end(self) -> None:
        """Ends, and looks once more at what waits."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def failures(self) -> list[str]:
        """Returns the notes of kube-scheduler about pods that it could not place, of arrivals and canaries alike."""
        names = (NAME, sabotages.CANARY, sabotages.BUDGETED)
        failed = [one for one in self._api.items(EVENTS) if one["reason"] == "FailedScheduling"]
        return [
            f"{one['regarding']['name']}: {one['note']}" for one in failed if one["regarding"]["name"].startswith(names)
        ]

    def _arrive(self) -> None:
        number = 0
        while not self._stop.wait(self._every_seconds):
            name, number = f"{NAME}{number}", number + 1
            self._api.create(PODS, bodies.pod(name, labels={"arrival": "yes"}))
            self._waiting[name] = time.monotonic()
            if number % 5 == 0:
                self._look()
        limit = time.monotonic() + BOUND_SECONDS
        while self._waiting and time.monotonic() < limit:
            self._look()
            time.sleep(EVERY_SECONDS)
        self.late += [f"{name} was not bound after {BOUND_SECONDS:g} s" for name in self._waiting]

    def _look(self) -> None:
        pods: dict[str, dict[str, Any]] = {
            pod["metadata"]["name"]: pod for pod in self._api.items(PODS, labelSelector="arrival=yes")
        }
        for name, since in list(self._waiting.items()):
            if pods.get(name, {}).get("spec", {}).get("nodeName"):
                del self._waiting[name]
                self.bound += 1
                with contextlib.suppress(api.ApiError):
                    self._api.delete(f"{PODS}/{name}")
            elif time.monotonic() - since > BOUND_SECONDS:
                del self._waiting[name]
                self.late.append(f"{name} was not bound after {BOUND_SECONDS:g} s")
