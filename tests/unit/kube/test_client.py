"""The client's requests as they go out, and its errors for every way an answer can be wrong."""

import contextlib
import gzip
import re
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kube import config, errors, kinds, objects
from kube.http import client, decoding
from runtime import version
from tests import builders, clocks, scripted_http
from tests.scripted_http import Exchange

NODE = builders.node_body("node-1")


def _json(value: object) -> bytes:
    return msgspec.json.encode(value) + b"\n"


class Wire:
    """A scripted server and a client on it."""

    def __init__(self, server: scripted_http.ScriptedServer, door: client.Client, clock: clocks.ManualClock) -> None:
        self.server = server
        self.door = door
        self.clock = clock

    def script(self, *answers: Callable[[Exchange], None]) -> None:
        """Answer the requests to come one after the other; the last answer repeats."""
        left = list(answers)
        self.server.script = lambda exchange: (left.pop(0) if len(left) > 1 else left[0])(exchange)

    @property
    def last(self) -> Exchange:
        """The request that came last."""
        return self.server.seen[-1]


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    with scripted_http.serving(lambda exchange: exchange.answer(NODE)) as server:
        clock = clocks.ManualClock()
        door = config.connect(scripted_http.kubeconfig(tmp_path, server.url), clock=clock)
        with contextlib.closing(door):
            yield Wire(server, door, clock)


def get(wire: Wire) -> None:
    wire.door.get(kinds.NODES, "node-1")


def patch(wire: Wire) -> None:
    wire.door.merge_patch(kinds.NODES, "node-1", {"metadata": {"annotations": {"a": None}}})


def test_requests_carry_token_agent_and_path(wire: Wire) -> None:
    get(wire)
    assert (wire.last.method, wire.last.path) == ("GET", "/api/v1/nodes/node-1")
    assert wire.last.headers["Authorization"] == "Bearer s3cret"
    assert wire.last.headers["User-Agent"] == f"evenload/{version.VERSION}"


def test_a_merge_patch_says_it_is_one_and_keeps_nulls(wire: Wire) -> None:
    patch(wire)
    assert (wire.last.method, wire.last.headers["Content-Type"]) == ("PATCH", "application/merge-patch+json")
    assert wire.last.body == {"metadata": {"annotations": {"a": None}}}
    assert wire.last.query == {"fieldManager": "evenload"}


def test_of_a_written_object_only_the_metadata_is_sent_back_where_the_apiserver_can(wire: Wire) -> None:
    patch(wire)
    assert wire.last.headers["Accept"].split(",") == [
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        "application/json",
    ]
    get(wire)
    assert wire.last.headers["Accept"] == "application/json"


def test_create_fills_in_what_the_kind_knows(wire: Wire) -> None:
    wire.door.create(kinds.LEASES, {"metadata": {"name": "a"}}, namespace="shop", dry_run=True)
    assert (wire.last.method, wire.last.path) == ("POST", "/apis/coordination.k8s.io/v1/namespaces/shop/leases")
    assert wire.last.body == {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}}
    assert wire.last.query["dryRun"] == "All"


def test_replace_puts_to_a_subresource(wire: Wire) -> None:
    wire.door.replace(kinds.NODES, "node-1", {"metadata": {"name": "node-1"}}, subresource="status")
    assert (wire.last.method, wire.last.path) == ("PUT", "/api/v1/nodes/node-1/status")


def test_delete_sends_its_conditions_in_the_body(wire: Wire) -> None:
    wire.door.delete(kinds.PODS, "web-1", namespace="shop", uid="u-1", dry_run=True)
    assert wire.last.method == "DELETE"
    assert wire.last.body["preconditions"] == {"uid": "u-1"}
    assert wire.last.body["dryRun"] == ["All"]


CLIMBING = kinds.Kind("apis/../healthz", "rollouts", "Rollout", objects.Scale)


