"""Shadow mode on a real control plane places as without an extender and counts; an edited policy makes it enforce."""

import collections
import collections.abc
import contextlib
from typing import Any

import pytest

from lab import cluster
from promql.http import client
from tests import commands
from tests.e2e import stack, waiting

pytestmark = pytest.mark.cluster
HOT, *COOL = (f"node-{index}" for index in range(6))
MANY = 60  # of which the hot node gets some ten where nothing keeps them off it
STALE: dict[str, object] = {"sync__staleAfter": "60s"}  # longer than any stall of the annotator or Prometheus
ANSWER_SECONDS = 60.0
PLACEMENTS = "evenload_extender_shadow_placements_total"
POINTS = "evenload_extender_shadow_missed_points"


@pytest.fixture(scope="module")
def running(six_nodes: cluster.Cluster) -> collections.abc.Iterator[stack.Stack]:
    """Annotator and extender on six nodes, in shadow mode; Prometheus scrapes the extender, too."""
    with stack.in_charge(six_nodes, extender__mode="Shadow", **STALE) as started:
        started.cluster.scrape([started.extender.url.removeprefix("http://")])
        yield started
        started.cluster.scrape(())


@pytest.fixture
def shadowed(running: stack.Stack) -> stack.Stack:
    """One hot node among cool ones, no pods, and an extender in shadow mode whose counters are scraped."""
    running.obey(extender__mode="Shadow", **STALE)
    running.reset({HOT: 0.9})
    waiting.eventually(lambda: scraped(running) is not None, 180, "the extender to be scraped")
    return running


def verdicts(item: stack.Stack) -> collections.Counter[str]:
    """Placements by verdict, as the extender counts them."""
    prefix = f'{PLACEMENTS}{{verdict="'
    lines = [line for line in item.extender.text("/metrics").splitlines() if line.startswith(prefix)]
    return collections.Counter({line[len(prefix) :].split('"')[0]: int(float(line.split()[1])) for line in lines})


def scraped(item: stack.Stack) -> float | None:
    """The placements that Prometheus knows of."""
    with contextlib.closing(client.connect(item.cluster.prometheus_url, timeout_seconds=ANSWER_SECONDS)) as door:
        samples = door.query(f"sum({PLACEMENTS})").samples
    return samples[0].value if samples else None


def reported(item: stack.Stack) -> dict[str, Any]:
    """The figures of `evenload effectiveness --shadow`."""
    words = ("effectiveness", "--shadow", "--since", "1h", "--prometheus", item.cluster.prometheus_url)
    document = commands.document(*words, "--prometheus-timeout", str(ANSWER_SECONDS))
    assert document["shadowSince"], "the span holds when shadow mode began"
    figures: dict[str, Any] = document["figures"]
    return figures


def place(item: stack.Stack, prefix: str) -> tuple[collections.Counter[str], collections.Counter[str]]:
    """Creates pods and waits until the extender has counted each: how many each node got, and each verdict."""
    before = verdicts(item)
    item.create_pods(prefix, MANY)
    landed = item.per_node(prefix, MANY)

    def counted() -> collections.Counter[str]:
        found = verdicts(item) - before
        return found if found.total() == MANY else collections.Counter()

    found = waiting.until(counted, "every placement to be counted", lambda: verdicts(item))
    return landed, found


def test_a_hot_node_gets_pods_as_without_an_extender_and_each_counts_as_rejected(shadowed: stack.Stack) -> None:
    landed, counted = place(shadowed, "burst-")
    assert landed[HOT] > 0
    assert counted["rejected"] == landed[HOT]
    assert counted["best"] + counted["lower"] == MANY - landed[HOT]
    decided = shadowed.extender.rows("/decisions?namespace=default&pod=burst-0")
    newest = {one["verb"]: one for one in reversed(decided)}
    assert {one["shadow"] for one in newest.values()} == {True}
    assert (newest["filter"]["candidates"], newest["filter"]["passed"]) == (6, 5)
    assert newest["prioritize"]["candidates"] == 5
    assert {one["assumed"] for one in newest.values()} == {""}


def test_the_report_says_of_a_real_prometheus_how_many_would_be_elsewhere(shadowed: stack.Stack) -> None:
    before = verdicts(shadowed).total()  # the extender's own: Prometheus may not know yet what another test placed
    landed, _ = place(shadowed, "reported-")
    waiting.until(lambda: scraped(shadowed) == before + MANY, "the placements to be scraped", lambda: scraped(shadowed))

    def near() -> dict[str, Any]:
        """An increase is extrapolated by up to a scrape at its end; of how many, only time makes right."""
        figures = reported(shadowed)
        return figures if abs(figures["pods"] - before - MANY) <= MANY / 6 else {}

    figures = waiting.eventually(near, 180, f"about {before + MANY} pods", lambda: reported(shadowed))
    assert figures["rejected"] >= 0.8 * landed[HOT]
    assert figures["left_out"] == 0


def test_an_edit_of_the_policy_makes_the_same_process_enforce_and_shadow_again(shadowed: stack.Stack) -> None:
    process, counted = shadowed.extender.pid, verdicts(shadowed)
    shadowed.obey(**STALE)
    shadowed.create_pods("enforced-", 24)
    assert shadowed.per_node("enforced-", 24)[HOT] == 0
    assert verdicts(shadowed) == counted, "placements of Enforce are not counted"
    shadowed.obey(extender__mode="Shadow", **STALE)
    landed, _ = place(shadowed, "again-")
    assert landed[HOT] > 0
    assert shadowed.extender.pid == process
