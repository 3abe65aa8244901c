"""Which node a series speaks of: its label holds a name or an address, with or without a port or a port's name.

Annotator and descheduler ask for the directory of their nodes once per cycle, by plain names and addresses (this
package knows no Kubernetes types), and `promql.readings` asks it of every series. Nodes come and go seldom, and the
same series are answered at every cycle: the caller keeps a directory while its nodes stay, and it remembers what it was
asked.

A kubelet writes its node's addresses, and may write those of others. An address stays with the node that had it in the
directory before. At the first one it goes to the claimant in dispute with the fewest other nodes, of these to the
oldest: a node that claims all addresses is in dispute with all. What is claimed in vain is in `contested`. While that
node is not Ready and another claimant is, the other one has the address: a dead Node object may keep the address that
its successor got.

A host's short name leads to the node with its full name, and the other way round, where no second node has that short
name, and no series of the same answer names the node in full.
"""

import functools
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

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
INSTANCE: Final = "instance"
# Labels of the pod that exports, which another pod on the same node replaces at an update or a restart: of its object
# (prometheus-operator, and configurations that take labels of pods over) and of its template.
EXPORTER_LABELS: Final = (
    "app_kubernetes_io_version",
    "container",
    "controller_revision_hash",
    "endpoint",
    "helm_sh_chart",
    "kubernetes_pod_name",
    "pod",
    "pod_name",
    "pod_template_generation",
    "pod_template_hash",
    "uid",
)
MOST_ADDRESSES: Final = 64  # taken of a node; a kubelet may write a megabyte of them
LONGEST_ADDRESS: Final = 253  # a DNS name
MOST_LABELS: Final = 65536  # remembered by a directory; ten times the series of 5,000 nodes


class SeriesLabels(NamedTuple):
    """How series name nodes, and which are of this cluster: the label that holds a node's name or address, and further
    matchers for node-exporter's series and for those of containers.
    """

    node_label: str = INSTANCE
    node_selector: str = ""
    pod_selector: str = ""


class NodeAddress(NamedTuple):
    """A node's name and every other word it goes by: hostname, internal address, DNS names; when it was created, and
    whether it is Ready.
    """

    name: str
    addresses: tuple[str, ...] = ()
    created_at_seconds: float = 0.0
    ready: bool = True


class AddressFields(Protocol):
    """An address of a node."""

    @property
    def address(self) -> str: ...


class NamedNode(Protocol):
    """A node as far as series name it; `kube.objects.Node` is one."""

    @property
    def name(self) -> str: ...
    @property
    def addresses(self) -> Sequence[AddressFields]: ...
    @property
    def created_at_seconds(self) -> float: ...
    @property
    def ready(self) -> bool: ...


class Claim(NamedTuple):
    """An address that several nodes claim: the one that has it, the others, and the one that has it while Ready."""

    holder: str
    others: tuple[str, ...]
    owner: str


