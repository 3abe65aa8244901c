"""One object that cannot be decoded costs that object alone: on every path that decodes, at the wire."""

import contextlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import prometheus_client
import pytest

from descheduler.snapshot import interned_pods
from kube import config, errors, kinds, objects
from kube.cache import watch_status
from kube.http import client, client_metrics, decoding, undecodable
from kube.pods import compact
from tests import builders, clocks, scripted_http
from tests.scripted_http import Exchange

TIMES = builders.IMPOSSIBLE_TIMES
POD_KINDS = [kinds.PODS, compact.PODS, interned_pods.PODS]


def _bad_condition(body: builders.Body, time: str = TIMES[0]) -> None:
    body["status"]["conditions"].append({"type": "Ready", "status": "True", "lastTransitionTime": time})


def bad_node(name: str, time: str = TIMES[0], version: int = 1) -> builders.Body:
    return versioned(builders.node_body(name, mutate=lambda body: _bad_condition(body, time)), version)


def bad_pod(name: str, time: str = TIMES[0], version: int = 1, **fields: Any) -> builders.Body:
    return versioned(builders.pod_body(name, mutate=lambda body: _bad_condition(body, time), **fields), version)


def versioned(body: builders.Body, version: int) -> builders.Body:
    body["metadata"]["resourceVersion"] = str(version)
    return body


def page(*items: Any, token: str = "") -> bytes:
    """A list as Go writes it: without spaces, and without apiVersion and kind in its items."""
    for item in items:
        if isinstance(item, dict):
            item.pop("apiVersion", None)
            item.pop("kind", None)
    document = {"metadata": {"resourceVersion": "7", "continue": token}, "items": items}
    return json.dumps(document, separators=(",", ":")).encode()


class Wire:
    """A scripted apiserver and a door on it."""

    def __init__(self, server: scripted_http.ScriptedServer, door: client.Client) -> None:
        self.server = server
        self.door = door

    def answers(self, *bodies: bytes) -> None:
        left = list(bodies)
        self.server.script = lambda exchange: exchange.answer(left.pop(0) if len(left) > 1 else left[0])

    def streams(self, *events: tuple[str, object]) -> None:
        def script(exchange: Exchange) -> None:
            exchange.stream(*(json.dumps({"type": kind, "object": body}).encode() + b"\n" for kind, body in events))
            exchange.end()

        self.server.script = script

    def metrics(self) -> dict[str, float]:
        registry = prometheus_client.CollectorRegistry()
        registry.register(client_metrics.DoorCollector(self.door.undecodable, watch_status.Watches({})))
        found = {}
        for family in registry.collect():
            for sample in family.samples:
                found[f"{sample.name}{sorted(sample.labels.values())}"] = sample.value
        return found


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    with scripted_http.serving(lambda exchange: exchange.answer(b"{}")) as server:
        door = config.connect(scripted_http.kubeconfig(tmp_path, server.url), clock=clocks.ManualClock())
        with contextlib.closing(door):
            yield Wire(server, door)


@pytest.mark.parametrize("time", TIMES)
def test_a_list_is_whole_but_for_the_node_that_cannot_be_decoded(
    wire: Wire, time: str, caplog: pytest.LogCaptureFixture
) -> None:
    wire.answers(page(builders.node_body("a"), bad_node("b", time), builders.node_body("c")))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert [node.name for node in wire.door.list(kinds.NODES).items] == ["a", "c"]
    lines = [record.getMessage() for record in caplog.records if "cannot be decoded" in record.getMessage()]
    assert len(lines) == 1, lines
    assert "lastTransitionTime" in lines[0]
    assert wire.door.undecodable.line() == "1 cannot be decoded: Node b (time)"
    assert wire.metrics() == {
        "evenload_kube_undecodable_objects_total['Node', 'time']": 1,
        "evenload_kube_objects_undecodable['Node']": 1,
    }
    wire.answers(page(builders.node_body("a"), builders.node_body("b")))
    assert len(wire.door.list(kinds.NODES).items) == 2
    assert wire.door.undecodable.line() == "all decoded"
    assert wire.metrics()["evenload_kube_objects_undecodable['Node']"] == 0


@pytest.mark.parametrize("kind", POD_KINDS, ids=lambda kind: kind.type.__module__)
@pytest.mark.parametrize("time", TIMES)
def test_a_pod_that_cannot_be_decoded_counts_where_it_runs(wire: Wire, kind: kinds.Kind[Any], time: str) -> None:
    spoilt = bad_pod("b", time, node="node-7")
    spoilt["status"]["conditions"].insert(
        0, {"type": "PodScheduled", "status": "True", "lastTransitionTime": builders.SCHEDULED}
    )
    wire.answers(page(builders.pod_body("a", node="node-1"), spoilt))
    whole, part = wire.door.list(kind).items
    assert (part.key, part.uid, part.node_name) == ("default/b", "uid-b", "node-7")
    assert part.owner == whole.owner
    assert part.owner is not None
    assert part.scheduled_at_seconds is not None
    assert wire.door.undecodable.line() == "1 cannot be decoded: Pod default/b on node-7 (time)"
    if kind in (kinds.PODS, interned_pods.PODS):
        assert (whole.undecodable, part.undecodable, part.requests) == ("", "time", whole.requests)


