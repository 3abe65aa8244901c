"""What a plan looks up at once is what looking through everything finds: budgets, standings, readings, directories."""

from collections import Counter
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from descheduler.planning import disruption_budgets
from descheduler.snapshot import usage, workloads
from descheduler.sources.prometheus import PrometheusUsage
from kube.objects import Deployment
from policy.schema import load_policy
from promql.door import Answer, Sample
from promql.queries import identity
from tests import builders
from tests.unit.descheduler import scenes
from tests.unit.descheduler.test_plan_invariants import clusters

LABELS = st.dictionaries(st.sampled_from(["app", "tier", "zone"]), st.sampled_from(["a", "b"]), max_size=3)
EXPRESSIONS = st.lists(
    st.fixed_dictionaries(
        {"key": st.sampled_from(["app", "tier"]), "operator": st.sampled_from(["Exists", "DoesNotExist"])}
    ),
    max_size=1,
)
SELECTORS = st.none() | st.fixed_dictionaries({"matchLabels": LABELS, "matchExpressions": EXPRESSIONS})
NAMESPACES = st.sampled_from(["default", "other"])


@hypothesis.given(st.lists(st.tuples(NAMESPACES, SELECTORS), max_size=8), NAMESPACES, LABELS)
def test_the_budgets_over_a_pod(
    drawn: list[tuple[str, dict[str, object] | None]], namespace: str, labels: dict[str, str]
) -> None:
    several = [
        builders.budget(f"b{number}", namespace=where, allowed=1, spec={"selector": selector})
        for number, (where, selector) in enumerate(drawn)
    ]
    pod = builders.pod("web-0", namespace=namespace, labels=labels)
    expected = [
        one.name
        for one in several
        if one.namespace == namespace and one.spec.selector is not None and one.spec.selector.matches(labels)
    ]
    assert [one.name for one in disruption_budgets.Headroom(reversed(several)).over(pod)] == expected


@hypothesis.given(clusters())
@hypothesis.settings(max_examples=30)
def test_the_standing_of_every_workload(scene: scenes.Scene) -> None:
    taken = scene.snapshot()
    serving = [pod for pod in taken.pods if pod.ready and not pod.deleting and not pod.finished]
    ready = Counter(pod.owner.uid for pod in serving if pod.owner is not None)
    standings = taken.standings()
    assert {uid: standings(uid) for uid in taken.workloads} == {
        uid: workloads.WorkloadStatus(workload, min(workload.ready, ready[uid]))
        for uid, workload in taken.workloads.items()
    }
    by_node = {
        name: [pod for pod in taken.pods if pod.node_name == name] for name in {pod.node_name for pod in taken.pods}
    }
    assert taken.on_nodes == by_node


@pytest.mark.parametrize(
    ("fields", "ready"),
    [
        pytest.param({}, 1, id="at work"),
        pytest.param({"phase": "Failed"}, 0, id="ended, with a condition of before"),
        pytest.param({"metadata": {"deletionTimestamp": builders.CREATED}}, 0, id="going"),
    ],
)
def test_a_ready_pod_counts_while_it_serves(fields: dict[str, Any], ready: int) -> None:
    index = workloads.Index([builders.replica_set("web", replicas=3)])
    pod = builders.pod("web-0", node="n", **fields)
    standing = workloads.standings({("default", "uid-web"): [pod]}, index, bool)("uid-web")
    assert standing is not None
    assert standing.ready == ready


def test_replicas_of_two_replica_sets_stand_for_their_deployment() -> None:
    owned = scenes.owned_by("Deployment", "web")
    old, new = (builders.replica_set(name, replicas=1, mutate=owned) for name in ("old", "new"))
    deployment = scenes.controller(Deployment, "web", replicas=3)
    index = workloads.Index([old, new, deployment])
    pods = {name: [builders.pod(name, node="n", owner=("ReplicaSet", name))] for name in ("old", "new")}
    standings = workloads.standings({("default", f"uid-{name}"): of for name, of in pods.items()}, index, bool)
    standing = standings("uid-web")
    assert standing is not None
    assert standings("uid-old") is None, "a version is no workload"
    assert (standing.workload.name, standing.ready, standing.unavailable) == ("web", 2, 1)
    assert index["uid-old"] == index["uid-new"] == index["uid-web"]


