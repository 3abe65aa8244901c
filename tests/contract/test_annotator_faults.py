"""The annotator among failing neighbours: the real Prometheus and the real apiserver, each behind a gate.

Tests assert the view that an extender would have. Every test begins and ends with all nodes fresh.
"""

import contextlib
import itertools
import json
import logging
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from lab import cluster
from lab.cluster.demo import permissions
from policy.contract import load_annotation
from promql.http import circuit_breaker, client
from promql.queries import node_queries
from tests import gate
from tests.contract import annotator_site
from tests.contract.annotator_site import HEARTBEAT, LIMIT, LOADS, NAMESPACE, NODES, QUERIES, SYNCS, Replica, Site
from tests.e2e import waiting

pytestmark = pytest.mark.cluster
SHORTEST_PAUSE_SECONDS = circuit_breaker.FIRST_PAUSE_SECONDS / 2  # a random half to whole of it
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
        site.prometheus.rule = gate.passing


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
    load, service = next(LOADS), site.first.service
    with PROMETHEUS_FAULTS[fault](site):
        site.load("node-0", load)
        circuit(site, 1)
        service.grows(SYNCS)  # the one whose last answers were good writes what they said
        before, values = site.texts(), site.values()
        assert values.keys() == set(NODES), values
        assert all(values.values()), values
        since_seconds = time.monotonic()
        asked = service.metric(QUERIES)
        site.missing(*NODES)
        assert site.texts() == before, "nothing is written while nothing can be read"
        asked_since = service.metric(QUERIES) - asked
        most = (time.monotonic() - since_seconds) / SHORTEST_PAUSE_SECONDS + 1
        assert asked_since <= most, "one trial after each pause of the breaker, instead of six queries a sync"
        assert service.text("/readyz") == "ok\n"
        waiting.until(
            lambda: "stale for 3 of 3 nodes" in service.text("/readyz?verbose"), "readyz to say what is stale"
        )
    site.shows(load, "node-0")
    site.shows(0.2, "node-1", "node-2")
    circuit(site, 0)


def circuit(site: Site, state: int) -> None:
    """Wait until the circuit to Prometheus is open (1) or closed (0)."""
    name = "evenload_prometheus_circuit_open"
    waiting.until(lambda: site.first.service.metric(name) == state, f"{name} {state}")


def late(_: gate.Call) -> None:
    """The rule of a gate that lets everything through, a while later."""
    threading.Event().wait(0.4)


def test_a_prometheus_that_takes_longer_than_a_period_delays_and_takes_nothing_away(site: Site) -> None:
    load = next(LOADS)
    site.prometheus.rule = late
    site.load("node-0", load)
    site.shows(load, "node-0")
    site.shows(0.2, "node-1", "node-2")
    circuit(site, 0)


def test_a_prometheus_restarted_empty_takes_nothing_away_that_it_cannot_know(site: Site) -> None:
    process, load = site.cluster.processes["prometheus"], next(LOADS)
    process.kill()
    shutil.rmtree(site.cluster.directory / "prometheus")
    site.load("node-0", load)
    process.start()
    site.shows(load, "node-0")
    left = site.values()
    assert all(left.values()), left


def test_how_full_windows_are_is_counted_by_the_real_prometheus(site: Site) -> None:
    asked = [node_queries.scrapes("cpu", 5.0), node_queries.known_share(0.001), node_queries.known_share(30 * 86400.0)]
    with contextlib.closing(client.connect(site.cluster.prometheus_url, timeout_seconds=60.0)) as door:

        def answers() -> list[list[float]]:
            return [[sample.value for sample in door.query(expression).samples] for expression in asked]

        def right() -> bool:
            scrapes, known, long_ago = answers()
            return len(scrapes) == 1 and 1 <= scrapes[0] <= 6 and known == [1.0] and long_ago == []

        waiting.until(right, "one to six scrapes, all nodes known, none a month ago", answers)


def test_an_apiserver_that_is_killed_and_comes_back_is_written_to_again(site: Site) -> None:
    process, load = site.cluster.processes["kube-apiserver"], next(LOADS)
    failed = failed_heartbeats(site)
    process.kill()
    site.load("node-0", load)
    waiting.until(  # one that was too slow to try before its Lease ran out knows it, too
        lambda: failed_heartbeats(site) > failed or not site.first.leads(), "a heartbeat to fail"
    )
    process.start()
    site.shows(load, "node-0")


def failed_heartbeats(site: Site) -> float:
    """How many heartbeats the first replica could not write; unlike /readyz its count does not end with the Lease."""
    rows = site.first.service.text("/metrics").splitlines()
    name = 'evenload_annotator_heartbeats_total{result="failed"} '
    return sum(float(row.removeprefix(name)) for row in rows if row.startswith(name))


