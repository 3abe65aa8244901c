"""A policy read back: the defaults word for word, and what each setting changes."""

import pytest

from policy.explain import summary, wording
from policy.rules import filtering
from policy.schema import load_policy
from tests.unit.policy import settings

DEFAULTS = {
    "sync": """
node load is read from Prometheus every 30 seconds, one query per metric
a reading older than 5 minutes is not used
a move of less than 2 percentage points is not written to the node, unless it crosses a limit
""",
    "metrics": """
cpu_avg_5m is the average CPU use of the last 5 minutes
cpu_max_1h is the highest of the 5-minute averages of CPU use in the last hour
cpu_max_1d is the highest of the 5-minute averages of CPU use in the last day
memory_avg_5m is the average memory use of the last 5 minutes
memory_max_1h is the highest of the 5-minute averages of memory use in the last hour
memory_max_1d is the highest of the 5-minute averages of memory use in the last day
""",
    "filter": """
a node is skipped for new pods while its 5-minute CPU average is over 65 %
a node is skipped for new pods while its 1-hour CPU maximum is over 75 %
a node is skipped for new pods while its 5-minute memory average is over 65 %
a node is skipped for new pods while its 1-hour memory maximum is over 75 %
the expected load of pods that arrived a moment ago counts towards these limits
a node whose reading is missing, stale or invalid is not skipped for that
when every node is skipped, the coolest tenth (at least one) is kept and the decision is degraded
no node is skipped for pods of DaemonSets, pods in kube-system or pods of priority 2000000000 or more
no node is skipped for pods annotated evenload.io/filter: "off", unless it was just relieved of their workload
""",
    "score": """
a node scores 10 (idle) to 0 (full) by the worse of the mean of 5-minute CPU average (60 %), 1-hour CPU maximum (30 %) \
and 1-day CPU maximum (10 %) and the mean of 5-minute memory average (60 %), 1-hour memory maximum (30 %) and 1-day \
memory maximum (10 %)
the expected load of the pod being placed is added first
scores are stretched: the best candidate has 10, and one that is 3 points or more behind it has 0
""",
    "hotSpots": """
a node loses 1 point for every 2 pods placed on it in the last minute
a node loses 1 point for every 5 pods placed on it in the last 5 minutes
a node loses 1 point for every 20 pods placed on it in the last 30 minutes
""",
    "recentPods": """
a pod that the readings cannot show yet is expected to use 70 % of the CPU and 70 % of the memory it requests, \
and counts less as each window fills
where its owner has 3 measured replicas, or 1 that has been Ready for an hour, it is expected to use what these use \
on average, and at least half of what it requests
what it does not request is taken as 250m of CPU and 200Mi of memory
""",
    "extender": "it enforces: kube-scheduler gets its verdicts and scores",
    "descheduler": """
it observes: every 2 minutes it plans and reports, and evicts nothing
a node is overloaded once its 5-minute memory average has been over 80 % for 3 minutes; \
pods leave it until that is at or under 60 %
a node is overloaded once its 5-minute CPU average has been over 80 % for 3 minutes; \
pods leave it until that is at or under 60 %
metrics are relieved in this order: memory_avg_5m, cpu_avg_5m
it acts only while at least 1 schedulable node can take more (every metric under evictUntil)
at most 10 pods in one run, 1 from one node, 3 from one namespace, and 60 in any hour
of one workload at most 1 pod is away at a time, 2 of 4 to 10 replicas, 10 % of more
nothing leaves while 5 evicted pods have no Ready replacement, nor from a namespace with 3 of these; \
of one workload each is waited for
a run evicts nothing by what it began to read more than 30 seconds ago
pods in kube-system stay
pods of priority 1000000000 or more stay
pods younger than 5 minutes stay
pods of workloads with fewer than 2 replicas stay
at least 50 % of a workload's replicas remain ready
pods with a hostPath or an emptyDir on disk stay
pods whose volumes exist on their node only stay
pods without a controller stay
pods of a group stay
pods of Jobs that an eviction would take the last retry of stay
pods annotated cluster-autoscaler.kubernetes.io/safe-to-evict: "false" stay
pods annotated karpenter.sh/do-not-disrupt: "true" stay, with a duration so long after they started
pods annotated scheduling.koordinator.sh/eviction-cost: "2147483647" stay
pods annotated descheduler.alpha.kubernetes.io/prefer-no-eviction come last
after an eviction the workload is left alone for 10 minutes and the node is left alone for 5 minutes
a workload that came back to the node is left alone for 15 minutes, 2 times as long with each further return within \
1 day, at most 6 hours
a node whose load falls by less than half of what 3 evictions should have taken off is left alone for 30 minutes, \
2 times as long after each further one, at most 6 hours
after 3 failed evictions in a row a workload is left alone for 2 minutes (and up to 100 % more, at random), \
2 times as long after each failed trial, at most 1 hour; after 5 trials until `evenload breaker reset`
""",
    "pools": "there are no pools: all of this holds for every node",
    "podClasses": "there are no classes of pods: all of this holds for every pod",
}


