"""In time or neutral: locks that keep to a request's limit, and what is answered when it is over."""

import contextlib
import io
import json
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from extender import deadline
from extender.http import app
from extender.verbs import verbs
from tests import builders, clocks
from tests.unit.extender import test_app, worlds

LIMIT_SECONDS = 0.05
VICTIMS = {name: {"Pods": [{"UID": f"v-{name}"}], "NumPDBViolations": 1} for name in ("hot", "cool")}
BODIES = {
    "filter": worlds.body(["hot", "cool"]),
    "prioritize": worlds.body(["hot", "cool"]),
    "preempt": json.dumps({"Pod": builders.pod_body("new"), "NodeNameToMetaVictims": VICTIMS}).encode(),
}
NEUTRAL: dict[str, Any] = {
    "filter": {
        "NodeNames": ["hot", "cool"],
        "Nodes": None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    },
    "prioritize": [{"Host": "hot", "Score": 5}, {"Host": "cool", "Score": 5}],
    "preempt": {"NodeNameToMetaVictims": VICTIMS},
}


class World(test_app.World):
    """An application whose verbs have a limit."""

    def __init__(self) -> None:
        super().__init__({"hot": worlds.HOT, "cool": worlds.IDLE})
        self.flask.wsgi_app = deadline.DeadlineApplication(  # type: ignore[method-assign]
            self.flask.wsgi_app, app.TIMED, limit_seconds=LIMIT_SECONDS, ticking=self.clock
        )

    def late(self) -> float:
        """How many answers were neutral for being late."""
        return self.count("evenload_extender_degraded_total", cause="deadline")


@pytest.fixture
def world() -> World:
    return World()


class Slow(dict[str, str]):
    """Annotations of which the one we want is read when a test says so."""

    def __init__(self) -> None:
        super().__init__({"a": "b"})
        self.being_read, self.go_on = threading.Event(), threading.Event()

    def get(self, key: str, default: Any = None) -> Any:
        self.being_read.set()
        assert self.go_on.wait(60)
        return super().get(key, default)


@contextlib.contextmanager
def held(world: World) -> Iterator[None]:
    """While the Node watch takes in a node, the lock of the readings is held; other threads wait for it."""
    slow, plain = Slow(), worlds.node("slow", None)
    node = msgspec.structs.replace(plain, metadata=msgspec.structs.replace(plain.metadata, annotations=slow))
    watch = threading.Thread(target=world.view.nodes.node_changed, args=(None, node))
    watch.start()
    assert slow.being_read.wait(60)
    try:
        yield
    finally:
        slow.go_on.set()
        watch.join(60)


@pytest.mark.parametrize("verb", BODIES)
def test_a_lock_that_is_held_too_long_gives_a_neutral_answer(world: World, verb: str) -> None:
    with held(world):
        answer = world.post(verb, BODIES[verb])
    assert (answer.status_code, answer.json) == (200, NEUTRAL[verb])
    assert world.late() == 1
    (decision,) = world.get("/decisions")["decisions"]
    assert (decision["degraded"], decision["candidates"], decision["passed"]) == (["deadline"], 2, 2)
    assert world.count("evenload_extender_request_duration_seconds_count", verb=verb, result="degraded") == 1
    assert world.post(verb, BODIES[verb]).json != NEUTRAL[verb]
    assert world.late() == 1


def test_several_that_wait_for_one_lock_are_all_answered_in_time(world: World) -> None:
    """The second waits for the view, which the first holds while it waits for the readings."""
    statuses: list[int] = []
    client = lambda: statuses.append(world.post("filter", BODIES["filter"]).status_code)  # noqa: E731
    with held(world):
        asking = [threading.Thread(target=client) for _ in range(4)]
        for one in asking:
            one.start()
        for one in asking:
            one.join(60)
    assert statuses == [200] * 4
    assert world.late() == 4


@pytest.mark.parametrize("verb", BODIES)
def test_a_request_that_waited_for_a_thread_until_it_was_late_is_answered_neutrally(world: World, verb: str) -> None:
    deadline.waited(LIMIT_SECONDS)
    assert world.post(verb, BODIES[verb]).json == NEUTRAL[verb]
    assert world.post(verb, BODIES[verb]).json != NEUTRAL[verb]
    assert world.late() == 1


