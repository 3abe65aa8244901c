"""The nodes from sync to sync: names, directory and rules of all of them are made again when one of them changes.

`annotator.node_sync` shows it the nodes of every sync and asks for the rest: their names and uids, the directory by
which series are matched, the rules of what is worth a write. Where nodes do change, as they do with every patch, their
names and addresses mostly stay.
"""

from collections.abc import Sequence

from annotator.collect.last_good_values import NodeSet
from annotator.diagnostics import matching
from annotator.publish import write_plan
from kube.objects import Node
from policy.schema.load_policy import LoadPolicy
from promql.queries import identity


class NodeIndex:
    """The nodes of the last sync, indexed. Used by one thread; the sequence handed in never changes."""

    def __init__(self, *, crane: bool) -> None:
        self._crane = crane
        self.fleet = NodeSet.of(())
        self._followed = identity.NodeDirectory()
        self._directory = self._followed.follow(())
        self._ruled: tuple[LoadPolicy, NodeSet, write_plan.Rules] | None = None

    def follow(self, nodes: Sequence[Node]) -> tuple[NodeSet, identity.Directory]:
        """These nodes with their directory."""
        if nodes is not self.fleet.nodes:
            self.fleet = NodeSet.of(nodes)
            self._directory = self._followed.follow(nodes)
        return self.fleet, self._directory

    @property
    def claims(self) -> str:
        """Describe the addresses that nodes claim from others; "" for none."""
        return matching.claims(self._directory)

    def rules(self, policy: LoadPolicy) -> write_plan.Rules:
        """When a change of one of them is worth a write."""
        if self._ruled is None or self._ruled[0] is not policy or self._ruled[1] is not self.fleet:
            self._ruled = policy, self.fleet, write_plan.Rules.of(policy, self.fleet.nodes, crane=self._crane)
        return self._ruled[2]
