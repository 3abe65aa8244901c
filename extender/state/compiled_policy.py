"""A policy with what is compiled from it once, for the columns of its metrics.

`state.cluster_view` compiles each policy that comes into force and hands it on with the candidates of a request, so
that an answer is made by one policy from its beginning to its end. For a pod of a class (`policy.schema.pod_classes`)
that is the compiled policy of its class, over the same columns.
"""

from typing import NamedTuple

import numpy as np

from extender.state import node_cache
from policy import metrics
from policy.rules import expected_load, filtering, hotspots, scoring
from policy.schema import load_policy, pod_classes


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
    estimated: node_cache.Floats  # by metric 1 where its resource is in a `Load`, else 0
    shadow: bool  # every node passes and scores the same in answers, whatever is decided
    pod_class: pod_classes.PodClass | None = None  # of which the pods are that it is for; None: of no class
    of_classes: "tuple[CompiledPolicy, ...]" = ()

    @property
    def class_name(self) -> str | None:
        """The name of the class of pods that it is for, None for those that no class matches."""
        return None if self.pod_class is None else self.pod_class.name

    def for_pod(self, pod: pod_classes.ClassifiedPod) -> "CompiledPolicy":
        """Returns the policy that the pod is judged by: that of its class, or this one without a class."""
        if not self.of_classes:
            return self
        at = pod_classes.place(self.policy.pod_classes, pod)
        return self if at == pod_classes.NO_CLASS else self.of_classes[at]

    def includes(self, other: "CompiledPolicy") -> bool:
        """True if the other is this one or that of one of its classes."""
        return other is self or any(other is one for one in self.of_classes)

    def incoming(self, load: expected_load.Load, per_allocatable: node_cache.Floats) -> node_cache.Floats:
        """Returns the rise of each metric by a load [nodes, metrics]; `per_allocatable` is [nodes, cpu|memory] as in
        `node_cache.NodeLoads`.
        """
        amounts = np.array(load)[self.resources] * self.estimated
        rises: node_cache.Floats = per_allocatable.take(self.resources, axis=1) * amounts
        return rises


def compiled(policy: load_policy.LoadPolicy, content_hash: str) -> CompiledPolicy:
    """Compile a policy, and it as it is for the pods of each class, for the columns of its metrics."""
    named = zip(policy.pod_classes, policy.of_classes, strict=True)
    of_classes = tuple(_compiled(for_class, content_hash)._replace(pod_class=one) for one, for_class in named)
    return _compiled(policy, content_hash)._replace(of_classes=of_classes)


def _compiled(policy: load_policy.LoadPolicy, content_hash: str) -> CompiledPolicy:
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
        np.array([place is not None for place in places], dtype=np.float64),
        policy.extender.mode == "Shadow",
    )


def _weighing(policy: load_policy.LoadPolicy) -> scoring.Weighing:
    """The policy's weighing, with those of its pools only where some pool has a score of its own."""
    own = scoring.weighing(policy.score, policy.metrics_in_force)
    if not any(pool.score.differs for pool in policy.pools):
        return own
    of_pools = (scoring.weighing(one.score, policy.metrics_in_force) for one in policy.of_pools)
    return own._replace(of_pools=tuple(of_pools))
