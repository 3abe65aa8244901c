"""Pods that arrive at a steady rate and go again after some minutes, as a cluster with Jobs and rollouts has them.

An apiserver that cannot keep up makes the pods come later; a pod that it refuses is counted and not tried again.
"""

import collections.abc
import concurrent.futures
import functools
import itertools
import random
import threading
from typing import Final

from bench import fleet
from cluster import cache
from cluster.api import Api, ApiError
from runtime import clock

PARALLEL: Final = 8
BATCH_SECONDS: Final = 10.0
LIFETIME_SECONDS: Final = 300.0
STEP_SECONDS: Final = 0.05
MOST_AT_ONCE: Final = 100
PODS: Final = f"api/v1/namespaces/{fleet.NAMESPACE}/pods"
LABEL: Final = "bench.evenload.io/batch"


class Arrivals:
    """Creates pods without an owner, so that no controller replaces them; each batch is deleted as one."""

    def __init__(self, api: Api, per_second: float, seed: int) -> None:
        self._api = api
        self._per_second = per_second
        self._rng = random.Random(seed)  # noqa: S311 - made-up pods, guards nothing
        self._clock = clock.WallClock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="arrivals")
        self._gone_batches = 0
        self.created = self.refused = 0

    def __enter__(self) -> "Arrivals":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        began = self._clock.monotonic()
        with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
            while not self._stop.is_set():
                elapsed_seconds = self._clock.monotonic() - began
                tried = self.created + self.refused
                due = min(MOST_AT_ONCE, int(elapsed_seconds * self._per_second) - tried)
                numbers = range(tried, tried + due)
                taken = sum(pool.map(self._create, numbers, itertools.repeat(elapsed_seconds)))
                self.created += taken
                self.refused += due - taken
                self._remove(elapsed_seconds)
                self._clock.wait(self._stop, STEP_SECONDS)

    def _create(self, number: int, elapsed_seconds: float) -> bool:
        body = fleet.pod("arriving", f"{number:07}", self._rng, self._clock.now())
        metadata, spec = dict(fleet.mapping(body["metadata"])), dict(fleet.mapping(body["spec"]))
        del metadata["ownerReferences"]
        metadata["labels"] = {"app": "arriving", LABEL: str(int(elapsed_seconds // BATCH_SECONDS))}
        whole = {**body, "metadata": metadata, "spec": {**spec, "terminationGracePeriodSeconds": 0}}
        return self._done(functools.partial(self._api.create, PODS, whole))

    def _remove(self, elapsed_seconds: float) -> None:
        """Deletes the batches that are old enough."""
        while (self._gone_batches + 1) * BATCH_SECONDS + LIFETIME_SECONDS < elapsed_seconds:
            batch = f"{PODS}?labelSelector={LABEL}={self._gone_batches}"
            if not self._done(functools.partial(self._api.delete, batch)):
                return
            self._gone_batches += 1

    def _done(self, call: collections.abc.Callable[[], object]) -> bool:
        try:
            call()
        except ApiError as error:
            cache.say(str(error)[:200])
            return False
        return True
