"""`descheduler --once` in Enforce on the real control plane: without a ledger by name it observes, else it evicts."""

import pytest

from descheduler.wiring import LEASE
from kube import kinds
from tests.contract.descheduler_site import Once, Site, Watcher
from tests.e2e import waiting

pytestmark = pytest.mark.cluster


def observed(site: Site) -> Once:
    """Returns the first run without a ledger by name that would evict: the next one would find the node's cool-down."""

    def run() -> Once | None:
        once = site.once()
        return once if once.plan["evictions"] else None

    site.heat()
    return waiting.until(run, "one run that would evict")


def test_without_a_ledger_by_name_it_observes_and_with_it_and_the_lease_it_evicts(site: Site, watcher: Watcher) -> None:
    plan, words = observed(site)
    assert plan["mode"] == "Observe"
    assert "--once in Enforce needs --ledger" in words
    watcher.look()
    assert (site.second.evictions(), watcher.left) == ([], set())
    plan, words = site.once("--ledger", str(site.ledger))
    assert plan["mode"] == "Enforce", words
    watcher.look()
    asked = {call.path.split("/")[-2] for call in site.second.evictions()}
    assert len(watcher.left) == len(asked) == len(plan["evictions"]) > 0
    assert not site.door.get(kinds.LEASES, LEASE, namespace="evenload-system").spec.holder_identity
