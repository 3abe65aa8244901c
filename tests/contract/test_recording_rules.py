"""The recording rules beside the raw queries on a real Prometheus: both say the same of a node."""

import collections.abc
import contextlib
import functools
import json
import pathlib
import urllib.request

import pytest
import yaml

from lab import cluster
from policy.contract import load_annotation
from promql.http import client
from promql.queries import node_queries, pod_queries, recording_rules
from promql.queries.node_queries import Window
from tests.contract import test_alert_rules
from tests.e2e import services, waiting

pytestmark = pytest.mark.cluster
SELECTOR = 'job="load-exporter"'
AVERAGE_SECONDS, SHORT_SECONDS, LONG_SECONDS = 10.0, 20.0, 300.0
WINDOWS = {
    f"{resource}_{name}": Window(resource, statistic, seconds, AVERAGE_SECONDS)
    for resource in ("cpu", "memory")
    for name, statistic, seconds in (
        ("avg", "avg", AVERAGE_SECONDS),
        ("short", "max", SHORT_SECONDS),
        ("long", "max", LONG_SECONDS),
    )
}
LOADS = {"node-0": 0.2, "node-1": 0.5, "node-2": 0.8}
TOLERANCE_RATIO = 0.05
PATIENCE_SECONDS = 180
ANSWER_SECONDS = 60.0  # of a Prometheus that is busy with something else
Values = dict[str, float]


def containers(target: str, more: str) -> list[dict[str, str]]:
    """The series of a pod's two containers as one target has them: half a core and 100 bytes each."""
    return [
        {"series": f'{name}{{namespace="shop",pod="web-1",container="{container}",{target}{more}}}', "values": values}
        for name, values in (
            ("container_cpu_usage_seconds_total", "0+15x20"),
            ("container_memory_working_set_bytes", "100x20"),
        )
        for container in ("app", "sidecar")
    ]


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([], id="one target"),
        pytest.param(
            ['job="kubelet",instance="10.0.0.1:10250",metrics_path="/metrics/resource"'], id="kubelet's other"
        ),
        pytest.param(['job="cadvisor",instance="10.0.0.1:8080"'], id="another job"),
        pytest.param(
            ['job="kubelet",instance="10.0.0.1:10250",metrics_path="/metrics/cadvisor",prometheus_replica="b"'],
            id="two Prometheus behind a Thanos",
        ),
    ],
)
def test_containers_that_are_scraped_twice_count_once(tmp_path: pathlib.Path, others: list[str]) -> None:
    kubelet = 'job="kubelet",instance="10.0.0.1:10250",metrics_path="/metrics/cadvisor"'
    series = containers(kubelet, ',id="/kubepods/pod1",image="web:1",name="a1",cpu="total"')
    expected = [(pod_queries.cpu_cores(300.0), 1.0), (pod_queries.memory_bytes(300.0), 200.0)]
    asked = [
        {
            "expr": expr,
            "eval_time": "10m",
            "exp_samples": [{"labels": '{namespace="shop",pod="web-1"}', "value": value}],
        }
        for expr, value in expected
    ]
    series += [one for other in others for one in containers(other, "")]
    test = {"tests": [{"interval": "30s", "input_series": series, "promql_expr_test": asked}]}
    (tmp_path / "test.yaml").write_text(json.dumps(test), encoding="utf-8")
    test_alert_rules.accepted("test", "rules", "test.yaml", directory=tmp_path)


@pytest.fixture(scope="module")
def recorded(control_plane: cluster.Cluster) -> collections.abc.Iterator[tuple[cluster.Cluster, client.Client]]:
    """A Prometheus that evaluates the rules of short windows over three nodes of different, steady load."""
    set_loads(control_plane, LOADS)
    configuration = control_plane.directory / "configuration" / "prometheus.yaml"
    rules = configuration.with_name("rules.yaml")
    document = recording_rules.document(WINDOWS, selector=SELECTOR)
    rules.write_text(yaml.safe_dump(document), encoding="utf-8")
    before = configuration.read_text(encoding="utf-8")
    configuration.write_text(yaml.safe_dump(yaml.safe_load(before) | {"rule_files": [str(rules)]}), encoding="utf-8")
    reload(control_plane)
    try:
        with contextlib.closing(client.connect(control_plane.prometheus_url, timeout_seconds=ANSWER_SECONDS)) as door:
            yield control_plane, door
    finally:
        configuration.write_text(before, encoding="utf-8")
        reload(control_plane)
        services.set_load(control_plane, "*", cpu_ratio=None, memory_ratio=None, hidden=None)