def test_names_cannot_climb_out_of_their_path(wire: Wire) -> None:
    wire.door.get(kinds.CONFIG_MAPS, "../../secrets/a?b", namespace="shop")
    assert wire.last.path == "/api/v1/namespaces/shop/configmaps/..%2F..%2Fsecrets%2Fa%3Fb"


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda door: door.resources("../healthz"), id="the resources of a path"),
        pytest.param(lambda door: door.scale(CLIMBING, "web", namespace="shop"), id="a scale of a path"),
        pytest.param(lambda door: door.get(kinds.PODS, "..", namespace="shop"), id="a pod called .."),
        pytest.param(lambda door: door.get(kinds.PODS, "web", namespace="."), id="a namespace called ."),
    ],
)
def test_what_would_climb_is_not_sent(wire: Wire, ask: Callable[[client.Client], object]) -> None:
    with pytest.raises(errors.InvalidPath, match=r"'\.\.?'"):
        ask(wire.door)
    assert wire.server.seen == []


def test_an_eviction_names_pod_uid_and_dry_run_twice(wire: Wire) -> None:
    answer = wire.door.evict(namespace="shop", name="web-1", uid="u-1", dry_run=True, grace_period_seconds=0.5)
    assert answer.accepted
    assert (wire.last.method, wire.last.path) == ("POST", "/api/v1/namespaces/shop/pods/web-1/eviction")
    options = {"preconditions": {"uid": "u-1"}, "gracePeriodSeconds": 1, "dryRun": ["All"]}
    assert wire.last.body["deleteOptions"] == options
    assert wire.last.body["metadata"]["labels"] == {
        "evenload.io/evicted-by": "descheduler"
    }  # else the guard refuses it
    assert wire.last.query["dryRun"] == "All"


@pytest.mark.parametrize("code", [200, 201, 202])
def test_an_accepted_eviction_gives_the_status_of_the_answer(wire: Wire, code: int) -> None:
    wire.script(lambda exchange: exchange.status(code, "", ""))
    answer = wire.door.evict(namespace="shop", name="web-1", uid="u-1", dry_run=False)
    assert (answer.accepted, answer.status) == (True, code)


@pytest.mark.parametrize(
    ("causes", "reason"),
    [([{"reason": "DisruptionBudget", "message": "needs 2"}], "DisruptionBudget"), ([], "TooManyRequests")],
    ids=["a budget", "a webhook"],
)
def test_a_refused_eviction_tells_budget_from_webhook(wire: Wire, causes: list[object], reason: str) -> None:
    details = {"causes": causes, "retryAfterSeconds": 10}
    wire.script(lambda exchange: exchange.status(429, "TooManyRequests", "Cannot evict", details=details))
    answer = wire.door.evict(namespace="shop", name="web-1", uid="u-1", dry_run=False)
    assert (answer.accepted, answer.status, answer.reason, answer.retry_after_seconds) == (False, 429, reason, 10.0)
    assert answer.message == ("Cannot evict needs 2" if causes else "Cannot evict")
    assert len(wire.server.seen) == 1


@pytest.mark.parametrize("code", [500, 503, 403])
def test_other_failures_of_an_eviction_raise(wire: Wire, code: int) -> None:
    wire.script(lambda exchange: exchange.status(code, "Broken", "no"))
    with pytest.raises(errors.ApiError, match=f"pods/web-1/eviction: {code} Broken: no"):
        wire.door.evict(namespace="shop", name="web-1", uid="u-1", dry_run=False)


def test_pages_are_asked_for_until_the_token_ends(wire: Wire) -> None:
    def page(exchange: Exchange) -> None:
        number = int(exchange.query.get("continue", "0"))
        token = str(number + 1) if number < 2 else ""
        items = [builders.node_body(f"node-{number}")] if number < 2 else None
        exchange.answer({"metadata": {"resourceVersion": "9", "continue": token}, "items": items})

    wire.script(page)
    listing = wire.door.list(kinds.NODES, limit=1, label_selector="a=b", field_selector="metadata.name=x")
    assert [node.name for node in listing.items] == ["node-0", "node-1"]
    assert listing.resource_version == "9"
    assert {
        (one.query["limit"], one.query["labelSelector"], one.query["fieldSelector"]) for one in wire.server.seen
    } == {("1", "a=b", "metadata.name=x")}
    assert not any("resourceVersion" in one.query for one in wire.server.seen), "a page is read from etcd"


