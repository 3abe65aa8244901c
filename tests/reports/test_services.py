"""Public reports about processes: their leaders, watches, threads and files, and what they write about them."""

import logging
import pathlib
import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kube import door, errors, kinds, lease
from kube.cache import reflector, watch_status
from policy.loading import loader
from runtime import reloading
from simulator.apiserver import ApiServer
from tests import builders, clocks
from tests.reports.register import Before, behaviour, reported, situation
from tests.unit.kube import test_reflector


@reported("services", "kubernetes/kubernetes#61151", "kubernetes-csi/external-provisioner#690", before=Before.WRONG)
@situation("two processes of one host name and one port stand for one Lease")
@behaviour("one leads, the other follows")
def test_two_processes_of_one_host_name_have_one_leader() -> None:
    clock = clocks.ManualClock()
    door = ApiServer(clock, random.Random(1)).door(waits=False)
    processes = [
        lease.Election(
            door, namespace="default", name="ours", identity=lease.identity(rng), clock=clock, rng=random.Random(1)
        )
        for rng in (random.Random(7), random.Random(8))
    ]
    for process in processes:
        process.attempt()
    assert [process.is_leader() for process in processes] == [True, False]


@reported("services", "nil-go/konf#1112", "deblasis/wintty#1138", before=Before.WRONG)
@situation("a configuration is written in place while the process polls it")
@behaviour("the last whole one stays in force until the new one is whole")
def test_no_beginning_of_a_policy_comes_into_force(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "policy.yaml"
    head = ["apiVersion: evenload.io/v1alpha1", "kind: LoadPolicy"]
    path.write_text("\n".join(head), encoding="utf-8")
    policy = reloading.Reloading(path, loader.load, clock=clocks.ManualClock())
    policy.load()
    new = [
        *head,
        "descheduler:",
        "  mode: Enforce",
        "  limits: {perHour: 4}",
        "  windows:",
        "    - {from: '22:00', to: '05:00'}",
    ]
    enforced = []
    for lines in range(len(new) + 1):
        path.write_text("\n".join(new[:lines]), encoding="utf-8")
        policy.poll()
        enforced.append(policy.current.evicts)
    assert not any(enforced), "a beginning evicts at all hours"
    policy.poll()
    assert policy.current.evicts
    assert policy.current.descheduler.windows


class BusyDoor:
    """Lists one node; its first watch ends with what is given, the second is quiet until it is closed."""

    def __init__(self, error: BaseException) -> None:
        self.error: BaseException | None = error
        self.verbs: list[str] = []
        self.quiet, self.closed = threading.Event(), threading.Event()

    def list(self, _kind: kinds.Kind[Any], **_: object) -> door.Listing[Any]:
        self.verbs.append("list")
        return door.Listing((builders.node("a"),), "7")

    def watch(self, _kind: kinds.Kind[Any], **options: object) -> "BusyDoor":
        self.verbs.append(f"watch from {options['resource_version']}")
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return self

    def __iter__(self) -> Iterator[Any]:
        self.quiet.set()
        self.closed.wait(60)
        return iter(())

    def close(self) -> None:
        self.closed.set()


def reflected(busy: BusyDoor, clock: clocks.ManualClock) -> reflector.Reflector[Any]:
    """A reflector that has come to the quiet watch, and was stopped there."""
    nodes: reflector.Reflector[Any] = reflector.Reflector(
        busy,  # type: ignore[arg-type]
        kinds.NODES,
        clock=clock,
        rng=random.Random(1),
    )
    stop = threading.Event()
    thread = nodes.start(stop)
    quiet = busy.quiet.wait(60)
    stop.set()
    thread.join(60)
    assert quiet, busy.verbs
    return nodes


@reported("services", "kubernetes/kubernetes#100878", before=Before.RIGHT)
@situation("a watch is answered 429")
@behaviour("it is watched on from the same resourceVersion, and nothing is listed again")
def test_a_watch_that_is_one_too_many_is_no_reason_to_list() -> None:
    busy = BusyDoor(errors.TooManyRequests("watch", status=429, reason="", message="", retry_after_seconds=1))
    reflected(busy, clocks.ManualClock())
    assert busy.verbs == ["list", "watch from 7", "watch from 7"]


@reported("services", "kubernetes/kubernetes#100878", before=Before.WRONG)
@situation("a watch is answered 429 with a Retry-After of an hour, or of twenty digits")
@behaviour("the next watch begins within 30 s")
@pytest.mark.parametrize("wish_seconds", [3600.0, float("9" * 20)])
def test_a_watch_waits_no_hour(wish_seconds: float) -> None:
    clock = clocks.ManualClock()
    wish = errors.TooManyRequests("watch", status=429, reason="", message="", retry_after_seconds=wish_seconds)
    reflected(BusyDoor(wish), clock)
    assert clock.waits == [30.0]


@reported("services", "kubernetes/kubernetes#107457", "kubernetes/kubernetes#118501", before=Before.WRONG)
@situation("etcd is restored from a backup: a watch goes on from a version that comes again in hours, and is silent")
@behaviour("the first watch after lost contact that brings nothing to its end is followed by a list; no other is")
@pytest.mark.parametrize(("lost", "lists"), [(True, 2), (False, 1)], ids=["restored", "quiet for a while"])
def test_a_cluster_that_was_restored_is_listed_again(lost: bool, lists: int) -> None:
    scripted, clock = test_reflector.ScriptedDoor(), clocks.ManualClock()
    scene = test_reflector.Scene(scripted, clock)
    quiet = (lambda: clock.advance(15),)
    broken = [(errors.Unreachable("watch: broke off"),)] if lost else []
    restored = [test_reflector.listing(1001, test_reflector.node("b", 900))] if lost else []
    scene.play(test_reflector.listing(9000, test_reflector.node("a", 8000)), *broken, quiet, *restored, quiet, quiet)
    scene.stop.set()
    assert scene.thread is not None
    scene.thread.join(60)
    assert set(scene.nodes.snapshot()) == {"b" if lost else "a"}
    assert scripted.verbs.count("list") == lists


@reported("services", "argoproj/argo-workflows#5874", before=Before.WRONG)
@situation("a thread of a controller dies without a word, and its probes stay green")
@behaviour("its traceback is in the log, and it is begun again")
def test_a_thread_that_dies_is_no_silence(caplog: pytest.LogCaptureFixture) -> None:
    clock, stop = clocks.BreakingClock(), threading.Event()
    busy = BusyDoor(RecursionError("too deep"))
    nodes: reflector.Reflector[Any] = reflector.Reflector(
        busy,  # type: ignore[arg-type]
        kinds.NODES,
        clock=clock,
        rng=random.Random(1),
    )
    with caplog.at_level(logging.ERROR):
        thread = nodes.start(stop)
        assert busy.quiet.wait(60), "the reader has died in its first wait"
    stop.set()
    thread.join(60)
    assert "too deep" in caplog.text
    assert "timestamp too large" in caplog.text
    assert busy.verbs == ["list", "watch from 7", "list", "watch from 7"]
    (line,) = (check.detail() for check in watch_status.Watches({"nodes": nodes}).checks() if check.detail)
    assert line == "heard 0 s ago"
