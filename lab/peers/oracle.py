"""Returns the use that the estimator predicts from requests, [pods, 2] or [2].

It is the yardstick of `bench.scoring`: how much is there to win by better knowledge of load? For each node it adds up
the system's load and the future use of the pods there, step by step, and prefers the node on which the incoming pod
adds least to

    cost = sum over the hour's steps and both resources of (use / capacity) ^ 4

which grows steeply where a node is full already. It decides alone (its weight drowns the other scores) and does not
filter. It is greedy and does not know who will come, so it is no bound of what could be done.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kube.objects import Pod
from runtime.clock import Clock
from simulator.scenario import Scenario
from simulator.scheduling.extenders import FilterResult, Victims

Floats = npt.NDArray[np.float64]

HORIZON_SECONDS = 3600.0
WEIGHT = 1000
MAX_SCORE = 10.0
STEEPNESS = 4


class Oracle:
    """An `ExtenderPort`; `replica_of` says which replica a pod fills. `pod_changed` hears of all pods."""

    weight = WEIGHT

    def __init__(self, scenario: Scenario, replica_of: Callable[[str], int | None], clock: Clock) -> None:
        self._scenario, self._replica_of, self._clock = scenario, replica_of, clock
        self._horizon = max(1, round(HORIZON_SECONDS / scenario.step_seconds))
        self._rows = {machine.name: row for row, machine in enumerate(scenario.machines)}
        self._capacity = np.array(
            [(each.capacity.cpu_millicores, each.capacity.memory_bytes) for each in scenario.machines], np.float64
        )
        system = [(each.system.cpu_ratio, each.system.memory_ratio) for each in scenario.machines]
        self._coming = np.zeros((scenario.steps + self._horizon, *self._capacity.shape))
        self._coming += np.array(system, np.float64) * self._capacity

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """A pod came, changed, was bound, finished or went."""
        was, is_now = _there(old), _there(new)
        pod = new or old
        if was == is_now or pod is None:
            return
        replica = self._replica_of(pod.key)
        if replica is not None:
            step = self._step()
            wished = self._wished(replica, step, len(self._coming) - step)
            self._coming[step : step + len(wished), self._rows[pod.node_name]] += wished if is_now else -wished

    def filter(self, pod: Pod, names: Sequence[str]) -> FilterResult:
        """Everything passes."""
        del pod
        return FilterResult(names, {}, {})

    def prioritize(self, pod: Pod, names: Sequence[str]) -> Floats:
        """10 for the node on which the pod costs least within the hour, 0 for that on which it costs most."""
        cost = self.costs(self._replica_of(pod.key), np.array([self._rows[name] for name in names], np.intp))
        span = cost.max(initial=0.0) - cost.min(initial=np.inf)
        return MAX_SCORE * (cost.max(initial=0.0) - cost) / span if span > 0 else np.zeros_like(cost)

    def costs(self, replica: int | None, rows: npt.NDArray[np.intp]) -> Floats:
        """Returns the cost that a replica adds to each of these nodes [nodes]."""
        step, capacity = self._step(), self._capacity[rows]
        wished = np.zeros((0, 2)) if replica is None else self._wished(replica, step, self._horizon)
        before = self._coming[step : step + len(wished), rows] / capacity
        after = before + wished[:, None, :] / capacity
        return np.asarray((after**STEEPNESS - before**STEEPNESS).sum(axis=(0, 2)))

    def preempt(self, pod: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """All of them."""
        del pod
        return victims

    def _step(self) -> int:
        return int((self._clock.now() - self._scenario.start_seconds) // self._scenario.step_seconds)

    def _wished(self, replica: int, step: int, steps: int) -> Floats:
        """Returns a replica's demand in the coming steps [up to `steps`, 2], while it is wanted; unknown is 0."""
        scenario = self._scenario
        one = scenario.replicas[replica]
        left = (min(one.leaves_seconds, scenario.end_seconds) - scenario.start_seconds) / scenario.step_seconds
        window = slice(one.offset + step, one.offset + max(step, min(step + steps, int(np.ceil(left)))))
        wished = np.stack([scenario.usage.cpu_millicores[window], scenario.usage.memory_bytes[window]], axis=1)
        return np.nan_to_num(wished.astype(np.float64)) * one.level


def _there(pod: Pod | None) -> bool:
    return pod is not None and bool(pod.node_name) and not pod.finished
