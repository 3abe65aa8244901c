"""Nodes as columns: what is missing stays missing, and one odd node costs only itself."""

import json

import msgspec
import pytest

from console import polling
from extender.verbs import documents, explain
from tests.unit.extender import worlds


def test_the_extenders_own_answer_becomes_columns() -> None:
    view = worlds.view_of({"hot": worlds.HOT, "cool": worlds.IDLE, "unread": None, "broken": "{"})
    worlds.bind(view, "cool", "a", "b")
    body = json.dumps(msgspec.to_builtins(explain.all_nodes(view, worlds.NOW))).encode()
    found = polling.columns(msgspec.json.decode(body, type=documents.Nodes), {"hot": "gpu"})
    at = {name: place for place, name in enumerate(found["names"])}  # type: ignore[arg-type, var-annotated]
    values, rejected = found["values"]["cpu_avg_5m"], found["rejected"]  # type: ignore[index]
    assert [values[at[name]] for name in ("hot", "cool", "unread", "broken")] == [900, 100, None, None]
    assert found["reasons"][rejected[at["hot"]]] == "cpu_avg_5m over 0.65"  # type: ignore[index]
    assert rejected[at["cool"]] == -1  # type: ignore[index]
    assert found["states"][found["state"][at["cool"]]] == "usable"  # type: ignore[index]
    assert found["hot"]["5m"][at["cool"]] == 2  # type: ignore[index]
    assert found["limits"]["cpu_avg_5m"] == 0.65  # type: ignore[index]
    assert [found["pools"][at[name]] for name in ("hot", "cool")] == ["gpu", ""]  # type: ignore[index]


def test_nodes_that_kube_scheduler_leaves_out_are_named_with_their_conditions() -> None:
    nodes = [{"name": "n", "conditions": ["NotReady", "DiskPressure"]}, {"name": "well"}]
    body = json.dumps({"at": "t", "policy": "p", "nodes": nodes}).encode()
    assert polling.columns(msgspec.json.decode(body, type=documents.Nodes), {})["conditions"] == {
        "n": ("NotReady", "DiskPressure")
    }


@pytest.mark.parametrize(("whose", "node"), [("own", {"name": "n"}), ("pool", {"name": "n", "pool": "spot"})])
def test_limits_of_a_node_and_its_pool_are_apart_from_the_policys(whose: str, node: dict[str, object]) -> None:
    rules = [{"metric": "cpu_avg_5m", "limit": 0.9, whose: True}, {"metric": "memory_avg_5m", "limit": 0.6}]
    body = json.dumps({"at": "t", "policy": "p", "nodes": [{**node, "rules": rules}]}).encode()
    found = polling.columns(msgspec.json.decode(body, type=documents.Nodes), {})
    assert found["own_limits"] == {"n": {"cpu_avg_5m": 0.9}}
    assert found["limits"] == {"memory_avg_5m": 0.6}
    assert found["pools"] == []


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"policy": "p", "nodes": [{"name": 1}]}', b"<html>"])
def test_what_is_no_answer_is_refused(body: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, msgspec.ValidationError)):
        msgspec.json.decode(body, type=documents.Nodes)


def test_five_thousand_nodes_are_small_enough_to_send_again_and_again() -> None:
    values, hot = dict.fromkeys(worlds.IDLE, 0.4567), {"1m": 0, "5m": 1, "30m": 2}
    names = [f"node-{at:05d}.pool.example" for at in range(5000)]
    rows = tuple(
        documents.NodeRow(name, state="usable", age_seconds=12.0, values=values, hot=hot, score=5) for name in names
    )
    found = polling.columns(documents.Nodes("p", rows), {})
    assert len(msgspec.json.encode(found)) < 500_000