@pytest.mark.parametrize("kind", POD_KINDS, ids=lambda kind: kind.type.__module__)
def test_a_pod_of_which_nothing_else_can_be_read_still_has_its_node(wire: Wire, kind: kinds.Kind[Any]) -> None:
    metadata = {"name": "b", "namespace": "shop", "uid": "u-b", "labels": 3, "ownerReferences": [{"kind": 3}]}
    spec = {"nodeName": "node-7", "containers": [{"name": "main", "resources": 3}]}
    wire.answers(page({"metadata": metadata, "spec": spec, "status": {"conditions": "none", "phase": 4}}))
    (part,) = wire.door.list(kind).items
    assert (part.key, part.uid, part.node_name, part.finished) == ("shop/b", "u-b", "node-7", False)
    assert wire.door.undecodable.line() == "1 cannot be decoded: Pod shop/b on node-7 (type)"


def test_every_page_may_have_one(wire: Wire) -> None:
    wire.answers(page(bad_node("a"), token="next"), page(bad_node("b"), builders.node_body("c")))
    assert [node.name for node in wire.door.list(kinds.NODES, limit=2).items] == ["c"]
    assert wire.door.undecodable.line() == "2 cannot be decoded: Node a (time), Node b (time)"


def test_of_a_large_list_only_the_part_that_fails_is_decoded_item_by_item(monkeypatch: pytest.MonkeyPatch) -> None:
    padding = {"padding": "x" * 4000}
    bodies = [builders.node_body(f"n{at}", labels=padding) for at in range(1200)]
    bodies[700] = bad_node("n700")
    alone = mock.Mock(wraps=decoding.decoded)
    monkeypatch.setattr(decoding, "decoded", alone)
    body = page(*bodies)
    pieces = (body[at : at + 65536] for at in range(0, len(body), 65536))
    found = decoding.page("GET /nodes", objects.Node, pieces)
    assert found.items is not None
    assert [node.name for node in found.items] == [f"n{at}" for at in range(1200) if at != 700]
    assert [one.name for one in found.undecodable] == ["n700"]
    assert 0 < alone.call_count <= 400


@pytest.mark.parametrize("item", [3, "text", None, [], {}, {"metadata": {"name": 3}}, {"metadata": {"labels": 3}}])
def test_an_item_that_is_no_object_with_a_name_fails_the_whole(item: object) -> None:
    body = page(bad_node("a"), {"metadata": {"labels": 3}}) if item == {} else page(builders.node_body("a"), item)
    with pytest.raises(errors.Undecodable):
        decoding.page("GET /nodes", objects.Node, [body])


def test_a_list_cut_short_fails_as_a_whole() -> None:
    with pytest.raises(errors.Undecodable):
        decoding.page("GET /nodes", objects.Node, [page(bad_node("a"), bad_node("b"))[:-20]])


def test_bytes_that_are_no_text_cost_one_object() -> None:
    body = page(builders.node_body("a"), builders.node_body("b", labels={"x": "@"})).replace(b"@", b"\xff")
    found = decoding.page("GET /nodes", objects.Node, [body])
    assert [(one.name, one.reason) for one in found.undecodable] == [("b", "encoding")]


@pytest.mark.parametrize("kind", [kinds.PODS, compact.PODS, interned_pods.PODS])
def test_a_key_that_is_no_text_beside_a_wrong_type_costs_a_part_of_one_object(kind: kinds.Kind[Any]) -> None:
    spoilt = b'[{"type":5,"\xf0x":1}]'
    text = b'{"metadata":{"name":"a","namespace":"b"},"spec":{"nodeName":"n"},"status":{"conditions":%s}}' % spoilt
    found = decoding.decoded("watch", kind.type, text)
    assert found.undecodable is not None
    assert (found.undecodable.name, found.undecodable.node) == ("a", "n")
    assert found.object is not None
    assert found.object.node_name == "n"


