"""`descheduler --once` in Enforce on the real control plane: without a ledger by name and the Lease it observes."""

import pytest

from descheduler.wiring import LEASE
from kube import kinds
from tests import gate
from tests.contract.descheduler_site import Once, Site, Watcher, is_eviction
from tests.e2e import waiting

pytestmark = pytest.mark.cluster
SHEDDING = gate.Reply(429, "Too many requests, please try again later.")  # in plain text: flow control's


def observed(site: Site) -> Once:
    """Returns the first run without a ledger by name that would evict: the next one would find the node's cool-down."""

    def run() -> Once | None:
        once = site.once()
        return once if once.plan["evictions"] else None

    site.heat()
    return waiting.until(run, "one run that would evict")


def test_without_a_ledger_by_name_it_observes(site: Site, watcher: Watcher) -> None:
    plan, words = observed(site)
    assert plan["mode"] == "Observe"
    assert "--once in Enforce needs --ledger" in words
    watcher.look()
    assert (site.second.evictions(), watcher.left) == ([], set())


def test_while_a_service_leads_it_observes(site: Site, watcher: Watcher) -> None:
    site.first.kube.rule = lambda call: SHEDDING if is_eviction(call) else None
    site.heat()
    site.first.service.start()
    waiting.eventually(site.first.evictions, waiting.START_SECONDS, "the service to ask for an eviction")
    plan, words = site.once("--ledger", str(site.ledger))
    assert plan["mode"] == "Observe"
    assert f"the Lease {LEASE} is held by " in words
    watcher.look()
    assert (site.second.evictions(), watcher.left) == ([], set())


def test_with_ledger_and_lease_it_evicts_and_gives_the_lease_back(site: Site, watcher: Watcher) -> None:
    observed(site)
    plan, words = site.once("--ledger", str(site.ledger))
    assert plan["mode"] == "Enforce", words
    watcher.look()
    asked = {call.path.split("/")[-2] for call in site.second.evictions()}
    assert len(watcher.left) == len(asked) == len(plan["evictions"]) > 0
    assert not site.door.get(kinds.LEASES, LEASE, namespace="evenload-system").spec.holder_identity
