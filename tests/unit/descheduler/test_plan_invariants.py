"""No plan over many random clusters exceeds a budget, a cap, a protection or a destination's line."""

import collections
import random
from typing import Any

import hypothesis
from hypothesis import strategies as st

from descheduler.placement import destinations
from descheduler.planning import limits, protections
from descheduler.planning.plans import Eviction, EvictionPlan
from descheduler.planning.verdicts import Cause
from descheduler.snapshot import usage
from descheduler.snapshot.eviction_history import Failures, History
from tests import builders
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import GIB, NOW, Scene

RATIOS = st.floats(0.0, 1.2).map(lambda ratio: round(ratio, 3))
HOT_RATIOS = st.floats(0.82, 1.2).map(lambda ratio: round(ratio, 3))
COOL_RATIOS = st.floats(0.0, 0.3).map(lambda ratio: round(ratio, 3))
PODS = st.fixed_dictionaries(
    {
        "gib": st.floats(0.0, 8.0).map(lambda size: round(size, 2)),
        "cores": st.floats(0.0, 4.0).map(lambda size: round(size, 2)),
        "priority": st.sampled_from([0, 0, 0, -10, 100, 2_000_000_000]),
        "qos": st.sampled_from(["BestEffort", "Burstable", "Guaranteed"]),
        "oddity": st.sampled_from([*[""] * 12, "bare", "never", "placeholder", "leaving", "unseen", "unready"]),
        "memory": st.sampled_from(["64Mi", "64Mi", "2Gi", "12Gi"]),
    }
)
CAPS = st.fixed_dictionaries(
    {
        "perRun": st.integers(1, 6),
        "perNode": st.integers(1, 4),
        "perNamespace": st.integers(1, 5),
        "perHour": st.integers(1, 8),
        "perWorkload": st.sampled_from(["bySize", 1, 2, 5]),
    }
)


@st.composite
def clusters(draw: st.DrawFn) -> Scene:
    """A random cluster with a hot node n0 and a cool one; sizes small enough to be read when one fails."""
    scene = Scene().node("n0", memory=draw(HOT_RATIOS), cpu=draw(RATIOS))
    scene.node("n1", memory=draw(COOL_RATIOS), cpu=draw(COOL_RATIOS))
    nodes = ["n0", *(f"n{number}" for number in range(draw(st.integers(2, 6))))]  # n0 twice: most pods are there
    for name in nodes[3:]:
        scene.node(name, memory=draw(RATIOS), cpu=draw(RATIOS))
        if draw(st.booleans()):
            scene.reading(name, memory_max_1h=draw(RATIOS))
    for number in range(draw(st.integers(1, 4))):
        workload, count = f"w{number}", draw(st.integers(2, 5))
        replicas = count + draw(st.sampled_from([0, 0, 1]))
        scene.owners.append(builders.replica_set(workload, replicas=replicas, ready=count, labels={"app": workload}))
        for at in range(count):
            _pod(draw, scene, f"{workload}-{at}", workload, draw(st.sampled_from(nodes)))
        if draw(st.booleans()):
            scene.budget(workload, allowed=draw(st.sampled_from([1, 2, 3, 0])))
    return scene


def _pod(draw: st.DrawFn, scene: Scene, name: str, workload: str, node: str) -> None:
    drawn: dict[str, Any] = draw(PODS)
    oddity = drawn["oddity"]

    def mutate(body: builders.Body) -> None:
        body["spec"]["priority"] = drawn["priority"]
        body["status"]["qosClass"] = drawn["qos"]
        if oddity == "leaving":
            body["metadata"]["deletionTimestamp"] = builders.CREATED
        if oddity == "unready":
            body["status"]["conditions"].pop()

    labels = {"app": workload, **({"evenload.io/placeholder": "true"} if oddity == "placeholder" else {})}
    scene.pod(
        name,
        node,
        gib=drawn["gib"],
        cores=drawn["cores"],
        memory=drawn["memory"],
        owner=None if oddity == "bare" else ("ReplicaSet", workload),
        labels=labels,
        annotations={"evenload.io/evictable": "false"} if oddity == "never" else {},
        mutate=mutate,
    )
    if oddity == "unseen":
        del scene.used[f"default/{name}"]


HISTORIES = st.builds(
    History,
    in_last_hour=st.integers(0, 4),
    last_by_workload=st.dictionaries(st.sampled_from(["uid-w0", "uid-w1"]), st.floats(NOW - 2000, NOW)),
    last_by_node=st.dictionaries(st.sampled_from(["n0", "n1"]), st.floats(NOW - 2000, NOW), max_size=1),
    failures=st.dictionaries(
        st.sampled_from(["uid-w0", "uid-w2"]), st.builds(Failures, st.integers(0, 9), st.just(NOW))
    ),
    in_flight=st.frozensets(st.sampled_from(["uid-w0", "uid-w1"])),
)
many = hypothesis.settings(max_examples=80)


