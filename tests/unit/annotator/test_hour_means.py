"""Pods of an hour count for their owners, and the means over them."""

from typing import Any

import pytest

from annotator.forecast import hour_means, owner_hours
from annotator.placements import pod_index
from kube.pods.compact import Pod
from policy.contract.owner_usage import Mean
from runtime import clock
from tests import builders

READY = clock.from_rfc3339(builders.SCHEDULED)
WEB = ("ReplicaSet", "web-5d4f8c7b9")
KEY = "default/ReplicaSet/web"


def means(cpu: dict[str, float], memory: dict[str, float], *pods: Pod, since_seconds: float = READY) -> dict[str, Mean]:
    known = pod_index.PodIndex()
    known.follow({pod.key: pod for pod in pods})
    named = ({f"default/{name}": amount for name, amount in each.items()} for each in (cpu, memory))
    return hour_means.means(hour_means.HourUse(*named), known, since_seconds)


def pod(name: str, **fields: Any) -> Pod:
    return builders.lean_pod(name, node="node-1", **{"owner": WEB, **fields})


def test_the_mean_is_over_the_pods_of_an_owner_each_resource_by_itself() -> None:
    found = means({"a": 0.1, "b": 0.3}, {"a": 100.0}, pod("a"), pod("b"))
    assert found == {KEY: Mean(200.0, 100.0, 2)}


def test_a_pod_that_was_not_at_work_for_the_whole_hour_does_not_count() -> None:
    found = means({"a": 0.1}, {"a": 100.0}, pod("a"), since_seconds=READY - owner_hours.HOUR_SECONDS)
    assert found == {}


def test_a_pod_that_is_gone_counts_for_the_owner_in_its_name() -> None:
    gone = {"web-5d4f8c7b9-x2kfp": 0.4, "web-7bd9c6fdf4-q8wz7": 0.6}
    assert means(gone, {}, pod("a"))[KEY] == Mean(500.0, None, 2)


def test_a_pod_of_a_stateful_set_that_is_gone_counts_for_it() -> None:
    found = means({"db-7": 0.4}, {}, pod("db-0", owner=("StatefulSet", "db")))
    assert found == {"default/StatefulSet/db": Mean(400.0, None, 1)}


@pytest.mark.parametrize("name", ["web-x2kfp", "other-5d4f8c7b9-x2kfp", "web", "db-7"])
def test_a_name_that_says_no_running_owner_counts_for_nobody(name: str) -> None:
    assert means({name: 0.4}, {}, pod("a")) == {}


def test_a_bare_pod_and_one_of_another_namespace_count_for_nobody() -> None:
    known = pod_index.PodIndex()
    bare = pod("bare", owner=None)
    known.follow({bare.key: bare, "default/a": pod("a")})
    use = hour_means.HourUse({"default/bare": 1.0, "shop/web-5d4f8c7b9-x2kfp": 1.0, "nonsense": 1.0}, {})
    assert hour_means.means(use, known, READY) == {}
