"""Pools on a real control plane: each node is filtered, scored and relieved by its own pool."""

import collections.abc

import pytest

from kube import objects
from lab import cluster
from runtime.exit_codes import Exit
from tests import commands
from tests.e2e import bodies, hot_nodes, stack, waiting

pytestmark = pytest.mark.cluster
SPOT, PLAIN = "node-0", "node-3"
LABELS = {"lifecycle": "spot"}
PAIR = "e2e.evenload.io/pair"  # on SPOT and PLAIN alone
POOLS = [
    {
        "name": "spot",
        "nodeSelector": {"matchLabels": LABELS},
        "filter": {"thresholds": {"cpu_avg_5m": 0.95, "cpu_max_1h": 0}},
        "descheduler": {"mode": "Enforce"},
    },
    {"name": "batch", "nodeSelector": {"matchLabels": {"group": "batch"}}, "score": {"goal": "pack", "target": 0.6}},
]
HEAVY: bodies.PodOptions = {"cpu_millicores": 100, "memory_bytes": 5 * 2**30, "memory_request": "256Mi"}
RELIEF_SECONDS = 300.0  # as of test_relief


@pytest.fixture(scope="module")
def running(six_nodes: cluster.Cluster) -> collections.abc.Iterator[stack.Stack]:
    """All three services on six nodes, the descheduler not started yet."""
    with stack.in_charge(six_nodes, sync__staleAfter="60s", pools=POOLS) as started:
        for name in (SPOT, PLAIN):
            hot_nodes.labelled(started, name, {PAIR: "yes"})
        yield started


@pytest.fixture
def evenload(running: stack.Stack) -> collections.abc.Iterator[stack.Stack]:
    """Idle nodes of which one is spot; the descheduler is ended afterwards."""
    for name in running.nodes():
        hot_nodes.labelled(running, name, {"lifecycle": "spot" if name == SPOT else None})
    running.reset()
    yield running
    running.descheduler.kill()


def pools_known(evenload: stack.Stack) -> dict[str, str | None]:
    """The pool of either node, as the extender has it."""
    return {name: evenload.view_of(name).get("pool") for name in (SPOT, PLAIN)}


def test_a_pod_lands_by_the_line_of_its_nodes_pool_and_another_label_is_another_pool(evenload: stack.Stack) -> None:
    for name in (SPOT, PLAIN):
        evenload.heat(name, cpu_ratio=0.85)
    waiting.until(lambda: pools_known(evenload) == {SPOT: "spot", PLAIN: None}, "the extender to see the label")
    evenload.create_pods("before-", 6, node_selector={PAIR: "yes"})
    assert evenload.per_node("before-", 6) == {SPOT: 6}, "0.85 is under 0.95 and over 0.65"

    words = ("--node", SPOT, "--kubeconfig", str(evenload.cluster.kubeconfig))
    shown = commands.output("policy", "show", str(evenload.policy), *words).splitlines()
    assert shown[1] == f"  - node {SPOT} belongs to pool spot, the first that matches it (lifecycle=spot)"
    listed = commands.document("nodes", "--extender", evenload.extender.url, codes=(Exit.OK,))
    rows = {row["name"]: row for row in listed["nodes"]}
    assert (rows[SPOT]["allowed"], rows[SPOT]["pool"]) == (True, "spot")
    assert (rows[PLAIN]["rejected"], rows[PLAIN]["pool"]) == ("cpu_avg_5m over 0.65", None)

    hot_nodes.labelled(evenload, SPOT, {"lifecycle": None})
    hot_nodes.labelled(evenload, PLAIN, LABELS)
    waiting.until(lambda: pools_known(evenload) == {SPOT: None, PLAIN: "spot"}, "the extender to see both")
    evenload.create_pods("after-", 6, node_selector={PAIR: "yes"})
    assert evenload.per_node("after-", 6) == {PLAIN: 6}


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "spread"])
def test_pods_fill_the_fuller_node_of_a_pool_that_is_packed_and_the_emptier_one_elsewhere(
    evenload: stack.Stack, packed: bool
) -> None:
    for name in (SPOT, PLAIN):
        hot_nodes.labelled(evenload, name, {"group": "batch" if packed else None, "lifecycle": None})
    evenload.heat(PLAIN, cpu_ratio=0.45, memory_ratio=0.45)
    wanted = "batch" if packed else None
    waiting.until(lambda: pools_known(evenload) == {SPOT: wanted, PLAIN: wanted}, "the extender to see the labels")
    prefix = f"{'packed' if packed else 'spread'}-"
    evenload.create_pods(prefix, 2, node_selector={PAIR: "yes"})
    assert evenload.per_node(prefix, 2) == {PLAIN if packed else SPOT: 2}
    hot_nodes.labelled(evenload, SPOT, {"group": None})
    hot_nodes.labelled(evenload, PLAIN, {"group": None})


def fill(evenload: stack.Stack, name: str, node: str) -> dict[str, objects.Pod]:
    """Brings a node over 80 % of memory by pods of a Deployment that may go anywhere later; they by uid."""
    pods = hot_nodes.filled(evenload, name, node, HEAVY)
    evenload.set_load(node, memory_ratio=0.25)
    evenload.await_reading(node, "memory_avg_5m", 0.8, 1.0)
    return pods


def results(evenload: stack.Stack) -> dict[tuple[str, str, str], set[str]]:
    """The uids of pods in the ledger by node, mode and result."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for row in evenload.descheduler.rows("/evictions"):
        found.setdefault((row["node"], row["mode"], row["result"]), set()).add(row["pod_uid"])
    return found


def test_the_descheduler_evicts_in_the_pool_that_enforces_and_only_observes_elsewhere(evenload: stack.Stack) -> None:
    moving, staying = fill(evenload, "moves", SPOT), fill(evenload, "stays", PLAIN)
    evenload.descheduler.start()
    evenload.await_reading(SPOT, "memory_avg_5m", 0.0, 0.6, timeout_seconds=RELIEF_SECONDS)
    waiting.eventually(
        lambda: results(evenload).get((PLAIN, "Observe", "observed")),
        RELIEF_SECONDS,
        f"a pod of {PLAIN} to be observed",
        lambda: results(evenload),
    )
    found = results(evenload)
    assert found[SPOT, "Enforce", "evicted"] <= set(moving)
    assert found[PLAIN, "Observe", "observed"] <= set(staying)
    assert {(node, mode) for node, mode, _ in found} == {(SPOT, "Enforce"), (PLAIN, "Observe")}, found
    here = {pod.uid: pod.node_name for pod in evenload.pods("stays-")}
    assert here == dict.fromkeys(staying, PLAIN), "no pod of the other node was touched"
    hints = {name: "evenload.io/relief" in node.annotations for name, node in evenload.nodes().items()}
    assert (hints[SPOT], hints[PLAIN]) == (True, False)

    plan = hot_nodes.plan(evenload)
    modes = {one["pool"]: one["mode"] for one in plan["pools"]}
    assert modes == {"spot": "Enforce", "batch": "Observe", None: "Observe"}
    assert {node["node"]: node["mode"] for node in plan["nodes"]} == {PLAIN: "Observe"}, "the spot node is relieved"
    notes = hot_nodes.await_events(evenload, "NodeOverloaded", lambda notes: any(map(observed, notes)))
    assert all(PLAIN in note for note in notes if observed(note))


def observed(note: str) -> bool:
    """True of an Event about an eviction that was not carried out."""
    return note.startswith("OBSERVE ONLY: ")