def test_a_watch_goes_on_and_reports_the_node_as_gone(wire: Wire) -> None:
    wire.streams(
        ("ADDED", versioned(builders.node_body("a"), 8)),
        ("MODIFIED", bad_node("a", version=9)),
        ("ADDED", bad_node("b", version=10)),
        ("MODIFIED", versioned(builders.node_body("a"), 11)),
        ("DELETED", bad_node("b", version=12)),
    )
    events = [
        (event.type, event.object and event.object.name, event.resource_version, wire.door.undecodable.line())
        for event in wire.door.watch(kinds.NODES, resource_version="7")
    ]
    assert events == [
        ("ADDED", "a", "8", "all decoded"),
        ("DELETED", "a", "9", "1 cannot be decoded: Node a (time)"),
        ("DELETED", "b", "10", "2 cannot be decoded: Node a (time), Node b (time)"),
        ("MODIFIED", "a", "11", "1 cannot be decoded: Node b (time)"),
        ("DELETED", "b", "12", "all decoded"),
    ]


def test_a_watched_pod_is_counted_in_part(wire: Wire) -> None:
    wire.streams(("MODIFIED", bad_pod("a", version=9, node="node-7")), ("DELETED", bad_pod("a", version=10)))
    first, last = wire.door.watch(compact.PODS, resource_version="7")
    assert (first.type, first.resource_version, first.object and first.object.node_name) == ("MODIFIED", "9", "node-7")
    assert (last.type, last.resource_version, last.object and last.object.uid) == ("DELETED", "10", "uid-a")
    assert wire.door.undecodable.line() == "all decoded"


def test_a_pod_that_is_read_alone_is_read_in_part_and_a_node_is_not(wire: Wire) -> None:
    wire.answers(json.dumps(bad_pod("a", node="node-7")).encode())
    assert wire.door.get(kinds.PODS, "a", namespace="default").node_name == "node-7"
    wire.answers(json.dumps(bad_node("a")).encode())
    with pytest.raises(errors.Undecodable, match="Node a: Invalid RFC3339"):
        wire.door.get(kinds.NODES, "a")
    assert wire.metrics()["evenload_kube_undecodable_objects_total['Node', 'time']"] == 1


def test_a_budget_that_cannot_be_decoded_says_so(wire: Wire) -> None:
    body = {"metadata": {"name": "web", "namespace": "shop"}, "status": {"disruptedPods": {"a": TIMES[0], "b": None}}}
    wire.answers(page(body))
    (budget,) = wire.door.list(kinds.BUDGETS).items
    assert (budget.key, budget.undecodable) == ("shop/web", "time")


@pytest.mark.parametrize("time", TIMES)
def test_a_lease_keeps_its_holder_without_its_time(wire: Wire, time: str, caplog: pytest.LogCaptureFixture) -> None:
    spec = {"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": time, "leaseTransitions": 3}
    body = {"metadata": {"name": "ours", "namespace": "evenload", "resourceVersion": "9"}, "spec": spec}
    wire.answers(json.dumps(body).encode())
    lease, again = (wire.door.get(kinds.LEASES, "ours", namespace="evenload") for _ in range(2))
    assert lease == again
    assert (lease.spec.holder_identity, lease.spec.lease_transitions, lease.spec.renew_time) == ("one", 3, None)
    assert (lease.resource_version, lease.undecodable) == ("9", "time")
    assert len([record for record in caplog.records if "cannot be decoded" in record.getMessage()]) == 1


def test_lines_and_names_that_are_remembered_have_limits(caplog: pytest.LogCaptureFixture) -> None:
    """A tenant makes and deletes such pods for as long as it likes."""
    clock = clocks.ManualClock()
    found = undecodable.UndecodableObjects(clock)
    source = undecodable.Source("Pod")

    def come_and_go(number: int) -> None:
        text = json.dumps(bad_pod(f"p{number}")).encode()
        lost = decoding.decoded("watch", compact.Pod, text).undecodable
        found.changed(source, f"default/p{number}", lost)
        found.changed(source, f"default/p{number}", None)

    with caplog.at_level(logging.WARNING):
        for number in range(undecodable.NAMED_MOST + 100):
            come_and_go(number)
        assert len(caplog.records) == 1
        clock.advance(60)
        come_and_go(undecodable.NAMED_MOST + 100)
    assert f"'count': {undecodable.NAMED_MOST + 100}" in caplog.records[-1].getMessage()
    assert len(found._named) <= undecodable.NAMED_MOST
    assert found.counts() == {("Pod", "time"): undecodable.NAMED_MOST + 101}
    assert found.present() == {"Pod": 0}


def test_a_thousand_pods_of_a_tenant_are_one_line_and_a_node_beside_them_is_another(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    wire.answers(page(*(bad_pod(f"p{number}") for number in range(1000))), page(bad_node("n")))
    with caplog.at_level(logging.DEBUG):
        wire.door.list(compact.PODS)
        wire.door.list(kinds.NODES)
    pods, node = (record.getMessage() for record in caplog.records if record.name == "kube.http.undecodable")
    assert "'count': 1000, 'name': 'default/p0'" in pods
    assert "'count': 1, 'name': 'n'" in node
