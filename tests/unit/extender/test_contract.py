"""The sections filter, expected load and scoring of docs/contract.md as a whole, for any cluster: invariants between
request and reply, whatever the policy, the readings, the placements and the annotations are. The single formulas have
their tests in tests/unit/policy.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.state import cluster_view
from extender.verbs import explain, verbs
from policy.contract import owner_usage
from policy.schema.load_policy import LoadPolicy
from tests.unit.extender import worlds

NOW = worlds.NOW
NAMES = ("a", "b", "c", "d")
METRICS = tuple(worlds.IDLE)
# Every example builds whole clusters; a machine that is busy must not fail them by its clock.
FEW = settings(max_examples=40, deadline=None)


class NodeCase(NamedTuple):
    """One node: what it reads (None: no annotation), how old that is, its own thresholds, pods bound to it by age."""

    load: Mapping[str, float] | None
    age_seconds: int
    thresholds: str | None
    pod_ages_seconds: tuple[int, ...]


_LOADS = st.dictionaries(st.sampled_from(METRICS), st.floats(0, 1.5).map(lambda ratio: round(ratio, 4)))
_PERCENT = st.integers(0, 100).map(lambda percent: percent / 100)
_THRESHOLDS = st.dictionaries(st.sampled_from((*METRICS, "unknown")), _PERCENT | st.just(65)).map(json.dumps)
_NODES = st.builds(
    NodeCase,
    st.none() | _LOADS,
    st.integers(-30, 400),
    st.none() | st.just("not json") | _THRESHOLDS,
    st.lists(st.integers(0, 400), max_size=4).map(tuple),
)
_MEANS = st.builds(
    lambda cpu, mebibytes, replicas, age_seconds: (
        owner_usage.Mean(cpu, mebibytes and mebibytes * 2.0**20, replicas),
        age_seconds,
    ),
    st.none() | st.floats(0, 1e6),
    st.none() | st.floats(0, 1e6),
    st.integers(1, 1000),
    st.integers(-100, 4000),
)
_CLUSTERS = st.fixed_dictionaries(dict.fromkeys(NAMES, _NODES))
_POLICIES = st.builds(
    lambda score, thresholds, on_missing, all_rejected: worlds.policy(
        score=score, filter={"thresholds": thresholds, "onMissing": on_missing, "whenAllRejected": all_rejected}
    ),
    st.fixed_dictionaries(
        {
            "weights": st.dictionaries(st.sampled_from(METRICS), _PERCENT, min_size=1).map(
                lambda w: w | {METRICS[0]: 1}
            ),
            "combine": st.sampled_from(["mean", "worst"]),
            "spread": st.sampled_from(["none", "stretch"]),
            "incomingPod": st.booleans(),
        }
    ),
    st.dictionaries(st.sampled_from(METRICS), _PERCENT),
    st.sampled_from(["pass", "reject"]),
    st.sampled_from(["pending", "coolest"]),
)


def world(
    cluster: Mapping[str, NodeCase], in_force: LoadPolicy, begun: cluster_view.ClusterView | None = None
) -> cluster_view.ClusterView:
    """The extender's view of the cluster; `begun` heard something before."""
    seen = begun or worlds.view_of({}, in_force)
    for name, case in cluster.items():
        load = None if case.load is None else worlds.load_text(case.load, NOW - case.age_seconds)
        seen.nodes.node_changed(None, worlds.node(name, load, thresholds=case.thresholds))
        for at, age_seconds in enumerate(case.pod_ages_seconds):
            seen.placements.pod_changed(None, worlds.bound(f"{name}-{at}", name, NOW - age_seconds), NOW)
    return seen


def scores(view: cluster_view.ClusterView, names: tuple[str, ...] = NAMES) -> dict[str, int]:
    """The reply to /prioritize, as kube-scheduler reads it."""
    reply = json.loads(verbs.answer("prioritize", view, worlds.args(names), NOW).body)
    assert [row["Host"] for row in reply] == list(names)
    return {row["Host"]: row["Score"] for row in reply}


def passed(view: cluster_view.ClusterView, names: tuple[str, ...] = NAMES) -> list[str]:
    """The nodes that /filter lets pass; every other one has its reason."""
    reply = json.loads(verbs.answer("filter", view, worlds.args(names), NOW).body)
    assert sorted([*reply["NodeNames"], *reply["FailedAndUnresolvableNodes"]]) == sorted(names)
    kept: list[str] = reply["NodeNames"]
    return kept


