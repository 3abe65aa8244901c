"""Figures and failures of the hour, of samples of nodes and pods and of the rows of GET /evictions. Pure."""

import collections
import collections.abc
import statistics
from typing import Any, Final, NamedTuple

LINE_RATIO: Final = 0.8  # of the descheduler, for CPU and disk
PENDING_SECONDS: Final = 30.0
QUARTER_MINUTES: Final = 15.0
CLOSED_RATIO: Final = 0.65  # of CPU, for all pods but production's
OVER, SPREAD, EMPTY = "node-minutes over 80 %", "spread of CPU", "nodes without a pod"


class NodeSample(NamedTuple):
    """A node's group, annotated ratios and number of pods."""

    group: str
    cpu_ratio: float | None
    disk_ratio: float | None
    pods: int

    @property
    def over(self) -> bool:
        """True if CPU or disk is over the line."""
        return any(ratio is not None and ratio > LINE_RATIO for ratio in (self.cpu_ratio, self.disk_ratio))


class Sample(NamedTuple):
    """One moment: minutes since the beginning, minutes that it stands for, nodes by name, pods that wait for too long,
    and by workload with a budget how many of its pods are Ready.
    """

    minute: float
    minutes: float
    nodes: collections.abc.Mapping[str, NodeSample]
    pending: int
    ready: collections.abc.Mapping[str, int]


def by_quarter(samples: collections.abc.Iterable[Sample]) -> dict[int, list[Sample]]:
    """The samples by the quarter of an hour that they are of, from 0 on."""
    found: dict[int, list[Sample]] = collections.defaultdict(list)
    for sample in samples:
        found[int(sample.minute // QUARTER_MINUTES)].append(sample)
    return dict(found)


def of_group(samples: collections.abc.Sequence[Sample], group: str) -> dict[str, float]:
    """Node-minutes over the line, and the means over time of the standard deviation of CPU and of the nodes without a
    pod.
    """
    over, spreads, empty = 0.0, list[float](), list[int]()
    for sample in samples:
        nodes = [node for node in sample.nodes.values() if node.group == group]
        over += sample.minutes * sum(node.over for node in nodes)
        known = [node.cpu_ratio for node in nodes if node.cpu_ratio is not None]
        spreads += [statistics.pstdev(known)] if known else []
        empty.append(sum(node.pods == 0 for node in nodes))
    return {
        OVER: over,
        SPREAD: statistics.fmean(spreads) if spreads else float("nan"),
        EMPTY: statistics.fmean(empty) if empty else float("nan"),
    }


def under_budget(samples: collections.abc.Iterable[Sample], available: int) -> list[str]:
    """The workloads that had fewer Ready pods than their budget demands, with the minute."""
    return [
        f"{name} {count} of {available} at minute {sample.minute:.1f}"
        for sample in samples
        for name, count in sample.ready.items()
        if count < available
    ]


def evictions(rows: collections.abc.Iterable[collections.abc.Mapping[str, Any]]) -> collections.Counter[str]:
    """How many rows there are by metric and result, and how many pods came back to the node that they left."""
    found: collections.Counter[str] = collections.Counter()
    for row in rows:
        found[f"{row['metric']}: {row['result']}"] += 1
        found["came back"] += bool(row["returned"])
    return found


def twice(rows: collections.abc.Iterable[collections.abc.Mapping[str, Any]]) -> list[str]:
    """The pods that were evicted more than once."""
    counted = collections.Counter(row["pod_uid"] for row in rows if row["result"].startswith("evicted"))
    return [uid for uid, count in counted.items() if count > 1]