@many
@hypothesis.given(clusters(), CAPS, HISTORIES)
def test_no_cap_is_exceeded(scene: Scene, caps: dict[str, Any], history: History) -> None:
    plan = scene.plan(scenes.policy(limits=caps), history)
    assert len(plan.evictions) <= caps["perRun"]
    assert len(plan.evictions) <= max(0, caps["perHour"] - history.in_last_hour)
    per_node = collections.Counter(one.overload.node for one in plan.evictions)
    assert all(count <= caps["perNode"] for count in per_node.values())
    assert len(plan.evictions) <= caps["perNamespace"]  # all in one namespace
    standings = scene.snapshot().standings()
    for one in plan.evictions:
        if one.workload is not None:
            standing = standings(one.workload.uid)
            assert standing is not None
            away = standing.unavailable + 1
            assert away <= limits.workload_cap(caps["perWorkload"], one.workload.replicas)
    assert max(collections.Counter(one.workload for one in plan.evictions).values(), default=0) <= 1


@many
@hypothesis.given(clusters(), CAPS, HISTORIES)
def test_no_budget_is_exceeded(scene: Scene, caps: dict[str, Any], history: History) -> None:
    plan = scene.plan(scenes.policy(limits=caps), history)
    for budget in scene.budgets:
        assert budget.spec.selector is not None
        spent = [one for one in plan.evictions if one.pod.ready and budget.spec.selector.matches(one.pod.labels)]
        assert len(spent) <= budget.status.disruptions_allowed


@many
@hypothesis.given(clusters(), CAPS, HISTORIES)
def test_no_protected_or_unseen_pod_is_chosen(scene: Scene, caps: dict[str, Any], history: History) -> None:
    obeyed, taken = scenes.policy(limits=caps), scene.snapshot()
    cases = protections.CandidateContexts(taken, obeyed)
    for one in scene.plan(obeyed, history).evictions:
        assert protections.verdict(cases.of(one.pod, NOW)) is None
        assert one.pod.key in taken.pod_usage
        assert one.overload.node == one.pod.node_name


@many
@hypothesis.given(clusters(), CAPS, HISTORIES)
def test_no_destination_is_brought_over_its_line(scene: Scene, caps: dict[str, Any], history: History) -> None:
    obeyed, taken = scenes.policy(limits=caps), scene.snapshot()
    plan = scene.plan(obeyed, history)
    arriving: dict[str, list[Eviction]] = {}
    for one in plan.evictions:
        assert one.destination != one.overload.node
        arriving.setdefault(one.destination, []).append(one)
    for name, evictions in arriving.items():
        node = scene.nodes[name]
        now = destinations.judged_ratios(taken, name, obeyed)
        for metric, band in obeyed.descheduler.thresholds.items():
            resource = usage.resources_of(obeyed)[metric]
            added = sum(usage.share(one.used, node.allocatable, resource) for one in evictions)
            assert now[metric] + added <= band.evict_until_ratio + 1e-6
        requested = sum(pod.requests.memory_bytes for pod in scene.pods if pod.node_name == name and not pod.finished)
        room = [pod for pod in scene.pods if pod.labels.get("evenload.io/placeholder") == "true"]
        placeholders = sum(pod.requests.memory_bytes for pod in room if pod.node_name == name)
        coming = sum(one.pod.requests.memory_bytes for one in evictions)
        assert requested - placeholders + coming <= 32 * GIB


@many
@hypothesis.given(clusters(), CAPS, HISTORIES)
def test_a_node_gives_up_no_pod_once_it_is_at_its_target(scene: Scene, caps: dict[str, Any], history: History) -> None:
    for one in scene.plan(scenes.policy(limits=caps), history).evictions:
        assert one.before_ratio > one.overload.evict_until_ratio
        assert one.projected_ratio < one.before_ratio


@many
@hypothesis.given(clusters(), CAPS, HISTORIES)
def test_every_candidate_has_one_verdict_and_the_chosen_are_the_evicted(
    scene: Scene, caps: dict[str, Any], history: History
) -> None:
    plan = scene.plan(scenes.policy(limits=caps), history)
    for node in plan.nodes:
        here = sorted(pod.uid for pod in scene.pods if pod.node_name == node.node.name)
        assert sorted(one.pod.uid for one in node.candidates) == here
    chosen = [one.pod.uid for node in plan.nodes for one in node.candidates if one.verdict.cause is Cause.CHOSEN]
    assert sorted(chosen) == sorted(one.pod.uid for one in plan.evictions)


@many
@hypothesis.given(clusters(), CAPS, HISTORIES, st.randoms(use_true_random=False))
def test_the_order_of_what_was_listed_changes_nothing(
    scene: Scene, caps: dict[str, Any], history: History, rng: random.Random
) -> None:
    obeyed = scenes.policy(limits=caps)
    assert scene.shuffled(rng).plan(obeyed, history) == scene.plan(obeyed, history)


def test_the_random_clusters_do_lead_to_evictions() -> None:
    seen: list[EvictionPlan] = []

    @hypothesis.settings(max_examples=150, database=None)
    @hypothesis.seed(1)
    @hypothesis.given(clusters(), CAPS)
    def collect(scene: Scene, caps: dict[str, Any]) -> None:
        seen.append(scene.plan(scenes.policy(limits=caps)))

    collect()
    assert sum(1 for plan in seen if plan.evictions) >= len(seen) / 5
    assert any(len(plan.evictions) > 1 for plan in seen)
