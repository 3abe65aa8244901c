"""The annotator among failing neighbours: the real Prometheus and the real apiserver, each behind a gate.

What is asserted is what an extender would make of the cluster: readings that hold (last known good), then readings too
old to be used (missing), then readings that are right again, without a hand. One cluster for the file; every test
begins with a fleet that is whole and ends with one.
"""

import contextlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest
import yaml

import cluster
from cluster.demo import permissions
from policy import annotations, freshness, heartbeat
from promql import client, node_queries
from runtime import clock
from tests import gate
from tests.e2e import policies, services, waiting

pytestmark = pytest.mark.cluster
NODES = ("node-0", "node-1", "node-2")
NAMESPACE = permissions.NAMESPACE
STALE_AFTER_SECONDS = 12.0
HEARTBEAT = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{heartbeat.CONFIG_MAP}"
LIMIT = waiting.LIMIT_SECONDS
LOADS = itertools.cycle((0.62, 0.35, 0.5))  # far enough apart to be worth a patch


class Replica(NamedTuple):
    """An annotator and the gate between it and the apiserver."""

    service: services.Service
    kube: gate.Gate

    def writes(self) -> list[gate.Call]:
        """What it sent to nodes and the heartbeat."""
        return [one for one in self.kube.calls if one.writes and (is_patch_of(one) or HEARTBEAT in one.path)]


class Site:
    """The cluster, the gate before Prometheus, and two replicas of which one usually runs."""

    def __init__(
        self, running: cluster.Cluster, prometheus: gate.Gate, gates: list[gate.Gate], directory: pathlib.Path
    ):
        self.cluster = running
        self.prometheus = prometheus
        self._clock = clock.WallClock()
        policy = policies.write(
            directory / "policy.yaml", sync__staleAfter=f"{STALE_AFTER_SECONDS:g}s", sync__minChange=0.05
        )
        self.replicas = []
        for number, one in enumerate(gates):
            folder = directory / str(number)
            folder.mkdir()
            arguments = ["--policy", str(policy), "--kubeconfig", str(through(running, one, folder))]
            arguments += ["--namespace", NAMESPACE, "--prometheus", prometheus.url, "--prometheus-timeout", "3"]
            self.replicas.append(Replica(services.Service("annotator", arguments, folder), one))
        self.first, self.second = self.replicas

    def load(self, node: str, memory_ratio: float) -> None:
        """What a node uses from now on."""
        controls = {"cpu_ratio": 0.3, "memory_ratio": memory_ratio, "hidden": False}
        body = json.dumps(controls).encode()
        request = urllib.request.Request(f"{self.cluster.exporter_url}/nodes/{node}", data=body, method="POST")
        urllib.request.urlopen(request, timeout=services.ANSWER_SECONDS).close()

    def texts(self) -> dict[str, str]:
        """The raw annotation by node, as the apiserver has it."""
        nodes = self.cluster.api.items("api/v1/nodes")
        found = {node["metadata"]["name"]: node["metadata"].get("annotations", {}) for node in nodes}
        return {name: carried[annotations.KEY] for name, carried in found.items() if annotations.KEY in carried}

    def memory(self, node: str) -> float | None:
        """A node's annotated memory average."""
        text = self.texts().get(node)
        return annotations.decode(text).values.get("memory_avg_5m") if text else None

    def usable(self) -> set[str]:
        """The nodes whose reading an extender would use at this moment, by the rules that it reads by."""
        now_seconds, texts = self._clock.now(), self.texts()
        times = heartbeat.EffectiveTimes()
        for node, text in texts.items():
            times.put(node, text)
        times.accept(heartbeat.decode(self.cluster.api.get(HEARTBEAT[1:])["data"]), now_seconds)
        times.settle()
        found = set()
        for node, text in texts.items():
            reading = annotations.decode(text)
            effective_seconds = times.effective_seconds(node, reading.at_seconds)
            state = freshness.usable(effective_seconds, now_seconds, STALE_AFTER_SECONDS)
            if reading.values and state == "usable":
                found.add(node)
        return found

    def whole(self) -> None:
        """Wait until every node is usable and shows the load that it plays from now on; as at the start of a test."""
        self.prometheus.rule = passing
        for one in self.replicas:
            one.kube.rule = passing
        if not self.first.service.running:
            self.first.service.start()
        for node in NODES:
            self.load(node, 0.2)
        self.shows(0.2, *NODES)

    def shows(self, memory_ratio: float, *nodes: str) -> None:
        """Wait until nodes are usable and show a load."""

        def seen() -> Mapping[str, object]:
            return {"usable": self.usable(), **{node: self.memory(node) for node in nodes}}

        def there() -> bool:
            return set(nodes) <= self.usable() and all(near(self.memory(node), memory_ratio) for node in nodes)

        waiting.eventually(there, LIMIT, f"{nodes} to be usable and to show {memory_ratio}", seen)

    def missing(self, *nodes: str) -> None:
        """Wait until no extender would use these nodes' readings any more."""
        waiting.eventually(lambda: not set(nodes) & self.usable(), LIMIT, f"{nodes} to be missing", self.usable)


