"""The fewest patches, carried out, and texts the heartbeat may vouch for."""

import json
import threading
from collections.abc import Mapping

import numpy as np
import pytest

from annotator.collect.last_good_values import GoodValue, LastGoodValues, NodeSet
from annotator.placements.hot_counts import Hot
from annotator.publish import node_annotations, node_writer, write_plan
from kube import errors
from kube.objects import Node
from policy import metrics
from policy.contract import heartbeat, load_annotation
from policy.schema import load_policy
from tests import builders, fake_kube_writes

NOW = 1_795_233_600.0  # 2026-11-21T04:00:00Z
POLICY = load_policy.defaults()
METRICS = metrics.names(POLICY.metrics_in_force)
NO_HOT = Hot({}, POLICY.hot_spots[:1], NOW)


def publication(
    fleet: NodeSet, book: LastGoodValues, rules: write_plan.Rules, hot: Hot = NO_HOT, *, lagging: bool = False
) -> write_plan.Publication:
    """Returns a publication of nodes, all of which lag or none."""
    rows = np.full(len(fleet.names), lagging)
    return write_plan.Publication(book, fleet, hot, rules, "", NOW, extent=lambda _: None, lagging=rows)


def planned(
    node: Node,
    held: Mapping[str, GoodValue],
    *,
    crane: bool = False,
    again: str = "",
    lagging: bool = False,
    policy: load_policy.LoadPolicy = POLICY,
) -> write_plan.WriteSet:
    fleet, book = NodeSet.of([node]), LastGoodValues.of({node.name: held}, METRICS)
    rules = write_plan.Rules.of(policy, fleet.nodes, crane=crane)
    carried = node_annotations.NodeAnnotationCache().carried(fleet, METRICS, now_seconds=NOW)
    return write_plan.weigh(publication(fleet, book, rules, lagging=lagging), carried, again=again)


def plan(node: Node, values: Mapping[str, float], *, crane: bool = False) -> tuple[write_plan.Patch, ...]:
    return planned(node, {name: GoodValue(ratio, NOW) for name, ratio in values.items()}, crane=crane).patches


def carrying(text: str) -> Node:
    return builders.node("node-1", annotations={load_annotation.KEY: text})


def written(at_seconds: float = NOW - 600, hot: Mapping[str, int] = NO_HOT.of("nobody"), **values: float) -> Node:
    return carrying(load_annotation.encode(load_annotation.Reading(at_seconds, values, hot)))


def test_a_first_reading_is_one_patch_with_the_uid_as_precondition() -> None:
    (patch,) = plan(builders.node("node-1"), {"cpu_avg_5m": 0.31271})
    metadata = patch.body["metadata"]
    assert isinstance(metadata, dict)
    assert metadata["uid"] == builders.node("node-1").uid
    assert json.loads(metadata["annotations"]["evenload.io/load"]) == {
        "v": 1,
        "at": "2026-11-21T04:00:00Z",
        "m": {"cpu_avg_5m": 0.3127},
        "hot": {"1m": 0},
    }


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(carrying("{not json"), id="garbage"),
        pytest.param(carrying('{"v":2,"at":"2026-11-21T03:59:00Z","m":{"cpu_avg_5m":0.3}}'), id="another version"),
        pytest.param(carrying('{"v":1,"at":"2026-11-21T03:59:00Z","m":{"cpu_avg_5m":"hi"}}'), id="a value of text"),
        pytest.param(written(NOW + 3600, cpu_avg_5m=0.3), id="a stamp from the future"),
    ],
)
def test_an_unusable_annotation_is_replaced_whatever_the_change(node: Node) -> None:
    assert len(plan(node, {"cpu_avg_5m": 0.3})) == 1


def own(node: Node, text: str) -> Node:
    """The same node with thresholds of its own."""
    return builders.node(node.name, annotations={**node.annotations, "evenload.io/thresholds": text})


SPOT = {
    "name": "spot",
    "nodeSelector": {"matchLabels": {"lifecycle": "spot"}},
    "filter": {"thresholds": {"cpu_avg_5m": 0.85}},
}
ON_SPOT = {"lifecycle": "spot"}
JOBS = {"name": "jobs", "match": {"priority": {"max": -1}}, "filter": {"thresholds": {"cpu_avg_5m": 0.9}}}
WITH_POOL, WITH_CLASS = load_policy.LoadPolicy.of({"pools": [SPOT]}), load_policy.LoadPolicy.of({"podClasses": [JOBS]})


