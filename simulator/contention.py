"""Resource contention: the node's use where its pods together want more than it has.

Pure: `usage.node_usage` holds the state of a simulated cluster and asks these functions, the load exporter
(`lab.cluster.exporter_fleet`) that of a real one. Replicas of one owner share a curve, and differ in level and lag.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

Amounts = npt.NDArray[np.float64]
A = TypeVar("A", float, Amounts)

REPLICA_LEVEL_SPREAD = 0.15  # replicas differ by a factor exp(N(0, .15)) and lag by 0 to 2 steps
REPLICA_LAGS = 3
MEMORY_CEILING_RATIO = 0.98  # a node never shows less than 2 % of its memory available: the kernel would kill first


class Load(msgspec.Struct, frozen=True):
    """An amount of both resources."""

    cpu_millicores: float = 0.0
    memory_bytes: float = 0.0


class SystemLoad(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node's load without its pods, as shares of its capacity; the content of `load.evenload.io/system`."""

    cpu_ratio: float = 0.03
    memory_ratio: float = 0.05


class SharedUse(NamedTuple):
    """The use of a node: its CPU and memory, and the factors by which its pods' demands were cut (1 = not at all)."""

    used: Load
    cpu_factor: float
    memory_factor: float


def share(capacity: Load, system: Load, wanted: Load) -> SharedUse:
    """Divides a node: the system is served first, then all pods in proportion to what they want.

    used = min(capacity, system + wanted), memory at most 98 % of capacity; factor = (used - system) / wanted.
    """
    cpu, cpu_factor = _share(min, capacity.cpu_millicores, system.cpu_millicores, wanted.cpu_millicores)
    usable_bytes = capacity.memory_bytes * MEMORY_CEILING_RATIO
    memory, memory_factor = _share(min, usable_bytes, system.memory_bytes, wanted.memory_bytes)
    return SharedUse(Load(cpu, memory), cpu_factor, memory_factor)


def shares(usable: Amounts, system: Amounts, wanted: Amounts) -> tuple[Amounts, Amounts]:
    """`share` of many nodes, of one resource or a row of each; `usable` is 98 % of a node's memory."""
    return _share(np.minimum, usable, system, wanted)


def _share(least: Callable[[A, A], A], usable: A, system: A, wanted: A) -> tuple[A, A]:
    """The formula, for a number or an array of them."""
    first = least(system, usable)
    served = least(wanted, usable - first)
    nothing = wanted <= 0  # counts as 1: without demand nothing was cut
    return first + served, (served + nothing) / (wanted + nothing)
