"""Pods that arrive at a steady rate and go again after some minutes, as a cluster with Jobs and rollouts has them.

An apiserver that cannot keep up makes the pods come later; a pod that it refuses is counted and not tried again.
"""

import collections.abc
import concurrent.futures
import functools
import random
import threading
from typing import Final

from lab.bench import fleet
from lab.cluster import cache
from lab.cluster.api import Api, ApiError
from runtime import clock

PARALLEL: Final = 8
LIFETIME_SECONDS: Final = 300.0
STEP_SECONDS: Final = 0.05
MOST_AT_ONCE: Final = 100
PODS: Final = f"api/v1/namespaces/{fleet.NAMESPACE}/pods"


class Arrivals:
    """Creates pods without an owner, so that no controller replaces them, and deletes each by its name: deleting by a
    label lists all pods of the cluster each time.
    """

    def __init__(self, api: Api, per_second: float, seed: int) -> None:
        self._api = api
        self._per_second = per_second
        self._rng = random.Random(seed)
        self._clock = clock.WallClock()
        self._stop = threading.Event()
        # Two threads: what one waits for must not keep the other from its time.
        self._threads = [threading.Thread(target=run, name="arrivals") for run in (self._arrive, self._leave)]
        self.created = self.refused = self.gone = 0

    def __enter__(self) -> "Arrivals":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _arrive(self) -> None:
        for pool, due in self._dues(0.0, lambda: self.created + self.refused):
            taken = sum(pool.map(self._create, due))
            self.created += taken
            self.refused += len(due) - taken

    def _leave(self) -> None:
        for pool, due in self._dues(LIFETIME_SECONDS, lambda: self.gone):
            there = due[: self.created + self.refused - self.gone]
            list(pool.map(self._delete, there))
            self.gone += len(there)

    def _dues(
        self, after_seconds: float, done: collections.abc.Callable[[], int]
    ) -> collections.abc.Iterator[tuple[concurrent.futures.ThreadPoolExecutor, range]]:
        """The numbers of the pods whose time has come and that are not done, until it is over."""
        began = self._clock.monotonic() + after_seconds
        with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
            while not self._stop.is_set():
                before = done()
                come = int((self._clock.monotonic() - began) * self._per_second)
                yield pool, range(before, min(come, before + MOST_AT_ONCE))
                self._clock.wait(self._stop, STEP_SECONDS)

    def _create(self, number: int) -> bool:
        body = fleet.pod("arriving", f"{number:07}", self._rng, self._clock.now())
        metadata, spec = dict(fleet.mapping(body["metadata"])), dict(fleet.mapping(body["spec"]))
        del metadata["ownerReferences"]
        metadata["labels"] = {"app": "arriving"}
        whole = {**body, "metadata": metadata, "spec": {**spec, "terminationGracePeriodSeconds": 0}}
        return self._done(functools.partial(self._api.create, PODS, whole))

    def _delete(self, number: int) -> bool:
        """A pod that was refused is not there, which is as good."""
        return self._done(functools.partial(self._api.delete, f"{PODS}/{_name(number)}"))

    def _done(self, call: collections.abc.Callable[[], object]) -> bool:
        try:
            call()
        except ApiError as error:
            cache.say(str(error)[:200])
            return False
        return True


def _name(number: int) -> str:
    """The name that `fleet.pod` gives it."""
    return f"arriving-{fleet.TEMPLATE_HASH}-{number:07}"
