"""Whether any node is over a line of the descheduler: what decides, in most steps, that a run of it would do nothing.

`running` asks before each run that it might leave out. The windows are those that the descheduler would be told, for
all nodes at once; a policy with a line on something that only its author can compute has every run.
"""

from policy.schema import LoadPolicy
from promql.node_queries import Window
from simulator.prometheus import questions
from simulator.prometheus.door import SimulatedPrometheus


class Lines:
    """The lines of a policy over one Prometheus."""

    def __init__(self, policy: LoadPolicy, prometheus: SimulatedPrometheus) -> None:
        self._prometheus = prometheus
        by_name = {metric.name: metric for metric in policy.metrics_in_force}
        windows = {name: questions.window(by_name[name]) for name in policy.descheduler.thresholds}
        self._limits: list[tuple[Window, float]] = []
        self._all_known = None not in windows.values()
        for name, window in windows.items():
            if window is not None:
                self._limits.append((window, policy.descheduler.thresholds[name].evict_above_ratio))

    def any_node(self, at_seconds: float) -> bool:
        """Whether some node is over some line now; also where that cannot be said."""
        values = self._prometheus.node_windows
        return not self._all_known or any(
            bool((values(window, at_seconds) > limit_ratio).any()) for window, limit_ratio in self._limits
        )
