"""Reports about load: what services ask of an apiserver that is slow, throttles or restarts, and how large a pod is."""

import contextlib
import dataclasses
import pathlib
import random
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec
import pytest

from descheduler.snapshot import scaled_owners
from extender import protocol
from kube import config, errors, kinds, lease
from kube.http import client, transport, undecodable
from kube.http.request import Request
from tests import builders, clocks, scripted_http
from tests.reports.register import Before, behaviour, reported, situation
from tests.reports.test_levels import RELAXED, heated, runs
from tests.reports.test_services import BusyDoor, reflected
from tests.unit.annotator import test_node_sync
from tests.unit.descheduler import test_scaled_owners, worlds
from tests.unit.descheduler.scenes import Scene

T = TypeVar("T")
THROTTLED = errors.TooManyRequests(
    "PATCH", status=429, reason=errors.FLOW_CONTROL, message="too many requests", retry_after_seconds=1
)


class HangingTransport(transport.Transport):
    """One Lease; the next request of the method `hangs` is not answered within its time."""

    def __init__(self, clock: clocks.ManualClock) -> None:
        self._clock, self._closed, self.url = clock, threading.Event(), "https://apiserver"
        self._advance = clock.advance
        self.lease: Mapping[str, object] = {"metadata": {"name": "ours", "resourceVersion": "1"}, "spec": {}}
        self.hangs = ""
        self.on_hang: Callable[[], None] = lambda: None

    def _take_once(self, request: Request, make: Callable[[Iterable[bytes]], T]) -> T:
        if request.method == self.hangs:
            self.hangs = ""
            self._advance(request.read_seconds)
            self.on_hang()
            raise errors.Unreachable(f"{self.name(request)}: timed out")
        if request.body is not None:
            self.lease = request.body
        return make([msgspec.json.encode(self.lease)])


@reported(
    "services",
    "kubernetes-sigs/controller-runtime#3027",
    "opensearch-project/opensearch-k8s-operator#1545",
    before=Before.WRONG,
)
@situation("a leader's request for its Lease is never answered: a balancer forgot the connection")
@behaviour("it asks again in time, and leads on")
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_one_request_that_hangs_costs_no_leadership(method: str) -> None:
    clock, stop = clocks.ManualClock(), threading.Event()
    wire = HangingTransport(clock)
    door = client.Client(wire, undecodable.UndecodableObjects(clock))
    election = lease.Election(door, namespace="default", name="ours", identity="me", clock=clock, rng=random.Random(1))
    led: list[bool] = []

    def look() -> None:
        led.append(election.is_leader())
        wire.hangs = method if len(led) == 1 else ""
        if len(led) == 6:
            stop.set()

    clock.on_wait, wire.on_hang = lambda _seconds: look(), look
    election.run(stop)
    assert led == [True] * 6


@reported("services", "folio-pro/kdashboard#70", "kubernetes-client/python#953", before=Before.WRONG)
@situation("an apiserver is so slow that a list's next page is too old (410) each time")
@behaviour("the list is asked for in one piece")
def test_a_list_whose_pages_are_too_old_comes_in_one_piece(tmp_path: pathlib.Path) -> None:
    def answer(exchange: scripted_http.Exchange) -> None:
        if "continue" in exchange.query:
            exchange.status(410, "Expired", "The provided continue parameter is too old")
            return
        names, token = (["a"], "next") if "limit" in exchange.query else (["a", "b"], "")
        metadata = {"resourceVersion": "9", "continue": token}
        exchange.answer({"metadata": metadata, "items": [builders.node_body(name) for name in names]})

    with scripted_http.serving(answer) as server:
        door = config.connect(scripted_http.kubeconfig(tmp_path, server.url), clock=clocks.ManualClock())
        with contextlib.closing(door):
            assert [node.name for node in door.list(kinds.NODES).items] == ["a", "b"]
    assert len(server.seen) == 3


@reported("services", "kubernetes/kubernetes#119646", "kubernetes/kubernetes#86483", before=Before.WRONG)
@situation("apiservers restart: watches are refused by the balancer (503), or before rights are loaded")
@behaviour("they go on where they were: nothing is listed again")
@pytest.mark.parametrize("status", [401, 403, 500, 502, 503])
def test_a_watch_that_is_refused_for_a_while_is_no_reason_to_list(status: int) -> None:
    busy = BusyDoor(errors.class_for(status)("watch", status=status, reason="", message=""))
    reflected(busy, clocks.ManualClock())
    assert busy.verbs == ["list", "watch from 7", "watch from 7"]


