"""The real Kubernetes door: the client over HTTP on the real kube-apiserver passes the suite of all doors."""

from collections.abc import Iterator

import pytest

from kube import config, door
from lab import cluster
from tests import door_suite
from tests.e2e import waiting

pytestmark = pytest.mark.cluster


class TestTheRealDoor(door_suite.DoorSuite):
    """With administrator's rights."""

    @pytest.fixture
    def api(self, control_plane: cluster.Cluster) -> Iterator[door.KubeDoor]:
        """A door with administrator's rights."""
        client = config.connect(control_plane.kubeconfig)
        yield client
        client.close()

    @pytest.fixture
    def home(self, namespace: str, control_plane: cluster.Cluster) -> str:
        """A fresh namespace that takes pods: without a ServiceAccount it refuses them."""
        account = f"api/v1/namespaces/{namespace}/serviceaccounts/default"
        waiting.until(lambda: control_plane.api.exists(account), account)
        return namespace