def test_a_version_of_something_unknown_leads_nowhere() -> None:
    version = builders.replica_set("web-1", mutate=scenes.owned_by("Roll", "web", "uid-roll", "example.com/v1"))
    bare = builders.replica_set("bare")
    assert list(workloads.Index([version, bare])) == [bare.uid]
    roll = workloads.Workload("Roll", "default", "web", "uid-roll", 3, 3)
    known = workloads.Index([version, bare], {"uid-roll": roll})
    assert (known[version.uid], known["uid-roll"], len(known)) == (roll, roll, 3)
    standings = workloads.standings({}, known, bool)
    assert [uid for uid in known if standings(uid) is not None] == ["uid-roll", bare.uid]


def test_usage_of_nodes_needs_a_time_and_a_ratio() -> None:
    ratios = {"cpu": {"a": 0.1, "b": 0.2, "elsewhere": 0.3}, "memory": {"a": 0.4}}
    found = usage.of_nodes(ratios, {"a": 1.0, "b": 2.0, "silent": 3.0})
    assert found == {
        "a": usage.NodeUsage("a", {"cpu": 0.1, "memory": 0.4}, 1.0),
        "b": usage.NodeUsage("b", {"cpu": 0.2}, 2.0),
    }
    assert [type(one) for one in found.values()] == [usage.NodeUsage] * 2


class OneAnswer:
    """A Prometheus that says 0.5 of a target, whatever is asked."""

    def __init__(self, instance: str) -> None:
        self.instance = instance
        self.asked: list[str] = []

    def query(self, expression: str, *, at_seconds: float | None = None) -> Answer:
        self.asked.append(expression)
        return Answer.of((Sample({"instance": self.instance}, 0.5, scenes.NOW),))


def test_selectors_reach_every_query_of_nodes_and_of_pods() -> None:
    prometheus = OneAnswer("10.0.0.7:9100")
    labels = identity.SeriesLabels(node_selector='cluster="a",of="nodes"', pod_selector='cluster="a",of="pods"')
    source = PrometheusUsage(prometheus, labels)
    source.node_usage([], scenes.policy())
    of_nodes = len(prometheus.asked)
    source.pod_usage(scenes.policy(), [builders.pod("web-0")], of_all=1)
    assert all('cluster="a",of="nodes"' in text for text in prometheus.asked[:of_nodes])
    assert len(prometheus.asked) == of_nodes + 4
    assert all('cluster="a",of="pods"' in text for text in prometheus.asked[of_nodes:])


@pytest.mark.parametrize("address", ["10.0.0.7", "10.0.0.8"])
def test_a_node_that_gets_another_address_is_known_by_it(address: str) -> None:
    prometheus = OneAnswer("10.0.0.7:9100")
    source = PrometheusUsage(prometheus, identity.SeriesLabels())
    first = [builders.node("n", address="10.0.0.7")]
    then = [builders.node("n", address=address)]
    policy = scenes.policy()
    assert set(source.node_usage(first, policy)) == {"n"}
    assert set(source.node_usage(then, policy)) == ({"n"} if address == "10.0.0.7" else set())


def test_a_run_asks_prometheus_for_the_metrics_that_some_class_of_pods_is_filtered_by() -> None:
    def names(*classes: object) -> set[str]:
        return {one.name for one in usage.metrics_read(load_policy.LoadPolicy.of({"podClasses": list(classes)}))}

    batch = {"name": "batch", "match": {}, "filter": {"thresholds": {"cpu_max_1d": 0.5, "memory_max_1d": 0}}}
    assert names(batch) - names() == {"cpu_max_1d"}
