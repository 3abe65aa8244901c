"""Memory and start of the extender with 5,000 nodes and 100,000 pods on the real apiserver.

The objects are put into etcd (`fleet`), the apiserver is asked for a first page so that its own cache is warm, then
the extender starts. Ready is what /readyz says: nodes and pods are listed and counted.
"""

import pathlib
import random
import tempfile
import threading
from typing import NamedTuple

from lab import cluster
from lab.bench import answers, contestants, fleet
from lab.bench.table import Row
from lab.cluster import cache
from runtime import clock

MEMORY_MEBIBYTES = 300.0
READY_SECONDS = 10.0
SETTLE_SECONDS = 5.0
_NEVER = threading.Event()


class Settings(NamedTuple):
    """How many nodes and pods."""

    nodes: int = 5000
    pods: int = 100_000
    seed: int = 1


def measure(settings: Settings) -> list[Row]:
    """Two rows: seconds from start to ready, and the memory of all its processes a moment later."""
    rng = random.Random(settings.seed)
    ticking = clock.WallClock()
    now_seconds = ticking.now()
    with (
        tempfile.TemporaryDirectory(prefix="evenload-bench-") as scratch,
        cluster.Cluster(scheduler=False, prometheus=False, exporter=False, node_exporter=False) as running,
    ):
        for name in ("kwok", "kube-controller-manager"):
            running.processes[name].stop()
        etcd, known = answers.etcd_url(running), fleet.names(settings.nodes)
        fleet.store(etcd, fleet.stored_nodes(settings.nodes, rng, now_seconds))
        done = fleet.store(etcd, fleet.stored_pods(settings.pods, known, rng, now_seconds))
        cache.say(f"{done} pods stored in {ticking.now() - now_seconds:.0f} s")
        running.api.get("api/v1/pods", limit="1", resourceVersion="0")
        started = ticking.monotonic()
        with contestants.evenload(running.kubeconfig, pathlib.Path(scratch)) as ours:
            ready_seconds = ticking.monotonic() - started
            _NEVER.wait(SETTLE_SECONDS)
            memory = ours.memory_mebibytes()
    size = f"{settings.nodes:,} nodes, {settings.pods:,} pods"
    return [
        Row(f"ready after start, {size}", ready_seconds, "s", None, READY_SECONDS),
        Row(f"memory, {size}", memory, "MiB", None, MEMORY_MEBIBYTES),
    ]