def test_a_request_that_waited_less_is_answered_by_load(world: World) -> None:
    deadline.waited(LIMIT_SECONDS * 0.9)
    assert world.post("filter", BODIES["filter"]).json["NodeNames"] == ["cool"]
    assert world.late() == 0


def test_a_body_that_comes_too_slowly_is_answered_neutrally(world: World) -> None:
    class Body(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            world.clock.advance(LIMIT_SECONDS)
            return super().read(size)

        def readinto(self, buffer: Any) -> int:
            world.clock.advance(LIMIT_SECONDS)
            return super().readinto(buffer)

    options = {"content_type": "application/json", "content_length": len(BODIES["filter"])}
    answer = world.client.post("/filter", input_stream=Body(BODIES["filter"]), **options)
    assert answer.json == NEUTRAL["filter"]
    assert world.late() == 1


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_a_late_answer_assumes_nothing(world: World, verb: str) -> None:
    worlds.wait(world.view, "new")
    deadline.waited(LIMIT_SECONDS)
    world.post(verb, worlds.body(["cool"]))
    assert world.late() == 1
    assert world.view.placements.assumed(worlds.NOW) == 0
    world.post(verb, worlds.body(["cool"]))
    assert world.view.placements.assumed(worlds.NOW) == 1


def test_whole_nodes_come_back_whole_when_it_is_late(world: World) -> None:
    nodes = [builders.node_body("hot"), builders.node_body("cool")]
    deadline.waited(LIMIT_SECONDS)
    reply = world.post("filter", json.dumps({"Pod": builders.pod_body("p"), "Nodes": {"items": nodes}}).encode()).json
    assert (reply["NodeNames"], reply["Nodes"]["items"]) == (None, nodes)


@pytest.mark.parametrize(("body", "status"), [(b"{", 400), (b"{}", 422)])
def test_what_cannot_be_read_is_refused_even_when_late(world: World, body: bytes, status: int) -> None:
    deadline.waited(LIMIT_SECONDS)
    assert world.post("filter", body).status_code == status


def test_pages_for_people_have_no_limit(world: World) -> None:
    deadline.waited(10.0)
    assert world.post("explain", BODIES["filter"]).json["degraded"] == []
    assert world.late() == 0


def test_what_one_request_waited_is_not_the_next_ones(world: World) -> None:
    deadline.waited(10.0)
    world.get("/version")
    assert world.post("filter", BODIES["filter"]).json["NodeNames"] == ["cool"]


def test_the_neutral_score_is_that_of_nodes_that_nobody_knows(world: World) -> None:
    unknown = world.post("prioritize", worlds.body(["x", "y"])).json
    assert {row["Score"] for row in unknown} == {verbs.NEUTRAL_SCORE}


def test_a_watch_waits_for_the_lock_as_long_as_it_takes(world: World) -> None:
    other = threading.Thread(target=world.view.nodes.node_changed, args=(None, worlds.node("other", worlds.IDLE)))
    with held(world):
        other.start()
        other.join(2 * LIMIT_SECONDS)
        assert other.is_alive()
    other.join(60)
    assert "other" in world.view.nodes.facts()


def test_a_free_lock_is_taken_however_late_it_is() -> None:
    lock, taken = deadline.Lock(), []

    def application(_environ: object, _start_response: object) -> list[bytes]:
        with lock:
            taken.append(True)
        return []

    limited = deadline.DeadlineApplication(application, ["/filter"], limit_seconds=-1.0, ticking=clocks.ManualClock())
    limited({"PATH_INFO": "/filter"}, lambda *_: lambda _: None)
    assert taken == [True]


def test_a_lock_is_given_back_after_an_error() -> None:
    lock = deadline.Lock()
    with pytest.raises(ValueError, match="mine"), lock:
        raise ValueError("mine")
    with lock:
        pass


def test_the_limit_ends_with_the_request_even_if_it_fails() -> None:
    def application(_environ: object, _start_response: object) -> list[bytes]:
        raise ValueError("a bug")

    limited = deadline.DeadlineApplication(application, ["/filter"], limit_seconds=-1.0, ticking=clocks.ManualClock())
    with pytest.raises(ValueError, match="a bug"):
        limited({"PATH_INFO": "/filter"}, lambda *_: lambda _: None)
    deadline.check()  # no Overrun
