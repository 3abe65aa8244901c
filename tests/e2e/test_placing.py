"""New pods and real load: kube-scheduler with Evenload, and without it, on a real control plane of six nodes."""

import collections.abc
import time
import typing

import pytest

from kube import kinds
from lab import cluster
from policy.contract import owner_usage
from runtime import clock
from runtime.exit_codes import Exit
from tests import commands
from tests.e2e import bodies, stack, waiting

pytestmark = pytest.mark.cluster
HOT, *COOL = (f"node-{index}" for index in range(6))
MANY = 60  # among nodes that are nearly equal the scheduler draws lots: of 12 pods one of six often gets none
STALE_SECONDS = 60  # longer than any stall of the annotator or Prometheus: what is read must not turn stale meanwhile
SOON_STALE_SECONDS = 10  # where they must turn stale: nobody waits for a minute
FAILED_QUERIES, SYNCS = "evenload_prometheus_query_failures_total", "evenload_annotator_syncs_total"


@pytest.fixture(scope="module")
def running(six_nodes: cluster.Cluster) -> collections.abc.Iterator[stack.Stack]:
    """Annotator and extender on six nodes; each test starts from idle nodes through `evenload`."""
    with stack.in_charge(six_nodes, sync__staleAfter=f"{STALE_SECONDS}s") as started:
        yield started


@pytest.fixture
def evenload(running: stack.Stack) -> stack.Stack:
    """The stack with one hot node among cool ones, no pods, both services, and a scheduler that asks the extender."""
    running.reset({HOT: 0.9})
    return running


def test_a_hot_node_gets_no_new_pod_while_cool_ones_exist(evenload: stack.Stack) -> None:
    evenload.create_pods("burst-", 24)
    assert evenload.per_node("burst-", 24)[HOT] == 0


def test_the_same_burst_without_evenload_does_use_the_hot_node(evenload: stack.Stack) -> None:
    evenload.cluster.start_scheduler()
    try:
        evenload.create_pods("burst-", MANY)
        assert evenload.per_node("burst-", MANY)[HOT] > 0
    finally:
        evenload.use_extender()


def test_thirty_pods_at_once_spread_over_the_cool_nodes_instead_of_herding_onto_the_coolest(
    evenload: stack.Stack,
) -> None:
    coolest, *others = COOL
    for node in others:
        evenload.set_load(node, cpu_ratio=0.3, memory_ratio=0.3)
    for node in others:
        evenload.await_reading(node, "cpu_avg_5m", 0.25, 0.35)
    evenload.await_reading(coolest, "cpu_avg_5m", 0.05, 0.15)
    evenload.create_pods("herd-", 30)
    landed = evenload.per_node("herd-", 30)
    assert landed[HOT] == 0
    assert set(landed) == set(COOL)
    assert landed[coolest] <= 12, f"herded onto the coolest: {landed}"


@pytest.mark.parametrize(
    ("text", "cpu", "ignored"),
    [
        ("cpu=5", "5000m (annotation)", ""),
        ("cpu=500", "70m (request ratio)", "; annotation evenload.io/expected-usage ignored: more than any node has"),
    ],
)
def test_a_pod_says_what_it_will_use(evenload: stack.Stack, text: str, cpu: str, ignored: str) -> None:
    evenload.create_pods("own-", 1, annotations={"evenload.io/expected-usage": text})
    evenload.per_node("own-", 1)
    words = ("--extender", evenload.extender.url, "--kubeconfig", str(evenload.cluster.kubeconfig))
    shown = commands.output("explain", "pod", "own-0", *words, codes=(Exit.OK, Exit.PARTIAL))
    line = f"expected of the pod: cpu {cpu}, memory 45Mi (request ratio), counted in the score{ignored}"
    assert line in shown.splitlines()


def test_a_node_whose_series_disappear_is_missing_not_idle(evenload: stack.Stack) -> None:
    evenload.set_load(HOT, hidden=True)
    waiting.until(
        lambda: not evenload.readings().get(HOT) and not evenload.view_of(HOT)["values"],
        "the values to go from annotation and extender",
    )
    for node in COOL:
        evenload.set_load(node, cpu_ratio=0.4, memory_ratio=0.4)
    for node in COOL:
        evenload.await_reading(node, "cpu_max_1d", 0.35, 0.45)
    seen = evenload.view_of(HOT)
    assert seen["usable"] is False
    assert seen["reason"]
    assert seen["median_base"] is True, seen
    evenload.create_pods("blind-", 12)
    landed = evenload.per_node("blind-", 12)
    assert landed[HOT] <= 8, f"a node nobody can see was taken for idle: {landed}"


def test_scheduling_goes_on_when_the_extender_is_killed(evenload: stack.Stack) -> None:
    evenload.extender.kill()
    try:
        evenload.create_pods("orphan-", 6)
        assert evenload.per_node("orphan-", 6).total() == 6
    finally:
        evenload.extender.start()
    evenload.heat(HOT, cpu_ratio=0.9)
    evenload.create_pods("again-", 12)
    assert evenload.per_node("again-", 12)[HOT] == 0


