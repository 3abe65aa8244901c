"""Combinations that cannot work, although each field is fine by itself."""

import pytest

from policy.schema import checks, load_policy, problems
from tests.unit.policy import settings

_DISK = {"name": "disk_avg_5m", "resource": "disk", "statistic": "avg", "window": "5m", "query": "disk_busy"}
_SPOT = {"name": "spot", "nodeSelector": {"matchLabels": {"pool": "spot"}}}
_EXPRESSION = {"key": "app", "operator": "In"}


def _class(name: str, **match: object) -> dict[str, object]:
    return {"name": name, "match": match}


def _pool(name: str, **labels: str) -> dict[str, object]:
    return {"name": name, "nodeSelector": {"matchLabels": labels}}


def _metric(**fields: str) -> dict[str, str]:
    return {"name": "a", "resource": "cpu", "statistic": "avg", "window": "5m", **fields}


def _band(above: float, until: float) -> dict[str, object]:
    return {"evictAbove": above, "evictUntil": until}


@pytest.mark.parametrize(
    ("sections", "finding"),
    [
        ({"sync": {"period": "2m", "staleAfter": "3m"}}, "sync.staleAfter: at least twice sync.period (4m)"),
        ({"filter.thresholds.disk": 0.5}, "filter.thresholds.disk: no metric of this name; in force: cpu_avg_5m"),
        ({"sync.period": "1ms"}, "sync.period: must be at least 1s: eight queries over all nodes"),
        ({"descheduler.interval": "1ms"}, "descheduler.interval: must be at least 1s: a run reads all nodes"),
        (
            {"hotSpots": [{"window": "1ms", "pods": 1, "penalty": 1}]},
            "hotSpots[0].window: must be at least 1s: a pod says in whole seconds when it was placed",
        ),
        (
            {"metrics": [_metric(statistic="max", window="1m")]},
            "metrics[0].window: "
            "a looks back 1m at averages over 5m, which are evaluated every 1m15s: most of the time it would find none",
        ),
        (
            {"metrics": [_metric(name="cpu_avg_5m", window="6h")]},
            "metrics[0].window: cpu_max_1h looks back 1h at averages over 6h, which are evaluated every 1h30m",
        ),
        ({"score.weights.cpu_max": 1}, 'score.weights.cpu_max: did you mean "cpu_max_1h"'),
        ({"score.weights.cpu_avg_5m": 0}, "score.weights: all weights are 0"),
        ({"score.weights": {}}, "score.weights: all weights are 0"),
        ({"score": {"goal": "pack", "target": 0}}, "score.target: must be over 0 and under 1, got 0"),
        ({"score.target": 1}, "score.target: must be over 0 and under 1, got 1"),
        ({"pools": [{**_SPOT, "score": {"target": 1}}]}, "pools[0].score.target: must be over 0 and under 1, got 1"),
        ({"descheduler.thresholds.cpu": _band(0.8, 0.6)}, "descheduler.thresholds.cpu: no metric of this name"),
        (
            {"descheduler.thresholds.cpu_avg_5m": _band(0.6, 0.6)},
            "descheduler.thresholds.cpu_avg_5m.evictUntil: must be lower than evictAbove (0.6)",
        ),
        (
            {"descheduler.thresholds.cpu_avg_5m": {**_band(0.8, 0.6), "overMean": _band(0.2, 0.2)}},
            "descheduler.thresholds.cpu_avg_5m.overMean.evictUntil: must be lower than evictAbove (0.2)",
        ),
        (
            {"descheduler.thresholds.cpu_avg_5m": {**_band(0.8, 0.6), "overMean": _band(0.8, 0.2)}},
            "descheduler.thresholds.cpu_avg_5m.overMean.evictAbove: "
            "never counts: a node is over the fixed evictAbove (0.8) before",
        ),
        (
            {"descheduler.thresholds.cpu_avg_5m": {**_band(0.4, 0.3), "overMean": _band(0.2, 0.1)}},
            "descheduler.thresholds.cpu_avg_5m.overMean.floor: "
            "never counts: a node is over the fixed evictAbove (0.4) before",
        ),
        (
            {"hotSpots": [{"window": "1m", "pods": 2, "penalty": 1}, {"window": "60s", "pods": 5, "penalty": 1}]},
            "hotSpots[1].window: the window 1m is listed twice",
        ),
        ({"metrics": [_metric(statistic="max", window="1h")] * 2}, "metrics[1].name: metric a is listed twice"),
        ({"metrics": [_metric(window="1us")]}, "metrics[0].window: must be at least 1s"),
        (
            {"metrics": [_metric(statistic="maxx", window="1h")]},
            "metrics[0].statistic: "
            'known only with a query of your own; built in are avg, max and p1 to p999; did you mean "max"',
        ),
        (
            {"metrics": [_metric(statistic="forecast", window="4h")]},
            "metrics[0].statistic: "
            "forecast is known only with a query of your own; built in are avg, max and p1 to p999",
        ),
        (
            {"metrics": [_metric(resource="memry")]},
            'metrics[0].resource: memry needs a query: built in are cpu and memory; did you mean "memory"',
        ),
        (
            {"metrics": [_metric(resource="disk")]},
            "metrics[0].resource: disk needs a query: built in are cpu and memory",
        ),
        (
            {"metrics": [{**_DISK, "resource": "cpu", "podQuery": "x"}]},
            "metrics[0].podQuery: is for resources of your own: how much cpu a pod uses is known without it",
        ),
        (
            {"metrics": [{**_DISK, "podQuery": "x"}, {**_DISK, "name": "disk_max_1h", "podQuery": "y"}]},
            "metrics[1].podQuery: disk has another podQuery above: one for all its metrics",
        ),
        (
            {"metrics": [_DISK], "descheduler.thresholds.disk_avg_5m": _band(0.8, 0.6)},
            "descheduler.thresholds.disk_avg_5m: "
            "disk has no podQuery: which pod makes how much of the load would not be known",
        ),
        (
            {"metrics": [_metric(name="cpu_avg_5m", resource="memory", window="1h")]},
            "metrics[0].resource: cpu_avg_5m is a metric of cpu",
        ),
        (
            {"descheduler.cooldown.returned.initial": "7h"},
            "descheduler.cooldown.returned.max: must not be shorter than initial",
        ),
        (
            {"descheduler.cooldown.ineffective.initial": "7h"},
            "descheduler.cooldown.ineffective.max: must not be shorter than initial",
        ),
        ({"descheduler.breaker.backoff": "2h"}, "descheduler.breaker.max: must not be shorter than backoff"),
        ({"descheduler.windows": [{"from": "08:00", "to": "08:00"}]}, "descheduler.windows[0].to: is the same as from"),
        (
            {"descheduler.windows": [{"from": "24:00", "to": "08:00"}]},
            'descheduler.windows[0].from: begins from "00:00" to "23:59"',
        ),
        (
            {"descheduler.windows": [{"days": ["Mon", "Mon"], "from": "08:00", "to": "09:00"}]},
            "descheduler.windows[0].days: a day is listed twice",
        ),
        (
            {"descheduler.protect.labelSelector.matchExpressions": [_EXPRESSION]},
            "descheduler.protect.labelSelector.matchExpressions[0].values: In needs at least one",
        ),
        (
            {"descheduler.protect.namespaceSelector.matchExpressions": [_EXPRESSION]},
            "descheduler.protect.namespaceSelector.matchExpressions[0].values: In needs at least one",
        ),
        ({"pools": [_pool("a", app="x"), _pool("a", app="y")]}, "pools[1].name: pool a is listed twice"),
        (
            {"pools": [_pool("a"), _pool("b", app="x")]},
            "pools[0].nodeSelector: matches every node, so that none is left for pool b: list pool a last",
        ),
        (
            {"pools": [_pool("a", app="x"), _pool("b", app="x")]},
            "pools[1].nodeSelector: is that of pool a, which comes first and has all of its nodes",
        ),
        (
            {"pools": [{**_pool("a", app="x"), "filter": {"thresholds": {"cpu_avg": 0.5}}}]},
            'pools[0].filter.thresholds.cpu_avg: no metric of this name; did you mean "cpu_avg_5m"',
        ),
        (
            {"pools": [{**_pool("a", app="x"), "descheduler": {"thresholds": {"cpu_avg_5m": _band(0.6, 0.7)}}}]},
            "pools[0].descheduler.thresholds.cpu_avg_5m.evictUntil: "
            "must be lower than evictAbove (0.6), or a relieved node is overloaded again",
        ),
        (
            {"pools": [{**_pool("a", app="x"), "descheduler": {"thresholds": {"cpu_max_1h": _band(0.9, 0.7)}}}]},
            "pools[0].descheduler.thresholds.cpu_max_1h: "
            "no line in descheduler.thresholds, and a pool changes lines but adds none; there: memory_avg_5m, cpu",
        ),
        (
            {
                "score.weights.cpu_avg_5m": 1,
                "pools": [{**_pool("a", app="x"), "score": {"weights": {"cpu_avg_5m": 0}}}],
            },
            "pools[0].score.weights: "
            "all weights are 0 in this pool, with those of score.weights: at least one metric must count",
        ),
        (
            {"pools": [{**_pool("a", app="x"), "score": {"weights": {"cpu": 1}}}]},
            "pools[0].score.weights.cpu: no metric of this name",
        ),
        (
            {"pools": [{"name": "a", "nodeSelector": {"matchExpressions": [_EXPRESSION]}}]},
            "pools[0].nodeSelector.matchExpressions[0].values: In needs at least one",
        ),
        (
            {"podClasses": [_class("a", namespaces=["x"]), _class("a", namespaces=["y"])]},
            "podClasses[1].name: class a is listed twice",
        ),
        (
            {"podClasses": [_class("a"), _class("b", namespaces=["x"])]},
            "podClasses[0].match: matches every pod, so that none is left for class b: list class a last",
        ),
        (
            {"podClasses": [_class("a", namespaces=["x-*"]), _class("b", namespaces=["x-1"], priority={"min": 1})]},
            "podClasses[1].match: "
            "no pod is left for class b: each that matches is of a class before it; list b before them, or remove it",
        ),
        (
            {"podClasses": [_class("a", priority={"min": 2, "max": 1})]},
            "podClasses[0].match.priority.min: 2 is over max (1), so that no pod matches",
        ),
        (
            {"podClasses": [_class(f"c{at}", namespaces=[f"n{at}"]) for at in range(9)]},
            "podClasses: 9 classes, expected at most 8: the extender keeps the scores of all nodes for each",
        ),
        (
            {"podClasses": [{**_class("a"), "filter": {"thresholds": {"cpu_avg": 0.5}}}]},
            'podClasses[0].filter.thresholds.cpu_avg: no metric of this name; did you mean "cpu_avg_5m"',
        ),
        (
            {"podClasses": [{**_class("a"), "score": {"weights": {"cpu": 1}}}]},
            "podClasses[0].score.weights.cpu: no metric of this name",
        ),
        (
            {"podClasses": [{**_class("a"), "score": {"target": 1}}]},
            "podClasses[0].score.target: must be over 0 and under 1, got 1",
        ),
        (
            {"score.weights.cpu_avg_5m": 1, "podClasses": [{**_class("a"), "score": {"weights": {"cpu_avg_5m": 0}}}]},
            "podClasses[0].score.weights: "
            "all weights are 0 for this class, with those of score.weights: at least one metric must count",
        ),
        (
            {
                "score.weights": {"cpu_avg_5m": 1, "cpu_max_1h": 1},
                "pools": [{**_pool("p", app="x"), "score": {"weights": {"cpu_max_1h": 0}}}],
                "podClasses": [{**_class("a"), "score": {"weights": {"cpu_avg_5m": 0}}}],
            },
            "podClasses[0].score.weights: "
            "all weights are 0 for this class on nodes of pool p: at least one metric must count",
        ),
        (
            {
                "descheduler.flow": [
                    {
                        "match": {
                            "labelSelector": {
                                "matchExpressions": [{"key": "app", "operator": "Exists", "values": ["a"]}]
                            }
                        },
                        "allow": "Never",
                    }
                ]
            },
            "descheduler.flow[0].match.labelSelector.matchExpressions[0].values: Exists takes none",
        ),
    ],
)
def test_an_impossible_combination_is_found_at_its_path(sections: dict[str, object], finding: str) -> None:
    path, _, message = finding.partition(": ")
    findings = checks.combinations(load_policy.LoadPolicy.of(settings.nested(sections)))
    assert [problems.path_text(finding.path) for finding in findings] == [path]
    assert message in findings[0].message


