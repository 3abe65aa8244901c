"""A descheduler for the commands that ask one: its own pages over a real ledger, behind real HTTP."""

import contextlib
import pathlib
from collections.abc import Iterator

from tests import scripted_http
from tests.unit.descheduler import scenes
from tests.unit.descheduler.worlds import World


class Descheduler:
    """A descheduler that enforces over a small scene, at a URL; it has not run yet."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.world = World(scenes.hot_and_cool(), directory, mode="Enforce")
        self._client = self.world.pages().test_client()
        self.asked: list[str] = []
        self.url = ""

    def answer(self, exchange: scripted_http.Exchange) -> None:
        """Hand a request to the application."""
        self.asked.append(exchange.path)
        response = self._client.open(exchange.path, method=exchange.method, query_string=exchange.query)
        exchange.answer(response.text, response.status_code, {"Content-Type": "application/json"})


@contextlib.contextmanager
def serving(directory: pathlib.Path) -> Iterator[Descheduler]:
    """A descheduler at a URL while the body runs."""
    descheduler = Descheduler(directory)
    with scripted_http.serving(descheduler.answer) as server:
        descheduler.url = server.url
        yield descheduler
