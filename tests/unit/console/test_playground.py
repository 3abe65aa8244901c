"""The playground: a replay's progress and result are topics, one goes on at a time, a failure is told."""

import threading
from typing import Any

import pytest

from console import app, board
from console.sources import Json, Report, SourceError
from tests.unit.console import pages


def test_a_replay_tells_its_progress_and_its_result() -> None:
    topics, go_on = board.Board(), threading.Event()

    def replay(text: str, in_force: Json, report: Report) -> Json:
        report(0.5)
        go_on.wait(60)
        return {"text": text, "in_force": in_force}

    tries = app.Playground(replay, topics)
    tries.begin("tried", {"kind": "LoadPolicy"})
    pages.event_of(topics, "whatif", lambda body: body == {"state": "running", "share": 0.5})
    assert not tries.begin("another", {})
    go_on.set()
    done = pages.event_of(topics, "whatif", lambda body: body["state"] == "done")
    assert done["result"] == {"text": "tried", "in_force": {"kind": "LoadPolicy"}}


@pytest.mark.parametrize("error", [SourceError("this is no policy"), RuntimeError("a bug")], ids=["said", "a bug"])
def test_a_replay_that_fails_says_why_and_makes_room(error: Exception) -> None:
    topics = board.Board()

    def replay(*_: Any) -> Json:
        raise error

    tries = app.Playground(replay, topics)
    tries.begin("tried", {})
    failed = pages.event_of(topics, "whatif", lambda body: body["state"] == "failed")
    assert failed["message"] == str(error)
    pages.event_of(topics, "whatif", lambda body: tries.begin("again", {}))
