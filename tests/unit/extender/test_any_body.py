"""Whatever is sent: a verb answers 200, 400 or 422 with a whole JSON body, never 5xx, and names only what was asked."""

import copy
import json
from typing import Any

import hypothesis
from hypothesis import strategies as st

from tests import builders
from tests.unit.extender import test_app, worlds

VERBS = ("filter", "prioritize", "preempt", "explain")
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner))
WHOLE: dict[str, Any] = {
    "Pod": builders.pod_body("p", mutate=lambda body: body["spec"].update(overhead={"cpu": "1m"})),
    "NodeNames": ["hot", "cool", "unknown"],
    "Nodes": {"items": [builders.node_body("cool"), builders.node_body("other")]},
    "NodeNameToMetaVictims": {"cool": {"Pods": [{"UID": "v"}], "NumPDBViolations": 0}},
    "NodeNameToVictims": {"hot": {"Pods": [builders.pod_body("v")], "NumPDBViolations": 0}},
}
MANY = hypothesis.settings(
    max_examples=150, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)  # the machine is shared
WORLD = test_app.World({"hot": worlds.HOT, "cool": worlds.IDLE, "unasked": worlds.IDLE})
WORLD.flask.config["PROPAGATE_EXCEPTIONS"] = False  # a bug of ours is a 500 here, as it is in the process


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a document."""
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [path, *(found for key, value in inner for found in places(value, (*path, key)))]


def with_value(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The document with another value at a place."""
    if not path:
        return value
    changed = copy.copy(document)
    changed[path[0]] = with_value(document[path[0]], path[1:], value)
    return changed


def check(verb: str, body: bytes) -> None:
    answer = WORLD.post(verb, body)
    assert answer.status_code in (200, 400, 422), answer.text
    assert int(answer.headers["Content-Length"]) == len(answer.data)
    assert answer.json is not None


@MANY
@hypothesis.given(st.sampled_from(VERBS), st.binary(max_size=64))
def test_bytes_of_any_kind(verb: str, body: bytes) -> None:
    check(verb, body)


@MANY
@hypothesis.given(st.sampled_from(VERBS), JSON)
def test_json_of_any_kind(verb: str, document: Any) -> None:
    check(verb, json.dumps(document).encode())


@MANY
@hypothesis.given(st.sampled_from(VERBS), st.sampled_from(places(WHOLE)), JSON)
def test_a_request_with_anything_in_any_place(verb: str, place: tuple[Any, ...], value: Any) -> None:
    check(verb, json.dumps(with_value(WHOLE, place, value)).encode())


@MANY
@hypothesis.given(st.lists(st.sampled_from(["hot", "cool", "unknown", "odd name", "ü"]), max_size=8))
def test_only_names_that_were_asked_for_are_answered_each_once(names: list[str]) -> None:
    asked = sorted(set(names))
    reply = WORLD.post("filter", worlds.body(names)).json
    assert sorted([*reply["NodeNames"], *reply["FailedAndUnresolvableNodes"]]) == asked
    assert sorted(row["Host"] for row in WORLD.post("prioritize", worlds.body(names)).json) == asked
    assert reply["FailedNodes"] == {}
