"""Relief of a node that is hot anyway: evictions under a disruption budget, on a real control plane.

A watcher beside the descheduler looks at the budget and its pods all the time; the plan, the ledger and the Events are
read back afterwards.
"""

import collections.abc
import itertools
import json
import sqlite3
import threading
import typing

import click.testing
import pytest

import cli.__main__
from kube import kinds, objects
from runtime import clock
from tests.e2e import bodies, policies, stack, waiting

pytestmark = pytest.mark.cluster
HOT = "node-0"
HEAVY: bodies.PodOptions = {"cpu_millicores": 200, "memory_bytes": 5 * 2**30, "memory_request": "256Mi"}


class BudgetWatcher:
    """Lists the pods many times a second and keeps the worst that it saw: ready pods against what must be ready."""

    def __init__(self, running: stack.Stack, name: str, least_ready: int) -> None:
        self._running = running
        self._name = name
        self._least_ready = least_ready
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.lowest_ready = 10**6
        self.looks = 0

    def __enter__(self) -> "BudgetWatcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def held(self) -> bool:
        """Whether enough pods were ready at every look (and there were looks)."""
        return self.looks > 0 and self.lowest_ready >= self._least_ready

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            pods = self._running.door.list(
                kinds.PODS, namespace=stack.NAMESPACE, label_selector=f"app={self._name}"
            ).items
            self.lowest_ready = min(self.lowest_ready, sum(pod.ready and not pod.deleting for pod in pods))
            self.looks += 1


@pytest.fixture(scope="module")
def running() -> collections.abc.Iterator[stack.Stack]:
    """All three services on five nodes, the descheduler told to Enforce but not started yet."""
    with stack.started(5, lambda path: policies.write(path, descheduler__mode="Enforce")) as started:
        started.start(started.annotator, started.extender)
        started.use_extender()
        yield started


@pytest.fixture
def evenload(running: stack.Stack) -> collections.abc.Iterator[stack.Stack]:
    """Idle nodes, a fresh ledger, the descheduler not running."""
    running.reset()
    for leftover in running.directory.glob("ledger.db*"):
        leftover.unlink()
    yield running
    running.descheduler.kill()


def ready(evenload: stack.Stack, prefix: str, count: int) -> list[objects.Pod]:
    """Waits until `count` pods of that prefix run and are ready."""

    def found() -> list[objects.Pod]:
        pods = [pod for pod in evenload.pods(prefix) if pod.ready]
        return pods if len(pods) == count else []

    return waiting.eventually(found, 90, f"{count} pods {prefix}* to be ready")


def overload(
    evenload: stack.Stack, *, replicas: int = 4, budget: int | None = 3, **options: typing.Unpack[bodies.PodOptions]
) -> None:
    """Brings HOT over 80 % of memory by the pods of Deployment `web` that were made to land there."""
    others = [name for name in evenload.nodes() if name != HOT]
    for name in others:
        evenload.door.merge_patch(kinds.NODES, name, {"spec": {"unschedulable": True}})
    shape: bodies.PodOptions = {**HEAVY, **options}
    evenload.door.create(kinds.DEPLOYMENTS, bodies.deployment("web", replicas, **shape), namespace=stack.NAMESPACE)
    if budget is not None:
        evenload.door.create(kinds.BUDGETS, bodies.budget("web", budget), namespace=stack.NAMESPACE)
    ready(evenload, "web-", replicas)
    for name in others:
        evenload.door.merge_patch(kinds.NODES, name, {"spec": {"unschedulable": None}})
    evenload.set_load(HOT, memory_ratio=0.25)
    evenload.await_reading(HOT, "memory_avg_5m", 0.8, 1.0)


def ledger_rows(evenload: stack.Stack) -> list[dict[str, object]]:
    """All rows of GET /evictions."""
    answer = evenload.descheduler.json("/evictions")
    assert isinstance(answer, dict)
    rows: list[dict[str, object]] = answer["evictions"]
    return rows


def evicted_pods(evenload: stack.Stack) -> set[str]:
    """Names of the pods that the ledger says were evicted."""
    return {str(row["pod"]) for row in ledger_rows(evenload) if row["result"] == "evicted"}


def pod_events(evenload: stack.Stack) -> set[str]:
    """Names of the pods that an Event of ours says were evicted."""
    events = evenload.door.list(kinds.EVENTS, namespace=stack.NAMESPACE, field_selector="reason=NodeOverloaded").items
    return {event.regarding.name for event in events if event.regarding.kind == "Pod"}