def test_a_list_from_the_cache_takes_any_version_and_pages_if_there_are_some(wire: Wire) -> None:
    def page(exchange: Exchange) -> None:
        name, token = ("node-1", "") if "continue" in exchange.query else ("node-0", "next")
        exchange.answer({"metadata": {"resourceVersion": "9", "continue": token}, "items": [builders.node_body(name)]})

    wire.script(page)
    assert [node.name for node in wire.door.list(kinds.NODES, from_cache=True).items] == ["node-0", "node-1"]
    first, second = (one.query for one in wire.server.seen)
    assert first == {"limit": "500", "resourceVersion": "0"}
    assert second == {"limit": "500", "continue": "next"}, "a token holds its version; both are an error"


def test_lists_may_come_compressed_and_nothing_else(wire: Wire) -> None:
    body = gzip.compress(_json({"metadata": {"resourceVersion": "9"}, "items": [NODE]}))
    wire.script(lambda exchange: exchange.answer(body, headers={"Content-Encoding": "gzip"}))
    assert [node.name for node in wire.door.list(kinds.NODES).items] == ["node-1"]
    assert wire.last.headers["Accept-Encoding"] == "gzip"
    wire.script(lambda exchange: exchange.answer(NODE))
    get(wire)
    assert wire.last.headers["Accept-Encoding"] == "identity"


def test_a_list_that_broke_off_is_read_again_from_its_beginning(wire: Wire) -> None:
    padding = "x" * decoding.PART_BYTES
    nodes = [{"metadata": {"name": f"node-{at}", "annotations": {"a": padding}}} for at in range(4)]
    body = _json({"metadata": {"resourceVersion": "9"}, "items": nodes})
    wire.script(lambda exchange: exchange.raw(body[:-100], len(body)), lambda exchange: exchange.answer(body))
    assert [node.name for node in wire.door.list(kinds.NODES).items] == [f"node-{at}" for at in range(4)]
    assert len(wire.server.seen) == 2


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (400, errors.Invalid),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (410, errors.Gone),
        (422, errors.Invalid),
        (429, errors.TooManyRequests),
        (500, errors.ServerError),
        (503, errors.ServerError),
        (302, errors.Invalid),
    ],
)
def test_every_status_has_its_class_and_the_servers_words(
    wire: Wire, code: int, expected: type[errors.ApiError]
) -> None:
    wire.script(lambda exchange: exchange.status(code, "Because", "it says so"))
    with pytest.raises(
        expected, match=f"GET {wire.server.url}/api/v1/nodes/node-1: {code} Because: it says so"
    ) as caught:
        get(wire)
    assert type(caught.value) is expected
    assert caught.value.status == code
    assert "s3cret" not in str(caught.value)


def test_a_failure_that_is_no_status_is_quoted(wire: Wire) -> None:
    wire.script(lambda exchange: exchange.answer("<html>Bad gateway</html>" + "x" * 500, 502))
    with pytest.raises(errors.ServerError, match="<html>Bad gateway</html>x") as caught:
        get(wire)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    "body",
    ["<html>Sign in</html>", '{"metadata": {"name": "no', "[]", "", '{"metadata": {"labels": 7}}', "\x00"],
    ids=["a proxy's page", "truncated JSON", "another type", "nothing", "a field of another type", "binary"],
)
def test_a_good_status_with_a_bad_body_is_undecodable(wire: Wire, body: str) -> None:
    wire.script(lambda exchange: exchange.answer(body))
    with pytest.raises(errors.Undecodable, match=f"GET {wire.server.url}/api/v1/nodes/node-1"):
        get(wire)


def test_a_read_is_repeated_once_after_a_broken_connection(wire: Wire) -> None:
    wire.script(Exchange.cut, lambda exchange: exchange.answer(NODE))
    get(wire)
    assert len(wire.server.seen) == 2
    wire.script(Exchange.cut)
    with pytest.raises(errors.Unreachable):
        get(wire)
    assert len(wire.server.seen) == 4


