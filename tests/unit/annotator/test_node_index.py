"""What is made of all nodes is made anew when one of them changes, and not before."""

from annotator import node_index
from policy.contract import node_thresholds
from policy.schema import load_policy
from tests import builders

POLICY = load_policy.defaults()


def test_nodes_that_are_the_same_have_the_same_directory_and_rules() -> None:
    made, nodes = node_index.NodeIndex(crane=False), (builders.node("a"), builders.node("b"))
    fleet, directory = made.follow(nodes)
    rules = made.rules(POLICY)
    assert made.follow(nodes) == (fleet, directory)
    assert made.rules(POLICY) is rules
    assert made.rules(load_policy.LoadPolicy.of({"sync": {"minChange": 0.07}})).min_change_ratio == 0.07


def test_a_changed_node_is_seen() -> None:
    made = node_index.NodeIndex(crane=False)
    made.follow((builders.node("a"),))
    shared = made.rules(POLICY).hot_above
    own = builders.node("a", annotations={node_thresholds.KEY: '{"cpu_avg_5m": 0.3}'})
    made.follow((own,))
    assert shared.shape == (1, 6)
    assert made.rules(POLICY).hot_above[0, 0, 0] == 0.3
    fleet, directory = made.follow((own, builders.node("b")))
    assert fleet.names == ("a", "b")
    assert directory.resolve("b") == "b"
