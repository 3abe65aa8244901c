"""The members of gunicorn that are no documented interface are those that our code was written against.

`http.gunicorn_worker` overrides the worker's steps and `http.request_framing` uses the parser's parts. When one of them
changes, read the change, adapt what uses it, and take over the new digest (docs/decisions/0036).
"""

import hashlib
import inspect
from typing import Any

import pytest
from gunicorn.http import body, message, parser, unreader
from gunicorn.workers import gthread

Worker = gthread.ThreadWorker
MEMBERS: dict[str, tuple[Any, str]] = {
    "Worker.__init__": (Worker.__init__, "5681b8b542ea"),
    "Worker.init_process": (Worker.init_process, "e4fc63a1a68e"),
    "Worker.run": (Worker.run, "f92c7394d857"),
    "Worker.wait_for_and_dispatch_events": (Worker.wait_for_and_dispatch_events, "ea969b352482"),
    "Worker.accept": (Worker.accept, "f8dcead3dce5"),
    "Worker.set_accept_enabled": (Worker.set_accept_enabled, "140150ebfd3c"),
    "Worker.enqueue_req": (Worker.enqueue_req, "c9f428953d24"),
    "Worker.finish_request": (Worker.finish_request, "616e7bb15a00"),
    "Worker.handle": (Worker.handle, "ca85c9be3df7"),
    "Worker.handle_request": (Worker.handle_request, "6d0de5b91910"),
    "Worker.murder_keepalived": (Worker.murder_keepalived, "4459960c4ccc"),
    "Worker.murder_pending": (Worker.murder_pending, "7bf11f464542"),
    "Worker._cap_keepalive": (Worker._cap_keepalive, "745c8ac37108"),
    "Parser": (parser.Parser, "3a9c06e348c7"),
    "Unreader": (unreader.Unreader, "84aaa8f91fcd"),
    "LengthReader": (body.LengthReader, "3b01bc7c21a2"),
    "ChunkedReader": (body.ChunkedReader, "c1aa79e0ae04"),
    "Request.set_body_reader": (message.Request.set_body_reader, "db5c46d4c717"),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_what_gunicorn_does_not_promise_is_as_it_was(name: str) -> None:
    member, expected = MEMBERS[name]
    digest = hashlib.sha256(inspect.getsource(member).encode()).hexdigest()
    assert digest[:12] == expected, f"gunicorn's {name} has changed: see this module's docstring"


def test_the_constants_are_there() -> None:
    assert gthread.STOP_KEEPALIVE_LINGER > 0
    assert "_expected_100_continue" in inspect.getsource(message)
