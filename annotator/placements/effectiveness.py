"""How good placements were at the moment they were made: the five figures of docs/contract.md, effectiveness, pure.

`annotator.node_sync` hands in every new binding with the node levels known at that moment; `annotator.metrics` exports
the figures under the names fixed there. A chosen node counts 0.5 for CPU and 0.5 for memory when it was strictly under
the median of all nodes. Bindings on nodes without data are counted apart, never as good or bad.
"""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Levels:
    """The 5m averages (ratios) of all nodes that have them, their medians, and when they were read (Unix seconds)."""

    at_seconds: float
    cpu: Mapping[str, float]
    memory: Mapping[str, float]
    cpu_median: float
    memory_median: float


def levels(at_seconds: float, cpu: Mapping[str, float], memory: Mapping[str, float]) -> Levels | None:
    """The levels, or None when no node has one of the two: there is no median then."""
    if not cpu or not memory:
        return None
    return Levels(at_seconds, cpu, memory, statistics.median(cpu.values()), statistics.median(memory.values()))


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over the scheduling results seen so far; `schedule_results_left_out` are those on nodes without data."""

    total_schedule_count: int = 0
    effective_dynamic_schedule_count: float = 0.0
    cpu_ratio_sum: float = 0.0
    memory_ratio_sum: float = 0.0
    schedule_results_left_out: int = 0

    @property
    def cpu_utilization_total_avg(self) -> float:
        """Mean 5m CPU utilisation (ratio) of the chosen nodes; 0 before the first placement."""
        return self._mean(self.cpu_ratio_sum)

    @property
    def memory_utilization_total_avg(self) -> float:
        """Mean 5m memory utilisation (ratio) of the chosen nodes; 0 before the first placement."""
        return self._mean(self.memory_ratio_sum)

    @property
    def effective_schedule_ratio(self) -> float:
        """effective_dynamic_schedule_count / total_schedule_count; 0 before the first placement."""
        return self._mean(self.effective_dynamic_schedule_count)

    def with_placement(self, node: str, levels_then: Levels | None) -> "Tally":
        """The tally after one more scheduling result on `node`, judged by the levels seen at that moment."""
        if levels_then is None or node not in levels_then.cpu or node not in levels_then.memory:
            return replace(self, schedule_results_left_out=self.schedule_results_left_out + 1)
        cpu, memory = levels_then.cpu[node], levels_then.memory[node]
        effective = 0.5 * (cpu < levels_then.cpu_median) + 0.5 * (memory < levels_then.memory_median)
        return replace(
            self,
            total_schedule_count=self.total_schedule_count + 1,
            effective_dynamic_schedule_count=self.effective_dynamic_schedule_count + effective,
            cpu_ratio_sum=self.cpu_ratio_sum + cpu,
            memory_ratio_sum=self.memory_ratio_sum + memory,
        )

    def _mean(self, total: float) -> float:
        return total / self.total_schedule_count if self.total_schedule_count else 0.0
