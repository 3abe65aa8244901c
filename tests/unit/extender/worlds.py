"""Small worlds for the extender's tests: a policy, nodes with readings, pods, requests as kube-scheduler sends them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from extender import protocol
from extender.state import cluster_view, placements, score_cache, usage_estimates
from kube import objects
from kube.pods import compact
from policy.contract import heartbeat, load_annotation
from policy.rules import expected_load, hotspots
from policy.schema import load_policy
from runtime import clock
from tests import builders, clocks

NOW = clocks.START_SECONDS
IDLE = dict.fromkeys(("cpu_avg_5m", "cpu_max_1h", "cpu_max_1d", "memory_avg_5m", "memory_max_1h", "memory_max_1d"), 0.1)
ROOM = expected_load.Load(1 / 1e6, 1 / 2.0**50)  # 1 / allocatable of a node that takes whatever a test puts there
HOT = {**IDLE, "cpu_avg_5m": 0.9}


def load_text(values: Mapping[str, float], at_seconds: float = NOW) -> str:
    """The annotation of a node with these readings."""
    return load_annotation.encode(load_annotation.Reading(at_seconds, values))


def node(
    name: str,
    load: Mapping[str, float] | str | None,
    *,
    relief: str | None = None,
    thresholds: str | None = None,
    **fields: Any,
) -> objects.Node:
    """A node of 8 cores and 32 GiB that carries a reading, a raw text, or nothing."""
    text = load if isinstance(load, str) or load is None else load_text(load)
    carried = {load_annotation.KEY: text, "evenload.io/relief": relief, "evenload.io/thresholds": thresholds}
    return builders.node(
        name, annotations={key: value for key, value in carried.items() if value is not None}, **fields
    )


def policy(**sections: object) -> load_policy.LoadPolicy:
    """A policy with the given sections in the shape of the file."""
    return load_policy.LoadPolicy.of(sections)


# Each node is judged alone: no hot one is kept where all are.
PENDING = policy(filter={"whenAllRejected": "pending"})


def view_of(
    loads: Mapping[str, Mapping[str, float] | str | None],
    in_force: load_policy.LoadPolicy | None = None,
    content_hash: str = "0123456789ab",
) -> cluster_view.ClusterView:
    """A view of nodes with these readings."""
    world = cluster_view.ClusterView(in_force or policy(), content_hash, NOW)
    for name, load in loads.items():
        world.nodes.node_changed(None, node(name, load))
    return world


def under_pressure(body: dict[str, Any]) -> None:
    """Makes a node's body that of a cordoned node under memory pressure whose kubelet is silent."""
    body["spec"]["unschedulable"] = True
    statuses = {"Ready": "Unknown", "MemoryPressure": "True", "DiskPressure": "False", "KernelReady": "True"}
    body["status"]["conditions"] = [{"type": kind, "status": status} for kind, status in statuses.items()]


def wait(world: cluster_view.ClusterView, *names: str, now_seconds: float = NOW, **fields: Any) -> None:
    """The Pod watch brings pods that wait for a node."""
    for name in names:
        world.pod_changed(None, builders.pod(name, **fields), now_seconds)


def bind(world: cluster_view.ClusterView, node_name: str, *names: str, at_seconds: float = NOW, **fields: Any) -> None:
    """The Pod watch says that pods are bound to a node."""
    for name in names:
        world.placements.pod_changed(None, bound(name, node_name, at_seconds, **fields), at_seconds)


def bindings(table: placements.PlacementTable, now_seconds: float) -> tuple[hotspots.Binding, ...]:
    """The bindings that count, assumed ones included."""
    return tuple(placement.binding for placement in table.current(now_seconds))


def bound(name: str, node_name: str, at_seconds: float = NOW, **fields: Any) -> objects.Pod:
    """A pod bound at a moment, whole."""
    return builders.decoded(bound_body(name, node_name, at_seconds, **fields), objects.Pod)


def watch_sees(name: str, node_name: str, at_seconds: float = NOW, **fields: Any) -> compact.Pod:
    """The same as our watch keeps it."""
    return builders.decoded(bound_body(name, node_name, at_seconds, **fields), compact.Pod)


def bound_body(
    name: str,
    node_name: str,
    at_seconds: float = NOW,
    *,
    uid: str = "",
    mutate: builders.Mutator | None = None,
    **fields: Any,
) -> builders.Body:
    """A pod bound at a moment, as the apiserver says it."""

    def scheduled(body: builders.Body) -> None:
        body["metadata"]["uid"] = uid or body["metadata"]["uid"]
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": clock.to_rfc3339(at_seconds)}
        body["status"]["conditions"] = [condition]
        if mutate is not None:
            mutate(body)

    return builders.pod_body(name, node=node_name, mutate=scheduled, **fields)


def estimate(pod: objects.Pod) -> expected_load.Load:
    """What a pod is expected to use where nothing is known of its owner."""
    estimates = usage_estimates.Estimates(policy().recent_pods, policy().sync)
    return estimates.of(usage_estimates.estimate_key(pod), NOW).load


def args(names: Sequence[str], pod: str = "new", **fields: Any) -> protocol.Args:
    """A decoded request for a pod and names."""
    return protocol.decode_args(body(names, pod, **fields))


def body(names: Sequence[str] | None, pod: str = "new", **fields: Any) -> bytes:
    """A request as a nodeCacheCapable kube-scheduler of today sends it."""
    return json.dumps({"Pod": builders.pod_body(pod, **fields), "Nodes": None, "NodeNames": names}).encode()


def beat(texts: Mapping[str, str], at_seconds: float) -> dict[str, str]:
    """The data of a heartbeat over these annotations."""
    return heartbeat.encode(at_seconds, "0123456789ab", len(texts), heartbeat.digest(texts))


def assert_equal_tables(table: score_cache.ScoreTable, other: score_cache.ScoreTable) -> None:
    """Compares everything that answers are made from."""
    for name in ("allowed", "lacking", "whole"):
        np.testing.assert_array_equal(getattr(table, name), getattr(other, name), err_msg=name)
    for column, theirs in zip(table.numbers, other.numbers, strict=True):
        np.testing.assert_array_equal(column, theirs)
    for name in ("now_seconds", "fresh", "values", "expected", "counts"):
        np.testing.assert_array_equal(getattr(table.standing, name), getattr(other.standing, name), err_msg=name)
    assert table.reasons[~table.allowed].tolist() == other.reasons[~other.allowed].tolist()
    assert table.refusals[~table.allowed].tolist() == other.refusals[~other.allowed].tolist()
