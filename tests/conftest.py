"""What every suite shares: one real control plane for the whole run, built and started by cluster/ on first use.

The contract suites and the end-to-end suite ask for `control_plane`; unit tests never do. Suites that change the shape
of the cluster (other nodes, a stopped component) start one of their own instead, since several run side by side.

It also deals out the files of `make real`, the longest first: whatever is dealt out last ends the run, and a file of
five minutes must not be that.
"""

import collections.abc

import pytest

import cluster
from kube.door import KubeDoor
from tests import patience

# Files of half a minute and more, the longest first, by `--durations=0`. The order of the others matters to nobody.
LONGEST_FIRST = (
    "test_descheduler_faults.py",
    "test_annotator_faults.py",
    "test_relief.py",
    "test_placing.py",
    "test_demo.py",
    "test_kustomize.py",
    "test_annotator_writes.py",
    "test_extender_connections.py",
    "test_doctor.py",
    "test_cluster.py",
    "test_descheduler_kills.py",
    "test_rights.py",
    "test_effectiveness.py",
    "test_placeholders.py",
    "test_recording_rules.py",
    "test_bad_input.py",
    "test_extender_scheduler.py",
    "test_explain_cli.py",
    "test_prometheus_door.py",
    "test_guard.py",
    "test_extra_metrics.py",
    "test_extender_replicas.py",
    "test_descheduler_evicting.py",
    "test_kube_reflector.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sorts where xdist deals out files in the order that it is given, instead of those with most tests first."""
    if not config.getoption("loadscopereorder"):
        rank = {name: index for index, name in enumerate(LONGEST_FIRST)}
        items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


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