def test_a_body_cut_short_counts_as_a_broken_connection(wire: Wire) -> None:
    wire.script(lambda exchange: exchange.raw(b'{"metadata"', length=400), lambda exchange: exchange.answer(NODE))
    get(wire)
    assert len(wire.server.seen) == 2


@pytest.mark.parametrize("code", [429, 503])
def test_a_read_waits_as_long_as_the_server_asks(wire: Wire, code: int) -> None:
    busy = lambda exchange: exchange.status(code, "Busy", headers={"Retry-After": "3"})  # noqa: E731
    wire.script(busy, busy, lambda exchange: exchange.answer(NODE))
    get(wire)
    assert wire.clock.waits == [3.0, 3.0]


@pytest.mark.parametrize(
    ("wish", "requests"),
    [
        pytest.param(None, 1, id="without a wish"),
        pytest.param("60", 1, id="a long wish"),
        pytest.param("9" * 20, 1, id="twenty digits"),
        pytest.param("9" * 400, 1, id="no float has so many digits"),
        pytest.param("soon", 1, id="a wish that is no number"),
        pytest.param("1", 4, id="a short one, three times"),
    ],
)
def test_a_read_is_repeated_for_a_short_wish_only_and_not_for_ever(wire: Wire, wish: str | None, requests: int) -> None:
    headers = {} if wish is None else {"Retry-After": wish}
    wire.script(lambda exchange: exchange.status(429, "Busy", headers=headers))
    with pytest.raises(errors.TooManyRequests) as caught:
        get(wire)
    assert len(wire.server.seen) == requests
    assert caught.value.retry_after_seconds == (min(float(wish), 30.0) if wish and wish.isdigit() else None)


@pytest.mark.parametrize(
    "failing",
    [Exchange.cut, lambda exchange: exchange.status(503, "Busy", headers={"Retry-After": "1"})],
    ids=["after a broken connection", "after a 503 with Retry-After"],
)
def test_a_write_is_never_repeated(wire: Wire, failing: Callable[[Exchange], None]) -> None:
    wire.script(failing)
    with pytest.raises((errors.Unreachable, errors.ServerError)):
        patch(wire)
    assert len(wire.server.seen) == 1


def test_nothing_of_the_libraries_leaks_when_nobody_listens(tmp_path: Path) -> None:
    with scripted_http.serving(lambda exchange: None) as server:
        url = server.url
    with (
        contextlib.closing(config.connect(scripted_http.kubeconfig(tmp_path, url), clock=clocks.ManualClock())) as door,
        pytest.raises(errors.Unreachable, match="Connection refused") as caught,
    ):
        door.list(kinds.NODES)
    assert url in str(caught.value)


def streamed(*pieces: bytes, then: Callable[[Exchange], None] = Exchange.end) -> Callable[[Exchange], None]:
    """A chunked answer of these pieces, and how it ends."""

    def script(exchange: Exchange) -> None:
        exchange.stream(*pieces)
        then(exchange)

    return script


def watch(wire: Wire, **options: Any) -> list[tuple[str, str]]:
    events = wire.door.watch(kinds.NODES, resource_version="7", **options)
    return [(event.type, event.resource_version) for event in events]


def line(kind: str, *, version: str = "8", **body: object) -> bytes:
    return _json({"type": kind, "object": {"metadata": {"name": "n", "resourceVersion": version}, **body}})


def test_a_watch_asks_for_bookmarks_and_an_end(wire: Wire) -> None:
    wire.script(streamed())
    assert watch(wire, timeout_seconds=291.7, label_selector="a=b") == []
    assert wire.last.query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "7",
        "timeoutSeconds": "291",
        "labelSelector": "a=b",
    }


def test_events_survive_any_split_of_the_stream(wire: Wire) -> None:
    whole = line("ADDED", version="8") + line("MODIFIED", version="9") + line("BOOKMARK", version="12") + b"\n"

    def bytewise(exchange: Exchange) -> None:
        exchange.stream(*(whole[at : at + 1] for at in range(len(whole))))
        exchange.end()

    for script in (bytewise, streamed(whole)):
        wire.script(script)
        assert watch(wire) == [("ADDED", "8"), ("MODIFIED", "9"), ("BOOKMARK", "12")]


