"""Which replicas count for their owner's mean, and what the mean is of."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotator.placements import pod_index
from kube.pods.compact import Pod
from policy.contract.owner_usage import Mean
from runtime import clock
from tests import builders

READY = clock.from_rfc3339(builders.SCHEDULED)
HOUR = pod_index.SETTLED_SECONDS
NOW = READY + HOUR
MIB = 2.0**20
NAMES = ("a", "b", "c")
WEB = ("ReplicaSet", "web-5d4f8c7b9")


def means(
    pods: list[Pod], cpu: Mapping[str, float], memory: Mapping[str, float] | None = None, now: float = NOW
) -> dict[str, Mean]:
    cores = {f"default/{name}": millicores / 1000 for name, millicores in cpu.items()}
    sizes = {f"default/{name}": amount for name, amount in (memory or {}).items()}
    known = pod_index.PodIndex()
    known.follow({pod.key: pod for pod in pods})
    return pod_index.means(known, pod_index.PodUsage(cores, sizes, 300.0), now_seconds=now)


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
    three, amounts = [pod("a"), pod("b"), pod("c")], {"a": 100.0, "b": 100.0, "c": 100.0}
    assert means(three, amounts, now=READY + 299) == {}
    assert means(three, amounts, now=READY + 300)["default/ReplicaSet/web"].replicas == 3


@pytest.mark.parametrize(
    ("measured", "age_seconds", "counts"),
    [(1, 300, False), (2, HOUR - 1, False), (3, 300, True), (1, HOUR, True)],
    ids=["one young replica", "two of nearly an hour", "three young ones", "one of an hour"],
)
def test_a_mean_counts_once_replicas_or_an_hour_are_behind_it(measured: int, age_seconds: float, counts: bool) -> None:
    found = means([pod(name) for name in NAMES], dict.fromkeys(NAMES[:measured], 2.0), now=READY + age_seconds)
    assert (found.keys() == {"default/ReplicaSet/web"}) == counts


def test_an_old_replica_that_is_not_measured_vouches_for_nobody() -> None:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": clock.to_rfc3339(NOW - 400)}
    second = pod("b", status={"conditions": [condition]})
    assert means([pod("a"), second], {"b": 2.0}) == {}
    assert means([pod("a"), second], {"a": 2.0, "b": 2.0})["default/ReplicaSet/web"].replicas == 2


@pytest.mark.parametrize(
    "left_out",
    [
        pytest.param({"owner": None}, id="a bare pod"),
        pytest.param({"owner": ("DaemonSet", "agent")}, id="a DaemonSet's"),
        pytest.param({"mutate": builders.placeholder}, id="a placeholder"),
        pytest.param({"phase": "Succeeded"}, id="a finished one"),
        pytest.param({"metadata": {"deletionTimestamp": builders.SCHEDULED}}, id="an ending one"),
        pytest.param({"status": {"conditions": []}}, id="one that is not ready"),
    ],
)
def test_what_says_nothing_of_the_next_replica_does_not_count(left_out: dict[str, Any]) -> None:
    assert means([pod("a", **left_out)], {"a": 100}) == {}


OWNERS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([WEB, ("StatefulSet", "db"), None]))
AMOUNTS = st.dictionaries(st.sampled_from(NAMES), st.floats(0, 1e6))


@given(owned=OWNERS, cpu=AMOUNTS, memory=AMOUNTS)
def test_every_owner_has_the_means_of_its_own_replicas(
    owned: dict[str, tuple[str, str] | None], cpu: dict[str, float], memory: dict[str, float]
) -> None:
    pods = [pod(name, owner=owner) for name, owner in owned.items()]
    measured: dict[str, list[str]] = {}
    for name, above in owned.items():
        if above is not None and (name in cpu or name in memory):
            measured.setdefault({"db": "default/StatefulSet/db"}.get(above[1], "default/ReplicaSet/web"), []).append(
                name
            )
    found = means(pods, cpu, memory)
    assert {owner: mean.replicas for owner, mean in found.items()} == {
        owner: len(names) for owner, names in measured.items()
    }
    for owner, names in measured.items():
        assert found[owner].cpu_millicores == mean_of(names, cpu)
        assert found[owner].memory_bytes == mean_of(names, memory)


def mean_of(names: list[str], amounts: Mapping[str, float]) -> object:
    known = [amounts[name] for name in names if name in amounts]
    return pytest.approx(sum(known) / len(known)) if known else None