def test_an_overloaded_node_reaches_its_target_under_a_budget_that_is_never_violated(evenload: stack.Stack) -> None:
    overload(evenload)
    first = {pod.uid for pod in evenload.pods("web-")}
    with BudgetWatcher(evenload, "web", least_ready=3) as watcher:
        evenload.descheduler.start()
        evenload.await_reading(HOT, "memory_avg_5m", 0.0, 0.6, timeout_seconds=120)
        landed = ready(evenload, "web-", 4)
    assert watcher.held(), f"{watcher.lowest_ready} ready of 3 that the budget wants, in {watcher.looks} looks"
    moved = [pod for pod in landed if pod.uid not in first]
    assert moved
    assert all(pod.node_name != HOT for pod in moved), "an evicted pod came back to the hot node"
    waiting.eventually(lambda: len(evicted_pods(evenload)) == len(moved), 90, "one ledger row per eviction")
    waiting.eventually(lambda: evicted_pods(evenload) <= pod_events(evenload), 90, "one Event per eviction")
    waiting.eventually(lambda: all(row["ready_at"] for row in listed(evenload)), 90, "every outcome to be known")
    assert all((row["returned"], row["namespace"]) == (False, stack.NAMESPACE) for row in listed(evenload))


def listed(evenload: stack.Stack) -> list[dict[str, typing.Any]]:
    """What `evenload evictions` says of the evictions carried out."""
    words = ["evictions", "--descheduler", evenload.descheduler.url, "--outcome", "evicted", "-o", "json"]
    result = click.testing.CliRunner().invoke(cli.__main__.main, words)
    assert result.exit_code == 0, result.stderr
    rows: list[dict[str, typing.Any]] = json.loads(result.stdout)["evictions"]
    return rows


def test_the_ledger_survives_a_killed_descheduler(evenload: stack.Stack) -> None:
    overload(evenload, budget=None)
    evenload.descheduler.start()
    waiting.eventually(lambda: evicted_pods(evenload), 90, "the first eviction")
    known = evicted_pods(evenload)
    evenload.descheduler.kill()
    with sqlite3.connect(f"file:{evenload.ledger}?mode=ro", uri=True) as stored:
        assert stored.execute("pragma integrity_check").fetchone() == ("ok",)
    evenload.descheduler.start()
    assert known <= evicted_pods(evenload)


def test_a_protected_pod_stays_however_hot_its_node_is(evenload: stack.Stack) -> None:
    overload(evenload, budget=None, annotations={"evenload.io/evictable": "false"})
    first = {pod.uid for pod in evenload.pods("web-")}
    evenload.descheduler.start()
    waiting.eventually(lambda: plan_of(evenload, HOT), 90, "the plan to name the hot node")
    waiting.throughout(lambda: {pod.uid for pod in evenload.pods("web-")} == first, 15, "protected pods stayed")
    assert not ledger_rows(evenload)
    verdicts = {candidate["verdict"] for candidate in plan_of(evenload, HOT)["candidates"]}
    assert len(verdicts) == 1
    assert verdicts != {"evict"}


def test_the_second_replica_of_a_service_with_one_spare_waits_for_the_firsts_replacement(evenload: stack.Stack) -> None:
    overload(evenload, replicas=4, budget=3, annotations={"cluster.evenload.io/ready-delay": "8s"})
    with BudgetWatcher(evenload, "web", least_ready=3) as watcher:
        evenload.descheduler.start()
        evenload.await_reading(HOT, "memory_avg_5m", 0.0, 0.6, timeout_seconds=180)
        ready(evenload, "web-", 4)
    assert watcher.held(), f"{watcher.lowest_ready} ready of 3"
    times = sorted(str(row["intended_at"]) for row in ledger_rows(evenload) if row["result"] == "evicted")
    assert len(times) >= 2
    gaps = [clock.from_rfc3339(later) - clock.from_rfc3339(earlier) for earlier, later in itertools.pairwise(times)]
    assert min(gaps) >= 8, f"evictions followed each other before the replacement was ready: {times}"


def plan_of(evenload: stack.Stack, node: str) -> dict[str, typing.Any]:
    """What GET /plan says of one overloaded node, empty while it says nothing."""
    answer = evenload.descheduler.json("/plan")
    assert isinstance(answer, dict)
    rows: list[dict[str, typing.Any]] = answer["nodes"]
    return next((row for row in rows if row["node"] == node), {})