def reload(running: cluster.Cluster) -> None:
    """Makes Prometheus read its configuration."""
    asked = urllib.request.Request(f"{running.prometheus_url}/-/reload", method="POST")
    urllib.request.urlopen(asked, timeout=ANSWER_SECONDS).close()


def set_loads(running: cluster.Cluster, ratios: dict[str, float]) -> None:
    """What each node uses, CPU and memory alike."""
    for node, ratio in ratios.items():
        services.set_load(running, node, cpu_ratio=ratio, memory_ratio=ratio, hidden=False)


def values(door: client.Client, expression: str, at_seconds: float) -> Values:
    """The good values by instance."""
    samples = door.query(expression, at_seconds=at_seconds).samples
    return {
        sample.labels["instance"]: sample.value
        for sample in samples
        if load_annotation.invalid_reason(sample.value) is None
    }


def pairs(door: client.Client, names: collections.abc.Iterable[str]) -> dict[str, tuple[Values, Values]]:
    """Raw and recorded values of the windows, all at one instant of the server's."""
    at_seconds = door.query("vector(time())").samples[0].value
    return {
        name: (
            values(door, node_queries.expression(WINDOWS[name], selector=SELECTOR), at_seconds),
            values(door, recording_rules.record(name), at_seconds),
        )
        for name in names
    }


def agree(raw: Values, rule: Values) -> bool:
    """Whether both know the three nodes, and the same of each."""
    return (
        raw.keys() == rule.keys()
        and len(raw) == len(LOADS)
        and all(abs(raw[node] - rule[node]) <= TOLERANCE_RATIO for node in raw)
    )


def test_rules_and_raw_queries_agree_and_the_maxima_remember(recorded: tuple[cluster.Cluster, client.Client]) -> None:
    running, door = recorded
    set_loads(running, LOADS)
    rule_values = functools.partial(pairs, door, WINDOWS)

    def steady() -> bool:
        found = rule_values()
        near = [sorted(found[name][1].values()) for name in ("cpu_avg", "memory_avg")]
        loaded = all(
            len(seen) == 3
            and all(abs(one - due) <= TOLERANCE_RATIO for one, due in zip(seen, LOADS.values(), strict=True))
            for seen in near
        )
        return loaded and all(agree(raw, rule) for raw, rule in found.values())

    waiting.eventually(steady, PATIENCE_SECONDS, "raw and recorded windows to agree under steady load", rule_values)
    set_loads(running, dict.fromkeys(LOADS, 0.1))

    def cooled() -> bool:
        found = pairs(door, ("cpu_avg", "cpu_long"))
        remembered = sorted(found["cpu_long"][1].values())
        if len(remembered) != len(LOADS) or len(found["cpu_avg"][1]) != len(LOADS):
            return False  # a rule lacks a node for an instant
        assert all(seen >= due - TOLERANCE_RATIO for seen, due in zip(remembered, LOADS.values(), strict=True))
        return max(found["cpu_avg"][1].values()) < 0.2 and agree(*found["cpu_avg"]) and agree(*found["cpu_long"])

    waiting.eventually(cooled, PATIENCE_SECONDS, "the averages to cool and the maxima to agree", rule_values)


def test_a_node_whose_series_end_leaves_every_rule(recorded: tuple[cluster.Cluster, client.Client]) -> None:
    running, door = recorded
    node = running.api.items("api/v1/nodes")[0]
    name, gone = node["metadata"]["name"], node["status"]["addresses"][0]["address"]
    rule_values = functools.partial(pairs, door, WINDOWS)
    waiting.eventually(
        lambda: all(len(rule) == 3 for _, rule in rule_values().values()),
        PATIENCE_SECONDS,
        "all rules to know all nodes",
        rule_values,
    )
    services.set_load(running, name, hidden=True)
    waiting.eventually(
        lambda: all(len(rule) == 2 and not any(gone in label for label in rule) for _, rule in rule_values().values()),
        PATIENCE_SECONDS,
        "the node to leave every rule",
        rule_values,
    )
    set_loads(running, {name: 0.1})
