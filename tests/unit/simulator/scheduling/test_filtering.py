from collections.abc import Sequence

import pytest

from kube import objects
from simulator.scheduling.scheduler import Placement
from tests import builders
from tests.unit.simulator.scheduling import cases
from tests.unit.simulator.scheduling.cases import HOST, ZONE, bound, pending, spec

AFFINITY = "node(s) didn't match Pod's node affinity/selector"
SPREAD = "node(s) didn't match pod topology spread constraints"
PORTS = [{"containerPort": 80, "hostPort": 80}]


def place(
    nodes: Sequence[objects.Node], pod: objects.Pod, pods: Sequence[objects.Pod] = (), **labels: dict[str, str]
) -> Placement:
    made = cases.scheduler(nodes, pods)
    for name, found in labels.items():
        body = {"metadata": {"name": name, "labels": found}}
        made.namespace_changed(None, builders.decoded(body, objects.Namespace))
    return made.schedule(pod)


def port(body: builders.Body) -> None:
    body["spec"]["containers"][0]["ports"] = PORTS


def selecting(operator: str, *values: str, field: str = "matchExpressions", key: str = "disk") -> builders.Mutator:
    term = {field: [{"key": key, "operator": operator, "values": list(values)}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return spec(affinity={"nodeAffinity": required})


TOLERANT = spec(tolerations=[{"operator": "Exists"}])
CORDONED = builders.node(mutate=lambda body: body["spec"].update(unschedulable=True))
REFUSED = [
    (CORDONED, pending(), [], "node(s) were unschedulable", "NodeUnschedulable"),
    (builders.node(mutate=cases.tainted("NoSchedule")), pending(), [], "node(s) had untolerated taint(s)", "Taint"),
    (builders.node(mutate=cases.tainted("NoExecute")), pending(), [], "node(s) had untolerated taint(s)", "Taint"),
    (builders.node(), pending(mutate=spec(nodeSelector={"disk": "ssd"})), [], AFFINITY, "NodeAffinity"),
    (builders.node(), pending(mutate=selecting("In", "ssd")), [], AFFINITY, "NodeAffinity"),
    (builders.node(), pending(mutate=port), [bound("old", "node-1", mutate=port)], "node(s) didn't have free", "Ports"),
    (builders.node(pods="1"), pending(), [bound("old", "node-1")], "Too many pods", "NodeResourcesFit"),
    (builders.node(cpu="1"), pending(cpu="600m"), [bound("old", "node-1", cpu="500m")], "Insufficient cpu", "Fit"),
    (builders.node(memory="1Gi"), pending(memory="2Gi"), [], "Insufficient memory", "NodeResourcesFit"),
    (
        builders.node(),
        pending(mutate=cases.spread(ZONE)),
        [],
        f"{SPREAD} (missing required label)",
        "PodTopologySpread",
    ),
    (builders.node(), pending(mutate=cases.near("db")), [], "node(s) didn't match pod affinity rules", "InterPod"),
    (
        builders.node(),
        pending(mutate=cases.near("db", anti=True)),
        [bound("db", "node-1", labels={"app": "db"})],
        "node(s) didn't match pod anti-affinity rules",
        "InterPod",
    ),
    (
        builders.node(),
        pending(),
        [bound("db", "node-1", labels={"app": "db"}, mutate=cases.near("web", anti=True))],
        "node(s) didn't satisfy existing pods anti-affinity rules",
        "InterPod",
    ),
]


@pytest.mark.parametrize(("node", "pod", "pods", "reason", "plugin"), REFUSED, ids=[case[3] for case in REFUSED])
def test_a_node_is_refused_by_the_plugin_that_says_so(
    node: objects.Node, pod: objects.Pod, pods: list[objects.Pod], reason: str, plugin: str
) -> None:
    placed = place([node], pod, pods)
    assert placed.node == ""
    assert [(text.startswith(reason), number) for text, number in placed.reasons.items()] == [(True, 1)]
    assert [plugin in name for name in placed.rejected_by] == [True]


ACCEPTED = {
    "a cordoned node for a pod that tolerates everything": (CORDONED, pending(mutate=TOLERANT), []),
    "a tainted node for a pod that tolerates it": (
        builders.node(mutate=cases.tainted("NoSchedule")),
        pending(mutate=TOLERANT),
        [],
    ),
    "a node of the name that affinity names": (
        builders.node(),
        pending(mutate=selecting("In", "node-1", field="matchFields", key="metadata.name")),
        [],
    ),
    "an overcommitted node for a pod that asks for nothing": (
        builders.node(cpu="1"),
        pending(mutate=lambda body: body["spec"].update(containers=[{"name": "main"}])),
        [bound("old", "node-1", cpu="2")],
    ),
    "another port": (builders.node(), pending(mutate=port), [bound("old", "node-1")]),
    "the first of a group that is attracted to itself": (builders.node(), pending(mutate=cases.near("web")), []),
    "a finished pod's place": (builders.node(cpu="1"), pending(cpu="1"), [bound("old", "node-1", phase="Succeeded")]),
}


@pytest.mark.parametrize(("node", "pod", "pods"), ACCEPTED.values(), ids=ACCEPTED)
def test_a_node_is_taken(node: objects.Node, pod: objects.Pod, pods: list[objects.Pod]) -> None:
    assert place([node], pod, pods).node == "node-1"


def test_a_node_is_counted_once_by_the_first_plugin_but_with_every_amount_it_lacks() -> None:
    nodes = [
        builders.node("cordoned", mutate=lambda body: body["spec"].update(unschedulable=True, taints=[]), cpu="1"),
        builders.node("small", cpu="1", memory="1Gi"),
        builders.node("full", pods="0", cpu="1"),
    ]
    placed = place(nodes, pending(cpu="2", memory="2Gi"))
    assert placed.reasons == {
        "node(s) were unschedulable": 1,
        "Too many pods": 1,
        "Insufficient cpu": 2,
        "Insufficient memory": 1,
    }
    assert placed.rejected_by == {"NodeUnschedulable", "NodeResourcesFit"}


def test_a_pod_that_names_its_nodes_is_refused_everywhere_else() -> None:
    nodes = [builders.node("a", cpu="1"), builders.node("b"), builders.node("c")]
    named = selecting("In", "a", "gone", field="matchFields", key="metadata.name")
    placed = place(nodes, pending(cpu="2", mutate=named))
    assert placed.reasons == {"Insufficient cpu": 1, "node(s) didn't satisfy plugin(s) [NodeAffinity]": 2}


ZONES = [builders.node(name, labels={ZONE: name[0]}) for name in ("a1", "a2", "b1", "c1")]


def test_a_hard_rule_keeps_the_skew() -> None:
    pods = [bound("1", "a1"), bound("2", "b1")]
    assert place(ZONES, pending(mutate=cases.spread(ZONE)), pods).node == "c1"


def test_pods_that_are_leaving_do_not_count_for_spreading() -> None:
    def leaving(body: builders.Body) -> None:
        body["metadata"]["deletionTimestamp"] = builders.CREATED

    pods = [bound("1", "a1"), bound("2", "b1", mutate=leaving), bound("3", "c1")]
    assert place(ZONES, pending(mutate=cases.spread(ZONE)), pods).node == "b1"


def test_too_few_domains_make_the_least_zero() -> None:
    pods = [bound("1", "a1"), bound("2", "b1"), bound("3", "c1")]
    assert place(ZONES, pending(mutate=cases.spread(ZONE)), pods).node
    assert place(ZONES, pending(mutate=cases.spread(ZONE, minDomains=4)), pods).reasons == {SPREAD: 4}


def test_nodes_that_a_rule_does_not_count_are_no_domain() -> None:
    tainted = builders.node("d1", labels={ZONE: "d"}, mutate=cases.tainted("NoSchedule"))
    pods = [bound("1", "a1"), bound("2", "b1"), bound("3", "c1")]
    ignoring, honouring = (pending(mutate=cases.spread(ZONE, nodeTaintsPolicy=one)) for one in ("Ignore", "Honor"))
    assert place([*ZONES, tainted], ignoring, pods).node == ""
    assert place([*ZONES, tainted], honouring, pods).node in ("a1", "a2", "b1", "c1")


def test_match_label_keys_count_only_pods_of_the_same_value() -> None:
    pods = [bound("1", "a1", labels={"app": "web", "version": "1"})]
    pod = pending(labels={"app": "web", "version": "2"}, mutate=cases.spread(HOST, matchLabelKeys=["version"]))
    assert "a1" in place(ZONES[:1], pod, pods).node


def test_affinity_reaches_as_far_as_its_topology() -> None:
    pods = [bound("db", "a1", labels={"app": "db"})]
    assert set(place(ZONES, pending(mutate=cases.near("db", ZONE)), pods).ties) <= {"a1", "a2"}
    assert place(ZONES, pending(mutate=cases.near("db", HOST)), pods).node == "a1"
    assert set(place(ZONES, pending(mutate=cases.near("db", ZONE, anti=True)), pods).scored) == {"b1", "c1"}


def test_a_term_means_other_namespaces_only_where_it_says_so() -> None:
    pods = [bound("db", "a1", labels={"app": "db"}, namespace="data")]

    def reaching(**where: object) -> builders.Mutator:
        term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "db"}}, **where}
        return spec(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})

    assert place(ZONES, pending(mutate=reaching()), pods).node == ""
    assert place(ZONES, pending(mutate=reaching(namespaces=["data"])), pods).node == "a1"
    assert place(ZONES, pending(mutate=reaching(namespaceSelector={})), pods).node == "a1"
    by_label = reaching(namespaceSelector={"matchLabels": {"kind": "store"}})
    assert place(ZONES, pending(mutate=by_label), pods).node == ""
    assert place(ZONES, pending(mutate=by_label), pods, data={"kind": "store"}).node == "a1"
