"""What counts as a difference between two policies, and what does not."""

import pytest

from cli import policy_diff
from policy.loading import loader

HEAD = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"


def lines(before: str, after: str) -> list[str]:
    """The differences of two policies given without their heads."""
    left, right = (loader.load(HEAD + text, "policy") for text in (before, after))
    return [policy_diff.line(difference) for difference in policy_diff.differences(left, right)]


SAME = {
    "a default spelt out": ("", "sync: {period: 30s}"),
    "another way to write a duration": ("sync: {staleAfter: 5m}", "sync: {staleAfter: 300s}"),
    "a ratio in percent": ("sync: {minChange: 0.05}", 'sync: {minChange: "5%"}'),
    "a threshold of 0 and none": ("filter: {thresholds: {}}", "filter: {thresholds: {cpu_avg_5m: 0}}"),
    "a weight of 0 and none": ("score: {weights: {cpu_avg_5m: 1}}", "score: {weights: {cpu_avg_5m: 1, cpu_max_1h: 0}}"),
    "hot spots in another order": (
        "hotSpots: [{window: 1m, pods: 2, penalty: 1}, {window: 5m, pods: 5, penalty: 1}]",
        "hotSpots: [{window: 300s, pods: 5, penalty: 1}, {window: 60s, pods: 2, penalty: 1}]",
    ),
    "a pool's values spelt out": (
        "pools: [{name: a, nodeSelector: {matchLabels: {b: c}}}]",
        "pools: [{name: a, nodeSelector: {matchLabels: {b: c}, matchExpressions: []}, filter: {thresholds: {}}}]",
    ),
    "namespaces in another order": (
        "filter: {exempt: {namespaces: [a, b]}}",
        "filter: {exempt: {namespaces: [b, a, b]}}",
    ),
    "a built-in metric given as it is": (
        "",
        "metrics: [{name: cpu_avg_5m, resource: cpu, statistic: avg, window: 5m}]",
    ),
}
DIFFERENT = {
    "another threshold": (
        "filter: {thresholds: {cpu_avg_5m: 0.65}}",
        'filter: {thresholds: {cpu_avg_5m: "70%"}}',
        ["filter.thresholds.cpu_avg_5m: 0.65 -> 0.7"],
    ),
    "a threshold less": (
        "filter: {thresholds: {cpu_avg_5m: 0.65}}",
        "filter: {thresholds: {}}",
        ["filter.thresholds.cpu_avg_5m: 0.65 -> (none)"],
    ),
    "another window of a metric": (
        "",
        "metrics: [{name: cpu_avg_5m, resource: cpu, statistic: avg, window: 1m}]",
        ["metrics.cpu_avg_5m.window: 5m -> 1m"],
    ),
    "a threshold of a pool, where 0 is not none": (
        "pools: [{name: a, nodeSelector: {matchLabels: {b: c}}}]",
        "pools: [{name: a, nodeSelector: {matchLabels: {b: c}}, filter: {thresholds: {cpu_avg_5m: 0}}}]",
        ["pools[a].filter.thresholds.cpu_avg_5m: (none) -> 0"],
    ),
    "a class of pods by its name, where 0 turns a rule off": (
        "podClasses: [{name: a, match: {priorityClassNames: [b, c]}}]",
        "podClasses: [{name: a, match: {priorityClassNames: [c, b]}, filter: {thresholds: {cpu_avg_5m: 0}}}]",
        ["podClasses[a].filter.thresholds.cpu_avg_5m: (none) -> 0"],
    ),
    "the order of classes of pods, which decides": (
        "podClasses: [{name: a, match: {namespaces: [a]}}, {name: b, match: {namespaces: [b]}}]",
        "podClasses: [{name: b, match: {namespaces: [b]}}, {name: a, match: {namespaces: [a]}}]",
        ["podClasses (order): [a, b] -> [b, a]"],
    ),
    "the order of pools, which decides": (
        "pools: [{name: a, nodeSelector: {matchLabels: {b: c}}}, {name: d, nodeSelector: {}}]",
        "pools: [{name: d, nodeSelector: {matchLabels: {e: f}}}, {name: a, nodeSelector: {matchLabels: {b: c}}}]",
        ["pools (order): [a, d] -> [d, a]", "pools[d].nodeSelector.matchLabels.e: (none) -> f"],
    ),
    "a hot spot more": (
        "hotSpots: []",
        "hotSpots: [{window: 2m, pods: 3, penalty: 1}]",
        ["hotSpots[2m].pods: (none) -> 3", "hotSpots[2m].penalty: (none) -> 1"],
    ),
    "the order of relief, which decides": (
        "",
        "descheduler: {thresholds: {cpu_avg_5m: {evictAbove: 0.8, evictUntil: 0.6}, "
        "memory_avg_5m: {evictAbove: 0.8, evictUntil: 0.6}}}",
        ["descheduler.thresholds (order): [memory_avg_5m, cpu_avg_5m] -> [cpu_avg_5m, memory_avg_5m]"],
    ),
    "a namespace more": (
        "",
        "descheduler: {protect: {namespaces: [kube-system, db]}}",
        ["descheduler.protect.namespaces: [kube-system] -> [db, kube-system]"],
    ),
    "a flow rule": (
        "descheduler: {flow: [{allow: Never}]}",
        "descheduler: {flow: [{allow: {inFlight: 2}}]}",
        ["descheduler.flow[0].allow: Never -> (none)", "descheduler.flow[0].allow.inFlight: (none) -> 2"],
    ),
    "a label with dots": (
        "",
        "descheduler: {protect: {labelSelector: {matchLabels: {app.io/a: b}}}}",
        ['descheduler.protect.labelSelector.matchLabels."app.io/a": (none) -> b'],
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_no_difference_is(name: str) -> None:
    before, after = SAME[name]
    assert lines(before, after) == lines(after, before) == []


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_difference_is(name: str) -> None:
    before, after, expected = DIFFERENT[name]
    assert lines(before, after) == expected
