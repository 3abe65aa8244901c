"""Where a pod could go: every rule that keeps a node from being a destination, each by one difference."""

from typing import Any

import pytest

from descheduler.snapshot.eviction_history import History, PodUse
from kube import objects
from kube_scheduler import volumes
from policy.schema import load_policy
from runtime import clock
from tests import builders
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW, Scene
from tests.unit.descheduler.test_protections import set_spec

TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
TOLERATION = {"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"}
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def required(kind: str, app: str, key: str = HOST, **more: object) -> dict[str, object]:
    """A required (anti-)affinity to pods of an app."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def node_in(*names: str) -> dict[str, object]:
    """A required node affinity to nodes of these names."""
    expressions = [{"key": "metadata.name", "operator": "In", "values": list(names)}]
    terms = {"nodeSelectorTerms": [{"matchFields": expressions}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


PORT = [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]
GPU = [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]


def case(name: str, node: dict[str, Any] | None = None, *, fits: bool, **pod: Any) -> Any:
    """A node and a pod of these fields."""
    return pytest.param(node or {}, pod, fits, id=name)


NODE_CASES = [
    case("a cool open node", fits=True),
    case("the pod would bring it over evictUntil", {"memory": 0.5}, fits=False),
    case("the other resource would go over its line", {"cpu": 0.55}, fits=False),
    case("a cordoned node", {"mutate": set_spec(unschedulable=True)}, fits=False),
    case("a node that is not ready", {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, fits=False),
    case(
        "a node under memory pressure, before it has the taint",
        {"status": {"conditions": [{"type": kind, "status": "True"} for kind in ("Ready", "MemoryPressure")]}},
        fits=False,
    ),
    case("a taint it does not tolerate", {"mutate": set_spec(taints=[TAINT])}, fits=False),
    case(
        "a tolerated taint", {"mutate": set_spec(taints=[TAINT])}, fits=True, mutate=set_spec(tolerations=[TOLERATION])
    ),
    case("a selector that does not match", fits=False, mutate=set_spec(nodeSelector={"disk": "ssd"})),
    case("one that does", {"labels": {"disk": "ssd"}}, fits=True, mutate=set_spec(nodeSelector={"disk": "ssd"})),
    case("node affinity to the old node only", fits=False, mutate=set_spec(affinity=node_in("hot"))),
    case("node affinity to the cool node", fits=True, mutate=set_spec(affinity=node_in("cool"))),
    case("more CPU requested than there is", fits=False, cpu="8500m"),
    case("more memory requested than there is", fits=False, memory="40Gi"),
    case("no slot for another pod", {"pods": "1"}, fits=False),
    case("an extended resource it does not have", fits=False, mutate=set_spec(containers=GPU)),
    case("anti-affinity", fits=False, mutate=set_spec(affinity=required("podAntiAffinity", "there"))),
    case("elsewhere", fits=True, mutate=set_spec(affinity=required("podAntiAffinity", "there", namespaces=["x"]))),
    case("affinity that is met", fits=True, mutate=set_spec(affinity=required("podAffinity", "there"))),
    case("affinity that is not", fits=False, mutate=set_spec(affinity=required("podAffinity", "nobody"))),
    case("affinity to itself, the first", fits=True, mutate=set_spec(affinity=required("podAffinity", "it"))),
    case("a host port that is taken", fits=False, mutate=set_spec(containers=PORT)),
]


@pytest.mark.parametrize(("node", "pod", "fits"), NODE_CASES)
def test_a_node_takes_the_pod_or_not(node: dict[str, Any], pod: dict[str, Any], fits: bool) -> None:
    obeyed = scenes.policy(coolNodes=0, protect={"minReadyRatio": 0}, limits={"perWorkload": 9})
    scene = Scene().node("hot", memory=0.9).node("cool", **node).node("far", memory=0.59)
    scene.workload("there", on=["cool"], mutate=set_spec(containers=PORT)).workload("other", on=["far", "far"])
    scene.workload("it", on=["hot"], replicas=3, ready=3, **pod)
    assert scenes.causes(scene.plan(obeyed))["it-0"] == ("chosen" if fits else "no_destination")


def test_a_pod_that_repels_others_keeps_them_away_too() -> None:
    scene = Scene().node("hot", memory=0.9).node("cool").workload("it", on=["hot", "hot"], replicas=2)
    scene.workload("guard", on=["cool"], mutate=set_spec(affinity=required("podAntiAffinity", "it")))
    assert set(scenes.causes(scene.plan()).values()) == {"no_destination"}


def test_replicas_planned_for_a_node_repel_the_next_one() -> None:
    alone = set_spec(affinity=required("podAntiAffinity", "it"))
    scene = Scene().node("a", memory=0.9).node("b", memory=0.89).node("cool").node("far", memory=0.59)
    scene.workload("it", on=["a", "b", "far", "far"], mutate=alone, gib=1)
    scene.workload("one", on=["a", "far"], mutate=set_spec(affinity=required("podAntiAffinity", "two")))
    scene.workload("two", on=["b", "far"])
    plan = scene.plan(scenes.policy(limits={"perNode": 2}))
    assert next((one.pod.name, one.destination) for one in plan.evictions) == ("one-0", "cool")
    assert scenes.causes(plan)["two-0"] == "no_destination"


def zoned(**rule: object) -> builders.Mutator:
    """A pod of `it` that must be spread over zones."""
    selector = {"matchLabels": {"app": "it"}}
    whole = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, **rule}
    return set_spec(topologySpreadConstraints=[whole])


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param({}, "no_destination", id="would tilt the zones"),
        pytest.param({"maxSkew": 2}, "chosen", id="tilts within the skew"),
        pytest.param({"whenUnsatisfiable": "ScheduleAnyway"}, "chosen", id="a wish only"),
        pytest.param({"maxSkew": 2, "minDomains": 2}, "chosen", id="as many zones as it asks for"),
        pytest.param({"maxSkew": 1, "minDomains": 3}, "no_destination", id="too few zones: the least is 0"),
        pytest.param({"labelSelector": {"matchLabels": {"app": "x"}}}, "chosen", id="about other pods"),
        pytest.param({"matchLabelKeys": ["version"]}, "chosen", id="about pods of its own version"),
        pytest.param({"labelSelector": {}}, "chosen", id="an empty selector counts nobody"),
        pytest.param({"labelSelector": {}, "matchLabelKeys": ["rank"]}, "chosen", id="nor with a key the pod lacks"),
        pytest.param({"labelSelector": {}, "matchLabelKeys": ["app"]}, "no_destination", id="a key of its own selects"),
        pytest.param({"labelSelector": None, "matchLabelKeys": ["app"]}, "chosen", id="not without a selector"),
        pytest.param({"topologyKey": "rack"}, "no_destination", id="a node without the key"),
    ],
)
def test_hard_topology_spread_is_kept(rule: dict[str, object], expected: str) -> None:
    scene = Scene().node("hot", memory=0.9, labels={ZONE: "a"}).node("cool", labels={ZONE: "b"})
    scene.workload("it", on=["hot", "cool"], mutate=zoned(**rule))
    scene.pod("it-0", "hot", labels={"app": "it", "version": "2"}, owner=("ReplicaSet", "it"), mutate=zoned(**rule))
    del scene.pods[0]  # the pod on the hot node is the one with a version of its own
    assert scenes.causes(scene.plan())["it-0"] == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param("Ignore", "no_destination", id="a tainted zone counts, and is empty"),
        pytest.param("Honor", "chosen", id="a tainted zone does not count"),
    ],
)
def test_tainted_nodes_count_for_spread_as_the_rule_says(policy: str, expected: str) -> None:
    scene = Scene().node("hot", memory=0.9, labels={ZONE: "a"}).node("cool", labels={ZONE: "a"})
    scene.node("far", labels={ZONE: "c"}, mutate=set_spec(taints=[TAINT]))
    scene.workload("it", on=["hot", "cool"], mutate=zoned(nodeTaintsPolicy=policy))
    assert scenes.causes(scene.plan())["it-0"] == expected


def test_two_affinity_terms_are_met_by_the_same_pods_only() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "a"}}}
    other = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"tier": "x"}}}
    both = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term, other]}}
    scene = Scene().node("hot", memory=0.9).node("cool")
    scene.workload("it", on=["hot"], replicas=2, ready=2, mutate=set_spec(affinity=both))
    scene.workload("it2", on=["cool"], labels={"app": "a"}).workload("it3", on=["cool"], labels={"tier": "x"})
    obeyed = scenes.policy(protect={"minReadyRatio": 0}, limits={"perWorkload": 9})
    assert scenes.causes(scene.plan(obeyed))["it-0"] == "no_destination"
    scene.workload("it4", on=["cool"], labels={"app": "a", "tier": "x"})
    assert scenes.causes(scene.plan(obeyed))["it-0"] == "chosen"


def filtering(**options: object) -> load_policy.LoadPolicy:
    """A policy whose filter is stricter than evictUntil."""
    bands = {"memory_avg_5m": {"evictAbove": 0.8, "evictUntil": 0.7}}
    return load_policy.LoadPolicy.of(
        {"filter": {"thresholds": {"memory_avg_5m": 0.5}, **options}, "descheduler": {"thresholds": bands}}
    )


def pooled(memory_ratio: float) -> load_policy.LoadPolicy:
    """A policy with another filter threshold for nodes of a label."""
    pool = {
        "name": "spot",
        "nodeSelector": {"matchLabels": SPOT},
        "filter": {"thresholds": {"memory_avg_5m": memory_ratio}},
    }
    return load_policy.LoadPolicy.of({**filtering().as_file(), "pools": [pool]})


SPOT = {"lifecycle": "spot"}


def filtered(name: str, obeyed: load_policy.LoadPolicy, why: str = "", memory: float = 0.51, **node: Any) -> Any:
    """A node at so much memory, and why the filter of this policy rejects it."""
    scene = Scene().node("hot", memory=0.9).node("warm", memory=memory, **node)
    return pytest.param(scene.workload("web", on=["hot", "warm"]), obeyed, why, id=name)


def detail(why: str) -> str:
    """The verdict about a pod that goes to the warm node, or which the filter keeps from there."""
    return f"no other node takes it: 1 filter: {why}" if why else "expected on warm"


@pytest.mark.parametrize(
    ("scene", "obeyed", "why"),
    [
        filtered("on the filter's threshold", filtering(), memory=0.5),
        filtered("over it: it would stay Pending", filtering(), "memory_avg_5m over 0.5"),
        filtered("coolest", filtering(whenAllRejected="coolest"), "memory_avg_5m over 0.5"),
        filtered(
            "missing", filtering(thresholds={"cpu_max_1d": 0.9}, onMissing="reject"), "cpu_max_1d missing", memory=0.1
        ),
    ],
)
def test_a_node_that_our_own_filter_rejects_is_no_destination(
    scene: Scene, obeyed: load_policy.LoadPolicy, why: str
) -> None:
    assert scenes.judged(scene.plan(obeyed))["web-0"].verdict.detail == detail(why)


def classified(**thresholds: float) -> load_policy.LoadPolicy:
    """A policy with other filter thresholds for pods of a priority, beside another for nodes of a label."""
    production = {"name": "production", "match": {"priority": {"min": 100}}, "filter": {"thresholds": thresholds}}
    return load_policy.LoadPolicy.of({**pooled(0.52).as_file(), "podClasses": [production]})


@pytest.mark.parametrize("priority", [pytest.param(100, id="of another class"), pytest.param(0, id="of its own")])
def test_room_that_another_pod_takes_is_gone_for_pods_of_every_class(priority: int) -> None:
    scene = Scene().node("hot", memory=0.9).node("hot2", memory=0.85).node("warm", memory=0.35)
    scene.workload("prod", on=["hot", "warm"], gib=6.4, mutate=set_spec(priority=priority))
    scene.workload("web", on=["hot2", "warm"], gib=3.2)
    plan = scene.plan(classified(memory_avg_5m=0.6))
    found = {name: scenes.judged(plan)[name].verdict.detail for name in ("prod-0", "web-0")}
    assert found == {
        "prod-0": "expected on warm",
        "web-0": "no other node takes it: 1 filter: memory_avg_5m over 0.5, 1 overloaded",
    }


def test_the_plan_says_why_each_node_does_not_take_the_pod() -> None:
    scene = Scene().node("hot", memory=0.9).node("hot2", memory=0.95).node("full", memory=0.5).node("cool")
    scene.node("cordoned", mutate=set_spec(unschedulable=True)).node("tainted", mutate=set_spec(taints=[TAINT]))
    scene.workload("web", on=["hot", "cool"], mutate=set_spec(nodeSelector={"disk": "ssd"}))
    scene.node("unread")
    del scene.readings["unread"]["memory_avg_5m"]
    assert scenes.judged(scene.plan())["web-0"].verdict.detail == (
        "no other node takes it: 1 closed, 1 node affinity, 1 over evictUntil with it, 1 overloaded, 1 taint, "
        "1 without a fresh reading"
    )


def test_device_claims_cannot_be_checked_and_find_no_destination() -> None:
    scene = scenes.hot_and_cool(mutate=set_spec(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]))
    assert "1 device claims" in scenes.judged(scene.plan())["web-0"].verdict.detail


@pytest.mark.parametrize(
    ("labels", "zone", "fits"),
    [
        pytest.param({ZONE: "a"}, "a", True, id="the volume's zone"),
        pytest.param({ZONE: "a"}, "b", False, id="another zone"),
        pytest.param({"failure-domain.beta.kubernetes.io/zone": "a__b"}, "b", True, id="one of two zones, old label"),
        pytest.param({ZONE: "a"}, None, True, id="a node without zones"),
        pytest.param({}, "b", True, id="a volume without zones"),
    ],
)
def test_volumes_with_zone_labels_are_mounted_in_their_zone_only(
    labels: dict[str, str], zone: str | None, fits: bool
) -> None:
    node = builders.node("n", labels={} if zone is None else {ZONE: zone})
    volume = objects.PersistentVolume(metadata=objects.Metadata(name="pv", labels=labels))
    assert volumes.mountable(volume, node) is fits


@pytest.mark.parametrize(
    ("handles", "limits", "expected"),
    [
        pytest.param("abc", {}, ["chosen", "chosen"], id="no limit is known"),
        pytest.param("abc", {"disk": 3}, ["chosen", "chosen"], id="room for both"),
        pytest.param("abc", {"disk": 2}, ["chosen", "1 volume limit"], id="the first takes the last place"),
        pytest.param("abc", {"disk": 1}, ["1 volume limit", "1 volume limit"], id="full"),
        pytest.param("abc", {"other": 0}, ["chosen", "chosen"], id="another driver's limit"),
        pytest.param("aac", {"disk": 2}, ["chosen", "chosen"], id="one volume for both"),
        pytest.param("ccc", {"disk": 0}, ["chosen", "chosen"], id="the node has it already"),
    ],
)
def test_a_node_attaches_no_more_volumes_than_it_can(handles: str, limits: dict[str, int], expected: list[str]) -> None:
    scene = Scene().node("hot", memory=0.99).node("warm", memory=0.6).node("cool")
    for name, on, handle in zip("abc", (["hot", "warm"], ["hot", "warm"], ["cool"]), handles, strict=True):
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        scene.workload(name, on=on, mutate=set_spec(volumes=[volume]))
        body = {"spec": {"csi": {"driver": "disk", "volumeHandle": handle}}}
        scene.volumes[f"default/{name}"] = builders.decoded(body, objects.PersistentVolume)
    scene.attach_limits = {"cool": limits}
    judged = scenes.judged(scene.plan(scenes.policy(limits={"perNode": 2})))
    for name, words in zip(("a-0", "b-0"), expected, strict=True):
        assert words in str(judged[name].verdict)


def test_a_pod_for_which_the_scheduler_makes_room_counts_there_already() -> None:
    scene = scenes.hot_and_cool(memory="2Gi")
    scene.pods.append(builders.pod("coming", memory="31Gi", status={"nominatedNodeName": "cool"}))
    assert "1 over evictUntil" in scenes.judged(scene.plan())["web-0"].verdict.detail
    obeyed = load_policy.LoadPolicy.of({"recentPods": {"enabled": False}})
    assert "1 requests" in scenes.judged(scene.plan(obeyed))["web-0"].verdict.detail


def test_the_hourly_maximum_counts_when_it_is_higher() -> None:
    scene = scenes.hot_and_cool().reading("cool", memory_max_1h=0.55)
    assert scenes.causes(scene.plan())["web-0"] == "no_destination"


def test_pods_bound_a_moment_ago_count_with_their_expected_load() -> None:
    scene = scenes.hot_and_cool().workload("new", on=["cool"], memory="18Gi", mutate=scenes.bound_ago(1))
    assert scenes.causes(scene.plan())["web-0"] == "no_destination"  # 0.1 + 0.7 * 18/32 + 4/32 > 0.6
    assert scenes.causes(scenes.hot_and_cool().workload("new", on=["cool"], memory="18Gi").plan())["web-0"] == "chosen"


def started(*seconds_ago: float, reason: str = "") -> builders.Mutator:
    """A mutator of a pod that was bound so long ago, and whose container waits for a reason or started so long ago."""

    def mutate(body: builders.Body) -> None:
        scenes.bound_ago(seconds_ago[0])(body)
        since = {"running": {"startedAt": clock.to_rfc3339(NOW - seconds_ago[-1])}}
        state = {"waiting": {"reason": reason}} if reason else since
        phase = "Pending" if reason else "Running"
        body["status"].update(phase=phase, containerStatuses=[{"restartCount": 0, "state": state}])

    return mutate


def recent_placeholder(body: builders.Body) -> None:
    """A placeholder that was bound a second ago."""
    builders.placeholder(body)
    scenes.bound_ago(1)(body)


MIRROR = {"annotations": {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"}}
KEY = "evenload.io/expected-usage"
OWN = {KEY: "memory=13Gi"}
CREATING, INITIALIZING = "ContainerCreating", "PodInitializing"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, "no_destination", id="a replica"),
        pytest.param(
            {"annotations": OWN | {"x": "y"}, "memory": "1Mi"}, "no_destination", id="it says what it will use"
        ),
        pytest.param(
            {"annotations": {KEY: "memory=33Gi"}, "memory": "1Mi"}, "chosen", id="it says more than any node has"
        ),
        pytest.param(
            {"annotations": {KEY: "memory=1Mi"}, "memory": "26Gi"}, "no_destination", id="half of its request"
        ),
        pytest.param({"owner": ("DaemonSet", "agent")}, "chosen", id="of a DaemonSet: every node has one"),
        pytest.param({"phase": "Failed"}, "chosen", id="one that ended at once"),
        pytest.param({**MIRROR, "owner": ("Node", "cool")}, "chosen", id="a static pod of a restarted kubelet"),
        pytest.param({**MIRROR, "owner": ("ReplicaSet", "cool")}, "no_destination", id="one that only says it is"),
        pytest.param({"mutate": recent_placeholder}, "chosen", id="a placeholder: it uses nothing"),
        pytest.param({"mutate": started(600, reason=CREATING)}, "no_destination", id="image pull"),
        pytest.param({"mutate": started(899, reason=INITIALIZING)}, "no_destination", id="init containers"),
        pytest.param({"mutate": started(1200, reason=CREATING)}, "chosen", id="for longer than is waited"),
        pytest.param({"mutate": started(60, reason="ImagePullBackOff")}, "no_destination", id="no image here"),
        pytest.param({"mutate": started(60, reason="CreateContainerConfigError")}, "chosen", id="no ConfigMap"),
        pytest.param({"mutate": started(1500, 1)}, "no_destination", id="it counts from its start, just now"),
        pytest.param({"mutate": started(1500, 290)}, "chosen", id="it counts from its start, long ago"),
    ],
)
def test_pods_that_bring_no_load_of_a_scheduler_or_fail_are_not_expected_to(
    fields: dict[str, Any], expected: str
) -> None:
    scene = scenes.hot_and_cool().pod("new", "cool", **{"memory": "18Gi", "mutate": scenes.bound_ago(1), **fields})
    assert scenes.causes(scene.plan())["web-0"] == expected


@pytest.mark.parametrize("recent_pods", [{}, {"enabled": False}], ids=["with estimates", "without"])
@pytest.mark.parametrize(
    ("landed", "age_seconds", "expected"),
    [
        pytest.param({}, 120, "chosen", id="by its request of next to nothing"),
        pytest.param({"uid-new-0": PodUse(0.0, 4 * scenes.GIB)}, 120, "no_destination", id="by what it used before"),
        pytest.param({"uid-new-0": PodUse(0.0, 4 * scenes.GIB)}, 290, "chosen", id="the window shows it by now"),
    ],
)
def test_a_replacement_that_landed_counts_by_what_the_evicted_pod_used(
    landed: dict[str, PodUse], age_seconds: float, expected: str, recent_pods: dict[str, object]
) -> None:
    scene = Scene().node("hot", memory=0.9).node("cool", memory=0.45).workload("web", on=["hot", "hot"])
    scene.workload("new", on=["cool"], memory="64Mi", mutate=scenes.bound_ago(age_seconds))
    obeyed = load_policy.LoadPolicy.of({"recentPods": recent_pods})
    plan = scene.plan(obeyed, History(landed=landed))  # 0.45 + 0.6 * 4/32 + 4/32 > 0.6
    assert scenes.causes(plan)["web-0"] == expected


@pytest.mark.parametrize(
    ("at_readings", "age_seconds", "expected"),
    [(True, 290, "no_destination"), (True, 400, "no_destination"), (True, 460, "chosen"), (False, 290, "chosen")],
)
def test_a_pod_that_landed_counts_until_the_windows_of_its_node_show_it_however_late_these_are(
    at_readings: bool, age_seconds: float, expected: str
) -> None:
    """The annotation of the destination is 180 s old, so of a pod that came 290 s ago it shows 110 s."""

    scene = Scene().node("hot", memory=0.9).node("cool", memory=0.45).workload("web", on=["hot", "hot"])
    usage = (
        scene.workload("new", on=["cool"], memory="64Mi", mutate=scenes.bound_ago(age_seconds)).snapshot().node_usage
    )
    late = {**usage, "cool": usage["cool"]._replace(at_seconds=NOW - 180)}
    landed = History(landed={"uid-new-0": PodUse(0.0, 4 * scenes.GIB)})
    plan = scene.plan(history=landed, node_usage=late, windows_end_at_readings=at_readings)
    assert scenes.causes(plan)["web-0"] == expected


def filled_ratio(*, by_ledger: bool) -> float:
    """What the only destination shows in the end after twenty runs, 30 s apart, that each may send it a pod of 2 GiB
    that requests next to nothing; its window shows a pod the more, the longer it is there.
    """
    share_ratio, landed_seconds = 2 / 32, list[float]()
    for now_seconds in range(0, 600, 30):
        ages = [now_seconds - at_seconds for at_seconds in landed_seconds]
        shown_ratio = 0.4 + sum(share_ratio * min(1.0, age / 300) for age in ages)
        scene = (
            Scene().node("hot", memory=0.95).node("cool", memory=shown_ratio).workload("web", on=["hot", "hot"], gib=2)
        )
        for number, age in enumerate(ages):
            scene.workload(f"landed{number}", on=["cool"], memory="64Mi", mutate=scenes.bound_ago(age))
        known = {f"uid-landed{number}-0": PodUse(500.0, 2 * scenes.GIB) for number in range(len(ages))}
        plan = scene.plan(scenes.policy(), History(landed=known if by_ledger else {}))
        landed_seconds += [now_seconds] * len(plan.evictions)
    return 0.4 + share_ratio * len(landed_seconds)


def test_run_after_run_a_destination_ends_under_its_line() -> None:
    assert filled_ratio(by_ledger=True) == pytest.approx(0.5875)
    assert filled_ratio(by_ledger=False) > 0.8, "by requests every run finds room until the window shows the pods"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"priority": 0}, "chosen", id="a placeholder below the pod makes way"),
        pytest.param({"priority": -20}, "no_destination", id="a placeholder above the pod does not"),
        pytest.param({"priority": 0, "preemptionPolicy": "Never"}, "no_destination", id="a pod that never preempts"),
    ],
)
def test_placeholders_hold_room_that_a_pod_of_higher_priority_may_take(spec: dict[str, object], expected: str) -> None:
    labels = {"app": "room", "evenload.io/placeholder": "true"}
    scene = Scene().node("hot", memory=0.9).node("cool")
    scene.pod("room", "cool", memory="31Gi", labels=labels, mutate=set_spec(priority=-10))
    scene.workload("web", on=["hot", "cool"], memory="2Gi", cpu="1", mutate=set_spec(**spec))
    # the pod of `web` on the cool node takes 2 Gi as well
    assert scenes.causes(scene.plan())["web-0"] == expected


def test_the_coolest_node_is_chosen() -> None:
    scene = Scene().node("hot", memory=0.9).node("cool", memory=0.3).node("cooler", memory=0.2)
    assert scene.workload("web", on=["hot", "cool"]).plan().evictions[0].destination == "cooler"
