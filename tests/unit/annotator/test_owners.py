"""Which replicas count for their owner's mean, and what the mean is of."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotator import owners
from kube.lean_pods import Pod
from policy.owner_usage import Mean
from runtime import clock
from tests import builders

READY = clock.from_rfc3339(builders.SCHEDULED)
NOW = READY + 300
MIB = 2.0**20
WEB = ("ReplicaSet", "web-5d4f8c7b9")


def means(
    pods: list[Pod], cpu: Mapping[str, float], memory: Mapping[str, float] | None = None, now: float = NOW
) -> dict[str, Mean]:
    usage = owners.PodUsage(
        {f"default/{name}": amount for name, amount in cpu.items()},
        {f"default/{name}": amount for name, amount in (memory or {}).items()},
        300.0,
    )
    replicas = owners.Replicas()
    replicas.follow({pod.key: pod for pod in pods})
    return owners.means(replicas, usage, now_seconds=now)


def pod(name: str, **fields: Any) -> Pod:
    return builders.lean_pod(name, node="node-1", **{"owner": WEB, **fields})


def test_the_mean_is_over_the_replicas_that_are_measured_each_resource_by_itself() -> None:
    pods = [pod("a"), pod("b"), pod("c")]
    assert means(pods, {"a": 100, "b": 300}, {"a": MIB}) == {"default/ReplicaSet/web": Mean(200, MIB, 2)}


def test_replicas_of_two_versions_are_one_owner() -> None:
    pods = [pod("a"), pod("b", owner=("ReplicaSet", "web-7bd9c6fdf4"))]
    assert means(pods, {"a": 100, "b": 300})["default/ReplicaSet/web"] == Mean(200, None, 2)


def test_an_owner_of_whom_nothing_is_measured_has_no_mean() -> None:
    assert means([pod("a")], {}) == {}


def test_a_replica_counts_once_it_was_ready_for_the_whole_window() -> None:
    assert means([pod("a")], {"a": 100}, now=NOW - 1) == {}
    assert means([pod("a")], {"a": 100}, now=NOW)["default/ReplicaSet/web"].replicas == 1


@pytest.mark.parametrize(
    "left_out",
    [
        pytest.param({"owner": None}, id="a bare pod"),
        pytest.param({"owner": ("DaemonSet", "agent")}, id="a DaemonSet's"),
        pytest.param({"labels": {"evenload.io/placeholder": "true"}}, id="a placeholder"),
        pytest.param({"phase": "Succeeded"}, id="a finished one"),
        pytest.param(
            {"mutate": lambda body: body["metadata"].update(deletionTimestamp=builders.SCHEDULED)}, id="an ending one"
        ),
        pytest.param({"mutate": lambda body: body["status"].update(conditions=[])}, id="one that is not ready"),
    ],
)
def test_what_says_nothing_of_the_next_replica_does_not_count(left_out: dict[str, Any]) -> None:
    assert means([pod("a", **left_out)], {"a": 100}) == {}


def test_owners_with_a_pod_placed_within_the_hour_are_recent() -> None:
    replicas = owners.Replicas()
    replicas.follow({"default/a": pod("a"), "default/b": builders.lean_pod("b", owner=("ReplicaSet", "waiting"))})
    assert replicas.placed_lately(now_seconds=READY + 3599) == {"default/ReplicaSet/web"}
    assert replicas.placed_lately(now_seconds=READY + 3600) == frozenset()


KINDS = [
    pod("x"),
    pod("x", owner=("StatefulSet", "db")),
    pod("x", owner=None),
    pod("x", phase="Failed"),
    pod("x", mutate=lambda body: body["metadata"].update(deletionTimestamp=builders.SCHEDULED)),
    pod("x", mutate=lambda body: body["status"].update(conditions=[])),
]
SNAPSHOTS = st.lists(st.dictionaries(st.sampled_from(["default/a", "default/b", "default/c"]), st.sampled_from(KINDS)))
AMOUNTS = st.dictionaries(st.sampled_from(["default/a", "default/b", "default/c"]), st.floats(0, 1e6))


@given(snapshots=SNAPSHOTS, cpu=AMOUNTS, memory=AMOUNTS)
def test_who_follows_the_pods_knows_what_who_asks_each_of_them_knows(
    snapshots: list[dict[str, Pod]], cpu: dict[str, float], memory: dict[str, float]
) -> None:
    followed = owners.Replicas()
    for pods in snapshots:
        followed.follow(pods)
        counted = {name: one for name, one in pods.items() if owners.key(one) and not (one.finished or one.deleting)}
        assert followed.owners == {name: owners.key(one) for name, one in pods.items() if owners.key(one)}
        assert followed.running() == {owners.key(one) for one in counted.values()}
        measured: dict[str, list[str]] = {}
        for name, one in counted.items():
            if one.ready_since_seconds is not None and (name in cpu or name in memory):
                measured.setdefault(owners.key(one), []).append(name)
        assert owners.means(followed, owners.PodUsage(cpu, memory, 300.0), now_seconds=NOW) == {
            owner: Mean(mean_of(names, cpu), mean_of(names, memory), len(names)) for owner, names in measured.items()
        }


def mean_of(names: list[str], amounts: Mapping[str, float]) -> float | None:
    known = [amounts[name] for name in names if name in amounts]
    return sum(known) / len(known) if known else None
