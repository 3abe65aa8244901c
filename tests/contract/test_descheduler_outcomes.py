"""What earlier evictions came to decides about the next, on the real control plane: a quota that allows no new pod."""

from collections.abc import Iterator

import pytest

from tests.contract import descheduler_site
from tests.contract.descheduler_site import LIMIT, NAMESPACE, Site, Watcher
from tests.e2e import waiting

pytestmark = pytest.mark.cluster
QUOTAS = f"api/v1/namespaces/{NAMESPACE}/resourcequotas"
RUNS = 3  # so many more runs in which nothing may leave


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Four nodes and two workloads; no descheduler runs."""
    with descheduler_site.of_two_workloads(tmp_path_factory.mktemp("outcomes")) as made:
        yield made


@pytest.fixture
def site(plane: Site) -> Site:
    plane.renew()
    return plane


@pytest.fixture
def watcher(site: Site) -> Iterator[Watcher]:
    with descheduler_site.watched(site) as made:
        yield made


def test_evictions_that_are_never_replaced_end_the_relief(site: Site, watcher: Watcher) -> None:
    site.obey(descheduler__limits__unreplaced=1)
    site.cluster.api.create(QUOTAS, {"metadata": {"name": "full"}, "spec": {"hard": {"pods": "1"}}})
    waiting.eventually(
        lambda: site.cluster.api.get(f"{QUOTAS}/full").get("status", {}).get("hard"), LIMIT, "the quota to hold"
    )
    site.heat()
    site.first.service.start()
    site.judged(site.first, "unreplaced")
    site.first.more_runs(RUNS)
    watcher.look()
    assert len(watcher.left) == 1, "the other workload is whole, and its pods would help"
    assert site.plan(site.first)["blocked"].startswith("1 eviction waits for a Ready replacement, 1 allowed")
    assert site.first.service.metric("evenload_evictions_unreplaced") == 1
    events = site.first.service.json("/events")
    assert isinstance(events, dict)
    assert "ReplacementsNotReady" in {one["reason"] for one in events["events"]}
    site.cluster.api.delete(f"{QUOTAS}/full")
    waiting.eventually(lambda: len(watcher.left) > 1, waiting.START_SECONDS, "relief to go on")
    site.hold(watcher, site.first)
