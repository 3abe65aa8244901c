"""The nodes, followed from sync to sync: what is made of all of them is made anew when one of them changes.

`annotator.node_sync` shows it the nodes of every sync and asks for the rest: their names and uids, the directory by
which series are matched, the rules of what is worth a write. Where nodes do change, as they do with every patch, their
names and addresses mostly stay.
"""

from collections.abc import Iterable, Sequence

from annotator.collect.last_good_values import NodeSet
from annotator.diagnostics import matching
from annotator.publish import write_plan
from kube.objects import Address, Node
from policy.schema.load_policy import LoadPolicy
from promql.queries import identity


def directory(nodes: Iterable[Node], before: identity.Directory | None = None) -> identity.Directory:
    """The names and addresses of the cluster's nodes, for matching series."""
    addressed = (
        identity.NodeAddress(node.name, tuple(one.address for one in node.addresses), node.created_at_seconds)
        for node in nodes
    )
    return identity.build(addressed, before)


class NodeIndex:
    """The nodes of the last sync, indexed. Used by one thread; the sequence handed in never changes."""

    def __init__(self, *, crane: bool) -> None:
        self._crane = crane
        self._fleet = NodeSet.of(())
        self._addressed: list[tuple[str, tuple[Address, ...]]] = []
        self._directory = directory(())
        self._ruled: tuple[LoadPolicy, NodeSet, write_plan.Rules] | None = None

    def follow(self, nodes: Sequence[Node]) -> tuple[NodeSet, identity.Directory]:
        """These nodes with their directory."""
        if nodes is not self._fleet.nodes:
            self._fleet = NodeSet.of(nodes)
            addressed = [(node.metadata.name, node.status.addresses) for node in nodes]
            if addressed != self._addressed:
                self._addressed, self._directory = addressed, directory(nodes, self._directory)
        return self._fleet, self._directory

    @property
    def claims(self) -> str:
        """Describe the addresses that nodes claim from others; "" for none."""
        return matching.claims(self._directory)

    def rules(self, policy: LoadPolicy) -> write_plan.Rules:
        """When a change of one of them is worth a write."""
        if self._ruled is None or self._ruled[0] is not policy or self._ruled[1] is not self._fleet:
            self._ruled = policy, self._fleet, write_plan.Rules.of(policy, self._fleet.nodes, crane=self._crane)
        return self._ruled[2]