@dataclass(frozen=True, slots=True)
class Directory:
    """Lower-case name or address -> node name; `contested` are the addresses that several nodes claim, `hosts` the
    nodes by the first part of their names, where only one has it; `nodes` are those that it was made of.
    """

    names: Mapping[str, str]
    contested: Mapping[str, Claim] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)
    nodes: Sequence[NodeAddress] = field(default=(), repr=False)
    _exact: Callable[[str], str | None] = field(init=False, repr=False, compare=False)
    _by_host: Callable[[str], str | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Begin with nothing remembered."""
        for name, find, nodes in (("_exact", _named, self.names), ("_by_host", _on_host, self.hosts)):
            remembered = functools.lru_cache(maxsize=MOST_LABELS)(functools.partial(find, nodes))
            object.__setattr__(self, name, remembered)

    def resolve(self, label: str) -> str | None:
        """The node behind "worker-1", "10.0.0.7", "worker-1:9100", "[fd00::7]:metrics", "worker-1.example.org"; None if
        there is none or more.
        """
        return self._exact(label) or self._by_host(label)

    def resolved(self, labels: Sequence[str]) -> Sequence[str | None]:
        """`resolve` of the labels of an answer, in their order. A node that one of them names has no other by the first
        part of a host's name: that is another machine's.
        """
        nodes = list(map(self._exact, labels))
        if None not in nodes:
            return nodes
        hosts, named = map(self._by_host, labels), frozenset(nodes)
        return [host if node is None and host not in named else node for host, node in zip(hosts, nodes, strict=True)]

    def owner(self, address: str) -> str | None:
        """The node that has an address while it is Ready."""
        return self.contested[address].owner if address in self.contested else self.names.get(address)


def _named(names: Mapping[str, str], label: str) -> str | None:
    """The node with this name or address."""
    text = label.strip().lower()
    return names.get(_canonical(text)) or names.get(_canonical(without_port(text)))


def _on_host(hosts: Mapping[str, str], label: str) -> str | None:
    """The node by the first part of a host's name. Label or node has to be short, or they are of two domains."""
    host = _canonical(without_port(label.strip().lower()))
    first = _first_part(host)
    node = hosts.get(first)
    return node if node is not None and (host == first or "." not in node) else None


def build(nodes: Iterable[NodeAddress], before: Directory | None = None) -> Directory:
    """The directory of these nodes, after the one `before`. A node's own name wins over another node's address of the
    same text.
    """
    every = list(nodes)
    own = {node.name.lower(): node.name for node in every}
    claims: dict[str, dict[str, None]] = {}  # of each address the nodes' names in their order
    for node in every:
        for address in node.addresses[:MOST_ADDRESSES]:
            key = _canonical(address.strip().lower()) if len(address) <= LONGEST_ADDRESS else ""
            if key and key not in own:
                claims.setdefault(key, {})[node.name] = None
    claimants = {key: tuple(names) for key, names in claims.items()}
    contested = _contested(claimants, {node.name: node for node in every}, before)
    single = {key: contested[key].holder if key in contested else names[0] for key, names in claimants.items()}
    return Directory(single | own, contested, _hosts(own), every)


def _contested(
    claimants: Mapping[str, Sequence[str]], nodes: Mapping[str, NodeAddress], before: Directory | None
) -> dict[str, Claim]:
    """The claims of addresses that have more than one claimant."""
    disputes = {key: names for key, names in claimants.items() if len(names) > 1}
    rank = _ranks(disputes, nodes)
    contested: dict[str, Claim] = {}
    for key, names in disputes.items():
        former = before.owner(key) if before is not None else None
        owner = former if former is not None and former in names else min(names, key=rank.__getitem__)
        ready = [name for name in names if nodes[name].ready]
        holder = owner if owner in ready or not ready else min(ready, key=rank.__getitem__)
        contested[key] = Claim(holder, tuple(sorted(name for name in names if name != holder)), owner)
    return contested


def _hosts(own: Mapping[str, str]) -> dict[str, str]:
    """Nodes by the first part of their names, of those that share it with no other."""
    hosts: dict[str, list[str]] = {}
    for key, name in own.items():
        hosts.setdefault(_first_part(key), []).append(name)
    return {first: names[0] for first, names in hosts.items() if len(names) == 1}


def _first_part(host: str) -> str:
    """The short name of a host; an address is whole."""
    first = host.partition(".")[0]
    return host if first.isdigit() or ":" in host else first


def _canonical(text: str) -> str:
    """A lower-case name without the dot of the root, or an address in its shortest form."""
    if ":" not in text:
        return text.rstrip(".")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    return str(getattr(address, "ipv4_mapped", None) or address)


def _ranks(
    disputes: Mapping[str, Sequence[str]], nodes: Mapping[str, NodeAddress]
) -> Mapping[str, tuple[int, float, str]]:
    """Nodes in the order in which they get addresses without a former holder."""
    others: dict[str, set[str]] = {}
    for names in disputes.values():
        for name in names:
            others.setdefault(name, set()).update(names)
    return {name: (len(theirs), nodes[name].created_at_seconds, name) for name, theirs in others.items()}


_PORT: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,13}[a-z0-9])?")  # a number, or the name that a pod gives a port


def without_port(label: str) -> str:
    """The host of "host:port", "host:name" or "[v6]:port"; a bare IPv6 address stays whole."""
    if label.startswith("["):
        return label[1:].partition("]")[0]
    host, colon, port = label.rpartition(":")
    return host if colon and ":" not in host and _PORT.fullmatch(port) else label


def follow(nodes: Iterable[NamedNode], before: Directory | None = None) -> Directory:
    """The directory of these nodes after the one `before`: the same object while nodes keep their names and addresses,
    and stay Ready or not.
    """
    every = [
        NodeAddress(node.name, tuple(one.address for one in node.addresses), node.created_at_seconds, node.ready)
        for node in nodes
    ]
    return before if before is not None and before.nodes == every else build(every, before)
