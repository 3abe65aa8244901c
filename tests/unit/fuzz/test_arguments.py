"""Whatever a scheduler sends, it is answered or refused with 400 or 422, and the two ways to read it agree."""

import json
from typing import Any

import hypothesis
from hypothesis import strategies as st
from werkzeug import exceptions

from extender import protocol
from tests import builders
from tests.unit.extender import test_app, worlds
from tests.unit.fuzz import mutating

POD = builders.pod_body("web-1", mutate=lambda body: body["spec"].update(overhead={"cpu": "1m"}))
GO: dict[str, Any] = {"Pod": POD, "Nodes": None, "NodeNames": ["node-1", "node-2", "node-1"]}
WHOLE_NODES = {"Pod": POD, "Nodes": {"items": [builders.node_body("node-1"), builders.node_body("node-2")]}}
LOWER = {"pod": POD, "nodes": None, "nodenames": ["node-1"]}
META = {"Pod": POD, "NodeNameToMetaVictims": {"node-1": {"Pods": [{"UID": "u"}], "NumPDBViolations": 1}}}
VICTIMS = {"Pod": POD, "NodeNameToVictims": {"node-1": {"Pods": [POD], "NumPDBViolations": 0}}}
SAMPLES = [GO, WHOLE_NODES, LOWER, META, VICTIMS]
WORLD = test_app.World({"node-1": worlds.HOT, "node-2": worlds.IDLE})
WORLD.flask.config["PROPAGATE_EXCEPTIONS"] = False  # a bug of ours is a 500 here, as it is in the process


def compact(document: Any) -> bytes:
    """JSON as Go writes it, but for the escapes."""
    return json.dumps(document, separators=(",", ":")).encode()


BODIES = st.one_of(mutating.documents(SAMPLES).map(compact), mutating.garbled([compact(one) for one in SAMPLES]))


def args(body: bytes) -> protocol.Args | None:
    """The request; None where it is refused as it should be."""
    try:
        return protocol.decode_args(body)
    except exceptions.HTTPException as error:
        check(error)
    return None


def check(refused: exceptions.HTTPException) -> None:
    """A refusal has a status of ours and a text that can be answered."""
    assert refused.code in (400, 413, 422)
    str(refused).encode()


def as_go_reads(body: bytes) -> Any:
    """Python's reading; bytes that are no UTF-8 are let through, as by Go and, in what it skips, by msgspec."""
    return json.loads(body.decode("utf-8", "replace"))


def passed_in(reply: Any) -> list[str]:
    """Whom a filter reply lets pass. A node without a name is one whose name is empty, for Go and for us."""
    if reply["Nodes"] is None:
        return list(reply["NodeNames"])
    return [node.get("metadata", {}).get("name", "") for node in reply["Nodes"]["items"]]


@mutating.BOUNDED
@hypothesis.given(body=BODIES)
@hypothesis.example(body=compact(GO))
@hypothesis.example(body=compact(WHOLE_NODES))
@hypothesis.example(body=compact({**GO, "NodeNames": ["n"] * 2 * protocol.VALUES_MOST}))
@hypothesis.example(body=compact(WHOLE_NODES).replace(b"apiVersion", b"\x80apiVersion"))
@hypothesis.example(body=compact(WHOLE_NODES).replace(b'"metadata":{"name":"node-1"', b'"etadata":{"name":"node-1"'))
def test_a_body_is_a_request_or_refused(body: bytes) -> None:
    asked = args(body)
    hypothesis.event("read" if asked else "refused")
    if asked is None:
        return
    said = as_go_reads(body)
    names = said.get("NodeNames") or said.get("nodeNames") or said.get("nodenames")
    assert len(set(asked.names)) == len(asked.names)
    assert not names or asked.names == tuple(dict.fromkeys(names))
    reply = as_go_reads(protocol.encode_filter(asked, asked.names, dict.fromkeys(asked.names, "why")))
    assert passed_in(reply) == [name for name in asked.names if asked.nodes is None or name in asked.nodes]
    assert reply["FailedAndUnresolvableNodes"].keys() == set(asked.names)


@hypothesis.settings(mutating.BOUNDED, max_examples=mutating.EXAMPLES or 400)
@hypothesis.given(verb=st.sampled_from(("filter", "prioritize", "preempt", "explain")), body=BODIES)
def test_every_verb_answers_or_refuses_in_json(verb: str, body: bytes) -> None:
    WORLD.rest()
    answer = WORLD.post(verb, body)
    assert answer.status_code in (200, 400, 413, 422), answer.text
    assert int(answer.headers["Content-Length"]) == len(answer.data)
    assert answer.json is not None


@mutating.BOUNDED
@hypothesis.given(body=BODIES)
@hypothesis.example(body=compact(META))
def test_a_body_is_a_question_about_victims_or_refused(body: bytes) -> None:
    try:
        asked = protocol.decode_preemption(body)
    except exceptions.HTTPException as error:
        check(error)
        return
    reply = json.loads(protocol.encode_preemption(asked.victims))
    assert reply["NodeNameToMetaVictims"].keys() == asked.victims.keys()


@mutating.BOUNDED
@hypothesis.given(
    head=mutating.documents([POD]).map(lambda pod: b'{"Pod":' + compact(pod) + b',"Nodes":null')
    | mutating.garbled([b'{"Pod":' + compact(POD) + b',"Nodes":null'])
)
@hypothesis.example(head=b'{"Pod":' + compact(POD) + b',"Nodes":null')
def test_the_pod_that_is_read_before_the_names_is_the_one_of_the_whole_request(head: bytes) -> None:
    """The lean answer looks at the pod alone: it may decline, but never see another pod than the usual way."""
    pod = protocol.pod_before_names(head)
    hypothesis.event("read" if pod else "declined")
    if pod is None:
        return
    whole = args(head + b',"NodeNames":["node-1"]}')
    assert whole is not None
    assert whole.pod == pod


def test_the_work_grows_with_the_body() -> None:
    def read(text: str) -> object:
        return args(text.encode())

    for once, ends in {
        '"node-1",': ('{"Pod":{},"NodeNames":[', '"x"]}'),
        '{"metadata":{"name":"a"}},': ('{"Pod":{},"Nodes":{"items":[', "{}]}}"),
        '"a":{"Pods":null},': ('{"Pod":{},"NodeNameToVictims":{', '"x":null}}'),
        "[": ('{"Pod":', ""),
        '{"Pod":': ("", ""),
    }.items():
        mutating.assert_grows_with_the_text(read, once, ends)
