"""Settings that work and are hardly meant: each is named with its reason, and nothing is refused for it."""

import pytest

from policy.loading import loader
from policy.schema import checks, lint, load_policy, problems
from tests.unit.policy import settings

HEAD = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"


FILTERED = {"filter": {"thresholds": {"cpu_avg_5m": 0.9}}}
BANDS = {"thresholds": {"cpu_avg_5m": {"evictAbove": 0.8, "evictUntil": 0.6}}}
EVICTING: dict[str, object] = {"mode": "Enforce", **BANDS}


def pool(**descheduler: object) -> dict[str, object]:
    return {"name": "spot", "nodeSelector": {"matchLabels": {"lifecycle": "spot"}}, "descheduler": descheduler}


def average(window: str, name: str = "cpu_avg_5m") -> dict[str, str]:
    return {"name": name, "resource": "cpu", "statistic": "avg", "window": window}


@pytest.mark.parametrize(
    ("sections", "finding"),
    [
        ({"sync.period": "1s"}, "sync.period: is short: most clusters scrape every 15s to 1m"),
        (
            {"sync": {"period": "10m", "staleAfter": "1h"}},
            "sync.period: is longer than the window of cpu_avg_5m (5m): load between two syncs is in no reading",
        ),
        ({"metrics": [average("30s")]}, "metrics[0].window: takes 1m at a scrape every 15s"),
        (
            {"metrics": [{"name": "a", "resource": "cpu", "statistic": "p95", "window": "2m"}]},
            "metrics[0].window: is shorter than the averages it is over (5m)",
        ),
        ({"descheduler.interval": "1s"}, "descheduler.interval: is short: most clusters scrape"),
        (
            {"descheduler.breaker.backoff": "1ms"},
            "descheduler.breaker.backoff: is shorter than descheduler.interval (2m): an open breaker holds back no run",
        ),
        (
            {"descheduler.cooldown.returned.window": "10m"},
            "descheduler.cooldown.returned.window: is shorter than initial",
        ),
        (
            {"score.weights": {"cpu_avg_5m": 0.1, "memory_avg_5m": 0.8}},
            "score.weights: cpu 0.1 and memory 0.8 in all say nothing: combine is worst, its default",
        ),
        (
            {"score": {"goal": "pack", "target": 0.7}},
            "score.target: is not reached: the filter closes nodes at cpu_avg_5m 0.65, before they are full",
        ),
        (
            {"pools": [{**pool(), "score": {"goal": "pack", "target": 0.65}}]},
            "pools[0].score.target: is not reached: the filter closes nodes at cpu_avg_5m 0.65, before they are full",
        ),
        (
            {"podClasses": [{"name": "a", "match": {}, "score": {"goal": "pack", "target": 0.65}}]},
            "podClasses[0].score.target: "
            "is not reached: the filter closes nodes at cpu_avg_5m 0.65, before they are full",
        ),
        (
            {**FILTERED, "descheduler": {**EVICTING, "mode": "DryRun"}, "pools": [pool(mode="Enforce")]},
            "filter.thresholds.cpu_avg_5m: new pods come to nodes from which the descheduler evicts some",
        ),
        (
            {**FILTERED, "descheduler.mode": "Observe", "pools": [pool(mode="Enforce", **BANDS)]},
            "pools[0].filter.thresholds.cpu_avg_5m: is not under evictAbove of cpu_avg_5m (0.8)",
        ),
        (
            {"descheduler": EVICTING, "podClasses": [{"name": "a", "match": {"namespaces": ["x"]}, **FILTERED}]},
            "podClasses[0].filter.thresholds.cpu_avg_5m: is not under evictAbove of cpu_avg_5m (0.8)",
        ),
        (
            {
                "filter.thresholds": {},
                "score": {"goal": "pack", "target": 0.8, "weights": {"cpu_avg_5m": 1}},
                "descheduler": EVICTING,
            },
            "score.target: is not under evictAbove of cpu_avg_5m (0.8)",
        ),
        (
            {"podClasses": [{"name": "a", "match": {"namespaces": ["kube-system"]}, **FILTERED}]},
            "podClasses[0].filter.thresholds: "
            "never hold: pods in kube-system are never filtered (filter.exempt.namespaces)",
        ),
        (
            {"podClasses": [{"name": "a", "match": {"priority": {"min": 2_000_000_000}}, **FILTERED}]},
            "podClasses[0].filter.thresholds: "
            "never hold: pods of priority 2000000000 or more are never filtered (filter.exempt.priorityAtLeast)",
        ),
        (
            {"extender.mode": "Shadow", "descheduler.mode": "Enforce"},
            "extender.mode: evicted pods may go back to the node that they left",
        ),
        (
            {"extender.mode": "Shadow", "pools": [pool(mode="Enforce")]},
            "extender.mode: evicted pods may go back to the node that they left",
        ),
        (
            {"pools": [pool(limits={"perRun": 11, "perHour": 60})]},
            "pools[0].descheduler.limits.perRun: "
            "never holds: descheduler.limits.perRun (10) counts the evictions from all nodes",
        ),
        (
            {"pools": [pool(limits={"perRun": 10, "perHour": 61, "perNode": 99})]},
            "pools[0].descheduler.limits.perHour: "
            "never holds: descheduler.limits.perHour (60) counts the evictions from all nodes",
        ),
    ],
)
def test_a_doubtful_setting_is_named_with_its_reason_and_not_refused(sections: dict[str, object], finding: str) -> None:
    policy = load_policy.LoadPolicy.of(settings.nested(sections))
    path, _, reason = finding.partition(": ")
    (doubt,) = lint.doubts(policy)
    assert problems.path_text(doubt.path) == path
    assert reason in doubt.message
    assert checks.combinations(policy) == ()


