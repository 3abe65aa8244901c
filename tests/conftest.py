"""Fixtures that files of tests share: real control planes, built and started by lab/cluster/ on first use.

It also says what workers of `make real` take at a time, the longest first: what is dealt out last ends the run.

Python's garbage collector leaves alone what was imported and collected before the first test, which lives until the run
ends: test_bytes_kept, which collects often, takes 4 s of CPU with this and 12 without.
"""

import gc
import pathlib
import uuid
from collections.abc import Iterator

import pytest
import xdist.scheduler

from kube import kinds
from kube.door import KubeDoor, ScalesDoor
from lab import cluster
from lab.cluster import processes
from lab.cluster.demo import permissions
from tests import patience, shared, starting
from tests.e2e import extender_world
from tests.e2e.extender_world import World

gc.disable()  # until all is imported
processes.launch = starting.launched
pytest.register_assert_rewrite("tests.door_suite")  # tests that are not in a test module

# The files that share something, in groups that are one for xdist: dealt out apart, each worker would make it anew.
# Those that have `control_plane` for themselves for a while (tests/e2e/lent.py) make a group of their own.
SHARED = {
    "control_plane": (
        "test_bad_input",
        "test_descheduler_evicting",
        "test_descheduler_kills",
        "test_evictions_real",
        "test_guard",
        "test_guard_scales",
        "test_hostile_pods",
        "test_kube_credentials",
        "test_kube_door",
        "test_prometheus_door",
        "test_surge_kills",
        "test_victoria_metrics",
    ),
    "control_plane, lent": (
        "test_explain_cli",
        "test_extender_rbac",
        "test_extender_replicas",
        "test_extender_scheduler",
        "test_placements_real",
        "test_policy_events",
        "test_recording_rules",
        "test_scores_real",
    ),
    "fleet": (
        "test_doctor",
        "test_effectiveness",
        "test_rights",
        "test_undecodable_objects",
    ),
    "image": ("test_fifteen_minutes", "test_image"),
    "kubectl": ("test_helm", "test_install_real", "test_krew", "test_kustomize"),
    "metrics-server": ("test_metrics_server", "test_without_prometheus"),
    "six nodes": (
        "test_gangs",
        "test_other_resources",
        "test_over_mean",
        "test_placing",
        "test_pod_classes",
        "test_pools",
        "test_shadow",
        "test_surge",
    ),
    "two workloads": (
        "test_descheduler_markers",
        "test_descheduler_once",
        "test_descheduler_outcomes",
        "test_descheduler_starving",
    ),
}
# Files and groups by the time that they take in a whole run, the longest first: one that is begun late would run alone
# at the end, waiting. Nine begin at once. xdist deals out the next file to a worker with no more than two tests left: a
# file of one or two tests (chaos, the guide) is followed by one that may begin late.
LONGEST_FIRST = (
    "six nodes",
    "test_annotator_faults",
    "test_descheduler_faults",
    "control_plane, lent",
    "test_chaos",
    "two workloads",
    "test_chaos_sabotages",
    "test_relief",
    "image",
    "fleet",
    "test_annotator_writes",
    "control_plane",
    "kubectl",
    "test_guide",
    "test_helm_doctor",
    "metrics-server",
    "test_extender_connections",
    "test_demo",
    "test_kube_reflector",
    "test_history",
    "test_placeholders",
    "test_scheduler_model",
    "test_no_secrets",
    "test_alert_rules",
    "test_extender_wire",
)


def _dealt_as(path: str | pathlib.Path) -> str:
    stem = pathlib.PurePath(path).stem
    return next((group for group, stems in SHARED.items() if stem in stems), stem)


class Dealer(xdist.scheduler.LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """Gives a worker a file at a time, or all of a group."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return _dealt_as(file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Dealer | None:
    """Ours for `--dist loadfile`. (The groups of xdist 3.8 do not work with pytest 9.2, which has its own node ids.)"""
    return Dealer(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sorts where xdist is told to deal out in the order that it is given, instead of by the number of tests."""
    if not config.getoption("loadscopereorder", True):
        rank = {name: index for index, name in enumerate(LONGEST_FIRST)}
        items.sort(key=lambda item: rank.get(_dealt_as(item.path), len(rank)))


def pytest_collection_finish() -> None:
    """From here on there is garbage to look for, among what tests make."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Ends what a group shares with its last test."""
    if nextitem is None or _dealt_as(nextitem.path) != _dealt_as(item.path):
        shared.end()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Ends what a group shares after Ctrl-C, too, by which no test is the last one."""
    shared.end()


@pytest.fixture(scope="module")
def control_plane() -> cluster.Cluster:
    """Three fake nodes under a real apiserver, scheduler, controller-manager and Prometheus."""
    return shared.shared("control_plane", lambda: cluster.Cluster(nodes=3))


@pytest.fixture(scope="module")
def extender_plane(control_plane: cluster.Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The same, lent, with the extender in charge."""
    directory = tmp_path_factory.mktemp("extender")
    with extender_world.extending(control_plane, lambda running: World(running, directory)) as world:
        yield world


@pytest.fixture(scope="module")
def fleet() -> cluster.Cluster:
    """Three nodes without the real node_exporter (`tests.e2e.stack.started` says why), with an audit log."""
    return shared.shared("fleet", lambda: cluster.Cluster(nodes=3, node_exporter=False, audit=True))


@pytest.fixture(scope="module")
def six_nodes() -> cluster.Cluster:
    """Six nodes for stacks of our services, as `fleet`."""
    return shared.shared("six_nodes", lambda: cluster.Cluster(nodes=6, node_exporter=False))


@pytest.fixture(scope="module")
def admin(control_plane: cluster.Cluster) -> Iterator[KubeDoor]:
    """A door with administrator's rights."""
    door = patience.connect(control_plane.kubeconfig)
    yield door
    door.close()


@pytest.fixture(scope="module")
def permitted(control_plane: cluster.Cluster) -> cluster.Cluster:
    """The same, where the services' accounts have the rights of deploy/rbac, also from an earlier file of the group."""
    api = control_plane.api
    if not api.exists(f"api/v1/namespaces/{permissions.NAMESPACE}"):
        api.create("api/v1/namespaces", {"metadata": {"name": permissions.NAMESPACE}})
        permissions.apply(control_plane)
    return control_plane


@pytest.fixture(scope="module")
def descheduler(permitted: cluster.Cluster) -> Iterator[ScalesDoor]:
    """A door with the rights of the shipped manifest."""
    door = patience.connect(permissions.kubeconfig(permitted, "descheduler"))
    yield door
    door.close()


@pytest.fixture
def namespace(admin: KubeDoor) -> Iterator[str]:
    """A fresh namespace."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    admin.create(kinds.NAMESPACES, {"metadata": {"name": name}})
    yield name
    admin.delete(kinds.NAMESPACES, name)


@pytest.fixture
def prefix() -> str:
    """A pod name prefix of the test's own."""
    return f"p{uuid.uuid4().hex[:8]}"