def test_scheduling_goes_on_neutrally_when_prometheus_is_down(evenload: stack.Stack) -> None:
    evenload.cluster.processes["prometheus"].stop()
    try:
        for counter in (FAILED_QUERIES, SYNCS):  # what was answered before the first failure is written with that sync
            evenload.annotator.grows(counter)
        past = time.monotonic() + SOON_STALE_SECONDS + 1
        evenload.obey(sync__staleAfter=f"{SOON_STALE_SECONDS}s")
        waiting.eventually(
            lambda: time.monotonic() > past and not any(row["usable"] for row in evenload.view()),
            SOON_STALE_SECONDS + 90,
            "the last readings to grow stale",
            evenload.view,
        )
        evenload.create_pods("stale-", MANY)
        landed = evenload.per_node("stale-", MANY)
        assert landed[HOT] > 0, (landed, evenload.view_of(HOT))
    finally:
        evenload.cluster.processes["prometheus"].start()
        evenload.obey(sync__staleAfter=f"{STALE_SECONDS}s")
    evenload.await_reading(HOT, "cpu_avg_5m", 0.8, 1.0)
    evenload.create_pods("fresh-", 12)
    assert evenload.per_node("fresh-", 12)[HOT] == 0


def test_a_node_with_thresholds_of_its_own_and_a_pod_that_opts_out_pass(evenload: stack.Stack) -> None:
    waiting.until(lambda: evenload.view_of(HOT)["rejected"], "the extender to reject the hot node")
    evenload.create_pods("free-", 1, annotations={"evenload.io/filter": "off"})
    evenload.placed("free-", 1)
    judged = decided(evenload, "free-0", "filter")
    assert (judged["exempt"], judged["passed"]) == ("annotation evenload.io/filter: off", 6)
    own = {"evenload.io/thresholds": '{"cpu_avg_5m": "95%", "cpu_max_1h": 0}'}
    evenload.door.merge_patch(kinds.NODES, HOT, {"metadata": {"annotations": own}})
    try:
        waiting.until(lambda: not evenload.view_of(HOT)["rejected"], "the node's own thresholds to hold")
    finally:
        gone = {"metadata": {"annotations": dict.fromkeys(own)}}
        evenload.door.merge_patch(kinds.NODES, HOT, gone)
    waiting.until(lambda: evenload.view_of(HOT)["rejected"], "the policy's thresholds to hold again")


def test_a_new_replica_is_estimated_by_what_its_siblings_use(evenload: stack.Stack) -> None:
    web = bodies.deployment("web", 3, cpu_request="100m", cpu_millicores=800)
    evenload.door.create(kinds.DEPLOYMENTS, web, namespace=stack.NAMESPACE)
    first = {pod.name for pod in evenload.placed("web-", 3)}
    waiting.until(lambda: cpu_mean(evenload) > 400, "the extender to know web's mean", lambda: cpu_mean(evenload))
    assert evenload.extender.metric("evenload_extender_owner_means") == 1
    evenload.door.merge_patch(kinds.DEPLOYMENTS, "web", {"spec": {"replicas": 4}}, namespace=stack.NAMESPACE)
    (fourth,) = {pod.name for pod in evenload.placed("web-", 4)} - first
    estimate = decided(evenload, fourth, "prioritize")["estimate"]
    assert estimate["cpu_by"].startswith("owner's mean over "), estimate
    assert 400 < estimate["cpu_millicores"] < 1000, estimate  # by request it would be 70


def decided(evenload: stack.Stack, pod: str, verb: str) -> dict[str, typing.Any]:
    """Waits for the newest decision of a verb about a pod: it is noted after the answer, which others may act on."""

    def newest() -> dict[str, typing.Any]:
        decisions = evenload.extender.rows(f"/decisions?namespace={stack.NAMESPACE}&pod={pod}")
        return next((decision for decision in decisions if decision["verb"] == verb), {})

    return waiting.until(newest, f"the {verb} decision about {pod}")


def cpu_mean(evenload: stack.Stack) -> float:
    """The mean use of web's replicas in millicores that the extender goes by, 0 while it goes by none."""
    maps = evenload.door.list(kinds.CONFIG_MAPS, namespace=stack.SYSTEM_NAMESPACE).items
    published = next((one.data for one in maps if one.name == owner_usage.CONFIG_MAP), None)
    said = owner_usage.NOTHING if published is None else owner_usage.decode(published)
    mean = said.means.get(owner_usage.owner_key(stack.NAMESPACE, "ReplicaSet", "web"))
    known = evenload.extender.json("/nodes")["owner_usage"]["at"] == clock.to_rfc3339(said.at_seconds)
    return mean.cpu_millicores or 0.0 if known and mean is not None else 0.0
