"""The reflector against a real apiserver of its own that stops, restarts and freezes."""

import contextlib
import queue
import random
import threading
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from kube import config, errors, kinds, objects
from kube.cache import reflector
from kube.http import client
from lab.cluster import Cluster
from runtime import clock
from tests.e2e import waiting

pytestmark = pytest.mark.cluster
LIMIT_SECONDS = 180  # a reflector that failed several times pauses for up to 30 s before the next attempt
PROMPT_SECONDS = 60  # a reader that only its idle limit (180 s) ends is not prompt
Changes = queue.Queue[tuple[str, str]]


@pytest.fixture(scope="module")
def fragile() -> Iterator[Cluster]:
    """A control plane these tests may break and must mend."""
    with Cluster(nodes=2, scheduler=False, prometheus=False, exporter=False, node_exporter=False) as running:
        yield running


@pytest.fixture
def ending() -> Iterator[contextlib.ExitStack]:
    """Ends what a test started, last first."""
    with contextlib.ExitStack() as stack:
        yield stack


class Started(NamedTuple):
    """A reflector at work, and what came of it."""

    found: reflector.Reflector[objects.ConfigMap]
    changes: Changes
    thread: threading.Thread
    door: client.Client
    stop: threading.Event


def started(fragile: Cluster, ending: contextlib.ExitStack, *, idle_seconds: float = 180) -> Started:
    door = ending.enter_context(contextlib.closing(config.connect(fragile.kubeconfig, watch_idle_seconds=idle_seconds)))
    changes: Changes = queue.Queue()

    def note(old: objects.ConfigMap | None, new: objects.ConfigMap | None) -> None:
        name = next(one.name for one in (new, old) if one is not None)
        changes.put(("deleted" if new is None else "added" if old is None else "changed", name))

    found = reflector.Reflector(
        door,
        kinds.CONFIG_MAPS,
        clock=clock.WallClock(),
        rng=random.Random(3),
        namespace="default",
        on_change=note,
        label_selector="suite=reflector",
    )
    stop = threading.Event()
    thread = found.start(stop)
    ending.callback(thread.join, PROMPT_SECONDS)
    ending.callback(stop.set)
    assert found.synced.wait(LIMIT_SECONDS), found.problem
    return Started(found, changes, thread, door, stop)


@contextlib.contextmanager
def frozen(fragile: Cluster) -> Iterator[None]:
    """The apiserver stands still meanwhile; afterwards it answers again."""
    apiserver = fragile.processes["kube-apiserver"]
    apiserver.pause()
    try:
        yield
    finally:
        apiserver.resume()
        apiserver.wait_ready()


def make(door: client.Client, name: str) -> None:
    door.create(kinds.CONFIG_MAPS, {"metadata": {"name": name, "labels": {"suite": "reflector"}}}, namespace="default")


def test_a_version_from_before_an_apiservers_restart_is_gone(fragile: Cluster, ending: contextlib.ExitStack) -> None:
    apiserver = fragile.processes["kube-apiserver"]
    apiserver.stop()
    apiserver.start()
    door = ending.enter_context(contextlib.closing(config.connect(fragile.kubeconfig)))
    door.list(kinds.NODES)
    with pytest.raises(errors.Gone):
        list(door.watch(kinds.NODES, resource_version="1", timeout_seconds=5))


def test_changes_arrive_in_order_and_a_restarted_apiserver_loses_none(
    fragile: Cluster, ending: contextlib.ExitStack
) -> None:
    found, changes, thread, door, stop = started(fragile, ending)
    make(door, "before")
    assert changes.get(timeout=LIMIT_SECONDS) == ("added", "before")
    apiserver = fragile.processes["kube-apiserver"]
    apiserver.stop()
    assert "default/before" in found.snapshot()
    apiserver.start()
    make(door, "after")
    door.delete(kinds.CONFIG_MAPS, "before", namespace="default")
    seen = {changes.get(timeout=LIMIT_SECONDS) for _ in range(2)}
    assert seen == {("added", "after"), ("deleted", "before")}
    assert set(found.snapshot()) == {"default/after"}
    door.delete(kinds.CONFIG_MAPS, "after", namespace="default")
    stop.set()
    thread.join(PROMPT_SECONDS)
    assert not thread.is_alive()


def test_a_frozen_apiserver_is_noticed_and_recovered_from(fragile: Cluster, ending: contextlib.ExitStack) -> None:
    found, changes, _thread, door, _stop = started(fragile, ending, idle_seconds=2)

    def noticed() -> str | None:
        return found.problem if found.age_seconds() > 1 else None  # what arrived before the freeze may still be read

    with frozen(fragile):
        problem = waiting.eventually(noticed, LIMIT_SECONDS, "the silence to be noticed", found.age_seconds)
        assert "broke off" in (problem or "") or "/configmaps" in (problem or ""), problem
    make(door, "thawed")
    assert changes.get(timeout=LIMIT_SECONDS) == ("added", "thawed")
    assert found.age_seconds() < LIMIT_SECONDS
    door.delete(kinds.CONFIG_MAPS, "thawed", namespace="default")


def test_a_stop_is_prompt_while_the_apiserver_is_frozen(fragile: Cluster, ending: contextlib.ExitStack) -> None:
    _found, _changes, thread, _door, stop = started(fragile, ending)
    with frozen(fragile):
        stop.set()
        thread.join(PROMPT_SECONDS)
        assert not thread.is_alive()


def test_a_frozen_apiserver_is_unreachable_to_a_request(fragile: Cluster, ending: contextlib.ExitStack) -> None:
    door = ending.enter_context(contextlib.closing(config.connect(fragile.kubeconfig)))
    with frozen(fragile), pytest.raises(errors.Unreachable):
        door.merge_patch(kinds.NODES, "node-0", {"metadata": {"annotations": {"a": "b"}}})
