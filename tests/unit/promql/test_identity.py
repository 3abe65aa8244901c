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
