"""The cluster in memory: listed once beside the imports, or watched; by a view that is too old nothing is planned."""

import pathlib
import random
import subprocess
import sys
import threading

import pytest

from descheduler.snapshot import snapshot
from descheduler.snapshot.cluster_watch import ClusterWatch
from kube import errors, kinds
from kube.cache import watch_status
from kube.door import KubeDoor
from simulator.apiserver import ApiServer
from tests import builders, clocks
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW
from tests.unit.descheduler.worlds import World

EARLY = ("numpy", "pydantic", "requests", "prometheus_client", "structlog", "sqlite3", "yaml", "descheduler.wiring")
LISTED = {
    "nodes",
    "pods",
    "namespaces",
    "replicasets",
    "deployments",
    "statefulsets",
    "replicationcontrollers",
    "jobs",
    "persistentvolumeclaims",
    "persistentvolumes",
    "csinodes",
    "poddisruptionbudgets",
}


def watch_of(door: KubeDoor) -> ClusterWatch:
    """A watch that nothing has filled."""
    return ClusterWatch(door, clock=clocks.ManualClock(NOW), rng=random.Random(1))


@pytest.fixture
def here(tmp_path: pathlib.Path) -> World:
    return World(scenes.hot_and_cool(), tmp_path)


def test_each_kind_is_listed_once_and_finished_pods_are_left_out(here: World) -> None:
    watch = watch_of(here.door)
    watch.begin_lists()
    seen = watch.view()
    assert {pod.key for pod in seen.pods} == {pod.key for pod in here.door.objects[kinds.PODS.plural]}
    assert {node.name for node in seen.nodes} == {"hot", "cool"}
    assert sorted(plural for plural, _ in here.door.lists) == sorted(LISTED)
    assert here.door.listed["pods"] == "status.phase!=Succeeded,status.phase!=Failed"


def test_a_list_that_failed_fails_the_view(here: World) -> None:
    here.door.unreachable = True
    watch = watch_of(here.door)
    watch.begin_lists()
    watch.wait()
    with pytest.raises(errors.Unreachable):
        watch.view()


def test_before_the_first_lists_there_is_no_view_and_the_kind_is_named(here: World) -> None:
    with pytest.raises(errors.NotListed, match="nodes are not listed yet"):
        watch_of(here.door).view()


def test_a_service_waits_a_moment_for_the_first_lists(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def unlisted() -> None:
        raise errors.NotListed("pods are not listed yet: 403 Forbidden")

    reader = here.service.parts.reader
    monkeypatch.setattr(reader, "view", unlisted)
    here.service.cycle()
    assert here.service.trouble == "pods are not listed yet: 403 Forbidden"
    assert here.service.period_seconds() == 1.0
    monkeypatch.setattr(reader, "view", here.listed)
    here.service.cycle()
    assert here.service.trouble is None
    assert here.service.period_seconds() == here.policy.current.descheduler.interval_seconds


def test_what_happens_after_the_list_is_in_the_next_view() -> None:
    door = ApiServer(clocks.ManualClock(NOW), random.Random(1))
    door.create(kinds.NODES, builders.node_body("a"))
    watch = watch_of(door)
    watch.catch_up()
    before = watch.view()
    door.create(kinds.NODES, builders.node_body("b"))
    watch.catch_up()
    assert [node.name for node in before.nodes] == ["a"]
    assert sorted(node.name for node in watch.view().nodes) == ["a", "b"]


def test_a_pod_that_changes_after_the_list_is_changed_in_the_next_view() -> None:
    """Pods are kept in a form of their own, by which the reflector must still know which version is newer."""
    door = ApiServer(clocks.ManualClock(NOW), random.Random(1))
    door.create(kinds.PODS, builders.pod_body("web"), namespace="default")
    watch = watch_of(door)
    watch.catch_up()
    door.merge_patch(kinds.PODS, "web", {"metadata": {"labels": {"tier": "front"}}}, namespace="default")
    watch.catch_up()
    (pod,) = watch.view().pods
    assert pod.labels["tier"] == "front"


def test_a_watch_that_is_silent_for_too_long_lets_nothing_leave(here: World) -> None:
    view = here.listed()
    old = view._replace(silent_seconds={"pods": 1.0, "nodes": watch_status.STALE_SECONDS + 1})
    here.service.parts.reader.view = lambda: old
    here.service.cycle()
    report = here.last
    assert report.plan.evictions == ()
    assert report.plan.blocked == "the watch of nodes has heard nothing for 91 s, over 90 s"
    assert here.service.trouble == report.plan.blocked
    assert {one.verdict.cause for node in report.plan.nodes for one in node.candidates} == {"stale_view"}
    assert here.metric("evenload_descheduler_failures_total", door="apiserver") == 1
    here.service.parts.reader.view = here.listed
    here.service.cycle()
    assert len(here.last.plan.evictions) == 1


@pytest.mark.parametrize(
    ("silent", "stale"),
    [
        pytest.param({}, "", id="no watch: the lists are of this moment"),
        pytest.param({"pods": watch_status.STALE_SECONDS}, "", id="as long as a bookmark may take"),
        pytest.param(
            {"pods": 100.0, "jobs": 200.0},
            "the watch of jobs has heard nothing for 200 s, over 90 s",
            id="the most silent one is named",
        ),
    ],
)
def test_a_snapshot_says_which_watch_is_silent(silent: dict[str, float], stale: str) -> None:
    assert snapshot.Snapshot(NOW, silent_seconds=silent).stale() == stale


def test_the_lists_begin_before_most_libraries_are_loaded() -> None:
    code = f"import sys, descheduler.__main__; print([name for name in {EARLY!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_a_watching_service_ends_its_threads_with_the_stop(here: World) -> None:
    watch, stop = watch_of(ApiServer(clocks.ManualClock(NOW), random.Random(1)).door(waits=True)), threading.Event()
    before = threading.active_count()
    watch.start(stop)
    assert threading.active_count() > before
    stop.set()
    for thread in threading.enumerate():
        if thread.name.startswith(("reflect-", "read-")):
            thread.join(10)
            assert not thread.is_alive()


def test_a_watch_that_dies_is_begun_again_and_says_why_nothing_comes(here: World) -> None:
    clock, stop = clocks.BreakingClock(), threading.Event()
    watch = ClusterWatch(here.door, clock=clock, rng=random.Random(1))  # its watches raise what is no KubeError
    watch.start(stop)
    try:
        assert clock.threads_again(len(LISTED)) == {f"read-{plural}" for plural in LISTED}
    finally:
        stop.set()
    lines = {check.name: check.detail() for check in watch.watches.checks() if check.detail}
    assert lines["pods watch"] == "heard 0 s ago; NotImplementedError: "