def test_a_bookmark_as_the_apiserver_writes_it_is_read_for_its_version_only(wire: Wire) -> None:
    blank = {"kind": "Pod", "metadata": {"resourceVersion": "12", "labels": None}, "spec": {"containers": None}}
    wire.script(streamed(_json({"type": "BOOKMARK", "object": blank}) + b"\n"))
    events = list(wire.door.watch(kinds.PODS, resource_version="7"))
    assert [(event.type, event.object, event.resource_version) for event in events] == [("BOOKMARK", None, "12")]


@pytest.mark.parametrize(
    ("rest", "expected", "expected_events"),
    [
        (_json({"type": "ERROR", "object": "what?"}), errors.ServerError, "what?"),
        (
            _json({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}),
            errors.Gone,
            "too old",
        ),
        (_json({"type": "ERROR", "object": {"kind": "Status", "code": 500}}), errors.ServerError, "500"),
        (_json({"type": "SURPRISE", "object": {}}), errors.Undecodable, "SURPRISE"),
        (b"<html>\n", errors.Undecodable, "<html>"),
        (b'{"type": "ADDED", "object": {"meta', errors.Unreachable, "middle of an event"),
        (b'{"type": "ADDED", "object": {"metadata": {"labels": 3}}}\n', errors.Undecodable, "labels"),
    ],
    ids=["an error that says nothing", "gone", "an error", "an unknown type", "no JSON", "cut in a line", "bad object"],
)
def test_a_watch_that_goes_wrong_gives_its_events_and_then_the_error(
    wire: Wire, rest: bytes, expected: type[errors.KubeError], expected_events: str
) -> None:
    wire.script(streamed(line("ADDED"), rest))
    events = wire.door.watch(kinds.NODES, resource_version="7")
    assert next(events).type == "ADDED"
    with pytest.raises(expected, match=re.escape(expected_events)):
        next(events)


def test_a_watch_that_breaks_off_is_unreachable(wire: Wire) -> None:
    wire.script(streamed(line("ADDED"), then=Exchange.cut))
    with pytest.raises(errors.Unreachable, match="broke off"):
        watch(wire)


def test_a_silent_watch_is_unreachable_after_the_idle_time(wire: Wire, tmp_path: Path) -> None:
    wire.script(streamed(line("ADDED"), then=Exchange.hang))
    impatient = config.connect(scripted_http.kubeconfig(tmp_path, wire.server.url), watch_idle_seconds=0.3)
    with contextlib.closing(impatient), pytest.raises(errors.Unreachable, match="timed out"):
        list(impatient.watch(kinds.NODES, resource_version="7"))


def test_a_watch_that_outlives_its_end_in_silence_is_dead(wire: Wire) -> None:
    """Nothing comes, not even the end that the server promised: a connection that is open on our side alone."""
    wire.script(streamed(line("ADDED"), then=Exchange.hang))
    with pytest.raises(errors.Unreachable, match="timed out"):
        watch(wire, timeout_seconds=0.3 - client.WATCH_END_SECONDS)


def test_a_connection_is_probed_while_nothing_comes(wire: Wire) -> None:
    wire.script(lambda exchange: exchange.stream(line("ADDED")))
    events = wire.door.watch(kinds.NODES, resource_version="7")
    next(events)
    sock = events._stream._response.connection.sock  # type: ignore[union-attr]
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    if sys.platform == "linux":
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 30
    events.close()


def test_a_refused_watch_raises_at_once(wire: Wire) -> None:
    wire.script(lambda exchange: exchange.status(403, "Forbidden", "no watching"))
    with pytest.raises(errors.Forbidden, match="no watching"):
        wire.door.watch(kinds.NODES, resource_version="7")


@pytest.mark.parametrize("status", [200, 503])
def test_a_trickling_answer_does_not_hold_us_for_ever(wire: Wire, status: int) -> None:
    def trickle(exchange: Exchange) -> None:
        exchange.stream(b"{", status=status)
        wire.clock.advance(1000)
        exchange.more(b" ")
        exchange.hang()

    wire.script(trickle)
    with pytest.raises(errors.Unreachable, match="too slowly"):
        patch(wire)
