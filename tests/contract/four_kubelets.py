"""The control plane over metrics-server, without Prometheus, for a group of files in tests/conftest.py."""

import contextlib
import pathlib
from collections.abc import Iterator

from lab import cluster
from lab.cluster.demo import permissions
from tests import shared
from tests.contract import metrics_server_site
from tests.contract.metrics_server_site import Site
from tests.e2e import lent

SERVICES = ("annotator", "descheduler")  # that read metrics-server


def renewed(directory: pathlib.Path) -> Site:
    """Returns the site with idle kubelets and without workloads, readings and Leases; the services have the rights that
    they ship with, without those of the component, and metrics-server runs. A first one has its files in `directory`.
    """
    site = shared.shared("metrics-server", lambda: _started(directory))
    for kubelet in site.kubelets.values():
        kubelet.silent = frozenset()
        kubelet.host(())
        kubelet.load(*metrics_server_site.IDLE)
    if not site.listed():  # `empty` asks every API for its resources
        site.kill()
        site.start()
    lent.empty(site.cluster)
    site.cluster.api.create("api/v1/namespaces", {"metadata": {"name": permissions.NAMESPACE}})
    permissions.apply(site.cluster)
    for service in SERVICES:
        metrics_server_site.withdraw(site.cluster, service)
    return site


@contextlib.contextmanager
def _started(directory: pathlib.Path) -> Iterator[Site]:
    with (
        cluster.Cluster(nodes=4, prometheus=False, exporter=False, node_exporter=False, aggregation=True) as running,
        metrics_server_site.started(running, directory) as site,
    ):
        yield site
