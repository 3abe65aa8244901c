"""Which node a label speaks of."""

import pytest

from promql.queries import identity

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
        pytest.param("10.0.0.9:9100", "worker-3", id="an address that two nodes claim"),
        pytest.param("10.0.0.77:9100", None, id="an address of no node"),
        pytest.param("", None, id="a series without the label"),
    ],
)
def test_a_label_leads_to_at_most_one_node(label: str, node: str | None) -> None:
    assert DIRECTORY.resolve(label) == node


def node(name: str, *addresses: str, created: float = 0.0, ready: bool = True) -> identity.NodeAddress:
    return identity.NodeAddress(name, addresses, created, ready)


def test_claims_are_listed() -> None:
    assert DIRECTORY.contested == {"10.0.0.9": identity.Claim("worker-3", ("worker-4",), "worker-3")}


ALL = tuple(f"10.0.0.{number}" for number in range(1, 5))
HONEST = [node(f"node-{at}", address, created=100.0 + at) for at, address in enumerate(ALL, 1)]


@pytest.mark.parametrize("created", [0.0, 200.0], ids=["an older node", "a younger node"])
@pytest.mark.parametrize("known", [True, False], ids=["while running", "at the start"])
def test_who_claims_all_addresses_gets_none_and_shows(created: float, known: bool) -> None:
    own = "10.0.0.66"
    before = identity.build([*HONEST, node("liar", own, created=created)]) if known else None
    claiming = identity.build([*HONEST, node("liar", own, *ALL, created=created)], before)
    assert [claiming.resolve(f"{address}:9100") for address in (*ALL, own)] == [one.name for one in HONEST] + ["liar"]
    assert claiming.contested == {one.addresses[0]: identity.Claim(one.name, ("liar",), one.name) for one in HONEST}


def test_an_address_stays_with_the_node_that_had_it_also_against_an_older_one() -> None:
    had = identity.build([node("young", "10.0.0.1", created=2.0), node("old", created=1.0)])
    claimed = [node("young", "10.0.0.1", created=2.0), node("old", "10.0.0.1", created=1.0)]
    assert identity.build(claimed, had).resolve("10.0.0.1") == "young"
    assert identity.build(claimed, identity.build(claimed, had)).resolve("10.0.0.1") == "young"
    assert identity.build(claimed).resolve("10.0.0.1") == "old", "nobody knows who had it: the older one"


def test_an_address_comes_back_to_its_node_when_that_is_ready_again() -> None:
    directory, found = identity.build([node("a", "10.0.0.1")]), []
    for ready in (True, False, True):
        directory = identity.build([node("a", "10.0.0.1", ready=ready), node("b", "10.0.0.1")], directory)
        found.append(directory.resolve("10.0.0.1:9100"))
    assert found == ["a", "b", "a"], "who lies while a node is away keeps nothing"
    assert identity.build([node("a", "10.0.0.1", ready=False)], directory).resolve("10.0.0.1") == "a"
    away = [node(name, "10.0.0.1", ready=False) for name in ("a", "b")]
    assert identity.build(away, directory).resolve("10.0.0.1") == "a"


def test_an_address_that_its_node_gives_up_is_another_ones() -> None:
    had = identity.build([node("a", "10.0.0.1"), node("b")])
    moved = identity.build([node("a", "10.0.0.7"), node("b", "10.0.0.1")], had)
    assert (moved.resolve("10.0.0.1"), moved.contested) == ("b", {})


def test_addresses_without_end_are_not_read() -> None:
    lengthy = identity.build(
        [node("a", *(f"10.{at // 256}.{at % 256}.1" for at in range(10_000))), node("b", "x" * 10_000)]
    )
    assert len(lengthy.names) == identity.MOST_ADDRESSES + len("ab")


def test_many_labels_are_resolved_in_their_order_and_again_as_before() -> None:
    labels = ["10.0.0.2:9100", "nobody:9100", "worker-1", "10.0.0.2:9100"]
    for _ in range(2):
        assert DIRECTORY.resolved(labels) == ["worker-2", None, "worker-1", "worker-2"]


def test_what_is_remembered_of_other_machines_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "MOST_LABELS", 2)
    directory = identity.Directory({"a": "a"})
    for number in range(5):
        assert directory.resolve(f"stranger-{number}") is None
        assert directory.resolve("a:9100") == "a"
    assert directory._exact.cache_info().currsize <= 2  # type: ignore[attr-defined]
