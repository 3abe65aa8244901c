"""What every suite shares: one real control plane for the whole run, built and started by cluster/ on first use.

The contract suites and the end-to-end suite ask for `control_plane`; unit tests never do. Suites that change the shape
of the cluster (other nodes, a stopped component) start one of their own instead, since several run side by side.
"""

import collections.abc

import pytest

import cluster
from kube.door import KubeDoor
from tests import patience


@pytest.fixture(scope="session")
def control_plane() -> collections.abc.Iterator[cluster.Cluster]:
    """Three fake nodes under a real apiserver, scheduler, controller-manager and Prometheus, until the run ends."""
    with cluster.Cluster(nodes=3) as running:
        yield running


@pytest.fixture(scope="module")
def admin(control_plane: cluster.Cluster) -> collections.abc.Iterator[KubeDoor]:
    """A door with administrator's rights."""
    door = patience.connect(control_plane.kubeconfig)
    yield door
    door.close()