@FEW
@given(cluster=_CLUSTERS, in_force=_POLICIES)
def test_every_node_asked_gets_one_integer_from_0_to_10(cluster: dict[str, NodeCase], in_force: LoadPolicy) -> None:
    found = scores(world(cluster, in_force), (*NAMES, "unknown"))
    assert all(type(score) is int and 0 <= score <= 10 for score in found.values())


@FEW
@given(cluster=_CLUSTERS, in_force=_POLICIES, mean=_MEANS)
def test_the_same_holds_with_any_mean_of_an_owner_whenever_it_comes(
    cluster: dict[str, NodeCase], in_force: LoadPolicy, mean: tuple[owner_usage.Mean, int]
) -> None:
    """A replica of the extender that hears of the mean before the pods answers like one that hears of it after."""
    data = owner_usage.encode(NOW - mean[1], {"default/ReplicaSet/web": mean[0]})
    early, late = worlds.view_of({}, in_force), world(cluster, in_force)
    early.usage_changed(data, NOW)
    late.usage_changed(data, NOW)
    found = scores(world(cluster, in_force, early), NAMES)
    assert all(type(score) is int and 0 <= score <= 10 for score in found.values())
    assert found == scores(late)


@FEW
@given(cluster=_CLUSTERS, in_force=_POLICIES)
def test_explain_holds_no_nan_and_the_numbers_that_the_scheduler_gets(
    cluster: dict[str, NodeCase], in_force: LoadPolicy
) -> None:
    seen, pod = world(cluster, in_force), worlds.args(NAMES).pod
    shown = json.dumps(msgspec.to_builtins(explain.explain(seen, pod, NAMES, NOW)), allow_nan=False)
    json.dumps(msgspec.to_builtins(explain.all_nodes(seen, NOW)), allow_nan=False)
    rows: list[dict[str, Any]] = json.loads(shown)["nodes"]
    allowed = [row["name"] for row in rows if row["allowed"]]
    assert allowed == passed(world(cluster, in_force))
    assert {row["name"]: row["score"] for row in rows} == scores(world(cluster, in_force))


@FEW
@given(cluster=_CLUSTERS, in_force=_POLICIES, names=st.permutations(NAMES))
def test_the_order_of_nodes_in_the_request_and_in_the_watch_is_irrelevant(
    cluster: dict[str, NodeCase], in_force: LoadPolicy, names: list[str]
) -> None:
    shuffled = {name: cluster[name] for name in names}
    assert scores(world(shuffled, in_force), tuple(names)) == scores(world(cluster, in_force))
    kept = set(passed(world(shuffled, in_force), tuple(names)))
    assert kept == set(passed(world(cluster, in_force)))


@FEW
@given(cluster=_CLUSTERS, in_force=_POLICIES, age_seconds=st.integers(0, 400))
def test_one_more_recent_pod_never_raises_its_nodes_score_and_never_opens_the_node(
    cluster: dict[str, NodeCase], in_force: LoadPolicy, age_seconds: int
) -> None:
    more = cluster["a"]._replace(pod_ages_seconds=(*cluster["a"].pod_ages_seconds, age_seconds))
    assert scores(world(cluster | {"a": more}, in_force))["a"] <= scores(world(cluster, in_force))["a"]
    if in_force.filter.when_all_rejected == "pending":
        assert "a" not in set(passed(world(cluster | {"a": more}, in_force))) - set(passed(world(cluster, in_force)))


@FEW
@given(cluster=_CLUSTERS, in_force=_POLICIES, names=st.lists(st.sampled_from((*NAMES, "unknown")), max_size=8))
def test_the_filter_answers_for_the_names_asked_and_no_other(
    cluster: dict[str, NodeCase], in_force: LoadPolicy, names: list[str]
) -> None:
    seen = world(cluster, in_force)
    reply = json.loads(verbs.answer("filter", seen, worlds.args(names), NOW).body)
    assert sorted([*reply["NodeNames"], *reply["FailedAndUnresolvableNodes"]]) == sorted(set(names))
    if names and in_force.filter.when_all_rejected == "coolest":
        assert reply["NodeNames"]
