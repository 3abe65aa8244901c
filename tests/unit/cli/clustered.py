"""A small apiserver behind which replicas of a service are reached, as kubectl's user reaches them: pods/proxy."""

import contextlib
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol
from urllib import parse

from tests import builders, scripted_http

NAMESPACE = "evenload-system"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods/"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"


class Application(Protocol):
    """A service's own application."""

    def answer(self, exchange: scripted_http.Exchange) -> None: ...


class Apiserver:
    """Replicas by the names of their pods; those in `down` do not answer, what is in `forbidden` is refused."""

    def __init__(self, replicas: Mapping[str, Application], pod: Mapping[str, object], nodes: Sequence[str]) -> None:
        self.replicas = replicas
        listed = [builders.node_body(node) for node in nodes]
        endpoints = [{"addresses": ["10.1.0.1"], "targetRef": {"kind": "Pod", "name": name}} for name in replicas]
        slices = [{"metadata": {"name": "e"}, "endpoints": endpoints, "ports": [{"name": "http", "port": 8900}]}]
        objects = {
            SLICES: slices if replicas else [],
            "/api/v1/namespaces/default/pods/web": pod,
            "/api/v1/nodes": listed,
        }
        self._objects = scripted_http.having(objects)
        self.down: set[str] = set()
        self.forbidden: set[str] = set()

    def answer(self, exchange: scripted_http.Exchange) -> None:
        """One request."""
        path = parse.unquote(exchange.path)
        if path in self.forbidden:
            exchange.status(403, "Forbidden", f'pods "x" is forbidden: you may not {exchange.method} {path}')
        elif path.startswith(PODS):
            self._proxied(exchange, *path.removeprefix(PODS).split(":8900/proxy", 1))
        else:
            self._objects(exchange)

    def _proxied(self, exchange: scripted_http.Exchange, name: str, path: str) -> None:
        if name in self.down:
            exchange.status(503, "ServiceUnavailable", "error trying to reach service: connection refused")
        elif path == "/livez":
            exchange.answer("ok")
        else:
            exchange.path = path
            self.replicas[name].answer(exchange)


@contextlib.contextmanager
def serving(
    directory: pathlib.Path, replicas: Mapping[str, Application], nodes: Sequence[str] = ()
) -> Iterator[tuple[Apiserver, str]]:
    """The apiserver and its kubeconfig while the body runs."""
    made = Apiserver(replicas, builders.pod_body("web"), nodes)
    with scripted_http.serving(made.answer) as server:
        yield made, str(scripted_http.kubeconfig(directory, server.url))