@pytest.mark.parametrize(
    ("policy", "labels", "own_limit", "before", "after", "patches"),
    [
        pytest.param(POLICY, {}, None, 0.30, 0.319, 0, id="a small move is not written"),
        pytest.param(POLICY, {}, None, 0.30, 0.32, 1, id="a move of minChange is written"),
        pytest.param(POLICY, {}, None, 0.645, 0.655, 1, id="crossing the filter's line is written at once"),
        pytest.param(POLICY, {}, None, 0.655, 0.645, 1, id="crossing it downwards too"),
        pytest.param(POLICY, {}, None, 0.795, 0.805, 1, id="crossing the descheduler's upper line is"),
        pytest.param(POLICY, {}, None, 0.605, 0.595, 1, id="crossing its lower line too"),
        pytest.param(POLICY, {}, 0.9, 0.895, 0.905, 1, id="crossing the node's own threshold is written at once"),
        pytest.param(POLICY, {}, 0.9, 0.645, 0.655, 0, id="crossing the policy's, which it replaces, is not"),
        pytest.param(POLICY, {}, 0.9, 0.795, 0.805, 1, id="crossing the descheduler's line still is"),
        pytest.param(WITH_POOL, ON_SPOT, None, 0.845, 0.855, 1, id="crossing its pool's threshold"),
        pytest.param(WITH_POOL, ON_SPOT, None, 0.645, 0.655, 0, id="crossing the policy's, which its pool replaces"),
        pytest.param(WITH_POOL, {}, None, 0.845, 0.855, 0, id="crossing the threshold of a pool of other nodes"),
        pytest.param(WITH_POOL, {}, None, 0.645, 0.655, 1, id="crossing the policy's, without a pool"),
        pytest.param(WITH_POOL, ON_SPOT, 0.9, 0.845, 0.855, 0, id="its own replaces its pool's"),
        pytest.param(WITH_POOL, ON_SPOT, 0.9, 0.895, 0.905, 1, id="crossing its own in a pool"),
        pytest.param(WITH_CLASS, {}, None, 0.895, 0.905, 1, id="crossing the threshold of a class of pods"),
        pytest.param(WITH_CLASS, {}, None, 0.645, 0.655, 1, id="crossing the policy's, which holds for all others"),
        pytest.param(WITH_CLASS, {}, None, 0.695, 0.705, 0, id="crossing none"),
        pytest.param(WITH_CLASS, {}, 0.7, 0.695, 0.705, 1, id="crossing the node's own beside a class"),
        pytest.param(WITH_CLASS, {}, 0.7, 0.895, 0.905, 0, id="crossing the class's, which its own replaces"),
    ],
)
def test_only_changes_worth_it_are_written(
    policy: load_policy.LoadPolicy,
    labels: dict[str, str],
    own_limit: float | None,
    before: float,
    after: float,
    patches: int,
) -> None:
    node = written(cpu_avg_5m=before)
    node = node if own_limit is None else own(node, f'{{"cpu_avg_5m": {own_limit}}}')
    node = builders.node(node.name, annotations=node.annotations, labels=labels)
    assert len(planned(node, {"cpu_avg_5m": GoodValue(after, NOW)}, policy=policy).patches) == patches


def test_nodes_that_cross_a_line_or_have_no_reading_yet_are_written_first() -> None:
    before = {"moves": 0.3, "cools": 0.66, "moves too": 0.5, "heats": 0.64}
    after = {"moves": 0.4, "cools": 0.64, "moves too": 0.4, "heats": 0.66, "is new": 0.1}
    nodes = [builders.node(name, annotations=written(cpu_avg_5m=ratio).annotations) for name, ratio in before.items()]
    fleet = NodeSet.of([*nodes, builders.node("is new")])
    book = LastGoodValues.of({name: {"cpu_avg_5m": GoodValue(ratio, NOW)} for name, ratio in after.items()}, METRICS)
    carried = node_annotations.NodeAnnotationCache().carried(fleet, METRICS, now_seconds=NOW)
    rules = write_plan.Rules.of(POLICY, fleet.nodes, crane=False)
    patches = write_plan.weigh(publication(fleet, book, rules), carried).patches
    assert [patch.node for patch in patches] == ["cools", "heats", "is new", "moves", "moves too"]
    unwritten = {"moves too": write_plan.SKIPPED, "heats": write_plan.FAILED}
    patches = write_plan.weigh(publication(fleet, book, rules), carried, unwritten=unwritten).patches
    assert [patch.node for patch in patches] == ["cools", "is new", "moves too", "moves", "heats"]


