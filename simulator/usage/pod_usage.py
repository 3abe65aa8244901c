"""Every pod that ever ran in a simulation: which replica it filled, where, from when to when, and what it wishes.

`node_usage.UsageBook` writes it down and adds the wishes up node by node; `prometheus.pod_windows` asks it what a pod
used. A pod keeps its place in the arrays for good, so that questions about the past have an answer.
"""

import numpy as np
import numpy.typing as npt

from simulator.scenario import NEVER, Scenario

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
FEWEST = 64


class PodUsage:
    """Pods by place in the arrays, of which a part is not used yet: the number of each one's `node`, when it began and
    ended (NEVER: it runs), and the integral of its node's CPU factor when it began. `labels[place]` are those of its
    series.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._cpu, self._memory = scenario.usage.cpu_millicores, scenario.usage.memory_bytes
        self._replicas = _Replicas(scenario)
        self.labels: list[dict[str, str]] = []
        self._room = max(FEWEST, 2 * len(scenario.replicas))
        self._replica = np.empty(self._room, np.int64)
        self.node = np.empty(self._room, np.int64)
        self.begun_seconds = np.empty(self._room)
        self.ended_seconds = np.empty(self._room)
        self.begun_factor_seconds = np.empty(self._room)
        self._running: dict[str, int] = {}
        self._running_places: Numbers | None = None

    def begin(self, key: str, replica: int, node: int, at_seconds: float, *, factor_seconds: float) -> int:
        """Note a pod that begins; its place. ValueError for one that runs already.

        `factor_seconds` is the integral of its node's CPU factor until now, from which the pod's own counter starts.
        """
        if key in self._running:
            raise ValueError(f"pod {key} is placed at {at_seconds:.3f}, but it runs already; expected it to end first")
        place = len(self.labels)
        if place == self._room:
            self._grow()
        namespace, _, name = key.partition("/")
        self.labels.append({"namespace": namespace, "pod": name})
        self._replica[place], self.node[place] = replica, node
        self.begun_seconds[place], self.ended_seconds[place] = at_seconds, NEVER
        self.begun_factor_seconds[place] = factor_seconds
        self._running[key], self._running_places = place, None
        return place

    def finish(self, key: str, at_seconds: float) -> int:
        """Note that a pod ended; its place. ValueError for one that does not run."""
        place = self._running.pop(key, None)
        if place is None:
            raise ValueError(f"pod {key} ends at {at_seconds:.3f}, but it does not run; expected a pod that was placed")
        self.ended_seconds[place], self._running_places = at_seconds, None
        return place

    def _grow(self) -> None:
        self._room *= 2
        for name in ("_replica", "node", "begun_seconds", "ended_seconds", "begun_factor_seconds"):
            held = getattr(self, name)
            setattr(self, name, np.concatenate((held, np.empty(self._room - len(held), held.dtype))))

    def running(self) -> Numbers:
        """The places of the pods that run now."""
        if self._running_places is None:
            self._running_places = np.flatnonzero(self.ended_seconds[: len(self.labels)] == NEVER)
        return self._running_places

    def seen_between(self, first_seconds: float, last_seconds: float) -> Numbers:
        """The places of the pods that some scrape between two may have found, both included: what happens at the very
        time of a scrape comes after it.
        """
        count = len(self.labels)
        scraped = (self.begun_seconds[:count] < last_seconds) & (first_seconds <= self.ended_seconds[:count])
        return np.flatnonzero(scraped)

    def wish(self, place: int, step: int) -> tuple[float, float]:
        """`wishes` of one."""
        at, level = self._replicas.one_at(int(self._replica[place]), step)
        return float(self._cpu[at]) * level, float(self._memory[at]) * level

    def wishes(self, places: Numbers, step: int) -> tuple[Floats, Floats]:
        """Returns the demand of each replica during a step: millicores and bytes, NaN where it is not known."""
        at, level = self._replicas.at(self._replica[places], step)
        return self._cpu[at] * level, self._memory[at] * level


class _Replicas:
    """Where each replica's use stands, as arrays."""

    def __init__(self, scenario: Scenario) -> None:
        every = scenario.replicas
        self._offset = np.array([one.offset for one in every], np.int64)
        self._level = np.array([one.level for one in every], np.float64)
        begins = np.array([one.arrives_seconds for one in every], np.float64)
        ends = np.array([one.leaves_seconds for one in every], np.float64)
        self._first = _within(np.floor((begins - scenario.start_seconds) / scenario.step_seconds), scenario)
        last = _within(np.ceil((ends - scenario.start_seconds) / scenario.step_seconds) - 1, scenario)
        self._last = np.maximum(self._first, last)
        self._check(scenario)

    def at(self, replicas: Numbers, step: int) -> tuple[Numbers, Floats]:
        """Index into the usage and level of each; who outlives its replica goes on with its last step."""
        held = np.minimum(np.maximum(step, self._first[replicas]), self._last[replicas])
        return self._offset[replicas] + held, self._level[replicas]

    def one_at(self, replica: int, step: int) -> tuple[int, float]:
        """`at` of one."""
        held = min(max(step, int(self._first[replica])), int(self._last[replica]))
        return int(self._offset[replica]) + held, float(self._level[replica])

    def _check(self, scenario: Scenario) -> None:
        low, high = self._offset + self._first, self._offset + self._last
        length = len(scenario.usage.cpu_millicores)
        wrong = np.flatnonzero((low < 0) | (high >= length))
        if len(wrong):
            number = int(wrong[0])
            raise ValueError(
                f"replica {number} of scenario {scenario.name} has its use at {low[number]}..{high[number]}, "
                f"but there are {length} values; expected its whole life inside them"
            )


def _within(steps: Floats, scenario: Scenario) -> Numbers:
    return np.clip(steps, 0, scenario.steps - 1).astype(np.int64)