def passing(_: gate.Call) -> None:
    """The rule of a gate that lets everything through."""


def is_patch_of(call: gate.Call, node: str = "") -> bool:
    """Whether a call patches a node, or that node."""
    return call.method == "PATCH" and call.path.partition("?")[0].startswith(f"/api/v1/nodes/{node}")


def near(value: float | None, expected: float) -> bool:
    """Within what may stand unwritten."""
    return value is not None and abs(value - expected) <= 0.051


def through(running: cluster.Cluster, one: gate.Gate, folder: pathlib.Path) -> pathlib.Path:
    """The annotator's own kubeconfig, but to the apiserver behind a gate."""
    document = yaml.safe_load(permissions.kubeconfig(running, "annotator").read_text(encoding="utf-8"))
    document["clusters"][0]["cluster"] = {"server": one.url}
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(cluster.Cluster(nodes=3, scheduler=False, node_exporter=False))
        running.api.create("api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        permissions.apply(running)
        authority = (running.directory / "pki" / "ca.crt").read_text(encoding="ascii")
        prometheus = stack.enter_context(gate.before(running.prometheus_url))
        gates = [stack.enter_context(gate.before(running.api_url, authority=authority)) for _ in range(2)]
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
def answering(reply: gate.Reply, site: Site) -> Iterator[None]:
    """Prometheus answers every query with this."""
    site.prometheus.rule = lambda _: reply
    yield
    site.prometheus.rule = passing


@contextlib.contextmanager
def killed(site: Site) -> Iterator[None]:
    """Prometheus is gone, and comes back with what it had."""
    process = site.cluster.processes["prometheus"]
    process.kill()
    yield
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
    "answers a login page": lambda site: answering(gate.Reply(200, "<html>Sign in</html>"), site),
    "answers JSON that breaks off": lambda site: answering(gate.Reply(200, '{"status":"success","data":{"res'), site),
    "answers 503": lambda site: answering(gate.Reply(503, "warming up"), site),
}


@pytest.mark.parametrize("fault", PROMETHEUS_FAULTS)
def test_while_prometheus_fails_readings_hold_then_go_missing_then_are_right(site: Site, fault: str) -> None:
    before, load = site.texts(), next(LOADS)
    with PROMETHEUS_FAULTS[fault](site):
        site.load("node-0", load)
        site.missing(*NODES)
        assert site.texts() == before, "nothing is written while nothing can be read"
        assert site.first.service.text("/readyz") == "ok\n"
        assert "stale for 3 of 3 nodes" in site.first.service.text("/readyz?verbose")
    site.shows(load, "node-0")
    site.shows(0.2, "node-1", "node-2")


def test_a_failing_prometheus_is_not_asked_by_every_metric_of_every_sync(site: Site) -> None:
    with answering(gate.Reply(503, "warming up"), site):
        waiting.eventually(
            lambda: site.first.service.metric("evenload_prometheus_circuit_open") == 1, LIMIT, "the circuit to open"
        )
        asked, syncs = len(site.prometheus.calls), site.first.service.metric("evenload_annotator_syncs_total")
        site.missing(*NODES)
        asked = len(site.prometheus.calls) - asked
        syncs = site.first.service.metric("evenload_annotator_syncs_total") - syncs
    assert 1 <= asked <= syncs + 2, "one trial a sync at the most"
    waiting.eventually(
        lambda: site.first.service.metric("evenload_prometheus_circuit_open") == 0, LIMIT, "the circuit to close"
    )


def test_a_prometheus_restarted_empty_takes_nothing_away_that_it_cannot_know(site: Site) -> None:
    process, load = site.cluster.processes["prometheus"], next(LOADS)
    process.kill()
    shutil.rmtree(site.cluster.directory / "prometheus")
    site.load("node-0", load)
    process.start()
    site.shows(load, "node-0")
    assert all(annotations.decode(text).values for text in site.texts().values())


