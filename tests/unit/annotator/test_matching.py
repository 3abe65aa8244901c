"""Why a node has no values: each reason in the words that an operator reads."""

import pytest

from annotator.collect import collector
from annotator.diagnostics import matching
from kube.objects import Node
from policy import metrics
from policy.schema import load_policy
from promql import readings
from promql.queries import identity
from tests import builders

CPU = load_policy.defaults().metrics_in_force[0]
LABEL = identity.SeriesLabels("instance")


def fleet(count: int = 5) -> list[Node]:
    return [builders.node(f"node-{index}", address=f"10.0.0.{index}") for index in range(1, count + 1)]


def answered(
    metric: metrics.Metric = CPU,
    *,
    values: dict[str, float] | None = None,
    refused: dict[str, str] | None = None,
    unmatched: tuple[str, ...] = (),
) -> collector.MetricAnswer:
    return collector.MetricAnswer(metric, readings.NodeValues(values or {}, refused or {}, unmatched))


def complaint(without: list[str], *answers: collector.MetricAnswer, nodes: list[Node] | None = None) -> str:
    nodes = nodes or fleet()
    addresses = (identity.NodeAddress(node.name, tuple(one.address for one in node.addresses)) for node in nodes)
    return matching.sentence(nodes, without, answers, identity.build(addresses), labels=LABEL)


def test_nothing_is_said_when_all_nodes_have_values() -> None:
    assert complaint([], answered()) == ""


def test_a_node_without_series_is_named_with_what_was_looked_for() -> None:
    assert complaint(["node-3"], answered()) == (
        "4 of 5 nodes matched; node-3 has no series: no target with instance 10.0.0.3 or node-3"
    )


def test_series_that_are_no_nodes_are_shown_beside_it() -> None:
    text = complaint(["node-3"], answered(unmatched=("10.9.9.9:9100", "db-1:9100")))
    assert text.endswith("; 2 series match no node by instance: '10.9.9.9:9100', 'db-1:9100'")


def test_only_the_first_nodes_are_spelt_out() -> None:
    text = complaint([f"node-{index}" for index in range(1, 6)], answered())
    assert text.startswith("0 of 5 nodes matched; node-1 has no series")
    assert text.endswith(
        "node-3 has no series: no target with instance 10.0.0.3 or node-3; 2 more nodes without values"
    )


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param(answered(refused={"node-3": "double"}), "has only values that are refused: double", id="refused"),
        pytest.param(
            answered(load_policy.defaults().metrics_in_force[1], values={"node-3": 0.5}),
            "has no current average, so its cpu_max_1h say nothing about the present",
            id="only an old maximum",
        ),
    ],
)
def test_a_node_that_has_series_is_not_said_to_have_none(answers: collector.MetricAnswer, expected: str) -> None:
    assert complaint(["node-3"], answers) == f"4 of 5 nodes matched; node-3 {expected}"


def test_an_address_that_is_another_nodes_is_named() -> None:
    nodes = [*fleet(2), builders.node("node-3", address="10.0.0.2")]
    assert complaint(["node-3"], answered(), nodes=nodes) == (
        "2 of 3 nodes matched; node-3 has no series: no target with instance node-3; it claims 10.0.0.2, of node-2"
    )
