"""Surges: which step follows, which pods may get another one first and why not, and what a run does with them."""

import pathlib
from typing import Any

import pytest

from descheduler.eviction import surges
from descheduler.surges import Surge
from kube import errors, kinds, objects
from kube.api.small_objects import Autoscaler, FieldsOwner, PersistentVolumeClaim, ResourceQuota
from tests import builders
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW, Scene, T
from tests.unit.descheduler.test_last_look import while_the_hint_is_written
from tests.unit.descheduler.worlds import World

DEPLOYMENTS = kinds.DEPLOYMENTS.plural
COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
UP, DOWN = ("web", 2, False), ("web", 1, False)


def surge(state: str = "waiting") -> Surge:
    """A surge of `web`, of one replica, whose pod web-0 is on the node hot."""
    names = ("4f2a", NOW, "Enforce", "9c1e", "default", "Deployment/web", "uid-web", "uid-web", "web-0", "uid-web-0")
    return Surge(1, *names, "hot", NOW - 1000, 1, state, NOW, "")


STEPS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "a request that may still be carried out": ("scaling_up", {"replicas": 1}, "scaling_up", ""),
    "a request that came to nothing": ("scaling_up", {"replicas": 1, "now_seconds": NOW + 60}, "undone", "not get a"),
    "a crash after the request": ("scaling_up", {}, "waiting", ""),
    "somebody set other replicas meanwhile": ("scaling_up", {"replicas": 5}, "abandoned", "somebody set 5"),
    "nothing new": ("waiting", {}, "waiting", ""),
    "the pod was evicted": ("waiting", {"eviction": "evicted"}, "scaling_down", "web-0 has left"),
    "the pod was evicted, as a later run learnt": (
        "waiting",
        {"eviction": "evicted_unconfirmed"},
        "scaling_down",
        "has left",
    ),
    "the pod has left by itself": ("waiting", {"stands": False}, "scaling_down", "web-0 has left"),
    "an eviction without an answer": ("waiting", {"eviction": "unknown", "why_undone": "late"}, "waiting", ""),
    "the eviction was refused": ("waiting", {"eviction": "refused"}, "waiting", ""),
    "a reason to undo it": ("waiting", {"why_undone": "late"}, "scaling_down", "late"),
    "the new pod is on the hot node": ("waiting", {"new_nodes": ["hot"]}, "scaling_down", "on hot, too"),
    "the new pod is on another node": ("waiting", {"new_nodes": ["cool"]}, "waiting", ""),
    "the replicas were set back": ("waiting", {"replicas": 1, "writers": ["argocd"]}, "abandoned", "argocd set 1"),
    "the replicas are another's": ("waiting", {"writers": ["kubectl"]}, "abandoned", "kubectl set 2 replicas"),
    "the Deployment has gone": ("waiting", {"replicas": None}, "abandoned", "its Deployment has gone"),
    "the replicas are still to be put back": ("scaling_down", {"why_undone": "late"}, "scaling_down", ""),
    "they are back after the eviction": ("scaling_down", {"replicas": 1, "eviction": "evicted"}, "finished", ""),
    "they are back without one": ("scaling_down", {"replicas": 1}, "undone", ""),
    "somebody scales it while they are put back": ("scaling_down", {"replicas": 4}, "abandoned", "set 4 replicas"),
}


@pytest.mark.parametrize("case", STEPS)
def test_the_next_step_follows_from_the_row_and_the_cluster(case: str) -> None:
    state, observed, expected, message = STEPS[case]
    after = surges.next_step(surge(state), **{"replicas": 2, "now_seconds": NOW + 1, **observed})
    assert after.state == expected
    assert message in after.message if message else not after.message


ON = {"surge": {"enabled": True}}
LATE = "the pod could not leave within 300 s (surge.readyWithin)"


@pytest.mark.parametrize(
    ("section", "seconds", "enforced", "why"),
    [
        pytest.param(ON, 299, ["hot"], "", id="within its time"),
        pytest.param(ON, 299, None, "", id="before the run knows its nodes"),
        pytest.param(ON, 300, None, LATE, id="late"),
        pytest.param(ON, -60, None, LATE, id="begun by a clock that was ahead"),
        pytest.param(ON, 1, ["other"], "hot is not to be relieved any more", id="a node that is relieved"),
        pytest.param(ON | {"paused": True}, 1, None, "the policy pauses", id="a pause"),
        pytest.param({}, 1, None, "the policy has surges off", id="switched off"),
    ],
)
def test_a_surge_is_undone_for_a_reason(
    section: dict[str, Any], seconds: float, enforced: list[str] | None, why: str
) -> None:
    assert surges.why_undone(surge(), scenes.policy(**section), NOW + seconds, enforced) == why


