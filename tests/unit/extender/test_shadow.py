"""Shadow mode: kube-scheduler hears nothing of the decisions, and they are compared with the node that it chose."""

import dataclasses
import json
import tracemalloc
from typing import Any

import msgspec
import numpy as np
import prometheus_client
import pytest

from extender import metrics, protocol
from extender.state import cluster_view
from extender.verbs import explain, shadow_log, verbs
from policy.schema import load_policy
from tests import builders
from tests.unit.extender import worlds

NOW = worlds.NOW
SHADOW = {"mode": "Shadow"}
WARM = {**worlds.IDLE, "cpu_avg_5m": 0.5, "cpu_max_1h": 0.6}
LOADS = {"idle": worlds.IDLE, "warm": WARM, "hot": worlds.HOT}
PLACEMENTS, POINTS = "evenload_extender_shadow_placements_total", "evenload_extender_shadow_missed_points"
Post = dict[str, Any]


@dataclasses.dataclass
class World:
    """A view in shadow mode, and the log that its answers go to."""

    view: cluster_view.ClusterView
    registry: prometheus_client.CollectorRegistry = dataclasses.field(
        default_factory=prometheus_client.CollectorRegistry
    )

    def __post_init__(self) -> None:
        self.log = shadow_log.ShadowLog(metrics.Metrics(self.registry))

    def ask(self, verb: str, names: list[str], pod: str = "p", at_seconds: float = NOW, **fields: Any) -> Any:
        """The decoded reply; what it leaves in the log stays."""
        outcome = verbs.answer(verb, self.view, worlds.args(names, pod, **fields), at_seconds)
        assert outcome.decision.shadow
        if outcome.shadow is not None:
            self.log.remember(outcome.shadow)
        return json.loads(outcome.body)

    def schedule(self, names: list[str], pod: str = "p", at_seconds: float = NOW, **fields: Any) -> None:
        """Asks about a pod as kube-scheduler does."""
        passed = self.ask("filter", names, pod, at_seconds, **fields)["NodeNames"]
        if len(passed) > 1:
            self.ask("prioritize", passed, pod, at_seconds, **fields)

    def bind(self, node: str, pod: str = "p", at_seconds: float = NOW) -> None:
        """Brings the pod's binding by the Pod watch."""
        self.log.pod_changed(builders.pod(pod), worlds.bound(pod, node), at_seconds)

    def counted(self) -> dict[str, float]:
        """Placements by verdict, without those that are 0."""
        counts = {verdict: self._sample(PLACEMENTS, verdict=verdict) for verdict in metrics.SHADOW_VERDICTS}
        return {verdict: count for verdict, count in counts.items() if count}

    def points(self) -> tuple[float, float]:
        """How many placements have points, and how many points they missed."""
        return self._sample(f"{POINTS}_count"), self._sample(f"{POINTS}_sum")

    def _sample(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0


def world_of(loads: Any = None, **sections: object) -> World:
    return World(worlds.view_of(loads or LOADS, worlds.policy(extender=SHADOW, **sections)))


@pytest.fixture
def world() -> World:
    return world_of()


def test_every_node_passes_and_scores_the_same(world: World) -> None:
    reply = world.ask("filter", ["hot", "warm", "idle"])
    assert reply["NodeNames"] == ["hot", "warm", "idle"]
    assert (reply["FailedNodes"], reply["FailedAndUnresolvableNodes"]) == ({}, {})
    assert [one["Score"] for one in world.ask("prioritize", ["hot", "warm", "idle"])] == [0, 0, 0]


def test_every_node_stays_in_the_victims_map(world: World) -> None:
    victims = {name: {"Pods": [{"UID": "victim"}], "NumPDBViolations": 0} for name in ("hot", "idle")}
    body = json.dumps({"Pod": builders.pod_body("p"), "NodeNameToMetaVictims": victims}).encode()
    outcome = verbs.answer("preempt", world.view, protocol.decode_preemption(body), NOW)
    assert json.loads(outcome.body) == {"NodeNameToMetaVictims": victims}
    assert (outcome.decision.shadow, outcome.decision.passed) == (True, 1)


def test_the_decision_is_the_one_that_enforcing_would_record(world: World) -> None:
    enforcing = worlds.view_of(LOADS)
    shadow = verbs.answer("filter", world.view, worlds.args(["hot", "warm", "idle"]), NOW).decision
    enforced = verbs.answer("filter", enforcing, worlds.args(["hot", "warm", "idle"]), NOW).decision
    assert (shadow.passed, shadow.rejected) == (enforced.passed, enforced.rejected) == (2, {"cpu_avg_5m over 0.65": 1})
    shadow = verbs.answer("prioritize", world.view, worlds.args(["hot", "warm", "idle"]), NOW).decision
    enforced = verbs.answer("prioritize", enforcing, worlds.args(["warm", "idle"]), NOW).decision
    assert shadow.best == enforced.best
    assert (shadow.candidates, shadow.passed) == (2, 2)
    first, second = (msgspec.to_builtins(explain.decided([one], with_nodes=True))[0] for one in (shadow, enforced))
    assert first["nodes"] == second["nodes"]
    assert (first["shadow"], second["shadow"], first["assumed"], second["assumed"]) == (True, False, "", "idle")


def test_no_winner_is_assumed(world: World) -> None:
    worlds.wait(world.view, "p", "q")
    world.schedule(["warm", "idle"])
    world.schedule(["idle"], "q")
    assert world.view.placements.assumed(NOW) == 0


@pytest.mark.parametrize(
    ("node", "verdict", "points"),
    [
        ("idle", {"best": 1}, (1, 0)),
        ("warm", {"lower": 1}, (1, 10)),
        ("hot", {"rejected": 1}, (0, 0)),
        ("elsewhere", {"not_asked": 1}, (0, 0)),
    ],
)
def test_a_binding_is_counted_by_the_verdict_on_its_node(
    world: World, node: str, verdict: Any, points: tuple[float, float]
) -> None:
    world.schedule(["hot", "warm", "idle"])
    world.bind(node)
    assert (world.counted(), world.points()) == (verdict, points)
    world.bind(node)
    assert world.counted() == verdict, "counted twice"


def test_a_node_of_the_cluster_that_was_not_asked_about_is_not_rejected(world: World) -> None:
    world.schedule(["warm", "idle"])
    world.bind("hot")
    assert world.counted() == {"not_asked": 1}


def test_the_filter_alone_counts_where_it_leaves_one_node(world: World) -> None:
    world.schedule(["hot", "warm"], "p")
    world.log.pod_changed(builders.pod("p"), None, NOW)
    world.schedule(["idle"], "q")
    world.bind("idle", "q")
    assert (world.counted(), world.points()) == ({"best": 1}, (1, 0))


def test_the_coolest_of_hot_nodes_are_not_rejected() -> None:
    world = world_of({"hot": worlds.HOT, "hotter": {**worlds.HOT, "cpu_avg_5m": 0.99}})
    world.schedule(["hot", "hotter"])
    world.bind("hot")
    world.schedule(["hot", "hotter"], "q")
    world.bind("hotter", "q")
    assert world.counted() == {"best": 1, "rejected": 1}


@pytest.mark.parametrize(
    "fields", [{"namespace": "kube-system"}, {"annotations": {"evenload.io/filter": "off"}}], ids=["exempt", "opt-out"]
)
def test_a_pod_that_the_filter_does_not_judge_is_not_rejected(world: World, fields: Any) -> None:
    world.schedule(["hot", "warm", "idle"], **fields)
    world.bind("hot")
    assert world.counted() == {"lower": 1}


@pytest.mark.parametrize(
    ("loads", "names", "verdict"),
    [
        pytest.param(LOADS, ["hot"], "rejected", id="one node"),
        pytest.param({"hot": worlds.HOT, "hotter": worlds.HOT}, ["hot", "hotter"], "rejected", id="all nodes"),
        pytest.param({"a": None, "b": None}, ["a", "b"], "unjudged", id="without any reading"),
    ],
)
def test_a_binding_is_counted_though_no_node_has_a_score(loads: Any, names: list[str], verdict: str) -> None:
    world = world_of(loads, filter={"whenAllRejected": "pending"})
    world.schedule(names)
    world.bind(names[0])
    assert (world.counted(), world.points()) == ({verdict: 1}, (0, 0))


def test_the_last_verdict_on_a_pod_counts(world: World) -> None:
    world.schedule(["hot", "warm"])
    world.schedule(["warm", "idle"], at_seconds=NOW + 10)
    world.bind("warm", at_seconds=NOW + 11)
    assert world.counted() == {"lower": 1}


def test_a_binding_that_is_known_before_the_answer_is_noted_counts_too(world: World) -> None:
    world.bind("hot")
    world.schedule(["hot", "idle"])
    assert (world.counted(), len(world.log)) == ({"rejected": 1}, 0)
    world.schedule(["hot", "idle"])
    assert world.counted() == {"rejected": 1}, "a pod that is bound is counted once"


def test_pods_of_other_replicas_count_nothing(world: World) -> None:
    world.bind("hot")
    assert world.counted() == {}


@pytest.mark.parametrize("deleting", [True, False])
def test_a_pod_that_goes_before_it_is_bound_is_forgotten(world: World, deleting: bool) -> None:
    world.schedule(["hot", "idle"])
    at = "2026-11-21T04:00:00Z"
    gone = builders.pod("p", mutate=lambda body: body["metadata"].update(deletionTimestamp=at)) if deleting else None
    world.log.pod_changed(builders.pod("p"), gone, NOW)
    assert (len(world.log), world.log.size_bytes, world.counted()) == (0, 0, {})


def test_a_pod_of_the_same_name_is_another_one(world: World) -> None:
    world.schedule(["hot", "idle"])
    other = builders.pod("p", mutate=lambda body: body["metadata"].update(uid="other"))
    world.log.pod_changed(builders.pod("p"), other, NOW)
    assert len(world.log) == 0


def test_a_late_answer_says_nothing(world: World) -> None:
    outcome = verbs.neutral("prioritize", worlds.args(["hot", "idle"]), "h", NOW)
    assert (outcome.shadow, outcome.decision.shadow) == (None, False)


def test_what_never_binds_is_forgotten_in_time(world: World) -> None:
    world.schedule(["hot", "idle"], "old")
    world.schedule(["hot", "idle"], "new", at_seconds=NOW + shadow_log.KEPT_SECONDS)
    world.bind("hot", "old", NOW + shadow_log.KEPT_SECONDS)
    assert (len(world.log), world.counted()) == (1, {})


def test_bindings_are_remembered_for_a_minute_and_so_many(world: World) -> None:
    world.bind("hot", "old")
    world.bind("hot", "new", NOW + shadow_log.BOUND_KEPT_SECONDS)
    for pod in ("old", "new"):
        world.schedule(["hot", "idle"], pod)
    assert world.counted() == {"rejected": 1}
    for at in range(shadow_log.BOUND_KEPT + 1):
        world.bind("hot", f"p{at}")
    for at in range(shadow_log.BOUND_KEPT + 1):
        world.schedule(["hot", "idle"], f"p{at}")
    assert world.counted() == {"rejected": 1 + shadow_log.BOUND_KEPT}


def test_memory_is_bounded_and_the_oldest_go_first(world: World) -> None:
    limited = shadow_log.ShadowLog(metrics.Metrics(prometheus_client.CollectorRegistry()), limit_bytes=100_000)
    world.log = limited
    for at in range(1000):
        world.schedule(["hot", "idle"], f"p{at}")
    assert 100 < len(limited) < 1000
    assert 90_000 < limited.size_bytes <= 100_000


def test_a_verdict_takes_no_more_memory_than_it_is_counted_as() -> None:
    log = shadow_log.ShadowLog(metrics.Metrics(prometheus_client.CollectorRegistry()))
    loads = worlds.view_of({f"n{at}": None for at in range(1000)}).nodes.loads()
    rows = np.arange(1, len(loads.names))
    tracemalloc.start()
    try:
        for at in range(500):
            log.remember(shadow_log.PodVerdicts.of(f"uid-{at}", NOW, loads, rows, passed=rows, ranking=None))
        grown_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.5 * log.size_bytes < grown_bytes < 1.1 * log.size_bytes


def test_a_policy_that_enforces_ends_it_and_pods_of_before_still_count(world: World) -> None:
    world.schedule(["hot", "idle"])
    world.view.use_policy(load_policy.defaults(), "new", list, NOW)
    outcome = verbs.answer("filter", world.view, worlds.args(["hot", "idle"], "q"), NOW)
    assert json.loads(outcome.body)["NodeNames"] == ["idle"]
    assert (outcome.shadow, outcome.decision.shadow) == (None, False)
    world.bind("hot")
    assert world.counted() == {"rejected": 1}
