"""Whether the extender would let a pod onto a node now: a pod evicted towards a node that the filter rejects stays
Pending.

`placement.destinations` asks for every node that it considers. The rule is `policy.rules.filtering`'s own, over the
readings of the run's snapshot, the expected load of recent pods, and what the plan has committed so far; thresholds of
a node, of the pod's class and of the node's pool, and a pod's exemptions, count as they do in the extender. With the
default policy `evictUntil` is the stricter line, and this rule keeps no pod.
"""

import collections.abc
import math

import numpy as np
import numpy.typing as npt

from descheduler.snapshot import usage
from descheduler.snapshot.usage import PodUsage
from kube.objects import Node, Pod
from policy.contract import filter_opt_out, node_thresholds
from policy.rules import filtering
from policy.schema import pod_classes
from policy.schema.load_policy import LoadPolicy

Floats = npt.NDArray[np.float64]


class LoadFilter:
    """The extender's filter over the nodes of one plan, in rows; `expected` [nodes, metrics in force] are ratios,
    `valid` the fresh and valid readings of each node by metric.
    """

    def __init__(
        self,
        nodes: collections.abc.Sequence[Node],
        expected: Floats,
        valid: collections.abc.Mapping[str, collections.abc.Mapping[str, float]],
        policy: LoadPolicy,
    ) -> None:
        self._policy, self._metrics = policy, policy.metrics_in_force
        self._rows = {node.metadata.name: row for row, node in enumerate(nodes)}
        self._nodes = nodes
        self._values = self._readings(valid)
        self._expected = expected
        self._judged_by: dict[int, tuple[filtering.Rules, Floats | None]] = {}  # by the place of the pod's class
        self._reasons: dict[int, tuple[str, ...]] = {}  # the same

    def why_not(self, node: str, pod: Pod) -> str:
        """The filter's reason against the node ("cpu_avg_5m over 0.65"), "" if it would let the pod pass."""
        place = pod_classes.place(self._policy.pod_classes, pod)
        if place not in self._reasons:
            self._reasons[place] = self._judge(place)
        reason = self._reasons[place][self._rows[node]]
        return "" if not reason or self._is_exempt(pod) else f"filter: {reason}"

    def add(self, node: str, used: PodUsage) -> None:
        """Counts a chosen pod's use on the node where it is expected; a copy of before stays as it was."""
        row = self._rows[node]
        shares = [usage.share(used, self._nodes[row].allocatable, one.resource) for one in self._metrics]
        self._expected = self._expected.copy()
        self._expected[row] += shares
        self._reasons = {}

    def _judge(self, place: int) -> tuple[str, ...]:
        """The reasons against the nodes for the pods of a class."""
        if place not in self._judged_by:
            policy = self._policy if place == pod_classes.NO_CLASS else self._policy.of_classes[place]
            compiled = filtering.rules(policy.filter, self._metrics)
            # what is kept of an all-hot sample is no place to aim at
            self._judged_by[place] = compiled._replace(keep_coolest=False), self._differing_limits(policy)
        return filtering.verdicts(self._values, self._expected, *self._judged_by[place]).reasons

    def _is_exempt(self, pod: Pod) -> bool:
        exempt = self._policy.filter.exempt
        named = filtering.exempt(exempt, is_daemon_set=pod.is_daemonset, namespace=pod.namespace, priority=pod.priority)
        return bool(named or filter_opt_out.exempt(exempt.opt_out, pod.annotations, pod.namespace))

    def _readings(self, valid: collections.abc.Mapping[str, collections.abc.Mapping[str, float]]) -> Floats:
        """[nodes, metrics], NaN where there is no fresh and valid reading."""
        names, nan = [metric.name for metric in self._metrics], math.nan
        readings = [valid[name] for name in self._rows]
        values = [[ratios.get(name, nan) for name in names] for ratios in readings]
        return np.array(values, dtype=np.float64).reshape(len(readings), len(names))

    def _differing_limits(self, policy: LoadPolicy) -> Floats | None:
        """[nodes, metrics] thresholds of a node's own, else of its pool, NaN where it has the policy's; None where no
        node differs.
        """
        limits = np.full(self._values.shape, np.nan)
        for row, node in enumerate(self._nodes):
            own = node_thresholds.decode(node.metadata.annotations.get(node_thresholds.KEY))
            pool = policy.pool_of(node.metadata.labels)
            if own is not None or pool is not None:
                known = {**(pool.filter.thresholds if pool else {}), **(own.limits if own else {})}
                limits[row] = [known.get(metric.name, np.nan) for metric in self._metrics]
        return None if np.isnan(limits).all() else limits