@pytest.mark.parametrize(("state", "seconds"), [("undone", 60.0), ("abandoned", 86400.0)])
def test_a_workload_rests_after_a_surge(state: str, seconds: float) -> None:
    rests = [surge(state).rest(60.0, NOW + after_seconds) for after_seconds in (seconds - 1, seconds)]
    assert rests == [f"the last was {state} (), 1 s left", ""]


def named(kind: type[T], name: str = "web", **parts: dict[str, Any]) -> T:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", **parts.pop("metadata", {})}
    return builders.decoded({"metadata": metadata, **parts}, kind)


def deployment(name: str = "web", replicas: int = 1, label: str = "true", **spec: Any) -> objects.Deployment:
    """A Deployment that opts in, with all its replicas."""
    metadata, status = {"labels": {"evenload.io/surge": label}}, dict.fromkeys(COUNTS, replicas)
    return named(objects.Deployment, name, metadata=metadata, spec={"replicas": replicas, **spec}, status=status)


def single(**pod: Any) -> Scene:
    """A hot node with the only pod of the Deployment `web`, web-0, and a cool one."""
    scene = Scene().node("hot", memory=0.9, labels={"zone": "a"}).node("cool", labels={"zone": "a"})
    return scene.pod("web-0", "hot", owner=("Deployment", "web"), **pod)


def world(tmp_path: pathlib.Path, scene: Scene | None = None, **section: Any) -> World:
    """A descheduler that may surge `web`."""
    here = World(scene or single(), tmp_path, **{"mode": "Enforce", **ON, **section})
    here.door.objects[DEPLOYMENTS] = (deployment(),)
    return here


def why(here: World) -> str:
    """The verdict on web-0 in the plan of this moment."""
    return str(scenes.judged(here.previews.plan().plan)["web-0"].verdict)


def of(spec: dict[str, Any]) -> Scene:
    return single(mutate=lambda body: body["spec"].update(spec))


def quota(**hard: str) -> ResourceQuota:
    names = {name.replace("_", "."): amount for name, amount in hard.items()}
    return named(ResourceQuota, status={"hard": names, "used": dict.fromkeys(names, "1")})


HPA, VPA, CLAIMS = "horizontalpodautoscalers", "verticalpodautoscalers", "persistentvolumeclaims"
WEB = {"kind": "Deployment", "name": "web"}
ROLLOUT = {"kind": "Rollout", "name": "web"}
PORTS = {"containers": [{"name": "main", "ports": [{"hostPort": 80}]}]}
TERM = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
VOLUME = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
CLAIM = named(PersistentVolumeClaim, "data", spec={"volumeName": "disk"})
DISK = named(objects.PersistentVolume, "disk", spec={"accessModes": ["ReadWriteOncePod"]})
APART = of({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}})
ONE_NODE = "no surge: claim data is for one node at a time"


@pytest.mark.parametrize(
    ("scene", "there", "expected"),
    [
        (single(), {DEPLOYMENTS: deployment(label="1")}, 'no surge: label its Deployment evenload.io/surge: "true"'),
        (single(), {DEPLOYMENTS: deployment(strategy={"type": "Recreate"})}, "no surge: its strategy is Recreate"),
        (of(PORTS), {}, "no surge: it has ports of its node"),
        (of({"hostNetwork": True}), {}, "no surge: it has ports of its node"),
        (of(VOLUME), {CLAIMS: CLAIM, "persistentvolumes": DISK}, ONE_NODE),
        (single(), {HPA: named(Autoscaler, spec={"scaleTargetRef": WEB})}, "HorizontalPodAutoscaler web scales it"),
        (single(), {HPA: named(Autoscaler, spec={"scaleTargetRef": ROLLOUT})}, ": another pod first, expected on cool"),
        (single(), {"scaledobjects": named(Autoscaler, spec={"scaleTargetRef": {"name": "web"}})}, "ScaledObject web"),
        (single(), {VPA: named(Autoscaler, spec={"targetRef": WEB})}, "VerticalPodAutoscaler web scales it"),
        (single(), {"resourcequotas": quota(pods="1")}, "quota web may have no room: pods is 1 of 1"),
        (single(), {"resourcequotas": quota(requests_cpu="1200m")}, "requests.cpu is 1 of 1200m"),
        (single(), {"resourcequotas": quota(requests_cpu="2")}, ": another pod first"),
        (single(), {"resourcequotas": quota(limits_cpu="100")}, "limits.cpu is 1 of 100"),
        (single(), {"resourcequotas": quota(services="1", requests_storage="1")}, ": another pod first"),
        (APART, {}, "no_destination: no other node takes it: 1 pod anti-affinity"),
    ],
)
def test_a_pod_that_gets_no_other_one_first_says_why(
    tmp_path: pathlib.Path, scene: Scene, there: dict[str, Any], expected: str
) -> None:
    here = world(tmp_path, scene)
    here.door.objects |= {plural: (one,) for plural, one in there.items()}
    few = "few_replicas: Deployment/web wants 1, at least 2 needed; no surge: "
    assert why(here).startswith("surge: " if expected.startswith(":") else few if "surge: " in why(here) else expected)
    assert expected in why(here)