def test_the_number_of_scrapes_in_a_window_is_counted_by_the_real_prometheus(site: Site) -> None:
    door = client.connect(site.cluster.prometheus_url, timeout_seconds=60.0)
    (sample,) = door.query(node_queries.scrapes("cpu", 5.0)).samples
    door.close()
    assert 1 <= sample.value <= 6


def test_an_apiserver_that_is_killed_and_comes_back_is_written_to_again(site: Site) -> None:
    process, load = site.cluster.processes["kube-apiserver"], next(LOADS)
    process.kill()
    site.load("node-0", load)
    failed = site.first.service.metric("evenload_annotator_heartbeats_total")
    assert failed > 0
    process.start()
    site.shows(load, "node-0")


REFUSALS = {
    "429 with a wish": gate.apiserver_reply(429, "TooManyRequests", {"Retry-After": "1"}),
    "409": gate.apiserver_reply(409, "Conflict"),
    "500": gate.apiserver_reply(500, "InternalError"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_node_that_cannot_be_written_goes_missing_alone(site: Site, refusal: str) -> None:
    text, load = site.texts()["node-0"], next(LOADS)
    site.first.kube.rule = lambda call: REFUSALS[refusal] if is_patch_of(call, "node-0") else None
    site.load("node-0", load)
    site.missing("node-0")
    assert site.texts()["node-0"] == text
    site.load("node-1", load)
    site.shows(load, "node-1")
    assert site.usable() >= {"node-1", "node-2"}
    site.first.kube.rule = passing
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
    site.first.kube.rule = passing
    assert asked


def test_connections_that_die_without_a_word_are_replaced(site: Site) -> None:
    load = next(LOADS)
    site.first.kube.kill_open_connections_silently()
    site.prometheus.kill_open_connections_silently()
    site.load("node-0", load)
    site.shows(load, "node-0")
    site.shows(0.2, "node-1", "node-2")


STEPS: dict[str, Callable[[Site], tuple[gate.Gate, Callable[[gate.Call], bool]]]] = {
    "while it waits for Prometheus": lambda site: (site.prometheus, lambda _: True),
    "while it patches a node": lambda site: (site.first.kube, is_patch_of),
    "while it writes the heartbeat": lambda site: (
        site.first.kube,
        lambda call: call.method == "PATCH" and HEARTBEAT in call.path,
    ),
}


@pytest.mark.parametrize("arrives", [True, False], ids=["and the call still arrives", "and the call is lost"])
@pytest.mark.parametrize("step", STEPS)
def test_an_annotator_killed_at_any_step_goes_on_after_its_restart(site: Site, step: str, arrives: bool) -> None:
    at, matches = STEPS[step](site)
    held, load = gate.Stall(), next(LOADS)
    at.rule = lambda call: held if matches(call) else None
    site.load("node-0", load)
    assert held.reached.wait(LIMIT), f"no call came {step}"
    site.first.service.kill()
    held.release(passes=arrives)
    at.rule = passing
    carried = {node: annotations.decode(text).values for node, text in site.texts().items()}
    assert all(len(values) == 6 for values in carried.values()), "what stands is whole: the old reading or the new one"
    site.first.service.start()
    site.shows(load, "node-0")
    site.shows(0.2, "node-1", "node-2")


def lease(site: Site) -> Mapping[str, Any]:
    """The spec of the annotator's Lease."""
    path = f"apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/evenload-annotator"
    spec: Mapping[str, Any] = site.cluster.api.get(path)["spec"]
    return spec


@contextlib.contextmanager
def two_replicas(site: Site) -> Iterator[None]:
    """The second replica runs, too, and follows."""
    site.second.service.start()
    try:
        assert site.second.service.metric("evenload_annotator_leader") == 0
        assert site.second.writes() == []
        yield
    finally:
        site.second.service.stop()
        site.second.kube.calls.clear()


def test_a_killed_leaders_work_is_taken_over_and_no_two_ever_write(
    site: Site, record_property: Callable[[str, object], None]
) -> None:
    with two_replicas(site):
        site.first.service.kill()
        waiting.eventually(site.second.writes, LIMIT, "the second to write")
        last, first = site.first.writes()[-1], site.second.writes()[0]
        assert last.at_seconds < first.at_seconds
        record_property("seconds without a writer", round(first.at_seconds - last.at_seconds, 1))
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
