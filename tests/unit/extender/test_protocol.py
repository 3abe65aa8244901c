"""The extender protocol on the wire: what schedulers send in both spellings, and what Go can decode of our replies."""

import json
from typing import Any

import pytest
from werkzeug import exceptions

from extender import protocol
from tests import builders

POD = builders.pod_body("web")


def test_names_are_taken_once_each_in_the_order_asked() -> None:
    found = protocol.decode_args(json.dumps({"Pod": POD, "NodeNames": ["b", "a", "b", "c", "a"]}).encode())
    assert found.names == ("b", "a", "c")
    assert found.nodes is None
    assert (found.pod.namespace, found.pod.name) == ("default", "web")


@pytest.mark.parametrize("keys", [("Pod", "NodeNames"), ("pod", "nodeNames"), ("pod", "nodenames")], ids=str)
def test_keys_are_read_in_every_spelling_schedulers_used(keys: tuple[str, str]) -> None:
    found = protocol.decode_args(json.dumps({keys[0]: POD, keys[1]: ["a"]}).encode())
    assert (found.pod.name, found.names) == ("web", ("a",))


def test_the_filter_reply_is_what_go_decodes() -> None:
    args = protocol.decode_args(json.dumps({"Pod": POD, "NodeNames": ["a", "b"]}).encode())
    assert json.loads(protocol.encode_filter(args, ["a"], {"b": "reason"})) == {
        "NodeNames": ["a"],
        "Nodes": None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"b": "reason"},
        "Error": "",
    }


def test_scores_are_integers_under_go_names() -> None:
    assert protocol.encode_scores(["a", "b"], [10, 0]) == b'[{"Host":"a","Score":10},{"Host":"b","Score":0}]'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"Pod": [], "NodeNames": []}',
        b'{"Pod": {}, "NodeNames": "a"}',
        b'{"Pod": {}, "NodeNames": [1]}',
        b'{"Pod": {}, "NodeNames": {"a": 1}}',
        b'{"Pod": {}, "Nodes": []}',
        b'{"Pod": {}, "Nodes": {"items": {}}}',
        b'{"Pod": {}, "Nodes": {"items": [1]}}',
        b'{"Pod": {"metadata": {"name": 1}}, "NodeNames": []}',
    ],
    ids=lambda body: body[:40].decode(errors="replace"),
)
def test_what_cannot_be_read_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(exceptions.BadRequest, match="expected the v1 extender JSON"):
        protocol.decode_args(body)


@pytest.mark.parametrize(
    "body", [b"{}", b'{"NodeNames": ["a"]}', b'{"Pod": null, "NodeNames": ["a"]}'], ids=bytes.decode
)
def test_a_request_without_a_pod_cannot_be_processed(body: bytes) -> None:
    with pytest.raises(exceptions.UnprocessableEntity, match="no pod"):
        protocol.decode_args(body)


META: dict[str, Any] = {"Pods": [{"UID": "u1"}, {"UID": "u2"}], "NumPDBViolations": 1}
WHOLE: dict[str, Any] = {"Pods": [{"metadata": {"uid": "u1", "name": "x"}, "spec": {}}], "NumPDBViolations": 0}


@pytest.mark.parametrize(
    ("key", "victims", "uids"),
    [
        ("NodeNameToMetaVictims", META, ["u1", "u2"]),
        ("nodeNameToMetaVictims", {"pods": [{"uid": "u1"}], "numPDBViolations": 1}, ["u1"]),
        ("NodeNameToVictims", WHOLE, ["u1"]),
        ("NodeNameToVictims", {"Pods": None, "NumPDBViolations": 0}, []),
        ("NodeNameToMetaVictims", None, []),
    ],
    ids=["uids", "uids in lower case", "whole pods", "no pods", "null"],
)
def test_victims_come_back_as_uids_whatever_form_they_came_in(
    key: str, victims: dict[str, Any] | None, uids: list[str]
) -> None:
    args = protocol.decode_preemption(json.dumps({"Pod": POD, key: {"n1": victims}}).encode())
    reply = json.loads(protocol.encode_preemption(args.victims))["NodeNameToMetaVictims"]["n1"]
    assert [pod["UID"] for pod in reply["Pods"]] == uids
    assert reply["NumPDBViolations"] == (victims or {}).get(
        "NumPDBViolations", (victims or {}).get("numPDBViolations", 0)
    )


def test_a_victims_map_of_the_wrong_type_is_a_bad_request() -> None:
    with pytest.raises(exceptions.BadRequest):
        protocol.decode_preemption(b'{"Pod": {}, "NodeNameToMetaVictims": []}')
