"""Earlier evictions decide about the next, on a real control plane: a full quota, a load that is not the pods'."""

import contextlib

import pytest

from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import Run
from kube import kinds
from runtime import clock
from tests import commands
from tests.contract import test_descheduler_evicting as by_hand
from tests.contract.descheduler_site import HOT, NAMESPACE, Site, Watcher
from tests.e2e import waiting

pytestmark = pytest.mark.cluster
QUOTAS = f"api/v1/namespaces/{NAMESPACE}/resourcequotas"
RUNS = 3  # so many more runs in which nothing may leave


def in_vain(site: Site, count: int) -> None:
    """A ledger with so many evictions from the hot node after which its load was as high as before."""
    pods = [pod for pod in site.door.list(kinds.PODS, namespace=NAMESPACE).items if pod.node_name == HOT]
    began_seconds = clock.WallClock().now() - 600 * (count + 1)
    with contextlib.closing(Ledger(site.ledger).open()) as ledger:
        for number, pod in enumerate(pods[:count]):
            at_seconds = began_seconds + 600 * number
            run = Run(f"run-{number}", at_seconds, "Enforce", "9c1e")
            (eviction,) = by_hand.by_hand(pod, site.door.get(kinds.NODES, HOT)).evictions
            row = ledger.intend(run, eviction, at_seconds=at_seconds).row_id
            ledger.decide(row, "evicted", status=201, message="", at_seconds=at_seconds)
            ledger.fill(row, gone_at_seconds=at_seconds + 10, ready_at_seconds=at_seconds + 10)
            ledger.fill(row, landed_pod=f"{number}", load_5m_ratio=0.9, load_30m_ratio=0.9)


def test_a_node_whose_load_did_not_fall_is_left_alone(site: Site, watcher: Watcher) -> None:
    in_vain(site, 3)
    site.heat()
    site.first.service.start()
    site.judged(site.first, "load_not_falling")
    site.first.more_runs(RUNS)
    watcher.look()
    assert not watcher.left
    (told,) = [one for one in site.first.service.rows("/events") if one["reason"] == "NodeLoadNotFalling"]
    assert (told["kind"], told["name"]) == ("Node", HOT)
    assert "3 evictions should have lowered memory_avg_5m by 0.30 and lowered it by 0.00" in told["note"]
    words = ["doctor", "--kubeconfig", str(site.cluster.kubeconfig), "--prometheus", site.cluster.prometheus_url]
    checks = commands.document(*words, "--descheduler", site.first.service.url)["checks"]
    (found,) = [one for one in checks if one["check"] == "relief"]
    assert (found["verdict"], found["seen"].partition(":")[0]) == ("warn", HOT)


def test_evictions_that_are_never_replaced_end_the_relief(site: Site, watcher: Watcher) -> None:
    site.obey(descheduler__limits__unreplaced=1)
    site.cluster.api.create(QUOTAS, {"metadata": {"name": "full"}, "spec": {"hard": {"pods": "1"}}})
    waiting.until(lambda: site.cluster.api.get(f"{QUOTAS}/full").get("status", {}).get("hard"), "the quota to hold")
    site.heat()
    site.first.service.start()
    site.judged(site.first, "unreplaced")
    site.first.more_runs(RUNS)
    watcher.look()
    assert len(watcher.left) == 1, "the other workload is whole, and its pods would help"
    assert site.plan(site.first)["blocked"].startswith("1 eviction waits for a Ready replacement, 1 allowed")
    assert site.first.service.metric("evenload_evictions_unreplaced") == 1
    assert "ReplacementsNotReady" in {one["reason"] for one in site.first.service.rows("/events")}
    site.cluster.api.delete(f"{QUOTAS}/full")
    waiting.eventually(lambda: len(watcher.left) > 1, waiting.START_SECONDS, "relief to go on")
    site.hold(watcher, site.first)