@pytest.mark.parametrize(
    ("before", "after", "cooled"),
    [
        pytest.param(0.95, 0.85, True, id="for pods of the class, while it is closed for others"),
        pytest.param(0.7, 0.6, True, id="for others, as it was open for the class"),
        pytest.param(0.85, 0.75, False, id="over no line"),
    ],
)
def test_a_node_has_cooled_when_it_opens_for_pods_of_some_class(before: float, after: float, cooled: bool) -> None:
    node = written(cpu_avg_5m=before)
    found = planned(node, {"cpu_avg_5m": GoodValue(after, NOW)}, policy=WITH_CLASS)
    assert found.cooled == (node.name if cooled else "")


def test_a_node_has_cooled_when_it_is_under_its_own_threshold() -> None:
    node, after = written(cpu_avg_5m=0.95), {"cpu_avg_5m": GoodValue(0.85, NOW)}
    assert planned(own(node, '{"cpu_avg_5m": 0.9}'), after).cooled == node.name
    assert planned(node, after).cooled == ""


def test_a_node_that_is_to_be_written_again_is_although_nothing_moved() -> None:
    node, same = written(cpu_avg_5m=0.3), {"cpu_avg_5m": GoodValue(0.3, NOW)}
    assert [patch.node for patch in planned(node, same, again=node.name).patches] == [node.name]
    assert planned(node, same, again="gone").patches == ()


def test_a_metric_that_the_policy_knows_no_more_is_taken_off() -> None:
    (patch,) = plan(written(cpu_avg_5m=0.3, cpu_of_old=0.3), {"cpu_avg_5m": 0.3})
    assert json.loads(patch.row.text)["m"] == {"cpu_avg_5m": 0.3}


def test_cranes_keys_ride_along_and_are_renewed_for_its_readers() -> None:
    (patch,) = plan(written(cpu_avg_5m=0.3), {"cpu_avg_5m": 0.30004}, crane=True)
    assert patch.extra["cpu_usage_avg_5m"] == "0.30004,2026-11-21T04:00:00Z"
    assert patch.extra["mem_usage_max_avg_1d"] is None
    assert plan(written(NOW - 60, cpu_avg_5m=0.3), {"cpu_avg_5m": 0.3}, crane=True) == ()


def patch_of(node: str, text: str = "new") -> write_plan.Patch:
    return write_plan.Patch(node, f"uid-{node}", node_annotations.row(text, METRICS), {})


def api_error(kind: type[errors.ApiError], status: int) -> errors.ApiError:
    return kind("PATCH node", status=status, reason="Why", message="because")


def test_every_patch_has_its_result() -> None:
    door = fake_kube_writes.FakeKubeWrites()
    door.fail("gone", api_error(errors.NotFound, 404))
    uids = "Precondition failed: UID in precondition: a, UID in object meta: b"
    door.fail("replaced", errors.Conflict("PATCH", status=409, reason="Conflict", message=uids))
    door.fail("raced", api_error(errors.Conflict, 409))
    door.fail("refused", api_error(errors.Forbidden, 403))
    results = write_plan.write(door, [patch_of(name) for name in ("good", "gone", "replaced", "raced", "refused")])
    assert {node: written.result for node, written in results.items()} == {
        "good": "written",
        "gone": "gone",
        "replaced": "gone",
        "raced": "failed",
        "refused": "failed",
    }
    assert [name for name, _ in door.patches] == ["good"]


