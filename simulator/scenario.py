"""A scenario: machines, owners, replicas and their real use, independent of any policy.

`generator` draws a scenario from a seed, `workloads.trace_files` makes one of a file of utilisation data, `history` one
of the past of a real cluster; `world` lets it happen. A replica is a place to be filled: it is wanted from
`arrives_seconds` to `leaves_seconds`, and whichever pod fills it at a time uses what `Usage` says for that time, as the
successor of an evicted pod goes on with its work. Times are virtual Unix seconds; step s covers [start_seconds + s *
step_seconds, start_seconds + (s + 1) * step_seconds).
"""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from simulator.contention import Load, SystemLoad

Floats = npt.NDArray[np.float32]
NEVER = math.inf


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """A node: what it has, what it says of itself, and what it uses without any pod. Loads are ratios of `capacity`;
    pods may ask for `allocatable`, which is less where something is reserved (None: nothing is).
    """

    name: str
    capacity: Load
    max_pods: int = 110
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()  # as in the API: key, value, effect
    system: SystemLoad = SystemLoad()  # noqa: RUF009 - immutable
    joins_seconds: float = -NEVER
    leaves_seconds: float = NEVER
    allocatable: Load | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Owner:
    """A workload. `requests` are of one replica; `pod_spec` is merged into each pod's spec (tolerations, affinity,
    topologySpreadConstraints and so on, as in the API); `min_available` makes a disruption budget.
    """

    namespace: str
    name: str
    requests: Load
    kind: str = "Deployment"  # or StatefulSet, Job, DaemonSet; "" is a bare pod
    priority: int = 0
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    pod_spec: Mapping[str, object] = dataclasses.field(default_factory=dict)
    min_available: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Replica:
    """One replica: whose (index in `Scenario.owners`), when, and where its use stands in `Usage`.

    During step s it wants `level` x the value at index `offset + s` of the usage arrays.
    """

    owner: int
    ordinal: int
    arrives_seconds: float
    leaves_seconds: float
    offset: int
    level: float = 1.0
    node: str = ""  # a DaemonSet's own, or where it was when the history began; "" is for the scheduler to say


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """Real use over time, all series one behind the other: millicores and bytes, NaN where it is not known."""

    cpu_millicores: Floats
    memory_bytes: Floats


@dataclasses.dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that happens, and how it came to be: `assumptions` are sentences for the reader of a result."""

    name: str
    start_seconds: float
    step_seconds: float
    steps: int
    machines: tuple[Machine, ...]
    owners: tuple[Owner, ...]
    replicas: tuple[Replica, ...]
    usage: Usage
    assumptions: tuple[str, ...] = ()

    @property
    def end_seconds(self) -> float:
        """When the last step is over."""
        return self.start_seconds + self.steps * self.step_seconds
