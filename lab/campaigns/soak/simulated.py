"""A simulated month through all doors in one process: services, apiserver and Prometheus of the simulator.

Every few virtual minutes the annotator syncs and the descheduler runs; thousands of jobs come and go in a day, and what
has finished is deleted within the hour, as a cluster's TTL controller does. The simulator itself keeps a record of each
replica, so that the memory of the process grows with each pod. Of the services only caches of what was seen last
may grow, until they are full; their entries are counted.
"""

import collections
import contextlib
import dataclasses
import functools
import gc
import logging
import os
import pathlib
import threading
import time
from collections.abc import Iterator
from typing import Final
from unittest import mock

import prometheus_client

from kube import kinds
from lab.campaigns.soak.growth import CACHED, DAY_SECONDS, FILES, LEDGER, MEMORY, SERIES, THREADS, Sample
from lab.cluster import cache
from policy.loading import loader
from simulator.apiserver import state, storage
from simulator.results.outcome import Progress
from simulator.scenario import Scenario
from simulator.workloads import generator
from simulator.world import setup, world

NODES: Final = 20
CLEANING_SECONDS: Final = 3600.0
KEPT_CHANGES: Final = 256  # of the simulated apiserver's log; its usual ones are weeks of so small a cluster
POLICY: Final = """
apiVersion: evenload.io/v1alpha1
kind: LoadPolicy
descheduler:
  mode: Enforce
  thresholds:
    cpu_avg_5m: {evictAbove: 0.8, evictUntil: 0.6, overMean: {evictAbove: 0.08, evictUntil: 0.04, floor: 0.2}}
    memory_avg_5m: {evictAbove: 0.8, evictUntil: 0.6, overMean: {evictAbove: 0.08, evictUntil: 0.04, floor: 0.2}}
  limits: {perHour: 60}
"""


def scenario(days: float, pods: int) -> Scenario:
    """Jobs and services of a seed, without services that come to stay: what there is at a time does not grow."""
    shape = dataclasses.replace(generator.DEMO, nodes=NODES, days=days, pods=pods)
    whole = generator.generate(1, shape)
    replicas = tuple(
        one for one in whole.replicas
        if one.arrives_seconds <= whole.start_seconds or one.leaves_seconds <= whole.end_seconds
    )  # fmt: skip
    return dataclasses.replace(whole, replicas=replicas)


def play(days: float, pods: int) -> tuple[list[Sample], Progress]:
    """Plays it and returns a sample for each day, and how much happened."""
    samples: list[Sample] = []
    last: list[Progress] = []
    made, begun = scenario(days, pods), time.monotonic()
    with contextlib.ExitStack() as undo:
        undo.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.WARNING)
        undo.enter_context(_short_log())

        def report(progress: Progress) -> None:
            last[:] = [progress]
            at_seconds = progress.at_seconds - made.start_seconds
            if at_seconds % DAY_SECONDS == 0:
                samples.append(Sample(at_seconds, amounts(whole.around.directory)))
                cache.say(
                    f"day {at_seconds / DAY_SECONDS:.0f}: {dict(samples[-1].amounts)}, {progress.evictions} evictions"
                )

        conditions = setup.Setup(loader.load(POLICY, "soak"), seed=1, all_doors=True)
        whole = undo.enter_context(world.opened(made, conditions, report))
        clean = functools.partial(delete_finished, whole)
        whole.kernel.every(CLEANING_SECONDS, clean, first_seconds=made.start_seconds + CLEANING_SECONDS, rank=5)
        whole.kernel.run(made.end_seconds)
    cache.say(f"{days:g} days in {time.monotonic() - begun:.0f} s")
    return samples, last[0]


@contextlib.contextmanager
def _short_log() -> Iterator[None]:
    with mock.patch.object(state, "Storage", functools.partial(storage.Storage, kept_changes=KEPT_CHANGES)):
        yield


def amounts(directory: pathlib.Path) -> dict[str, float]:
    """Memory, open files, threads, cache entries and series of this process, and the ledger's size."""
    gc.collect()
    pages = int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    registries = [one for one in gc.get_objects() if isinstance(one, prometheus_client.CollectorRegistry)]
    return {
        MEMORY: pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        FILES: float(len(list(pathlib.Path("/proc/self/fd").iterdir()))),
        THREADS: float(threading.active_count()),
        CACHED: float(sum(one.cache_info().currsize for one in _caches())),
        SERIES: float(sum(len(family.samples) for one in registries for family in one.collect())),
        LEDGER: (directory / "ledger.db").stat().st_size / 1024,
    }


def _caches() -> "Iterator[functools._lru_cache_wrapper[object]]":
    """Yields the caches of what was seen last, in all packages."""
    return (one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper))


def delete_finished(whole: world.World) -> None:
    """Deletes pods that have finished, and jobs without pods."""
    door = whole.around.kube
    owners = collections.Counter[str]()
    for pod in door.list(kinds.PODS).items:
        if pod.finished:
            door.delete(kinds.PODS, pod.name, namespace=pod.namespace)
        elif pod.owner is not None:
            owners[pod.owner.uid] += 1
    for job in door.list(kinds.JOBS).items:
        if job.uid not in owners:
            door.delete(kinds.JOBS, job.name, namespace=job.namespace)
