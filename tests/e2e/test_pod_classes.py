"""Classes of pods on a real control plane: production is judged by what production uses, others by the whole load."""

import collections.abc

import pytest

from kube import kinds
from lab import cluster
from runtime.exit_codes import Exit
from tests import commands
from tests.e2e import bodies, hot_nodes, policies, stack, waiting
from tests.e2e.lent import lent

pytestmark = pytest.mark.cluster
FULL, PRODUCING = "node-0", "node-3"
PAIR, HOME = "e2e.evenload.io/pair", "e2e.evenload.io/home"  # on both of them; on PRODUCING alone
CLASS = "production"
COMPLETE_OR_NOT = (Exit.OK, Exit.PARTIAL)  # on a busy machine windows of seconds are empty at times
NODE_BYTES = 32 * 2**30
USED = "container_memory_working_set_bytes"
METRIC = {
    "name": "production_memory",
    "resource": "production-memory",
    "statistic": "avg",
    "window": "5s",
    "query": (
        f'(sum by (instance) (avg_over_time({USED}{{pod=~"prod-.*",container!="",container!="POD"}}[30s])) '
        f'or 0 * sum by (instance) ({USED}{{id="/"}})) / {NODE_BYTES}'
    ),
}
PRODUCTION = {
    "name": CLASS,
    "match": {"priorityClassNames": [CLASS]},
    "filter": {"thresholds": {"production_memory": 0.4, "memory_avg_5m": 0.95, "memory_max_1h": 0.95}},
    "score": {"weights": {"production_memory": 1, "memory_avg_5m": 0, "memory_max_1h": 0, "memory_max_1d": 0}},
}
LARGE: bodies.PodOptions = {
    "memory_bytes": 8 * 2**30,
    "memory_request": "256Mi",
    "node_selector": {HOME: "yes"},
    "priority_class": CLASS,
}


@pytest.fixture
def evenload(six_nodes: cluster.Cluster) -> collections.abc.Iterator[stack.Stack]:
    """Annotator and extender on six idle nodes, and a PriorityClass for production."""
    policy = {"metrics": [*policies.METRICS, METRIC], "sync__staleAfter": "60s", "podClasses": [PRODUCTION]}
    with lent(six_nodes), stack.started_on(six_nodes, lambda path: policies.write(path, **policy)) as started:
        started.door.create(kinds.PRIORITY_CLASSES, {"metadata": {"name": CLASS}, "value": 9500})
        for name in (FULL, PRODUCING):
            hot_nodes.labelled(started, name, {PAIR: "yes"})
        hot_nodes.labelled(started, PRODUCING, {HOME: "yes"})
        started.take_charge()
        yield started


def test_a_production_pod_goes_where_production_is_low_and_a_batch_pod_where_the_whole_load_is(
    evenload: stack.Stack,
) -> None:
    evenload.set_load(PRODUCING, memory_ratio=0.05)
    evenload.create_pods("prod-old-", 2, **LARGE)
    evenload.heat(FULL, memory_ratio=0.85)
    evenload.await_reading(PRODUCING, "production_memory", 0.45, 0.55)
    evenload.await_reading(PRODUCING, "memory_avg_5m", 0.5, 0.6)
    evenload.await_reading(FULL, "production_memory", 0.0, 0.01)
    waiting.until(
        lambda: evenload.view_of(FULL)["rejected"] == "memory_avg_5m over 0.65", "the node to be closed for most"
    )

    evenload.create_pods("prod-new-", 4, node_selector={PAIR: "yes"}, priority_class=CLASS)
    evenload.create_pods("batch-", 4, node_selector={PAIR: "yes"})
    assert evenload.per_node("prod-new-", 4) == {FULL: 4}, "0.85 is under 0.95, and of production there is none"
    assert evenload.per_node("batch-", 4) == {PRODUCING: 4}, "0.55 is under 0.65, whatever production uses of it"

    kubeconfig = ("--kubeconfig", str(evenload.cluster.kubeconfig))
    words = ("policy", "show", str(evenload.policy), "--pod", "default/prod-new-0", *kubeconfig)
    shown = commands.output(*words, codes=COMPLETE_OR_NOT).splitlines()
    assert shown[1] == (
        "  - pod default/prod-new-0 (priority 9500, PriorityClass production) is of class production, the first that "
        "matches it (the pods of PriorityClass production)"
    )
    asked = ("explain", "pod", "prod-new-0", "--extender", evenload.extender.url, *kubeconfig)
    story = commands.document(*asked, codes=COMPLETE_OR_NOT)
    assert (story["source"], story["pod_class"]) == ("decision", CLASS)
    verdicts = {node["name"]: (node["allowed"], node["rejected"]) for node in story["nodes"]}
    assert verdicts == {FULL: (True, None), PRODUCING: (False, "production_memory over 0.4")}
