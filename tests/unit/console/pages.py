"""A console over doors that a test fills: replicas that answer with what they were given."""

import dataclasses
import json
import threading
from typing import Any

import flask
import flask.testing
from prometheus_client import CollectorRegistry

from console import access, app, board
from console.sources import Doors, SourceError
from runtime import ops_server
from tests import clocks

TOKEN = "0123456789abcdef"


@dataclasses.dataclass
class Replica:
    """Answers paths with JSON, or raises what stands in an answer's place."""

    answers: dict[str, Any]
    name: str = "evenload-extender-0"
    asked: list[tuple[str, dict[str, str]]] = dataclasses.field(default_factory=list)

    def get(self, path: str, **query: str) -> bytes:
        """The answer of a path."""
        self.asked.append((path, query))
        found = self.answers.get(path, SourceError(f"{path} is not answered"))
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, bytes) else json.dumps(found).encode()


def doors(**fields: Any) -> Doors:
    """Doors to nothing but what is given."""
    nobody: dict[str, Any] = {
        "title": "test",
        "now": lambda: clocks.START_SECONDS,
        "extenders": lambda: (),
        "deschedulers": lambda: (),
    }
    return Doors(**(nobody | fields))


def page(
    served: Doors, topics: board.Board | None = None, *, token: str = "", local: bool = True, prefix: str = ""
) -> flask.Flask:
    """The application over the doors."""
    held = topics or board.Board()
    ops = ops_server.ops_blueprint(livez=(), readyz=(), registry=CollectorRegistry(), configz=dict)
    return app.create_app(served, held, access.Access(token, local=local), ops, prefix=prefix)


class Browser(flask.testing.FlaskClient):
    """Reads answers to their end, files included, so that nothing stays open."""

    def open(self, *args: Any, **kwargs: Any) -> Any:
        """One request."""
        return super().open(*args, buffered=kwargs.pop("buffered", True), **kwargs)


def client(application: flask.Flask) -> Browser:
    """A browser of this machine."""
    return Browser(application, application.response_class)


def browser(**fields: Any) -> Browser:
    """A browser of this machine, on the application over these doors."""
    return client(page(doors(**fields)))


def json_of(answer: Any) -> Any:
    """The JSON of an answer."""
    return json.loads(answer.data)


def event_of(topics: board.Board, name: str, wanted: Any, timeout_seconds: float = 20.0) -> Any:
    """The body of a topic once `wanted` says yes to it; fails after the timeout."""
    found: list[Any] = []
    revision, over = 0, threading.Event()
    timer = threading.Timer(timeout_seconds, over.set)
    timer.start()
    try:
        while not over.is_set():
            for topic in topics.after(revision, 0.1) or ():
                revision = topic.revision
                body = json.loads(topic.body)
                if topic.name == name and wanted(body):
                    return body
                found.append((topic.name, body))
    finally:
        timer.cancel()
    raise AssertionError(f"no {name} as wanted within {timeout_seconds:g} s; there were {found}")
