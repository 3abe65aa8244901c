"""Which node a series speaks of: its label holds a name or an address, with or without a port.

Annotator and descheduler build one directory per cycle from plain names and addresses (this package knows no
Kubernetes types) and `promql.readings` asks it. A key that two nodes share (a reused address, one hostname twice)
belongs to neither: a wrong node's load is worse than a missing one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class NodeAddress(NamedTuple):
    """A node's name and every other word it goes by: hostname, internal address, DNS names."""

    name: str
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Directory:
    """Lower-case name or address -> node name; `ambiguous` are the keys that several nodes claim."""

    names: Mapping[str, str]
    ambiguous: frozenset[str]

    def resolve(self, label: str) -> str | None:
        """The node behind "worker-1", "10.0.0.7", "worker-1:9100", "[fd00::7]:9100"; None if there is none or more."""
        if label in self.names:  # most labels
            return self.names[label]
        key = label.strip().lower()
        return self.names.get(key) or self.names.get(without_port(key))


def build(nodes: Iterable[NodeAddress]) -> Directory:
    """The directory of these nodes. A node's own name wins over another node's address of the same text."""
    every = tuple(nodes)
    own = {node.name.lower(): node.name for node in every}
    by_address: dict[str, set[str]] = {}
    for node in every:
        for address in node.addresses:
            by_address.setdefault(address.strip().lower(), set()).add(node.name)
    by_address = {key: names for key, names in by_address.items() if key and key not in own}
    single = {key: next(iter(names)) for key, names in by_address.items() if len(names) == 1}
    return Directory(single | own, frozenset(key for key, names in by_address.items() if len(names) > 1))


def without_port(label: str) -> str:
    """The host of "host:port" or "[v6]:port"; a bare IPv6 address stays whole."""
    if label.startswith("["):
        return label[1:].partition("]")[0]
    host, colon, port = label.rpartition(":")
    return host if colon and ":" not in host and port.isdigit() else label