def section_sentences(key: str, **sections: object) -> tuple[str, ...]:
    """The sentences of one section of a policy."""
    found = summary.read_back(load_policy.LoadPolicy.of(sections))
    return next(section.sentences for section in found if section.key == key)


@pytest.mark.parametrize("key", DEFAULTS)
def test_the_defaults_read(key: str) -> None:
    assert "\n".join(section_sentences(key)) == DEFAULTS[key].strip()


def test_every_section_of_the_file_is_read_back_in_its_order() -> None:
    keys = [section.key for section in summary.read_back(load_policy.defaults())]
    assert keys == [key for key in load_policy.defaults().as_file() if key not in ("apiVersion", "kind")]


CHANGES: list[tuple[str, object, str]] = [
    (
        "score",
        {"goal": "pack", "target": 0.6},
        "nodes are packed: up to a load of 60 % the fuller node scores higher, above it the emptier one",
    ),
    (
        "pools",
        [{"name": "batch", "nodeSelector": {}, "score": {"goal": "pack"}}],
        "pool batch: nodes are packed: up to a load of 50 % the fuller node scores higher, above it the emptier one",
    ),
    (
        "descheduler.thresholds.cpu_avg_5m",
        {"evictAbove": 0.8, "evictUntil": 0.6, "overMean": {"evictAbove": 0.25, "evictUntil": 0.1}},
        "it is overloaded, too, once that has been over 40 % and 25 points above the mean of the nodes for 3 minutes; "
        "pods leave it, then, until that is at most 10 points above the mean",
    ),
    ("descheduler.gracePeriod", "45s", "an evicted pod has 45 seconds to end, whatever its own grace period"),
    ("sync.minChange", 0, "every change is written to the node"),
    ("filter.thresholds", {}, "no node is skipped for its load: no threshold is set"),
    ("filter.thresholds.cpu_avg_5m", 0, "no node is skipped for its load: no threshold is set"),
    (
        "filter.thresholds.cpu_avg_5m",
        "62.5%",
        "a node is skipped for new pods while its 5-minute CPU average is over 62.5 %",
    ),
    ("filter.onMissing", "reject", "a node whose reading is missing, stale or invalid is skipped as well"),
    ("filter.whenAllRejected", "pending", "when every node is skipped, the pod waits"),
    (
        "filter.exempt.optOut.exceptNamespaces",
        ["b", "a"],
        'no node is skipped for pods annotated evenload.io/filter: "off", except in a and b, '
        "unless it was just relieved of their workload",
    ),
    ("filter.exempt.optOut.enabled", False, 'pods annotated evenload.io/filter: "off" are filtered like all others'),
    (
        "filter.exempt",
        {"daemonSets": False, "namespaces": []},
        "no node is skipped for pods of priority 2000000000 or more",
    ),
    (
        "score",
        {"combine": "worst", "weights": {"cpu_avg_5m": 1, "cpu_max_1h": 3, "memory_avg_5m": 2}},
        "a node scores 10 (idle) to 0 (full) by the worse of the mean of 5-minute CPU average (25 %) and 1-hour CPU "
        "maximum (75 %) and the mean of 5-minute memory average (100 %)",
    ),
    ("score.incomingPod", False, "the pod being placed does not count in it"),
    ("score.spread", "none", "scores are not stretched: candidates of nearly the same load score nearly the same"),
    ("hotSpots", [], "pods placed on one node in a row cost it no points"),
    (
        "hotSpots",
        [{"window": "90s", "pods": 1, "penalty": 0.5}],
        "a node loses 0.5 points for every pod placed on it in the last 90 seconds",
    ),
    (
        "extender.mode",
        "Shadow",
        "it shadows: it decides and records, and tells kube-scheduler that every node passes and scores the same",
    ),
    ("recentPods.enabled", False, "pods that arrived a moment ago count only as far as the readings show them"),
    ("descheduler.mode", "Enforce", "it may evict at any time of the day"),
    ("descheduler", {"mode": "Enforce", "paused": True}, "it is paused: nothing is evicted, whatever the mode"),
    (
        "descheduler",
        {
            "mode": "Enforce",
            "windows": [{"days": ["Sat", "Sun"], "from": "22:00", "to": "06:00", "timeZone": "Europe/Berlin"}],
        },
        "it may evict on Sat and Sun from 22:00 to 06:00 of the next day, Europe/Berlin",
    ),
    ("descheduler.thresholds", {}, "no node counts as overloaded: no threshold is set"),
    ("descheduler.coolNodes", 0, "it acts even while no other node is cool"),
    ("descheduler.limits.perWorkload", 2, "of one workload at most 2 pods may be away at a time"),
    ("descheduler.protect.localStorage", "none", "pods with local data may be evicted and lose it"),
    ("descheduler.limits.perWorkload", "25%", "of one workload at most 25 % may be away at a time, rounded up"),
    ("descheduler.protect.namespaceSelector.matchLabels.tier", "gold", "pods in namespaces that match tier=gold stay"),
    ("descheduler.protect.namespaceSelector", {}, "pods in any namespace stay"),
    ("descheduler.protect.storageClasses", ["slow", "gold"], "pods with volumes of storage class gold or slow stay"),
    ("descheduler.protect.optOut.exceptNamespaces", ["b", "a"], "annotations of pods in a and b keep none of them"),
    ("descheduler.protect.optOut.enabled", False, "no annotation of a pod keeps it from being evicted"),
    ("descheduler.protect.withoutBudget", True, "pods over which there is no PodDisruptionBudget stay"),
    (
        "descheduler.protect.jobsWithoutRetry",
        False,
        "pods of Jobs that an eviction would take the last retry of may be evicted",
    ),
    ("descheduler.protect.groups", False, "pods of a group may be evicted, all of it together"),
    ("descheduler.protect.bare", False, "pods without a controller may be evicted: no controller replaces them"),
    (
        "descheduler.protect.labelSelector",
        {
            "matchLabels": {"tier": "web"},
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["x", "y"]},
                {"key": "canary", "operator": "DoesNotExist"},
            ],
        },
        "only pods that match tier=web,a in (x,y),!canary may be evicted",
    ),
    (
        "descheduler.flow",
        [{"match": {"namespaces": ["a", "b"], "kinds": ["Job"], "priorityBelow": 5}, "allow": "Never"}],
        "pods in a or b of a Job of priority under 5 are not evicted",
    ),
    (
        "descheduler.flow",
        [{"allow": {"perMinute": 3, "burst": 2}}],
        "all pods are evicted at most 3 in a minute, 2 at once",
    ),
]