def test_a_node_that_cannot_be_written_goes_missing_alone(site: Site) -> None:
    refusals = itertools.cycle(
        (
            gate.apiserver_reply(429, "TooManyRequests", {"Retry-After": "1"}),
            gate.apiserver_reply(409, "Conflict"),
            gate.apiserver_reply(500, "InternalError"),
        )
    )
    refused, load = list[gate.Call](), next(LOADS)

    def refuse(call: gate.Call) -> gate.Reply | None:
        if not annotator_site.is_patch_of(call, "node-0"):
            return None
        refused.append(call)
        return next(refusals)

    site.first.kube.rule = refuse
    site.load("node-0", load)
    waiting.until(lambda: refused, "a patch of node-0 to be refused")  # any before it has been answered
    text = site.texts()["node-0"]
    site.missing("node-0")
    assert site.texts()["node-0"] == text
    site.load("node-1", load)
    site.shows(load, "node-1")
    site.shows(0.2, "node-2")
    site.first.kube.rule = gate.passing
    site.shows(load, "node-0")


def test_a_kubelet_that_claims_every_address_empties_no_node(site: Site) -> None:
    nodes = {node["metadata"]["name"]: node["status"]["addresses"] for node in site.cluster.api.items("api/v1/nodes")}
    liar, path = NODES[-1], f"api/v1/nodes/{NODES[-1]}/status"
    every = [address for name in reversed(NODES) for address in nodes[name]]  # the exporter plays the first one's

    def claimed(count: int) -> None:
        contested = "evenload_annotator_contested_addresses"
        waiting.until(lambda: site.first.service.metric(contested) == count, f"{count} {contested}")

    def all_are_read() -> None:
        load = next(LOADS)
        site.load("node-0", load)
        site.load("node-1", load)
        site.shows(load, "node-0", "node-1")
        site.shows(0.2, liar)

    site.cluster.api.patch(path, {"status": {"addresses": every}})
    try:
        claimed(len(NODES) - 1)
        all_are_read()
        site.first.kill()
        site.first.service.start()  # which does not know who had them
        claimed(len(NODES) - 1)
        all_are_read()
        assert f"{liar} claims" in site.first.service.text("/readyz?verbose")
    finally:
        site.cluster.api.patch(path, {"status": {"addresses": nodes[liar]}})
    claimed(0)


def test_a_watch_that_is_too_old_is_begun_anew(site: Site) -> None:
    gone = gate.apiserver_reply(410, "Expired")
    site.first.kube.rule = lambda call: gone if call.watches else None
    site.first.kube.kill_open_connections_silently()
    site.first.service.kill()
    before = len(site.first.kube.calls)
    site.first.service.start()
    site.cluster.api.patch("api/v1/nodes/node-2", {"metadata": {"annotations": {load_annotation.KEY: "garbage"}}})
    site.shows(site.played["node-0"], "node-0")
    site.shows(0.2, "node-1", "node-2")
    asked = [call for call in site.first.kube.calls[before:] if call.watches]
    site.first.kube.rule = gate.passing
    assert asked, "it never asked for a watch, so none was too old"


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
    step, held, load, before = STEPS[name], gate.Stall(), next(LOADS), site.played["node-0"]
    at = site.prometheus if step.before_prometheus else site.first.kube
    at.rule = lambda call: held if step.matches(call) else None
    site.load("node-0", load)
    assert held.reached.wait(LIMIT), f"no such call came: {name}"
    site.first.service.kill()
    held.release(passes=step.arrives)
    at.rule = gate.passing
    waiting.until(site.first.kube.settled, "what it had sent to arrive")
    left = site.values()
    assert left.keys() == set(NODES), left
    assert all("memory_avg_5m" in values for values in left.values()), f"neither the old reading nor the new: {left}"
    assert all(annotator_site.near(left[node]["memory_avg_5m"], 0.2) for node in ("node-1", "node-2")), left
    assert min(before, load) - 0.051 <= left["node-0"]["memory_avg_5m"] <= max(before, load) + 0.051, left
    site.first.service.start()
    site.shows(load, "node-0")
    site.shows(0.2, "node-1", "node-2")


def lease(site: Site) -> Mapping[str, Any]:
    """The spec of the annotator's Lease."""
    path = f"apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/evenload-annotator"
    spec: Mapping[str, Any] = site.cluster.api.get(path)["spec"]
    return spec


class Pair(NamedTuple):
    """Two replicas that run, by who leads: a busy machine may have taken the Lease from the first already."""

    leader: Replica
    follower: Replica
    transitions: int  # of the Lease before anything that `changes` counts

    def changes(self) -> int:
        """How often the next write came from another replica than the one before it."""
        both = self.leader, self.follower
        sent = sorted((call.at_seconds, index) for index, one in enumerate(both) for call in one.writes())
        return sum(one != other for (_, one), (_, other) in itertools.pairwise(sent))


