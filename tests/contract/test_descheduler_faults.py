"""The descheduler among failing neighbours: the real Prometheus, apiserver and scheduler, killed or behind gates.

A watcher of its own looks at the pods all the time. After each fault the same must hold: budgets were kept at every
look, caps were kept, and the ledger tells exactly what left. One cluster for the file. A clock that jumps and an answer
that Prometheus calls partial are in tests/unit/descheduler/test_service.py.
"""

import contextlib
import threading
from collections.abc import Iterator

import pytest

import cluster
from cluster.demo import permissions
from descheduler import following
from kube import kinds
from promql import client
from runtime import clock
from tests import gate
from tests.contract import descheduler_site
from tests.contract.descheduler_site import HOT, LIMIT, NAMESPACE, REPLICAS, Site, Watcher, is_eviction, passing
from tests.e2e import bodies, waiting

pytestmark = pytest.mark.cluster
NODES = 4
RUNS = 2  # so many more runs in which something must not happen


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Four nodes and two workloads; no descheduler runs."""
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(cluster.Cluster(nodes=NODES, node_exporter=False))
        for name in (permissions.NAMESPACE, NAMESPACE):
            running.api.create("api/v1/namespaces", {"metadata": {"name": name}})
        permissions.apply(running)
        prometheus, gates = stack.enter_context(gate.around(running, replicas=2))
        made = Site(running, prometheus, gates, tmp_path_factory.mktemp("faults"))
        stack.callback(made.stop)
        for app in ("web", "api"):
            made.door.create(kinds.DEPLOYMENTS, descheduler_site.workload(app), namespace=NAMESPACE)
        yield made


@pytest.fixture
def site(plane: Site) -> Site:
    plane.renew()
    return plane


@pytest.fixture
def watcher(site: Site) -> Iterator[Watcher]:
    made = Watcher(site.door)
    made.look()
    with made:
        yield made


@contextlib.contextmanager
def budgeted(site: Site, least: int) -> Iterator[None]:
    """Budgets over both workloads."""
    for app in ("web", "api"):
        site.door.create(kinds.BUDGETS, bodies.budget(app, least), namespace=NAMESPACE)

    def computed() -> bool:
        found = site.door.list(kinds.BUDGETS, namespace=NAMESPACE).items
        return all(one.observed_generation >= one.generation and one.desired_healthy == least for one in found)

    waiting.eventually(computed, LIMIT, "the budgets to be computed")
    try:
        yield
    finally:
        for app in ("web", "api"):
            site.door.delete(kinds.BUDGETS, app, namespace=NAMESPACE)


def known_nodes(site: Site) -> int:
    """Of how many nodes Prometheus has a sample within the windows that the policy asks for."""
    door = client.connect(site.cluster.prometheus_url)
    answer = door.query("count(count_over_time(node_memory_MemTotal_bytes[8s]))")
    door.close()
    return round(answer.samples[0].value) if answer.samples else 0


def started_and_held(site: Site) -> gate.Stall:
    """The first replica runs, and the first eviction that it asks for is held at the door."""
    held = gate.Stall()
    site.first.kube.rule = lambda call: held if is_eviction(call) else None
    site.heat()
    site.first.service.start()
    assert held.reached.wait(LIMIT), "no eviction was asked for"
    return held


def test_nothing_is_evicted_on_data_that_is_gone_or_stale(site: Site, watcher: Watcher) -> None:
    site.prometheus.rule = lambda _: gate.Reply(503, "warming up")
    site.heat()
    site.first.service.start()
    waiting.eventually(lambda: site.given_up(site.first) >= RUNS, LIMIT, "runs that are given up")
    site.load(HOT, memory_ratio=0.7, hidden=True)
    waiting.eventually(lambda: known_nodes(site) == NODES - 1, LIMIT, "the hot node's series to end")
    site.prometheus.rule = passing
    site.first.more_runs(RUNS)
    assert not watcher.left, "nothing leaves a node whose load nobody knows"
    with budgeted(site, REPLICAS - 1):
        site.heat()
        waiting.eventually(lambda: len(watcher.left) >= 2, LIMIT, "evictions by fresh data")
        site.hold(watcher, site.first)
    assert min(watcher.fewest.values()) >= REPLICAS - 1, "the budgets held at every look"


def test_an_apiserver_killed_in_the_middle_of_a_run_leaves_one_open_intent(site: Site, watcher: Watcher) -> None:
    held = started_and_held(site)
    apiserver = site.cluster.processes["kube-apiserver"]
    apiserver.kill()
    held.release(passes=False)
    waiting.eventually(lambda: site.rows(site.first)[0]["result"] == "unknown", LIMIT, "the answer to be missed")
    (row,) = site.rows(site.first)
    apiserver.start()
    site.first.kube.rule = passing
    site.first.more_runs(RUNS)
    again = [one for one in site.rows(site.first) if one["workload"] == row["workload"] and one["id"] != row["id"]]
    asked_at, waited = clock.from_rfc3339(row["intended_at"]), following.ANSWER_SECONDS
    early = [one for one in again if clock.from_rfc3339(one["intended_at"]) < asked_at + waited]
    assert not early, "an eviction without an answer is not planned again while it may still be carried out"
    site.hold(watcher, site.first)


def test_a_budget_made_between_plan_and_act_holds(site: Site, watcher: Watcher) -> None:
    held = started_and_held(site)
    with budgeted(site, REPLICAS):
        held.release(passes=True)
        waiting.eventually(lambda: site.rows(site.first)[-1]["result"] == "refused", LIMIT, "the refusal")
        site.first.more_runs(RUNS)
        assert not watcher.left
        assert "budget" in site.verdicts(site.first)
        site.hold(watcher, site.first)
    assert min(watcher.fewest.values()) == REPLICAS


def test_a_workload_whose_pod_finds_no_place_loses_no_other(site: Site, watcher: Watcher) -> None:
    held = started_and_held(site)
    scheduler = site.cluster.processes["kube-scheduler"]
    scheduler.kill()
    held.release(passes=True)
    waiting.eventually(lambda: len(watcher.left) == 2, LIMIT, "one pod of each workload to leave")
    site.first.more_runs(RUNS)
    assert sorted(watcher.seen[uid].labels["app"] for uid in watcher.left) == ["api", "web"]
    assert "in_flight" in site.verdicts(site.first)
    scheduler.start()
    waiting.eventually(lambda: len(watcher.left) > 2, LIMIT, "relief to go on when the replacements are ready")
    site.hold(watcher, site.first)
    assert min(watcher.fewest.values()) >= REPLICAS - 1


def test_a_destination_that_fills_up_meanwhile_sends_the_pod_back_and_that_is_told(
    site: Site, watcher: Watcher
) -> None:
    held = started_and_held(site)
    site.close_all_but_the_hot_node()
    held.release(passes=True)
    waiting.eventually(
        lambda: any(row["returned"] for row in site.rows(site.first)), LIMIT, "the return to be recorded"
    )
    (row,) = [row for row in site.rows(site.first) if row["returned"]]
    assert (row["result"], row["node"], row["landed_node"]) == ("evicted", HOT, HOT)

    def told() -> set[str]:
        found = site.door.list(kinds.EVENTS, namespace=NAMESPACE, field_selector="reason=EvictionLoop").items
        return {one.regarding.kind for one in found}

    waiting.eventually(lambda: told() == {"Pod", "Deployment"}, LIMIT, "the Events about it", told)
    assert site.first.service.metric("evenload_eviction_returned_total") == 1
    assert len(watcher.left) == 1, "there is nowhere to go, so nothing more is evicted"
    site.open_all()
    site.hold(watcher, site.first)


class Silence:
    """A wire that passes nothing any more until it is cut for good."""

    def __init__(self) -> None:
        self.held: list[gate.Stall] = []
        self._lock = threading.Lock()

    def __call__(self, call: gate.Call) -> gate.Stall:
        stall = gate.Stall()
        with self._lock:
            self.held.append(stall)
        return stall

    def cut(self) -> None:
        """Everything that waits is dropped."""
        with self._lock:
            for stall in self.held:
                stall.release(passes=False)


def test_a_leader_whose_network_pauses_evicts_nothing_more_when_it_comes_back(site: Site, watcher: Watcher) -> None:
    silence = Silence()
    with budgeted(site, REPLICAS - 1):
        held = started_and_held(site)
        site.first.kube.rule = silence
        site.second.service.start()
        waiting.eventually(site.second.evictions, LIMIT, "the second to take over and to evict")
        asked = len(site.first.evictions())
        held.release(passes=True)
        site.first.kube.rule = passing
        silence.cut()
        waiting.eventually(
            lambda: site.first.service.metric("evenload_descheduler_leader") == 0, LIMIT, "the first to know it"
        )
        site.second.more_runs(RUNS)
        assert len(site.first.evictions()) == asked, "the one that came back follows"
        site.hold(watcher, site.second)
    assert min(watcher.fewest.values()) >= REPLICAS - 1, "the budgets held at every look"
