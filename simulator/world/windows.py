"""Windows of all nodes and use of all pods at this moment, as Prometheus would answer.

`handing` gives it to the annotator. And `world.world` asks before each run of the descheduler whether any node is over
one of its lines: in most steps none is, and a run would do nothing.
"""

from policy import metrics
from policy.schema.load_policy import LoadPolicy
from promql.queries.node_queries import Window
from runtime.clock import Clock
from simulator.prometheus import expressions, pod_amounts
from simulator.prometheus.columns import Column
from simulator.prometheus.door import SimulatedPrometheus


class Windows:
    """The windows of a policy's metrics over one Prometheus."""

    def __init__(self, policy: LoadPolicy, prometheus: SimulatedPrometheus, clock: Clock) -> None:
        self._prometheus, self._clock = prometheus, clock
        self._meant = {metric: expressions.window(metric) for metric in policy.metrics_in_force}
        by_name = {metric.name: metric for metric in policy.metrics_in_force}
        self._limits = {by_name[name]: band.evict_above_ratio for name, band in policy.descheduler.thresholds.items()}

    def ratios(self, metric: metrics.Metric) -> Column | None:
        """Of all nodes; None for what only its author can compute."""
        window = self._meant[metric]
        return None if window is None else self._prometheus.node_column(window, self._clock.now())

    def pods(self, resource: str, window_seconds: float) -> pod_amounts.Amounts | None:
        """Returns the use of pods, cores or bytes; None where the answer has to be judged."""
        return self._prometheus.pod_amounts(expressions.PodMean(resource, window_seconds), self._clock.now())

    def any_node_over(self) -> bool:
        """Whether some node is over some line of the descheduler; also where that cannot be said."""
        lines = [(self._meant[metric], limit_ratio) for metric, limit_ratio in self._limits.items()]
        return any(window is None or self._is_over(window, limit_ratio) for window, limit_ratio in lines)

    def _is_over(self, window: Window, limit_ratio: float) -> bool:
        return bool((self._prometheus.node_values(window, self._clock.now()) > limit_ratio).any())
