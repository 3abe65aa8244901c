"""What people ask has a share of time: one at a time, so many rows as time goes by; the scheduler's verbs have none."""

import contextlib
import threading
from typing import Any

import pytest
from werkzeug import exceptions

from extender import protocol
from extender.http import app
from tests import clocks
from tests.unit.extender import test_app, worlds

NODES = tuple(f"node-{at}" for at in range(500))
ASKED = worlds.body(NODES)
PEOPLES = ("explain", "decisions", "nodes")


@pytest.fixture
def world() -> test_app.World:
    """500 nodes, and a decision over all of them."""
    made = test_app.World(dict.fromkeys(NODES, worlds.IDLE))
    made.post("filter", ASKED)
    return made


def ask(world: test_app.World, path: str) -> Any:
    """The answer to one of the requests for people."""
    if path == "explain":
        return world.post(path, ASKED)
    return world.client.get("/nodes" if path == "nodes" else "/decisions?namespace=default&pod=new")


@pytest.mark.parametrize("path", PEOPLES)
def test_a_loop_of_them_is_refused_until_when_it_says_and_the_verbs_go_on(world: test_app.World, path: str) -> None:
    rows_each = {"explain": 500, "nodes": 500, "decisions": 3 * 500 + 1}[path] + app.ROWS_OF_A_REQUEST
    answers = next(at for at in range(100) if ask(world, path).status_code == 429)
    assert answers == -(-app.ROWS_AT_ONCE // rows_each)
    assert {one: ask(world, one).status_code for one in PEOPLES} == dict.fromkeys(PEOPLES, 429), "they share it"
    refused = ask(world, path)
    assert refused.json["message"].startswith("such requests have had their share of time")
    for verb in ("filter", "prioritize"):
        assert world.post(verb, ASKED).status_code == 200
    assert world.client.get("/livez").status_code == 200
    after_seconds = int(refused.headers["Retry-After"])
    assert f"ask again in {after_seconds} s" in refused.json["message"]
    world.clock.advance(after_seconds)
    assert ask(world, path).status_code == 200


def test_over_an_hour_it_is_the_share_that_is_written_down_whatever_is_refused() -> None:
    clock, answered = clocks.ManualClock(), 0
    share = app.Share(clock)
    for _ in range(3600):
        clock.advance(1.0)
        for _ in range(10):
            with contextlib.suppress(exceptions.TooManyRequests):
                answered += len(share.answer(lambda: (b"x", 490)))
    most = app.ROWS_AT_ONCE + 3599 * app.ROWS_PER_SECOND
    assert most <= answered * (490 + app.ROWS_OF_A_REQUEST) < most + 500


def test_the_largest_answer_can_be_asked_for_and_is_owed(world: test_app.World) -> None:
    share = app.Share(world.clock)
    assert share.answer(lambda: (b"all", int(3 * app.ROWS_AT_ONCE))) == b"all"
    with pytest.raises(exceptions.TooManyRequests, match="share of time"):
        share.answer(lambda: (b"more", 1))
    world.clock.advance(2 * app.ROWS_AT_ONCE / app.ROWS_PER_SECOND + 1)
    assert share.answer(lambda: (b"more", 1)) == b"more"


def test_one_is_answered_at_a_time_and_a_failed_one_lets_the_next_begin() -> None:
    share, begun, end = app.Share(clocks.ManualClock()), threading.Event(), threading.Event()

    def slow() -> app.Shown:
        begun.set()
        end.wait()
        raise exceptions.BadRequest("at last")

    def attempt() -> None:
        with pytest.raises(exceptions.BadRequest):
            share.answer(slow)

    thread = threading.Thread(target=attempt)
    thread.start()
    begun.wait()
    try:
        with pytest.raises(exceptions.TooManyRequests, match="another such request is being answered"):
            share.answer(lambda: (b"", 0))
    finally:
        end.set()
        thread.join()
    assert share.answer(lambda: (b"next", 0)) == b"next"


def test_an_answer_by_parts_is_the_answer() -> None:
    def document() -> dict[str, object]:
        one, other = ([{"name": 'é"', "rules": [1, None]}, {}] for _ in range(2))
        decided = [{"nodes": one, "omitted": 0}, {"verb": "filter"}]
        return {"at": "x", "nodes": other, "decisions": decided, "means": [["a"], []], "none": None}

    assert protocol.encode_by_parts(document()) == protocol.encode(document())
    assert protocol.encode_by_parts({}) == b"{}"