@contextlib.contextmanager
def two_replicas(site: Site) -> Iterator[Pair]:
    """The second replica runs, too, and one of the two leads; what went through their gates before is forgotten."""
    transitions = lease(site)["leaseTransitions"]
    for one in site.replicas:
        one.kube.calls.clear()
    site.second.service.start()
    try:
        leader = waiting.until(lambda: leading(site), "one of two to lead")[0]
        follower = site.first if leader is site.second else site.second
        waiting.until(leader.writes, "the leader to write")
        yield Pair(leader, follower, transitions)
    finally:
        site.second.service.stop()


def leading(site: Site) -> list[Replica]:
    """The one replica that leads; nothing while none does, or while the Lease changes hands between two looks."""
    found = [one for one in site.replicas if one.leads()]
    return found if len(found) == 1 else []


def no_two_wrote(site: Site, pair: Pair) -> None:
    """The writer changed at most as often as the Lease changed hands: two that write at a time take turns."""
    assert pair.changes() <= lease(site)["leaseTransitions"] - pair.transitions, [
        pair.leader.writes(),
        pair.follower.writes(),
    ]


def goes_on(replica: Replica, writes: int) -> None:
    """Wait until a replica has written so often again."""
    seen = len(replica.writes())
    waiting.until(lambda: len(replica.writes()) >= seen + writes, "the leader to go on writing")


def test_a_killed_leaders_work_is_taken_over_and_no_two_ever_write(site: Site) -> None:
    with two_replicas(site) as pair:
        pair.leader.kill()
        last = pair.leader.writes()[-1]
        goes_on(pair.follower, 1)
        first = pair.follower.writes()[0]
        log.info("taken over %.1f s after the last write of the killed leader", first.at_seconds - last.at_seconds)
        assert lease(site)["leaseDurationSeconds"] == 15
        load = next(LOADS)
        site.load("node-0", load)
        site.shows(load, "node-0")
        pair.leader.service.start()
        goes_on(pair.follower, 5)  # for longer than the one that came back pauses between two looks at the Lease
        no_two_wrote(site, pair)


def test_a_leader_that_was_frozen_writes_nothing_when_it_wakes(site: Site) -> None:
    with two_replicas(site) as pair:
        with frozen_in_a_sync(site, pair.leader) as syncs:
            goes_on(pair.follower, 1)
        waiting.until(
            lambda: pair.leader.service.metric(SYNCS) > syncs, "the first to end the sync that was interrupted"
        )
        goes_on(pair.follower, 3)
        no_two_wrote(site, pair)


def threads_stopped(pid: int) -> bool:
    """True if every thread of a process is stopped; after kill() returned, SIGSTOP may not have arrived yet."""
    stats = [file.read_text() for file in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


@contextlib.contextmanager
def frozen_in_a_sync(site: Site, replica: Replica) -> Iterator[float]:
    """Stops the leader amid a query, so that its next step is to write; gives how many syncs it had ended.

    Nowhere else is it certain that no write has left already.
    """
    held = gate.Stall()
    site.prometheus.rule = lambda _: gate.Reply(503, "one answer at a time") if held.reached.is_set() else held
    assert held.reached.wait(LIMIT), "the leader asked Prometheus nothing"
    syncs = replica.service.metric(SYNCS)
    os.kill(replica.service.pid, signal.SIGSTOP)
    try:
        waiting.until(lambda: threads_stopped(replica.service.pid), "every thread to be stopped")
        held.release(passes=True)
        site.prometheus.rule = gate.passing
        yield syncs
    finally:
        os.kill(replica.service.pid, signal.SIGCONT)


def test_a_dry_run_tells_what_it_would_write_and_writes_nothing(site: Site) -> None:
    site.first.service.stop()
    before, beat, load = site.texts(), site.cluster.api.get(HEARTBEAT[1:]), next(LOADS)
    ran: list[subprocess.CompletedProcess[str]] = []
    site.load("node-0", load)

    def tells() -> bool:
        ran.append(site.dry_run())
        if ran[-1].returncode:
            return False  # a query was late or a scrape was missed: the next one tells more
        document = json.loads(ran[-1].stdout)
        told = {write["name"]: write for write in document["writes"] if write["kind"] == "Node"}
        assert document["dryRun"] is True
        assert {write["error"] for write in document["writes"]} == {None}, "the apiserver would take every write"
        text = told["node-0"]["body"]["metadata"]["annotations"][load_annotation.KEY] if "node-0" in told else None
        return annotator_site.near(annotator_site.reading(text).values.get("memory_avg_5m"), load)

    waiting.until(tells, "the dry run to show the new load", lambda: ran[-1])
    assert site.texts() == before
    assert site.cluster.api.get(HEARTBEAT[1:]) == beat
