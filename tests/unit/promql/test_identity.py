"""Which node a label speaks of."""

import pytest

from promql import identity

DIRECTORY = identity.build(
    [
        identity.NodeAddress("worker-1", ("10.0.0.1", "Worker-1.example.internal")),
        identity.NodeAddress("worker-2", ("10.0.0.2", "fd00::2")),
        identity.NodeAddress("worker-3", ("10.0.0.9",)),
        identity.NodeAddress("worker-4", ("10.0.0.9", "worker-1")),
    ]
)


@pytest.mark.parametrize(
    ("label", "node"),
    [
        pytest.param("worker-1", "worker-1", id="the name itself"),
        pytest.param("worker-1:9100", "worker-1", id="name and port"),
        pytest.param("10.0.0.2:9100", "worker-2", id="address and port"),
        pytest.param("10.0.0.2", "worker-2", id="address alone"),
        pytest.param("[fd00::2]:9100", "worker-2", id="a version 6 address with its port"),
        pytest.param("fd00::2", "worker-2", id="a version 6 address alone"),
        pytest.param("WORKER-1.example.internal:9100", "worker-1", id="a DNS name in capitals"),
        pytest.param("10.0.0.9:9100", None, id="an address of two nodes is neither's"),
        pytest.param("10.0.0.77:9100", None, id="an address of no node"),
        pytest.param("", None, id="a series without the label"),
    ],
)
def test_a_label_leads_to_at_most_one_node(label: str, node: str | None) -> None:
    assert DIRECTORY.resolve(label) == node


def test_shared_addresses_are_listed() -> None:
    assert DIRECTORY.ambiguous == {"10.0.0.9"}


def test_many_labels_are_resolved_in_their_order_and_again_as_before() -> None:
    labels = ["10.0.0.2:9100", "nobody:9100", "worker-1", "10.0.0.2:9100"]
    for _ in range(2):
        assert DIRECTORY.resolved(labels) == ["worker-2", None, "worker-1", "worker-2"]


def test_the_directory_stands_as_long_as_its_nodes_do() -> None:
    nodes = [identity.NodeAddress("a", ("10.0.0.1",)), identity.NodeAddress("b")]
    before = identity.build(nodes)
    assert before.resolve("10.0.0.1:9100") == "a"
    assert identity.build(iter(nodes)) is before
    moved = identity.build([identity.NodeAddress("a"), identity.NodeAddress("b", ("10.0.0.1",))])
    assert moved.resolve("10.0.0.1:9100") == "b"


def test_what_is_remembered_of_other_machines_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "MOST_LABELS", 2)
    directory = identity.Directory({"a": "a"}, frozenset())
    for number in range(5):
        assert directory.resolve(f"stranger-{number}") is None
        assert directory.resolve("a:9100") == "a"
    assert len(directory._labels) <= 2
