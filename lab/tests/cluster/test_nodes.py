"""Waiting for nodes: what the apiserver's cache says of them, also before it has heard of one."""

import collections.abc
import pathlib
import typing

import pytest

from lab.cluster import api, errors, nodes

READY: api.Json = {**nodes.body(nodes.NodeShape("late"), 0)}
TAINTED: api.Json = {**READY, "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}}


class Cache(api.Api):
    """An apiserver's cache that answers, one after another, what it knows of the node `late`: None, nothing yet."""

    def __init__(self, *known: api.Json | None) -> None:
        super().__init__("https://here", ca=pathlib.Path("ca"), certificate=pathlib.Path("crt"), key=pathlib.Path("k"))
        self._known = list(known)

    def get(self, path: str, **query: str) -> api.Json:
        """A list, or the node."""
        assert query == {"resourceVersion": "0"}
        found = self._known.pop(0) if len(self._known) > 1 else self._known[0]
        if path == "api/v1/nodes":
            return {"items": [found] if found else []}
        if found is None:
            raise api.ApiError(f"GET {path}: 404 not found", 404)
        return found


@pytest.mark.parametrize(
    "known",
    [
        pytest.param([READY], id="it is there and usable"),
        pytest.param([TAINTED, TAINTED, READY], id="it loses its taint"),
        pytest.param([None, None, TAINTED, READY], id="the cache has not heard of it yet"),
    ],
)
def test_a_node_is_waited_for(known: collections.abc.Sequence[api.Json | None]) -> None:
    nodes.wait_ready(Cache(*known), ["late"])


@pytest.mark.parametrize("known", [TAINTED, None], ids=["tainted", "unknown"])
def test_a_node_that_does_not_come_is_named(known: api.Json | None) -> None:
    with pytest.raises(errors.ComponentError, match="1 of 1 nodes not Ready after 0 s: late"):
        nodes.wait_ready(Cache(known), ["late"], timeout_seconds=0)


def test_another_refusal_is_not_waited_out() -> None:
    class Refusing(Cache):
        def get(self, path: str, **query: str) -> typing.NoReturn:
            raise api.ApiError(f"GET {path}: 403", 403)

    with pytest.raises(api.ApiError, match="403"):
        nodes.wait_ready(Refusing(None), ["late"])