def test_a_manager_that_applies_the_replicas_and_a_scale_that_cannot_be_read_are_refusals(
    tmp_path: pathlib.Path,
) -> None:
    here = world(tmp_path)
    replicas: dict[str, dict[str, object]] = {"f:spec": {"f:replicas": {}}}
    here.door.managers = (FieldsOwner("kubectl", "Update", replicas), FieldsOwner("flux", "Apply", {"f:spec": {}}))
    assert why(here).startswith("surge: ")
    here.door.managers += (FieldsOwner("argocd-controller", "Apply", replicas),)
    here.clock.advance(2)
    assert why(here).endswith("no surge: argocd-controller applies its replicas")
    here.door.scale_failure = errors.Forbidden("GET scale", status=403, reason="Forbidden", message="no right")
    here.clock.advance(2)
    assert "no surge: " in (text := why(here))
    assert "no right" in text


@pytest.mark.parametrize(
    ("limits", "cause"),
    [
        ({"minAvailable": 1}, "surge"),
        ({"minAvailable": "50%"}, "surge"),
        ({"minAvailable": "60%"}, "budget"),
        ({"maxUnavailable": 0}, "budget"),
        ({"maxUnavailable": "1%"}, "surge"),
    ],
)
def test_the_budget_with_one_more_pod_is_foreseen(tmp_path: pathlib.Path, limits: dict[str, Any], cause: str) -> None:
    here, status = world(tmp_path, single(labels={"app": "web"})), {"expectedPods": 1, "currentHealthy": 1}
    spec = {"selector": {"matchLabels": {"app": "web"}}, **limits}
    here.door.objects["poddisruptionbudgets"] = (named(objects.DisruptionBudget, spec=spec, status=status),)
    assert why(here).partition(":")[0] == cause
    assert ("another pod would not change that" in why(here)) is (cause == "budget")


def test_only_so_many_surges_are_open_at_once(tmp_path: pathlib.Path) -> None:
    here = world(tmp_path, single().node("hot2", memory=0.9).pod("api-0", "hot2", owner=("Deployment", "api")))
    here.door.objects[DEPLOYMENTS] += (deployment("api"),)
    verdicts = sorted(str(one.verdict) for one in scenes.judged(here.previews.plan().plan).values())
    assert verdicts[0].endswith("no surge: 1 of 1 at once")
    assert verdicts[1].startswith("surge: ")


def states(here: World) -> list[tuple[str, str]]:
    """The state and the message of every surge, oldest first."""
    return [(one.state, one.message) for one in here.ledger.surges(0.0)]


def reasons(here: World) -> list[str]:
    return [str(one["reason"]) for one in here.door.created if str(one["reason"]).startswith("Surge")]


@pytest.mark.parametrize(
    ("mode", "state", "scaled"),
    [("Observe", "Observe", []), ("DryRun", "DryRun", [("web", 2, True)]), ("Enforce", "waiting", [UP])],
)
def test_a_surge_begins_as_its_mode_says(
    tmp_path: pathlib.Path, mode: str, state: str, scaled: list[tuple[str, int, bool]]
) -> None:
    here = world(tmp_path, mode=mode)
    assert here.report().summary == "0 evicted: 1 to surge"
    assert ([one for one, _ in states(here)], here.door.scaled, here.door.evictions) == ([state], scaled, [])
    assert here.service.period_seconds() == (10.0 if mode == "Enforce" else 120.0)
    assert ("no surge: the last was" in why(here)) is (mode != "Enforce")
    assert why(here).startswith("surge: another pod of Deployment/web first") is (mode == "Enforce")


