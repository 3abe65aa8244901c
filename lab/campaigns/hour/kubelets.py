"""A control plane without Prometheus: metrics-server over kubelets that run the pods bound to their nodes.

A pod uses at all times what the annotation of its Deployment says.
"""

import contextlib
import json
import pathlib
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Final

from kube import config, errors, kinds
from kube.objects import Pod
from lab import cluster
from tests.contract import metrics_server_site
from tests.e2e import stack

USAGE: Final = "load.evenload.io/usage"
HOST_SECONDS: Final = 1.0


@contextlib.contextmanager
def started(
    nodes: int, write_policy: Callable[[pathlib.Path], pathlib.Path]
) -> Iterator[tuple[stack.Stack, metrics_server_site.Site]]:
    """A stack, no service of which runs yet, and the kubelets behind it."""
    with (
        cluster.Cluster(
            nodes=nodes, prometheus=False, exporter=False, node_exporter=False, aggregation=True
        ) as running,
        tempfile.TemporaryDirectory(prefix="evenload-hour-") as directory,
        metrics_server_site.started(running, pathlib.Path(directory)) as site,
        stack.started_on(running, write_policy) as services,
        hosting(running, site),
    ):
        for service in ("annotator", "descheduler"):
            metrics_server_site.grant(running, service)
        yield services, site


@contextlib.contextmanager
def hosting(running: cluster.Cluster, site: metrics_server_site.Site) -> Iterator[None]:
    """Has each kubelet run the pods that are bound to its node, as kwok does not, until the body ends."""
    stop, door = threading.Event(), config.connect(str(running.kubeconfig))

    def host() -> None:
        while not stop.wait(HOST_SECONDS):
            try:
                pods = door.list(kinds.PODS, namespace=stack.NAMESPACE).items
            except errors.KubeError:
                continue
            for node, kubelet in site.kubelets.items():
                kubelet.host(used(pod) for pod in pods if pod.node_name == node and not pod.deleting)

    thread = threading.Thread(target=host)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        door.close()


def used(pod: Pod) -> metrics_server_site.Pod:
    """A pod with what it uses."""
    usage = json.loads(pod.annotations[USAGE])
    cores = usage["cpu_millicores"] / 1000
    return metrics_server_site.Pod(pod.namespace, pod.name, cores, usage["memory_bytes"])
