import numpy as np
import pytest

from simulator.scheduling import node_order

ZONE = "topology.kubernetes.io/zone"


def test_zones_take_turns_in_the_order_in_which_they_came() -> None:
    tree = node_order.Tree()
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a"), ("c1", "c"), ("b2", "b")):
        tree.add(name, {ZONE: zone})
    assert tree.names() == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_a_zone_that_lost_its_last_node_comes_back_as_the_last() -> None:
    tree = node_order.Tree()
    for name, zone in (("a1", "a"), ("b1", "b")):
        tree.add(name, {ZONE: zone})
    tree.remove("a1", {ZONE: "a"})
    tree.add("a1", {ZONE: "a"})
    assert tree.names() == ["b1", "a1"]


def test_nodes_without_a_zone_are_one_zone() -> None:
    assert node_order.zone({}) == ("", "")
    assert node_order.zone({"failure-domain.beta.kubernetes.io/zone": "z"}) == ("", "z")


@pytest.mark.parametrize(
    ("nodes", "enough"), [(1, 1), (99, 99), (100, 100), (200, 100), (1000, 420), (5000, 500), (6000, 300)]
)
def test_how_many_nodes_are_enough(nodes: int, enough: int) -> None:
    assert node_order.enough(nodes) == enough


def test_a_sample_begins_where_the_last_search_ended_and_goes_round() -> None:
    rows = np.arange(300)
    sample = node_order.sample(None, rows, 250)
    assert sample.rows.tolist() == [*range(250, 300), *range(node_order.enough(300) - 50)]
    assert sample.looked_at == node_order.enough(300)


def test_a_search_goes_on_past_nodes_that_do_not_fit() -> None:
    fits = np.arange(300) % 3 == 0
    sample = node_order.sample(fits, np.arange(300), 0)
    assert sample.rows.tolist() == list(range(0, 300, 3))[: node_order.enough(300)]
    assert sample.looked_at == 300


def test_nothing_is_found_where_nothing_fits_or_is() -> None:
    assert len(node_order.sample(np.zeros(5, np.bool_), np.arange(5), 3).rows) == 0
    assert len(node_order.sample(None, np.arange(0), 3).rows) == 0
