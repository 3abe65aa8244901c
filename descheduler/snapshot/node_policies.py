"""The policy as it is on each node of a run: by the node's pool, or as a whole where no pool has the node.

`planning.overload`, `planning.planner`, `planning.limits` and `placement.destinations` ask for the lines and limits of
a node by its name. Without pools every answer is the policy itself, and no node is looked at.
"""

import collections.abc

from kube.objects import Node
from policy.schema import node_pools
from policy.schema.descheduler_section import Band
from policy.schema.load_policy import LoadPolicy


class NodePolicies:
    """A policy over some nodes; a node that is not among them has the policy as a whole."""

    def __init__(self, policy: LoadPolicy, nodes: collections.abc.Iterable[Node] = ()) -> None:
        self.whole = policy
        self._places = (
            {node.name: node_pools.place(policy.pools, node.labels) for node in nodes} if policy.pools else {}
        )

    def place(self, node: str) -> int:
        """Returns the place of the node's pool in the policy, `node_pools.NO_POOL` without one."""
        return self._places.get(node, node_pools.NO_POOL)

    def on(self, node: str) -> LoadPolicy:
        """The policy on this node."""
        place = self.place(node)
        return self.whole if place == node_pools.NO_POOL else self.whole.of_pools[place]

    def pool(self, node: str) -> node_pools.Pool | None:
        """The node's pool, None without one."""
        place = self.place(node)
        return None if place == node_pools.NO_POOL else self.whole.pools[place]

    def pool_name(self, node: str) -> str:
        """The name of the node's pool, "" without one."""
        pool = self.pool(node)
        return "" if pool is None else pool.name

    def may_be_in(self, node: str, pool: node_pools.Pool) -> bool:
        """Whether the node is in the pool, or is deleted, so that its pool is unknown."""
        return node not in self._places or self.pool(node) is pool

    def bands(self, node: str) -> collections.abc.Mapping[str, Band]:
        """The lines of this node by metric, in the policy's order: the same metrics on all nodes."""
        return self.on(node).descheduler.thresholds