def surging(tmp_path: pathlib.Path, node: str = "cool") -> World:
    """A surge that has begun, and another pod of `web` that is Ready on the cool node, or another."""
    here = world(tmp_path)
    here.report()
    made = {"creationTimestamp": builders.clock_text(NOW + 5)}
    here.show(single().pod("web-1", node, owner=("Deployment", "web"), metadata=made))
    here.door.objects[DEPLOYMENTS] = (deployment(replicas=2),)
    here.clock.advance(10)
    return here


def test_the_pod_is_evicted_and_the_replicas_put_back_once_another_one_is_ready(tmp_path: pathlib.Path) -> None:
    here = surging(tmp_path)
    verdict = scenes.judged(here.report().plan)["web-0"].verdict
    assert str(verdict) == "chosen: web-1 is Ready on cool"
    assert [name for name, _, _ in here.door.evictions] == ["default/web-0"]
    assert (states(here), here.door.scaled) == ([("finished", "web-0 has left")], [UP, DOWN])
    assert reasons(here) == ["SurgeStarted", "SurgeFinished"]
    assert here.metric("evenload_descheduler_surges_total", result="finished") == 1


SETTLING = "surge: the last was {} just now: its replicas may be others than those that are known"


def test_no_pod_is_evicted_by_the_replicas_that_a_watch_still_shows_after_a_surge(tmp_path: pathlib.Path) -> None:
    here = surging(tmp_path, "hot")
    settling = SETTLING.format("undone")
    assert {str(one.verdict) for one in scenes.judged(here.report().plan).values()} == {settling}
    assert (states(here), here.door.evictions) == ([("undone", "the new pod is on hot, too")], [])
    here.clock.advance(100)  # now the watch may be believed
    assert not [one for one in scenes.judged(here.report().plan).values() if str(one.verdict) == settling]


def test_no_pod_is_evicted_by_a_replica_more_that_somebody_has_just_taken_back(tmp_path: pathlib.Path) -> None:
    here = surging(tmp_path)
    listed = here.service.parts.reader.view()
    here.service.parts.reader.view = lambda: listed
    here.door.objects[DEPLOYMENTS] = (deployment(),)
    here.door.managers = (FieldsOwner("argocd", "Update", {"f:spec": {"f:replicas": {}}}),)
    assert str(scenes.judged(here.report().plan)["web-0"].verdict) == SETTLING.format("abandoned")
    assert (states(here), here.door.evictions) == ([("abandoned", "argocd set 1 replicas")], [])


def test_a_replica_more_that_somebody_takes_back_after_the_plan_keeps_the_old_pod(tmp_path: pathlib.Path) -> None:
    here = surging(tmp_path)
    while_the_hint_is_written(here, lambda: here.door.objects.update({DEPLOYMENTS: (deployment(),)}))
    verdict = scenes.judged(here.report().plan)["web-0"].verdict
    assert (str(verdict), here.door.evictions) == ("surge: somebody set 1 replicas", [])


def test_a_pod_that_a_kubelet_evicts_needs_no_other_one_any_more(tmp_path: pathlib.Path) -> None:
    here = surging(tmp_path)
    here.show(single(phase="Failed"))
    here.report()
    assert (states(here), here.door.evictions) == ([("undone", "web-0 has left")], [])


def test_an_open_surge_lets_no_other_pod_leave_sooner(tmp_path: pathlib.Path) -> None:
    scene = single()
    for name in "abc":
        scene.node(f"hot-{name}", memory=0.85).workload(name, on=[f"hot-{name}", "cool", "cool"], gib=0.5)
    here, evicted = world(tmp_path, scene, limits={"perRun": 2}), list[int]()
    for at_seconds in range(0, 130, 10):
        here.report()
        here.door.objects[DEPLOYMENTS] = (deployment(replicas=2),)
        evicted += [at_seconds] * (len(here.door.evictions) - len(evicted))
        here.clock.advance(here.service.period_seconds())
    assert evicted == [0, 120], "beside the surge one in each interval of 120 s"


@pytest.mark.parametrize(
    ("states", "left_seconds"),
    [(["finished"], 500), (["undone"], 800), (["undone"] * 3, 3500), (["undone", "finished"], 500)],
)
def test_each_surge_in_vain_makes_the_rest_longer(states: list[str], left_seconds: int) -> None:
    ended = tuple(surge(state)._replace(changed_at_seconds=NOW - 100) for state in states)
    past: Any = {"surges": ended, "surge_refusals": {"uid-web": ""}}
    plan = single().controller(deployment()).plan(scenes.policy(**ON), **past)
    assert str(scenes.judged(plan)["web-0"].verdict).endswith(f"{left_seconds} s left")