@pytest.mark.parametrize(("path", "value", "sentence"), CHANGES, ids=[change[2][:60] for change in CHANGES])
def test_a_setting_is_read_back_as(path: str, value: object, sentence: str) -> None:
    key = path.partition(".")[0]
    assert sentence not in section_sentences(key)
    assert sentence in section_sentences(key, **settings.nested({path: value}))


def test_a_pool_is_read_back_by_what_differs_in_it() -> None:
    spot = {
        "name": "spot",
        "nodeSelector": {"matchLabels": {"lifecycle": "spot"}},
        "filter": {"thresholds": {"cpu_avg_5m": 0.85, "cpu_max_1h": 0}},
        "score": {"weights": {"memory_avg_5m": 0, "memory_max_1h": 0, "memory_max_1d": 0}},
        "descheduler": {
            "mode": "Enforce",
            "thresholds": {"cpu_avg_5m": {"evictAbove": 0.95, "evictUntil": 0.7}},
            "limits": {"perRun": 1, "perHour": 20, "perNode": 2},
        },
    }
    rest = {"name": "rest", "nodeSelector": {}}
    assert section_sentences("pools", pools=[spot, rest]) == (
        "a node belongs to the first pool that matches it; what a pool does not name is as above",
        "pool spot has the nodes that match lifecycle=spot",
        "pool spot: a node is skipped for new pods while its 5-minute CPU average is over 85 %",
        "pool spot: no node is skipped for its 1-hour CPU maximum",
        "pool spot: a node scores 10 (idle) to 0 (full) by the worse of the mean of 5-minute CPU average (60 %), "
        "1-hour CPU maximum (30 %) and 1-day CPU maximum (10 %)",
        "pool spot: it enforces: every 2 minutes it plans and evicts",
        "pool spot: a node is overloaded once its 5-minute CPU average has been over 95 % for 3 minutes; "
        "pods leave it until that is at or under 70 %",
        "pool spot: at most 2 pods from one node in one run",
        "pool spot: at most 1 pod from all nodes of the pool in one run",
        "pool spot: at most 20 pods from all nodes of the pool in any hour",
        "pool rest has all nodes",
    )


