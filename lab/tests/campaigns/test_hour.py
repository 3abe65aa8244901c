"""The judges and workloads of `make -C lab hour`, without a control plane."""

import math
import random
from typing import Any

from lab.campaigns.hour import judging, workloads
from lab.campaigns.hour.judging import NodeSample, Sample
from policy.schema.load_policy import LoadPolicy


def sample(minute: float, *nodes: NodeSample, ready: dict[str, int] | None = None) -> Sample:
    """A sample that stands for half a minute."""
    return Sample(minute, 0.5, {f"node-{at}": node for at, node in enumerate(nodes)}, 0, ready or {})


def test_both_policies_are_valid_and_name_the_groups_of_the_nodes() -> None:
    obeyed = LoadPolicy.of(
        {key: workloads.POLICY[key] for key in workloads.POLICY if key not in ("apiVersion", "kind")}
    )
    pools = {
        workloads.names()[f"node-{at}"]: obeyed.pool_of({workloads.GROUP: group})
        for at, group in enumerate(workloads.names().values())
    }
    assert {group: pool.name if pool else None for group, pool in pools.items()} == {
        "main": None,
        "packed": "packed",
        "disks": "disks",
    }
    assert obeyed.pod_classes[0].name == workloads.CLASS
    assert LoadPolicy.of({"extender": workloads.SHADOW_POLICY["extender"]}).extender.mode == "Shadow"


def test_only_production_has_its_priority_class_and_every_pod_says_what_it_uses() -> None:
    for workload in workloads.standing(random.Random(1)):
        template = workloads.body(workload, 7)["spec"]["template"]
        assert template["spec"].get("priorityClassName") == (workloads.CLASS if workload.production else None)
        assert "load.evenload.io/usage" in template["metadata"]["annotations"]


def test_node_minutes_over_the_line_count_either_resource_and_missing_is_not_over() -> None:
    hot, full = NodeSample("main", 0.9, None, 3), NodeSample("main", 0.2, 0.85, 0)
    unread = NodeSample("main", None, None, 0)
    found = judging.of_group([sample(1, hot, full, unread), sample(2, hot, NodeSample("disks", 0.9, 0.9, 0))], "main")
    assert found[judging.OVER] == 0.5 * 3
    assert found[judging.SPREAD] == (0.35 + 0.0) / 2
    assert found[judging.EMPTY] == (2 + 0) / 2
    assert math.isnan(judging.of_group([], "main")[judging.SPREAD])


def test_samples_are_told_by_quarters_of_an_hour() -> None:
    found = judging.by_quarter([sample(0.5), sample(14.9), sample(15.0), sample(59.9)])
    assert {quarter: len(several) for quarter, several in found.items()} == {0: 2, 1: 1, 3: 1}


def test_a_workload_under_its_budget_shows_with_the_minute() -> None:
    samples = [sample(3, ready={"web-0": 4, "web-1": 5}), sample(4, ready={"web-0": 3})]
    assert judging.under_budget(samples, 4) == ["web-0 3 of 4 at minute 4.0"]


def test_evictions_are_counted_by_metric_and_result_and_a_pod_evicted_twice_shows() -> None:
    rows: list[dict[str, Any]] = [
        {"pod_uid": "a", "metric": "cpu_avg_5m", "result": "evicted", "returned": True},
        {"pod_uid": "a", "metric": "cpu_avg_5m", "result": "evicted_unconfirmed", "returned": None},
        {"pod_uid": "b", "metric": "disk_avg_5m", "result": "refused", "returned": None},
        {"pod_uid": "b", "metric": "disk_avg_5m", "result": "evicted", "returned": False},
    ]
    counted = judging.evictions(rows)
    assert (counted["cpu_avg_5m: evicted"], counted["disk_avg_5m: refused"], counted["came back"]) == (1, 1, 1)
    assert judging.twice(rows) == ["a"]