@reported("services", "m3db/m3db-operator#89", "kubernetes/kubernetes#127912", before=Before.WRONG)
@situation("Events have an etcd of their own, which has gone: none is answered")
@behaviour("one is tried; the evictions of the run go on")
def test_events_that_nobody_takes_hold_no_run_up(tmp_path: pathlib.Path) -> None:
    world = worlds.two_to_evict(tmp_path)
    tried: list[float] = []

    def hang() -> None:
        tried.append(world.clock.now())
        world.clock.advance(11)
        raise errors.Unreachable("POST events: timed out")

    world.door.before_create = hang
    assert len(world.report().outcomes or ()) == 2
    assert len(tried) == 1
    assert len(world.ledger.events()) == 6, "the ledger keeps each"


@reported("services", "kedacore/keda#1453", "kubernetes/kubernetes#47899", before=Before.WRONG)
@situation("hundreds of Rollouts have pods on hot nodes; the apiserver throttles (429) looks at their scale")
@behaviour("one is asked for in a run; the pods of all stay")
def test_owners_are_asked_for_no_more_while_the_apiserver_throttles() -> None:
    door = test_scaled_owners.door()
    door.scale_failure = THROTTLED
    owners = [test_scaled_owners.custom(name=f"web-{at}", uid=f"uid-{at}") for at in range(300)]
    owners += [test_scaled_owners.custom(version=f"a{at}.io/v1", uid=f"uid-of-{at}") for at in range(300)]
    failures = scaled_owners.workloads(door, owners).failures
    assert len(door.scales_asked) + len(door.versions_asked) <= 2
    assert len(failures) == 600


@reported(
    "services", "CleverCloud/clever-kubernetes-operator#175", "kubernetes-sigs/descheduler#1295", before=Before.WRONG
)
@situation("what keeps a hot node from relief changes from run to run: a budget, no destination, a budget")
@behaviour("an Event for each reason in half an hour, not one in each run")
def test_reasons_that_take_turns_are_no_stream_of_events(tmp_path: pathlib.Path) -> None:
    scene = Scene().node("hot", memory=0.9).node("cool").workload("web", on=["hot", "cool"], gib=6.0)
    full = heated(scene, cool=0.59)
    kept = dataclasses.replace(scene, budgets=[builders.budget("web", allowed=0, labels={"app": "web"})])
    world = worlds.World(scene, tmp_path, mode="Enforce", overloadedFor="0s", **RELAXED)
    assert runs(world, *[full, kept] * 4) == [[]] * 8
    reasons = [body["reason"] for body in world.door.created]
    assert sorted(reasons) == ["EvictionBlockedByPDB", "NoFittingNode"]


@reported("readings", "kubernetes/kubernetes#47899", "kubernetes/kubernetes#50304", before=Before.WRONG)
@situation("the load of 300 of 900 nodes changes, and the apiserver takes none of the writes on them (429)")
@behaviour("these age; the heartbeat renews the 600 that are quiet")
def test_quiet_nodes_stay_fresh_while_the_apiserver_throttles_writes_on_others() -> None:
    bench = test_node_sync.Bench()
    bench.names = [f"node-{at}" for at in range(900)]
    moved, quiet = bench.names[:300], bench.names[300:]
    bench.load_by_name(dict.fromkeys(bench.names, 0.3))
    bench.sync()
    bench.load_by_name({**dict.fromkeys(quiet, 0.3), **dict.fromkeys(moved, 0.6)})
    for name in moved:
        bench.kube.fail(name, THROTTLED)
    bench.sync(after_seconds=30)
    times = bench.times()
    times.accept(bench.heartbeat(), bench.clock.now())
    times.settle()
    fresh = {name for name in bench.names if times.matched_seconds(name) == bench.clock.now()}
    assert fresh == set(quiet)


@reported("pods", "kubernetes/enhancements#6220", "element-hq/ess-helm#549", before=Before.WRONG)
@situation("a media server's pod declares 12,000 ports, each again in its managedFields")
@behaviour("it is filtered as others: refused as too large (413) it would be Pending for ever")
def test_a_pod_of_twelve_thousand_ports_is_no_excess() -> None:
    ports = [{"containerPort": port, "protocol": "UDP"} for port in range(10_000, 22_000)]
    owned: dict[str, object] = {".": {}, "f:containerPort": {}, "f:protocol": {}}
    fields = {"k:" + msgspec.json.encode(port).decode(): owned for port in ports}
    pod = builders.pod_body("sip")
    pod["spec"]["containers"][0]["ports"] = ports
    pod["metadata"]["managedFields"] = [{"fieldsV1": {"f:spec": {"f:containers": {"f:ports": fields}}}}]
    head = msgspec.json.encode({"Pod": pod, "Nodes": None})[:-1]
    assert protocol.pod_before_names(head) is not None
    assert protocol.decode_args(head + b',"NodeNames":["a"]}').pod.name == "sip"
