"""What every suite shares: one real control plane for the whole run, built and started by cluster/ on first use.

The contract suites and the end-to-end suite ask for `control_plane`; unit tests never do. Suites that change the shape
of the cluster (other nodes, a stopped component) start one of their own instead, since several run side by side.

It also says what workers of `make real` take at a time, the longest first: whatever is dealt out last ends the run, and
a file of five minutes must not be that.
"""

import collections.abc

import pytest

import cluster
from kube.door import KubeDoor
from tests import patience

SHARED = "control_plane"  # the group of all tests that use this fixture
# Groups of half a minute and more, the longest first, by `--durations=0`. The order of the others matters to nobody.
LONGEST_FIRST = (
    SHARED,
    "test_annotator_faults",
    "test_descheduler_faults",
    "test_relief",
    "test_annotator_writes",
    "test_doctor",
    "test_placing",
    "test_extender_connections",
    "test_guide",
    "test_demo",
    "test_cluster",
    "test_kustomize",
    "test_rights",
    "test_effectiveness",
    "test_placeholders",
    "test_recording_rules",
    "test_bad_input",
    "test_extender_scheduler",
    "test_explain_cli",
    "test_prometheus_door",
    "test_extra_metrics",
    "test_extender_replicas",
    "test_kube_reflector",
)


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--dist loadgroup` a worker takes a file, or all that use the shared control plane: it is started once."""
    if config.getoption("loadgroup", False):
        for item in items:
            item.add_marker(pytest.mark.xdist_group(_group(item)))
        rank = {name: index for index, name in enumerate(LONGEST_FIRST)}
        items.sort(key=lambda item: rank.get(_group(item), len(rank)))


def _group(item: pytest.Item) -> str:
    return SHARED if isinstance(item, pytest.Function) and SHARED in item.fixturenames else item.path.stem


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