def test_a_surge_that_was_only_tried_holds_no_real_one_back(tmp_path: pathlib.Path) -> None:
    here = world(tmp_path, mode="DryRun")
    here.report()
    assert "no surge: the last was DryRun" in why(here)
    here.reload("{mode: Enforce, surge: {enabled: true}}")
    here.report()
    assert [state for state, _ in states(here)] == ["DryRun", "waiting"]


def test_the_load_of_a_new_pods_node_is_not_known_without_a_reading(tmp_path: pathlib.Path) -> None:
    here = world(tmp_path)
    here.report()
    made = {"creationTimestamp": builders.clock_text(NOW + 5)}
    scene = single().node("unread").pod("web-1", "unread", owner=("Deployment", "web"), metadata=made)
    scene.readings["unread"].clear()
    here.show(scene)
    here.door.objects[DEPLOYMENTS] = (deployment(replicas=2),)
    here.clock.advance(10)
    (eviction,) = here.report().plan.evictions
    assert (eviction.destination, eviction.destination_ratio) == ("unread", None)


def test_a_new_pod_that_does_not_serve_at_the_last_look_keeps_the_old_one(tmp_path: pathlib.Path) -> None:
    here = surging(tmp_path)
    listed = here.service.parts.reader.view()
    here.service.parts.reader.view = lambda: listed
    here.door.objects[kinds.PODS.plural] = here.door.objects[kinds.PODS.plural][:1]
    assert str(scenes.judged(here.report().plan)["web-0"].verdict) == "surge: web-1 has gone"
    assert here.door.evictions == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("{mode: Enforce, surge: {enabled: true}, paused: true}", "the policy pauses"),
        ("{mode: Enforce}", "the policy has surges off"),
        ("{mode: Observe, surge: {enabled: true}}", "hot is not to be relieved any more"),
    ],
)
def test_a_surge_that_is_no_longer_wanted_is_undone(tmp_path: pathlib.Path, change: str, message: str) -> None:
    here = world(tmp_path)
    here.report()
    here.reload(change)
    here.service.run()
    assert (states(here), here.door.scaled) == ([("undone", message)], [UP, DOWN])
    assert reasons(here) == ["SurgeStarted", "SurgeUndone"]


def test_replicas_that_cannot_be_put_back_are_tried_again_and_said_once(tmp_path: pathlib.Path) -> None:
    here = world(tmp_path)
    here.door.scale_refusals = [CHANGED]  # by a status of the controller, which is no reason
    here.report()
    here.door.scale_refusals = [REFUSED] * 4  # a run tries twice
    here.clock.advance(301)
    for _ in range(2):
        here.service.run()
    assert reasons(here) == ["SurgeStarted", "SurgeStuck"]
    here.ledger.prune(here.clock.now())
    here.door.scale_refusals = [CHANGED]
    here.service.run()
    assert (here.door.scaled, reasons(here)[2:]) == ([UP, DOWN], ["SurgeUndone"])


REFUSED = errors.Forbidden("PATCH", status=403, reason="Forbidden", message="no")
CHANGED = errors.Conflict("PATCH", status=409, reason="Conflict", message="no")
LOST = errors.Unreachable("PATCH: timed out")


@pytest.mark.parametrize(
    ("refusals", "first", "later"),
    [([REFUSED], "failed", "failed"), ([CHANGED] * 2, "failed", "failed"), ([LOST], "scaling_up", "undone")],
)
def test_a_replica_more_that_is_refused_ends_the_surge(
    tmp_path: pathlib.Path, refusals: list[errors.KubeError | None], first: str, later: str
) -> None:
    here = world(tmp_path)
    here.door.scale_refusals = refusals
    here.report()
    assert states(here)[0][0] == first
    here.clock.advance(60)
    here.service.run()
    assert (states(here)[0][0], here.door.scaled) == (later, [])
    assert "the last was" in why(here)


def test_without_the_policy_a_label_costs_no_request(tmp_path: pathlib.Path) -> None:
    here = world(tmp_path, surge={})
    assert scenes.causes(here.report().plan) == {"web-0": "few_replicas"}
    assert here.door.scales_asked == []
    assert not {"resourcequotas", HPA} & {plural for plural, _ in here.door.lists}