def test_a_metric_of_ones_own_is_called_by_its_name_and_quoted() -> None:
    own = {"name": "cpu_psi", "resource": "cpu", "statistic": "psi", "window": "1m", "query": "psi_ratio"}
    sections: dict[str, object] = {"metrics": [own], "filter": {"thresholds": {"cpu_psi": 0.1}}}
    assert "cpu_psi is a ratio of CPU by a query of your own: psi_ratio" in section_sentences("metrics", **sections)
    assert section_sentences("filter", **sections)[0] == (
        "a node is skipped for new pods while its cpu_psi (CPU, own query) is over 10 %"
    )


@pytest.mark.parametrize(
    ("statistic", "words"),
    [
        ("avg", "average"),
        ("p95", "95th percentile"),
        ("p1", "1st percentile"),
        ("p12", "12th percentile"),
        ("p999", "99.9th percentile"),
    ],
)
def test_a_statistic_is_said_as(statistic: str, words: str) -> None:
    assert wording.statistic(statistic) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(1, "1 second"), (90, "90 seconds"), (3600, "1 hour"), (5400, "90 minutes"), (0.5, "0.5s"), (172800, "2 days")],
)
def test_a_span_is_said_in_the_largest_unit_that_fits(seconds: float, words: str) -> None:
    assert wording.span(seconds) == words


def test_the_tenth_that_is_kept_is_the_filters_own() -> None:
    assert filtering.KEPT_RATIO == 0.1


def test_a_class_of_pods_is_read_back_by_what_differs_for_it() -> None:
    production = {
        "name": "production",
        "match": {"priority": {"min": 9000, "max": 9999}, "namespaces": ["shop", "shop-*"]},
        "filter": {"thresholds": {"cpu_avg_5m": 0.95, "cpu_max_1h": 0}},
    }
    batch = {"name": "batch", "match": {"priorityClassNames": ["night"], "priority": {"max": -1}}}
    rest = {"name": "rest", "match": {"priority": {"min": 5}}, "score": {"goal": "pack"}}
    *most, scored, packed = section_sentences("podClasses", podClasses=[production, batch, rest])
    assert most == [
        "a pod is of the first class that matches it; what a class does not name is as above, pools included",
        "class production has the pods of priority 9000 to 9999 in shop or shop-*",
        "class production: a node is skipped for new pods while its 5-minute CPU average is over 95 %",
        "class production: no node is skipped for its 1-hour CPU maximum",
        "class batch has the pods of priority -1 or less of PriorityClass night",
        "class rest has the pods of priority 5 or more",
    ]
    assert scored.startswith("class rest: a node scores 10 (idle) to 0 (full) by the worse of ")
    assert packed.startswith("class rest: nodes are packed: up to a load of 50 % ")
    (_, everything) = section_sentences("podClasses", podClasses=[{"name": "all", "match": {}}])
    assert everything == "class all has all pods"


@pytest.mark.parametrize(
    ("value", "line", "decimals", "text"),
    [
        (0.87, 0.8, 2, "0.87 > 0.80"),
        (0.8004, 0.8, 2, "0.8004 > 0.80"),
        (80.4, 80.0, 0, "80.4 > 80"),
        (83.2, 82.5, 0, "83 > 82.5"),
        (0.1 + 0.2, 0.3, 2, "0.30 > 0.30"),  # equal but for the last bit
    ],
)
def test_a_value_over_a_line_never_looks_like_the_line(value: float, line: float, decimals: int, text: str) -> None:
    assert wording.compared(value, " > ", line, decimals) == text