@pytest.mark.parametrize(
    "sections",
    [
        pytest.param({}, id="the defaults"),
        pytest.param({"extender.mode": "Shadow", "descheduler.mode": "DryRun"}, id="nothing acts"),
        pytest.param({"score.weights.cpu_avg_5m": 1}, id="weights of one resource alone"),
        pytest.param({"score.weights": {"cpu_avg_5m": 2, "memory_max_1h": 2}}, id="resources of equal weight"),
        pytest.param(
            {"score": {"combine": "worst", "weights": {"cpu_avg_5m": 0.1, "memory_avg_5m": 0.8}}}, id="worst by choice"
        ),
        pytest.param({**FILTERED, "descheduler.mode": "Observe"}, id="nothing is evicted"),
        pytest.param({"descheduler": EVICTING}, id="the filter closes nodes long before"),
        pytest.param({"filter.thresholds": {}, "descheduler": EVICTING}, id="no filter"),
        pytest.param({"metrics": [average("1m")]}, id="an average over four usual scrapes"),
        pytest.param({"metrics": [average("1s") | {"query": "up"}]}, id="a query of one's own"),
    ],
)
def test_what_may_be_meant_is_not_doubted(sections: dict[str, object]) -> None:
    assert lint.doubts(load_policy.LoadPolicy.of(settings.nested(sections))) == ()


def test_a_doubt_has_its_place_in_the_text() -> None:
    text = HEAD + "descheduler:\n  interval: 1s\nsync:\n  period: 2s\n"
    policy, doubts = loader.read(text, "p.yaml")
    assert [warning.text("p.yaml").split(": is")[0] for warning in doubts] == [
        "p.yaml:4:13: descheduler.interval",
        "p.yaml:6:11: sync.period",
    ]
    facts, warnings = loader.describe(policy)
    assert [warning.partition(":")[0] for warning in warnings] == ["sync.period", "descheduler.interval"]
    assert facts["score.combine"] == "worst"


def test_a_file_of_many_doubts_does_not_flood_a_log() -> None:
    many = [average("2s", f"m{at}") for at in range(1000)]
    assert len(lint.doubts(load_policy.LoadPolicy.of({"metrics": many}))) == problems.MAX_SHOWN
