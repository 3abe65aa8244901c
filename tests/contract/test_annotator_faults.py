"""The annotator among failing neighbours: the real Prometheus and the real apiserver, each behind a gate.

What is asserted is what an extender would make of the cluster: readings that hold (last known good), then readings too
old to be used (missing), then readings that are right again, without a hand. One cluster for the file; every test
begins with a fleet that is whole and ends with one.
"""

import contextlib
import itertools
import logging
import os
import random
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

import cluster
from cluster.demo import permissions
from policy import annotations
from promql import client, node_queries
from tests import gate
from tests.contract import annotator_site
from tests.contract.annotator_site import HEARTBEAT, LIMIT, LOADS, NAMESPACE, NODES, QUERIES, SYNCS, Site
from tests.e2e import waiting

pytestmark = pytest.mark.cluster
log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(cluster.Cluster(nodes=3, scheduler=False, node_exporter=False))
        running.api.create("api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        permissions.apply(running)
        prometheus, gates = stack.enter_context(gate.around(running, replicas=2))
        made = Site(running, prometheus, gates, tmp_path_factory.mktemp("faults"))
        for replica in made.replicas:
            stack.callback(replica.service.stop)
        made.first.service.start()
        yield made


@pytest.fixture
def site(plane: Site) -> Site:
    plane.whole()
    return plane


@contextlib.contextmanager
def nonsense(site: Site) -> Iterator[None]:
    """Prometheus answers with a login page, with JSON that breaks off, and with 503, in turn."""
    replies = itertools.cycle(
        (
            gate.Reply(200, "<html>Sign in</html>"),
            gate.Reply(200, '{"status":"success","data":{"res'),
            gate.Reply(503, "warming up"),
        )
    )
    site.prometheus.rule = lambda _: next(replies)
    try:
        yield
    finally:
        site.prometheus.rule = annotator_site.passing


@contextlib.contextmanager
def killed(site: Site) -> Iterator[None]:
    """Prometheus is gone, and comes back with what it had."""
    process = site.cluster.processes["prometheus"]
    process.kill()
    try:
        yield
    finally:
        process.start()


@contextlib.contextmanager
def frozen(site: Site) -> Iterator[None]:
    """Prometheus keeps its connections and answers nothing."""
    process = site.cluster.processes["prometheus"]
    process.pause()
    try:
        yield
    finally:
        process.resume()


PROMETHEUS_FAULTS: dict[str, Callable[[Site], contextlib.AbstractContextManager[None]]] = {
    "is killed": killed,
    "is frozen": frozen,
    "answers nonsense": nonsense,
}


@pytest.mark.parametrize("fault", PROMETHEUS_FAULTS)
def test_while_prometheus_fails_readings_hold_then_go_missing_then_are_right(site: Site, fault: str) -> None:
    before, load, service = site.texts(), next(LOADS), site.first.service
    with PROMETHEUS_FAULTS[fault](site):
        site.load("node-0", load)
        waiting.eventually(lambda: service.metric("evenload_prometheus_circuit_open") == 1, LIMIT, "an open circuit")
        queries, syncs = (service.metric(name) for name in (QUERIES, SYNCS))
        site.missing(*NODES)
        assert site.texts() == before, "nothing is written while nothing can be read"
        assert service.metric(QUERIES) - queries <= service.metric(SYNCS) - syncs + 1, "one trial a sync at the most"
        assert service.text("/readyz") == "ok\n"
        waiting.eventually(
            lambda: "stale for 3 of 3 nodes" in service.text("/readyz?verbose"), LIMIT, "readyz to say what is stale"
        )
    site.shows(load, "node-0")
    site.shows(0.2, "node-1", "node-2")
    assert service.metric("evenload_prometheus_circuit_open") == 0


def late(_: gate.Call) -> None:
    """The rule of a gate that lets everything through, a while later."""
    threading.Event().wait(0.4)


def test_a_prometheus_that_takes_longer_than_a_period_delays_and_takes_nothing_away(site: Site) -> None:
    load = next(LOADS)
    site.prometheus.rule = late
    site.load("node-0", load)
    site.shows(load, "node-0")
    site.shows(0.2, "node-1", "node-2")
    assert site.first.service.metric("evenload_prometheus_circuit_open") == 0


def test_a_prometheus_restarted_empty_takes_nothing_away_that_it_cannot_know(site: Site) -> None:
    process, load = site.cluster.processes["prometheus"], next(LOADS)
    process.kill()
    shutil.rmtree(site.cluster.directory / "prometheus")
    site.load("node-0", load)
    process.start()
    site.shows(load, "node-0")
    assert all(annotations.decode(text).values for text in site.texts().values())


def test_how_full_windows_are_is_counted_by_the_real_prometheus(site: Site) -> None:
    door = client.connect(site.cluster.prometheus_url, timeout_seconds=60.0)
    (scrapes,) = door.query(node_queries.scrapes("cpu", 5.0)).samples
    (known,) = door.query(node_queries.known_share(0.001)).samples
    long_ago = door.query(node_queries.known_share(30 * 86400.0)).samples
    door.close()
    assert 1 <= scrapes.value <= 6
    assert (known.value, long_ago) == (1.0, ())


def test_an_apiserver_that_is_killed_and_comes_back_is_written_to_again(site: Site) -> None:
    process, load = site.cluster.processes["kube-apiserver"], next(LOADS)
    process.kill()
    site.load("node-0", load)
    waiting.eventually(
        lambda: "heartbeat not written" in site.first.service.text("/readyz?verbose"), LIMIT, "a heartbeat to fail"
    )
    process.start()
    site.shows(load, "node-0")


def test_a_node_that_cannot_be_written_goes_missing_alone(site: Site) -> None:
    refusals = itertools.cycle(
        (
            gate.apiserver_reply(429, "TooManyRequests", {"Retry-After": "1"}),
            gate.apiserver_reply(409, "Conflict"),
            gate.apiserver_reply(500, "InternalError"),
        )
    )
    text, load = site.texts()["node-0"], next(LOADS)
    site.first.kube.rule = lambda call: next(refusals) if annotator_site.is_patch_of(call, "node-0") else None
    site.load("node-0", load)
    site.missing("node-0")
    assert site.texts()["node-0"] == text
    site.load("node-1", load)
    site.shows(load, "node-1")
    site.shows(0.2, "node-2")
    site.first.kube.rule = annotator_site.passing
    site.shows(load, "node-0")


def test_a_watch_that_is_too_old_is_begun_anew(site: Site) -> None:
    gone = gate.apiserver_reply(410, "Expired")
    site.first.kube.rule = lambda call: gone if "watch=true" in call.path else None
    site.first.kube.kill_open_connections_silently()
    site.first.service.kill()
    site.first.service.start()
    site.cluster.api.patch("api/v1/nodes/node-2", {"metadata": {"annotations": {annotations.KEY: "garbage"}}})
    site.shows(0.2, *NODES)
    asked = [call for call in site.first.kube.calls if "watch=true" in call.path]
    site.first.kube.rule = annotator_site.passing
    assert asked


def test_connections_that_die_without_a_word_are_replaced(site: Site) -> None:
    load = next(LOADS)
    site.first.kube.kill_open_connections_silently()
    site.prometheus.kill_open_connections_silently()
    site.load("node-0", load)
    site.shows(load, "node-0")
    site.shows(0.2, "node-1", "node-2")


class Step(NamedTuple):
    """A call of the annotator that a test holds, and whether it still arrives after its sender died."""

    before_prometheus: bool
    matches: Callable[[gate.Call], bool]
    arrives: bool


STEPS = {
    "while it waits for Prometheus": Step(True, lambda _: True, False),
    "while it patches a node, and the patch is lost": Step(False, annotator_site.is_patch_of, False),
    "while it patches a node, and the patch arrives": Step(False, annotator_site.is_patch_of, True),
    "before the heartbeat": Step(False, lambda call: call.method == "PATCH" and HEARTBEAT in call.path, False),
}


@pytest.mark.parametrize("name", STEPS)
def test_an_annotator_killed_at_any_step_goes_on_after_its_restart(site: Site, name: str) -> None:
    step, held, load = STEPS[name], gate.Stall(), next(LOADS)
    at = site.prometheus if step.before_prometheus else site.first.kube
    at.rule = lambda call: held if step.matches(call) else None
    site.load("node-0", load)
    assert held.reached.wait(LIMIT), f"no such call came: {name}"
    site.first.service.kill()
    held.release(passes=step.arrives)
    at.rule = annotator_site.passing
    carried = [annotations.decode(text).values for text in site.texts().values()]
    assert [len(values) for values in carried] == [6, 6, 6], "what stands is whole: the old reading or the new one"
    site.first.service.start()
    site.shows(load, "node-0")
    site.shows(0.2, "node-1", "node-2")


def test_an_annotator_killed_at_random_moments_leaves_what_was_good_until_it_is_stale(site: Site) -> None:
    moments, load = random.Random(5), 0.0
    for _ in range(4):
        load = next(LOADS)
        site.load("node-0", load)
        threading.Event().wait(moments.uniform(0.0, 2.5))  # some syncs, and somewhere within one
        site.first.service.kill()
        assert all(annotations.decode(text).values for text in site.texts().values()), "what stands is whole"
        site.first.service.start()
    site.shows(load, "node-0")
    site.first.service.kill()
    left = site.texts()
    site.missing(*NODES)
    assert site.texts() == left
    site.first.service.start()
    site.shows(load, "node-0")


def lease(site: Site) -> Mapping[str, Any]:
    """The spec of the annotator's Lease."""
    path = f"apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/evenload-annotator"
    spec: Mapping[str, Any] = site.cluster.api.get(path)["spec"]
    return spec


@contextlib.contextmanager
def two_replicas(site: Site) -> Iterator[None]:
    """The second replica runs, too, and follows; what another test sent through its gate is forgotten."""
    site.second.kube.calls.clear()
    site.second.service.start()
    try:
        assert site.second.service.metric("evenload_annotator_leader") == 0
        assert site.second.writes() == []
        yield
    finally:
        site.second.service.stop()
        site.second.kube.calls.clear()


def test_a_killed_leaders_work_is_taken_over_and_no_two_ever_write(site: Site) -> None:
    with two_replicas(site):
        site.first.service.kill()
        waiting.eventually(site.second.writes, LIMIT, "the second to write")
        last, first = site.first.writes()[-1], site.second.writes()[0]
        assert last.at_seconds < first.at_seconds
        log.info("taken over %.1f s after the last write of the killed leader", first.at_seconds - last.at_seconds)
        assert lease(site)["leaseDurationSeconds"] == 15
        load = next(LOADS)
        site.load("node-0", load)
        site.shows(load, "node-0")
        site.first.service.start()
        assert site.first.service.metric("evenload_annotator_leader") == 0
        assert site.first.writes()[-1] == last, "the one that came back follows"


def test_a_leader_that_was_frozen_writes_nothing_when_it_wakes(site: Site) -> None:
    with two_replicas(site):
        freeze_after_a_heartbeat(site)
        waiting.eventually(site.second.writes, LIMIT, "the second to write")
        taken_over = site.second.writes()[0].at_seconds
        os.kill(site.first.service.pid, signal.SIGCONT)
        waiting.eventually(
            lambda: site.first.service.metric("evenload_annotator_leader") == 0, LIMIT, "the first to know it"
        )
        seen = len(site.second.writes())
        waiting.eventually(lambda: len(site.second.writes()) > seen + 2, LIMIT, "the second to go on writing")
        assert all(call.at_seconds < taken_over for call in site.first.writes())


def freeze_after_a_heartbeat(site: Site) -> None:
    """Stop the leader between two syncs: a heartbeat has just been written, the next sync is a period away."""
    seen = len(site.first.writes())
    waiting.eventually(lambda: len(site.first.writes()) > seen, LIMIT, "a heartbeat")
    os.kill(site.first.service.pid, signal.SIGSTOP)


def test_a_dry_run_tells_what_it_would_write_and_writes_nothing(site: Site) -> None:
    site.first.service.stop()
    before, beat, load = site.texts(), site.cluster.api.get(HEARTBEAT[1:]), next(LOADS)
    site.load("node-0", load)

    def tells() -> bool:
        document = site.dry_run()
        told = {write["name"]: write for write in document["writes"] if write["kind"] == "Node"}
        assert document["dryRun"] is True
        assert {write["error"] for write in document["writes"]} == {None}, "the apiserver would take every write"
        text = told["node-0"]["body"]["metadata"]["annotations"][annotations.KEY] if "node-0" in told else None
        return annotator_site.near(annotator_site.reading(text).values.get("memory_avg_5m"), load)

    waiting.eventually(tells, LIMIT, "the dry run to show the new load")
    assert site.texts() == before
    assert site.cluster.api.get(HEARTBEAT[1:]) == beat
