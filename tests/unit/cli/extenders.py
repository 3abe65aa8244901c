"""Servers for the commands that ask an extender: our own application behind real HTTP, and a small apiserver."""

import contextlib
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click.testing

from extender.state import cluster_view
from kube import objects
from tests import builders, commands, scripted_http
from tests.unit.extender import test_app, worlds


class Extender(test_app.World):
    """The application over a small view, at a URL."""

    def __init__(self, loads: Mapping[str, Any], view: cluster_view.ClusterView | None = None) -> None:
        super().__init__(loads, view)
        self.asked: list[str] = []
        self.url = ""

    def answer(self, exchange: scripted_http.Exchange) -> None:
        """Hand a request to the application."""
        self.asked.append(f"{exchange.method} {exchange.path}")
        options: dict[str, Any] = {} if exchange.body is None else {"json": exchange.body}
        response = self.client.open(exchange.path, method=exchange.method, query_string=exchange.query, **options)
        exchange.answer(response.text, response.status_code, {"Content-Type": "application/json"})

    def run(self, *words: object, code: int | None = None) -> click.testing.Result:
        """`evenload ...`, asking it."""
        return commands.run(*words, "--extender", self.url, code=code)

    def decide(self, names: Sequence[str], pod: str = "web", **fields: Any) -> None:
        """Filter and prioritize a pod that waits, as kube-scheduler would."""
        worlds.wait(self.view, pod, now_seconds=self.clock.now(), **fields)
        for verb in ("filter", "prioritize"):
            body = worlds.body(names, pod, **fields)
            answer = self.client.post(f"/{verb}", data=body, content_type="application/json").get_json()
            if verb == "filter" and len(names := answer["NodeNames"]) < 2:
                return


@contextlib.contextmanager
def serving(loads: Mapping[str, Any], view: cluster_view.ClusterView | None = None) -> Iterator[Extender]:
    """An extender at a URL while the body runs, over these loads or a view made before."""
    extender = Extender(loads, view)
    with scripted_http.serving(extender.answer) as server:
        extender.url = server.url
        yield extender


@contextlib.contextmanager
def apiserver(directory: pathlib.Path, pod: Mapping[str, object], nodes: Sequence[str]) -> Iterator[pathlib.Path]:
    """The kubeconfig of an apiserver that has one pod and these nodes."""
    path = f"/api/v1/namespaces/default/pods/{builders.decoded(pod, objects.Pod).name}"
    script = scripted_http.having({path: pod, "/api/v1/nodes": [builders.node_body(node) for node in nodes]})
    with scripted_http.serving(script) as server:
        yield scripted_http.kubeconfig(directory, server.url)
