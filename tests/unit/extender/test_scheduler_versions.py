"""Requests as the encoders of kube-scheduler 1.28 to 1.36 write them, and as those with lower-case keys did.

Made from the Go types (k8s.io/kube-scheduler/extender/v1, which have no JSON tags, so Go writes the field names and
every absent field as null) and held against the output of the real encoders of 1.28, 1.30, 1.32, 1.33, 1.34, 1.35 and
1.36: those of 1.28 to 1.33 write `"creationTimestamp":null` where nothing is set, later ones leave it out, and nothing
else differs. Before 1.17 the types had tags: lower-case keys, absent fields left out. Kubernetes' own test of these
types asks that they can be read in lower case throughout; here that holds for the protocol's own keys.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.unit.extender import test_app, worlds

Body = dict[str, Any]
NODES = ("hot", "cool")
REASON = "cpu_avg_5m over 0.65"
LOWER = {
    "Pod": "pod",
    "Nodes": "nodes",
    "NodeNames": "nodenames",
    "NodeNameToVictims": "nodeToVictims",
    "NodeNameToMetaVictims": "nodeNameToMetaVictims",
    "Pods": "pods",
    "NumPDBViolations": "numPDBViolations",
    "UID": "uid",
}


class Encoder(NamedTuple):
    """How a range of versions writes: the metadata of an object, and the names and nulls of the protocol's structs."""

    metadata: Callable[[Body], Body]
    struct: Callable[[Body], Body]

    def pod(self, name: str, uid: str) -> Body:
        """A v1.Pod with an owner and two containers, of which one requests nothing."""
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": "rs-1", "controller": True}
        requests = {"requests": {"cpu": "250m", "memory": "1Gi"}}
        containers = [{"name": "main", "image": "i", "resources": requests}, {"name": "side", "resources": {}}]
        metadata = self.metadata({"name": name, "namespace": "shop", "uid": uid, "ownerReferences": [owner]})
        return {"metadata": metadata, "spec": {"containers": containers, "priority": 7}, "status": {}}

    def node(self, name: str) -> Body:
        """A v1.Node; zero values stay, as in Go's structs that are no pointers."""
        status = {"allocatable": {"cpu": "8"}, "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}}
        return {"metadata": self.metadata({"name": name}), "spec": {}, "status": status}

    def args(self, *, names: list[str] | None, nodes: list[str] | None) -> bytes:
        """ExtenderArgs."""
        listed: Body | None = (
            None if nodes is None else {"metadata": {}, "items": [self.node(name) for name in nodes] or None}
        )
        return encoded(self.struct({"Pod": self.pod("web", "u-1"), "Nodes": listed, "NodeNames": names}))

    def preemption(self, *, cached: bool) -> bytes:
        """ExtenderPreemptionArgs: one victim on each node but the last; uids for caches, else whole pods."""
        victim = self.struct({"UID": "v-1"}) if cached else self.pod("v", "v-1")
        some: Body = self.struct({"Pods": [victim], "NumPDBViolations": 1})
        # a nil slice is null; convertToMetaVictims makes an empty one
        none: Body = self.struct({"Pods": [] if cached else None, "NumPDBViolations": 0})
        victims = {"hot": some, "cool": some, "unused": none}
        maps = {"NodeNameToVictims": None if cached else victims, "NodeNameToMetaVictims": victims if cached else None}
        return encoded(self.struct({"Pod": self.pod("web", "u-1"), **maps}))


def encoded(body: Body) -> bytes:
    """As Go's encoder: no spaces."""
    return json.dumps(body, separators=(",", ":")).encode()


def null_created(fields: Body) -> Body:
    """ObjectMeta up to 1.33."""
    return {**fields, "creationTimestamp": None}


def tagged(fields: Body) -> Body:
    """A struct with the tags of before 1.17, all of them omitempty but `pods` and `pod`."""
    return {LOWER[key]: value for key, value in fields.items() if value is not None or key in ("Pod", "Pods")}


def lowered(fields: Body) -> Body:
    """A struct whose names are lower-case throughout, as strings.ToLower makes them."""
    return {key.lower(): value for key, value in fields.items()}


ENCODERS = [
    pytest.param(Encoder(null_created, dict), id="1.28 to 1.33"),
    pytest.param(Encoder(dict, dict), id="1.34 to 1.36"),
    pytest.param(Encoder(null_created, tagged), id="tags of before 1.17"),
    pytest.param(Encoder(dict, lowered), id="lower-case throughout"),
]


@pytest.fixture
def world() -> test_app.World:
    return test_app.World({"hot": worlds.HOT, "cool": worlds.IDLE, "unused": worlds.IDLE})


@pytest.mark.parametrize("encoder", ENCODERS)
def test_names_are_filtered(world: test_app.World, encoder: Encoder) -> None:
    reply = world.post("filter", encoder.args(names=list(NODES), nodes=None)).json
    assert (reply["NodeNames"], reply["Nodes"]) == (["cool"], None)
    assert reply["FailedAndUnresolvableNodes"] == {"hot": REASON}


@pytest.mark.parametrize("encoder", ENCODERS)
def test_whole_nodes_are_filtered_and_come_back_as_they_were(world: test_app.World, encoder: Encoder) -> None:
    reply = world.post("filter", encoder.args(names=None, nodes=list(NODES))).json
    assert (reply["NodeNames"], reply["Nodes"]["items"]) == (None, [encoder.node("cool")])
    assert reply["FailedAndUnresolvableNodes"] == {"hot": REASON}


@pytest.mark.parametrize("encoder", ENCODERS)
def test_no_candidates_come_back_in_the_form_asked(world: test_app.World, encoder: Encoder) -> None:
    assert world.post("filter", encoder.args(names=[], nodes=None)).json["NodeNames"] == []
    reply = world.post("filter", encoder.args(names=None, nodes=[])).json
    assert (reply["NodeNames"], reply["Nodes"]) == (None, {"items": []})


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("whole", [False, True], ids=["names", "whole nodes"])
def test_both_forms_are_scored_alike(world: test_app.World, encoder: Encoder, whole: bool) -> None:
    names, nodes = (None, list(NODES)) if whole else (list(NODES), None)
    reply = world.post("prioritize", encoder.args(names=names, nodes=nodes)).json
    assert [row["Host"] for row in reply] == list(NODES)
    assert reply[0]["Score"] < reply[1]["Score"]


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("cached", [True, False], ids=["uids", "whole pods"])
def test_victims_of_both_maps_come_back_as_uids(world: test_app.World, encoder: Encoder, cached: bool) -> None:
    reply = world.post("preempt", encoder.preemption(cached=cached)).json
    assert reply == {
        "NodeNameToMetaVictims": {
            "cool": {"Pods": [{"UID": "v-1"}], "NumPDBViolations": 1},
            "unused": {"Pods": [], "NumPDBViolations": 0},
        }
    }


@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_pod_is_read_whole(world: test_app.World, encoder: Encoder) -> None:
    world.post("filter", encoder.args(names=list(NODES), nodes=None))
    (decision,) = world.ring.find("shop", "web", 9, now_seconds=world.clock.now())
    assert decision.inputs is not None
    pod = decision.inputs.pod
    assert (pod.uid, pod.priority, pod.requests.cpu_millicores) == ("u-1", 7, 250.0)
    assert pod.owner is not None
    assert pod.owner.uid == "rs-1"
