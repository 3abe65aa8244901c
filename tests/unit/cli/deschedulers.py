"""Servers for the commands that ask a descheduler: our own application over fake doors, behind real HTTP."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import click.testing

from tests import commands, scripted_http
from tests.unit.descheduler.scenes import Scene
from tests.unit.descheduler.worlds import World


class Descheduler:
    """A whole descheduler at a URL."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.client = world.pages().test_client()
        self.asked: list[str] = []
        self.url = ""

    def answer(self, exchange: scripted_http.Exchange) -> None:
        """Hand a request to the application."""
        self.asked.append(f"{exchange.method} {exchange.path}")
        response = self.client.open(exchange.path, method=exchange.method, query_string=exchange.query)
        exchange.answer(response.text, response.status_code, {"Content-Type": "application/json"})

    def run(self, *words: object, code: int | None = None) -> click.testing.Result:
        """`evenload ...`, asking it."""
        return commands.run(*words, "--descheduler", self.url, code=code)


@contextlib.contextmanager
def serving(scene: Scene, directory: Path, *, pools: object = None, **descheduler: object) -> Iterator[Descheduler]:
    """A descheduler over a scene, at a URL while the body runs."""
    served = Descheduler(World(scene, directory, pools=pools, **descheduler))
    with scripted_http.serving(served.answer) as server:
        served.url = server.url
        yield served
