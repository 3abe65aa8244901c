"""A policy with what is compiled from it once, for the columns of its metrics.

`state.cluster_view` compiles each policy that comes into force and hands it on with the candidates of a request, so
that an answer is made by one policy from its beginning to its end.
"""

from typing import NamedTuple

import numpy as np

from extender.state import node_cache
from policy import metrics
from policy.rules import expected_load, filtering, hotspots, scoring
from policy.schema import load_policy


class CompiledPolicy(NamedTuple):
    """A policy with what is compiled from it once: rules and weights by column.

    `pool_limits` [pools + 1, metrics] are the filter thresholds of each pool, NaN where it has the policy's, and at the
    end those of a node without a pool, so that `node_pools.NO_POOL` finds them.
    """

    policy: load_policy.LoadPolicy
    content_hash: str
    metric_names: tuple[str, ...]
    rules: filtering.Rules
    rules_alone: filtering.Rules  # the same as if no other node was asked about: `coolest` keeps no node
    pool_limits: node_cache.Floats
    weighing: scoring.Weighing
    pricing: hotspots.Pricing
    resources: node_cache.Rows  # by metric the place of its resource in a `Load`; 0 for one that is not in it
    estimated: tuple[bool, ...]  # by metric whether its resource is in a `Load`
    shadow: bool  # every node passes and scores the same in answers, whatever is decided

    def incoming(self, load: expected_load.Load, per_allocatable: node_cache.Floats) -> list[node_cache.Floats]:
        """Returns the rise of each metric by a load, by metric [nodes]; `per_allocatable` is [nodes, cpu|memory] as in
        `node_cache.NodeLoads`.
        """
        ratios = [per_allocatable[:, resource] * amount for resource, amount in enumerate(load)]
        if all(self.estimated):
            return [ratios[resource] for resource in self.resources]
        nothing = np.zeros(len(per_allocatable))
        places = zip(self.resources, self.estimated, strict=True)
        return [ratios[resource] if estimated else nothing for resource, estimated in places]


def compiled(policy: load_policy.LoadPolicy, content_hash: str) -> CompiledPolicy:
    """Compile a policy for the columns of its metrics."""
    in_force = policy.metrics_in_force
    names = metrics.names(in_force)
    rules = filtering.rules(policy.filter, in_force)
    places = [metrics.place(metric.resource) for metric in in_force]
    limits = [[pool.filter.thresholds.get(name, np.nan) for name in names] for pool in policy.pools]
    return CompiledPolicy(
        policy,
        content_hash,
        names,
        rules,
        rules._replace(keep_coolest=False),
        np.array([*limits, [np.nan] * len(names)]),
        _weighing(policy),
        hotspots.pricing(policy.hot_spots),
        np.array([place or 0 for place in places], dtype=np.intp),
        tuple(place is not None for place in places),
        policy.extender.mode == "Shadow",
    )


def _weighing(policy: load_policy.LoadPolicy) -> scoring.Weighing:
    """The policy's weighing, with those of its pools only where some pool has a score of its own."""
    own = scoring.weighing(policy.score, policy.metrics_in_force)
    if not any(pool.score.differs for pool in policy.pools):
        return own
    of_pools = (scoring.weighing(one.score, policy.metrics_in_force) for one in policy.of_pools)
    return own._replace(of_pools=tuple(of_pools))
