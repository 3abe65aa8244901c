"""Every eviction of a plan over random clusters could be placed where the plan expects it, by tests' own `oracle`."""

import collections
import dataclasses
import random
from typing import Any

import hypothesis
from hypothesis import strategies as st

from descheduler.planning.plans import EvictionPlan
from descheduler.planning.verdicts import Cause
from tests import builders
from tests.unit.descheduler import oracle, scenes
from tests.unit.descheduler.oracle import ZONE, Machine, Placed, Template
from tests.unit.descheduler.scenes import Scene

APPS = ["w0", "w1", "w2", "w3"]
TAINT = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
TEMPLATES = st.builds(
    Template,
    app=st.just(""),
    gib=st.sampled_from([1, 3, 5]),
    cores=st.integers(0, 3),
    priority=st.sampled_from([0, 0, 5, -5]),
    preempts=st.sampled_from([True, True, False]),
    tolerates=st.booleans(),
    zone=st.sampled_from(["", "", "", "a"]),
    port=st.sampled_from([0, 0, 0, 80]),
    apart=st.sampled_from([False, False, True]),
    near=st.sampled_from(["", "", "", *APPS]),
    away=st.sampled_from(["", "", "", *APPS]),
    skew=st.sampled_from([0, 0, 1, 2]),
    least_domains=st.sampled_from([0, 0, 3]),
)
MACHINES = st.builds(
    Machine,
    name=st.just(""),
    zone=st.sampled_from(["a", "b"]),
    tainted=st.sampled_from([False, False, True]),
    open=st.sampled_from([True, True, True, False]),
    cores=st.integers(4, 12),
    gib=st.sampled_from([6, 8, 12, 48]),
    slots=st.sampled_from([2, 4, 110]),
)
ALLOWED = ["Exempt", "Never", {"inFlight": 1}, {"perMinute": 2}, {"perMinute": 1, "burst": 2}]
FLOW = st.lists(
    st.fixed_dictionaries(
        {
            "match": st.one_of(
                st.just({}), st.sampled_from(APPS).map(lambda app: {"labelSelector": {"matchLabels": {"app": app}}})
            ),
            "allow": st.sampled_from(ALLOWED),
        }
    ),
    max_size=3,
)
WIDE = {**scenes.UNCAPPED, "perHour": 60}
many = hypothesis.settings(max_examples=120)


@dataclasses.dataclass
class Drawn:
    """A cluster as the oracle and as the planner see it."""

    machines: dict[str, Machine]
    placed: Placed
    scene: Scene


@st.composite
def clusters(draw: st.DrawFn) -> Drawn:
    """Two hot nodes and one to three others; two to four workloads, most pods on the hot ones; placeholders."""
    names = ["h0", "h1", *(f"n{number}" for number in range(draw(st.sampled_from([1, 1, 2, 3]))))]
    machines = {name: dataclasses.replace(draw(MACHINES), name=name) for name in names}
    for name in ("h0", "h1"):
        machines[name] = dataclasses.replace(machines[name], open=True)
    placed: Placed = {}
    for app in APPS[: draw(st.integers(2, 4))]:
        template = dataclasses.replace(draw(TEMPLATES), app=app)
        for number in range(draw(st.integers(2, 4))):
            placed[f"{app}-{number}"] = (template, draw(st.sampled_from(["h0", "h0", "h1", *names])))
    for name in names[2:]:
        if draw(st.booleans()):
            room = Template(f"room-{name}", gib=draw(st.integers(1, 8)), priority=draw(st.sampled_from([-10, -10, -1])))
            placed[f"room-{name}"] = (dataclasses.replace(room, placeholder=True), name)
    return Drawn(machines, placed, _scene(draw, machines, placed))


def _scene(draw: st.DrawFn, machines: dict[str, Machine], placed: Placed) -> Scene:
    scene = Scene()
    for name, machine in machines.items():
        hot = name.startswith("h")
        amounts = {"cpu": str(machine.cores), "memory": f"{machine.gib}Gi", "pods": str(machine.slots)}
        scene.node(
            name,
            memory=draw(st.sampled_from([0.85, 0.95, 1.1] if hot else [0.05, 0.2, 0.5])),
            cpu=draw(st.sampled_from([0.1, 0.9] if hot else [0.05, 0.3])),
            labels={ZONE: machine.zone},
            spec={"taints": [TAINT] if machine.tainted else [], "unschedulable": not machine.open},
            status={"allocatable": amounts},
        )
    for app in sorted({template.app for template, _ in placed.values() if not template.placeholder}):
        count = sum(1 for template, _ in placed.values() if template.app == app)
        scene.owners.append(builders.replica_set(app, replicas=count, labels={"app": app}))
    for pod, (template, node) in placed.items():
        labels = {"app": template.app, **({"evenload.io/placeholder": "true"} if template.placeholder else {})}
        scene.pod(
            pod,
            node,
            gib=draw(st.sampled_from([0.5, 2.0, 4.0])),
            cores=draw(st.sampled_from([0.1, 1.0])),
            owner=("ReplicaSet", template.app),
            labels=labels,
            spec=_pod_spec(template),
        )
    return scene


