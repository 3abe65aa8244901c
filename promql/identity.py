"""Which node a series speaks of: its label holds a name or an address, with or without a port.

Annotator and descheduler ask for the directory of their nodes once per cycle, by plain names and addresses (this
package knows no Kubernetes types), and `promql.readings` asks it of every series. Nodes come and go seldom, and the
same series are answered at every cycle: the last directory stands while its nodes do, and remembers what it was asked.
A key that two nodes share (a reused address, one hostname twice) belongs to neither: a wrong node's load is worse than
a missing one.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

# By which the replicas of one Prometheus, ruler or receiver tell their series apart: prometheus-operator's and Thanos'
# own names, and the one that Mimir's HA tracker takes.
REPLICA_LABELS: Final = (
    "__replica__",
    "prometheus_replica",
    "receive_replica",
    "replica",
    "rule_replica",
    "thanos_ruler_replica",
)
MOST_LABELS: Final = 65536  # remembered by a directory; ten times the series of 5,000 nodes


class SeriesLabels(NamedTuple):
    """How series name nodes, and which are of this cluster: the label that holds a node's name or address, and further
    matchers for node-exporter's series and for those of containers.
    """

    node_label: str = "instance"
    node_selector: str = ""
    pod_selector: str = ""


class NodeAddress(NamedTuple):
    """A node's name and every other word it goes by: hostname, internal address, DNS names."""

    name: str
    addresses: tuple[str, ...] = ()


class _Labels(dict[str, str | None]):
    """Labels as series carry them, each with its node; one not asked for yet is taken apart and remembered."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self._names = names

    def __missing__(self, label: str) -> str | None:
        key = label.strip().lower()
        node = self._names.get(key) or self._names.get(without_port(key))
        if len(self) >= MOST_LABELS:  # other machines' series, which change for ever
            self.clear()
        self[label] = node
        return node


@dataclass(frozen=True, slots=True)
class Directory:
    """Lower-case name or address -> node name; `ambiguous` are the keys that several nodes claim."""

    names: Mapping[str, str]
    ambiguous: frozenset[str]
    _labels: _Labels = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Begin with nothing remembered."""
        object.__setattr__(self, "_labels", _Labels(self.names))

    def resolve(self, label: str) -> str | None:
        """The node behind "worker-1", "10.0.0.7", "worker-1:9100", "[fd00::7]:9100"; None if there is none or more."""
        return self._labels[label]

    def resolved(self, labels: Iterable[str]) -> Sequence[str | None]:
        """`resolve` of many, in their order."""
        found = self._labels
        return [found[label] for label in labels]


def build(nodes: Iterable[NodeAddress]) -> Directory:
    """The directory of these nodes. A node's own name wins over another node's address of the same text."""
    return _built(tuple(nodes))


@functools.lru_cache(maxsize=2)
def _built(every: tuple[NodeAddress, ...]) -> Directory:
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