@pytest.mark.parametrize("zone", ["Mars/Base", "America", "../etc/passwd", "/etc/passwd", "a\x00b", "Europe/Berlin "])
def test_a_time_zone_must_be_one_of_the_iana_database(zone: str) -> None:
    policy = load_policy.LoadPolicy.of(
        {"descheduler": {"windows": [{"from": "08:00", "to": "09:00", "timeZone": zone}]}}
    )
    assert ["is not an IANA time zone" in finding.message for finding in checks.combinations(policy)] == [True]


@pytest.mark.parametrize(
    "sections",
    [
        {},
        {"sync": {"period": "2m", "staleAfter": "4m"}},
        {"hotSpots": []},
        {"filter.thresholds.cpu_avg_5m": 0},
        {"filter.thresholds": {}},
        {"descheduler.thresholds": {}},
        {"metrics": [_metric(name="cpu_avg_5m", window="20s")]},
        {"metrics": [_metric(statistic="p999", window="1h")], "score.weights.a": 1},
        {"metrics": [{"name": "a", "resource": "cpu", "statistic": "peak", "window": "1h", "query": "my:rule"}]},
        {"descheduler.windows": [{"from": "22:00", "to": "06:00", "timeZone": "Europe/Berlin"}]},
        {"descheduler.windows": [{"from": "00:00", "to": "24:00"}]},
        {"pools": [_pool("a", app="x"), _pool("b", app="x", zone="1"), _pool("rest")]},
        {"podClasses": [_class("a", namespaces=["x-*"]), _class("b", namespaces=["x-1", "y"]), _class("rest")]},
        {"podClasses": [_class(f"c{at}", namespaces=[f"n{at}"]) for at in range(8)]},
        {"podClasses": [{**_class("a"), "score": {"weights": {"cpu_avg_5m": 0}}}]},
        {"podClasses": [_class("a", priority={"max": 0}), _class("b", priority={"min": 1, "max": 1})]},
    ],
)
def test_a_combination_that_can_work_is_accepted(sections: dict[str, object]) -> None:
    assert checks.combinations(load_policy.LoadPolicy.of(settings.nested(sections))) == ()


def test_hints_are_worked_out_for_no_more_problems_than_are_shown() -> None:
    """Thousands of misspelt names times thousands of metrics would be minutes of comparing, for nobody."""
    metric = {"resource": "cpu", "statistic": "avg", "window": "5m"}
    policy = load_policy.LoadPolicy.of(
        {
            "metrics": [{"name": f"metric_number_{at}", **metric} for at in range(300)],
            "filter": {"thresholds": {f"metric_numbre_{at}": 0.5 for at in range(300)}},
            "score": {"weights": {"zzz": 1}},
        }
    )
    messages = [finding.message for finding in checks.combinations(policy)]
    hinted = [message for message in messages if "did you mean" in message]
    assert len(messages) == 301
    assert hinted == messages[: problems.MAX_SHOWN]
    assert "in force: cpu_avg_5m" in messages[-1]
    assert messages[-1].endswith(", ...")
    assert len(messages[-1]) < 400