def test_a_single_writer_writes_in_order_on_the_callers_thread() -> None:
    door = fake_kube_writes.FakeKubeWrites()
    names = [f"node-{index}" for index in range(20, 0, -1)]
    before = threading.active_count()
    write_plan.write(door, [patch_of(name) for name in names], writers=1)
    assert [name for name, _ in door.patches] == names
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("error", "most"),
    [
        pytest.param(errors.Unreachable("no route"), write_plan.MOST_IN_A_ROW, id="it is out of reach"),
        pytest.param(api_error(errors.TooManyRequests, 429), write_plan.MOST_IN_A_ROW, id="it has had enough"),
        pytest.param(api_error(errors.Unauthorized, 401), write_plan.MOST_IN_A_ROW, id="it does not know us"),
        pytest.param(api_error(errors.ServerError, 503), write_plan.MOST_IN_A_ROW, id="nothing is behind the balancer"),
        pytest.param(node_writer.NotAllowedError("leads no more"), 1, id="another replica leads"),
    ],
)
def test_the_rest_of_a_plan_is_left_when_no_write_can_succeed(error: errors.KubeError, most: int) -> None:
    door, names = fake_kube_writes.FakeKubeWrites(), [f"node-{index}" for index in range(500)]
    for name in names:
        door.fail(name, error)
    results = [written.result for written in write_plan.write(door, [patch_of(name) for name in names]).values()]
    assert most <= results.count("failed") < most + write_plan.WRITERS
    assert results.count("failed") + results.count("skipped") == len(names)


def test_failures_between_answers_skip_no_write() -> None:
    door, names = fake_kube_writes.FakeKubeWrites(), [f"node-{index}" for index in range(100)]
    for name in (name for index, name in enumerate(names) if index % write_plan.MOST_IN_A_ROW):
        door.fail(name, errors.Unreachable("connection reset"))
    results = write_plan.write(door, [patch_of(name) for name in names], writers=1)
    assert {written.result for written in results.values()} == {"written", "failed"}


def test_a_heartbeat_leaves_out_every_node_whose_patch_did_not_succeed() -> None:
    names = ("written", "failed", "skipped", "gone", "on its way")
    results = {name: write_plan.WriteResult(name) for name in names[:-1]}
    stood = {**dict.fromkeys(names, "old"), "quiet": "same"}
    texts, excluded = write_plan.vouched(stood, [patch_of(name) for name in names], results)
    assert texts == {"written": "new", "quiet": "same"}
    assert excluded == {"failed", "skipped", "gone", "on its way"}


def test_lagging_nodes_are_left_out_and_beyond_the_names_they_hold_the_heartbeat_back() -> None:
    names = [f"node-{index}" for index in range(heartbeat.EXCLUDED_MOST + 1)]
    texts, excluded = write_plan.vouched(dict.fromkeys((*names, "quiet"), "old"), [], {}, names)
    assert excluded == set(names[:-1])
    assert texts == {names[-1]: "old", "quiet": "old"}
    ages = {**dict.fromkeys(names, 60), "quiet": 0}
    book = LastGoodValues.of({name: {"cpu_avg_5m": GoodValue(0.5, NOW - at)} for name, at in ages.items()}, METRICS)
    assert write_plan.confirmed_seconds(book, excluded, now_seconds=NOW) == NOW - 60
    assert write_plan.confirmed_seconds(book, names, now_seconds=NOW) == NOW


def test_a_quiet_node_that_begins_to_lag_is_written_once_with_the_time_of_its_values() -> None:
    stands = {"cpu_avg_5m": GoodValue(0.3, NOW - 30)}
    (patch,) = planned(written(cpu_avg_5m=0.3), stands, lagging=True).patches
    assert json.loads(patch.row.text)["at"] == "2026-11-21T03:59:30Z"
    assert planned(carrying(patch.row.text), stands, lagging=True).patches == ()
    assert planned(written(cpu_avg_5m=0.3), stands).patches == ()


def test_beyond_the_names_a_heartbeat_holds_a_bucket_is_made_to_differ() -> None:
    names = [f"node-{index}" for index in range(heartbeat.EXCLUDED_MOST + 2)]
    results = {name: write_plan.WriteResult("failed") for name in names}
    texts, excluded = write_plan.vouched(dict.fromkeys(names, "old"), [patch_of(name) for name in names], results)
    assert excluded == set(names[:-2])
    assert texts == dict.fromkeys(names[-2:], "new")


def test_the_heartbeat_is_created_once_and_then_merged() -> None:
    door = fake_kube_writes.FakeKubeWrites()
    write_plan.beat(door, "ours", {"v": "1", "at": "then"})
    write_plan.beat(door, "ours", {"at": "now"})
    assert door.config_maps == {"ours/evenload-heartbeat": {"v": "1", "at": "now"}}