def _pod_spec(template: Template) -> dict[str, object]:
    ports = [{"containerPort": 80, "hostPort": template.port}] if template.port else []
    requests = {"cpu": str(template.cores), "memory": f"{template.gib}Gi"}
    hosts = [_term(template.app, "kubernetes.io/hostname")] if template.apart else []
    away = [*hosts, *([_term(template.away, ZONE)] if template.away else [])]
    near = [_term(template.near, ZONE)] if template.near else []
    rule = {**_term(template.app, ZONE), "maxSkew": template.skew, "whenUnsatisfiable": "DoNotSchedule"}
    domains = {"minDomains": template.least_domains} if template.least_domains else {}
    return {
        "priority": template.priority,
        "preemptionPolicy": "PreemptLowerPriority" if template.preempts else "Never",
        "tolerations": [{"key": "dedicated", "operator": "Exists"}] if template.tolerates else [],
        "nodeSelector": {ZONE: template.zone} if template.zone else {},
        "containers": [{"name": "main", "resources": {"requests": requests}, "ports": ports}],
        "affinity": {
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": near},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": away},
        },
        "topologySpreadConstraints": [{**rule, **domains}] if template.skew else [],
    }


def _term(app: str, key: str) -> dict[str, object]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def planned(drawn: Drawn, **descheduler: object) -> EvictionPlan:
    """A plan under wide caps."""
    given = {"limits": WIDE, "coolNodes": 0, "protect": {"minReadyRatio": 0}, **descheduler}
    return drawn.scene.plan(scenes.policy(**given))


@many
@hypothesis.given(clusters())
def test_every_eviction_of_a_plan_can_be_placed_where_it_is_expected(drawn: Drawn) -> None:
    placed = dict(drawn.placed)
    for one in planned(drawn).evictions:
        assert oracle.objections(one.pod.name, one.destination, placed, drawn.machines) == []
        placed[one.pod.name] = (placed[one.pod.name][0], one.destination)


@many
@hypothesis.given(clusters())
def test_a_pod_without_a_destination_could_be_placed_nowhere_by_rules_or_by_load(drawn: Drawn) -> None:
    plan = planned(drawn)
    if plan.evictions:  # afterwards the cluster is another one: rooms are given away
        return
    open_nodes = [name for name, _ in plan.headroom.destinations]
    for node in plan.nodes:
        for one in node.candidates:
            if one.verdict.cause is Cause.NO_DESTINATION and not one.verdict.detail.count("over evictUntil"):
                free = [
                    name
                    for name in open_nodes
                    if not oracle.objections(one.pod.name, name, drawn.placed, drawn.machines)
                    and name != node.node.name
                ]
                assert free == []


@many
@hypothesis.given(clusters(), FLOW)
def test_no_flow_rule_lets_more_through_than_it_says(drawn: Drawn, flow: list[dict[str, Any]]) -> None:
    passed: collections.Counter[int] = collections.Counter()
    for one in planned(drawn, flow=flow).evictions:
        only = {"labelSelector": {"matchLabels": {"app": one.pod.labels["app"]}}}
        matching = [at for at, rule in enumerate(flow) if rule["match"] in ({}, only)]
        if matching:
            passed[matching[-1]] += 1
    for at, count in passed.items():
        allow = flow[at]["allow"]
        if isinstance(allow, str):
            assert count <= {"Exempt": 99, "Never": 0}[allow]
        else:
            assert count <= (allow.get("burst") or allow.get("inFlight") or allow["perMinute"])


@many
@hypothesis.given(clusters(), FLOW, st.randoms(use_true_random=False))
def test_the_order_of_what_was_listed_changes_nothing(
    drawn: Drawn, flow: list[dict[str, Any]], rng: random.Random
) -> None:
    obeyed = scenes.policy(limits=WIDE, coolNodes=0, flow=flow)
    assert drawn.scene.shuffled(rng).plan(obeyed) == drawn.scene.plan(obeyed)


def test_the_random_clusters_lead_to_evictions_and_to_every_sort_of_objection() -> None:
    evictions: list[int] = []
    words: set[str] = set()

    @hypothesis.settings(max_examples=150, database=None)
    @hypothesis.seed(1)
    @hypothesis.given(clusters())
    def collect(drawn: Drawn) -> None:
        plan = planned(drawn)
        evictions.append(len(plan.evictions))
        words.update(one.verdict.detail for node in plan.nodes for one in node.candidates)

    collect()
    assert sum(1 for count in evictions if count) >= 30
    assert max(evictions) > 1
    details = " ".join(words)
    reasons = [
        "taint",
        "node affinity",
        "requests",
        "pod affinity",
        "pod anti-affinity",
        "topology spread",
        "host port",
    ]
    assert [reason for reason in reasons if reason not in details] == []
