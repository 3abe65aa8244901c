"""Resource contention: the node's use where its pods together want more than it has.

Pure: `usage.node_usage` holds the state of a simulated cluster and asks these functions, the load exporter
(`lab.cluster.exporter_fleet`) that of a real one. Replicas of one owner share a curve, and differ in level and lag.
"""

import msgspec
import numpy as np
import numpy.typing as npt

Amounts = npt.NDArray[np.float64]

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


def shares(usable: Amounts, system: Amounts, wanted: Amounts) -> tuple[Amounts, Amounts]:
    """Divides nodes, of each resource: the system is served first, then all pods in proportion to what they want.

    Returns what is used, and the factors by which pods' demands are cut (1 = not at all); `usable` is the capacity, of
    memory 98 % of it: used = min(usable, system + wanted); factor = (used - system) / wanted.
    """
    first = np.minimum(system, usable)
    served = np.minimum(wanted, usable - first)
    nothing = wanted <= 0  # counts as 1: without demand nothing was cut
    used = np.minimum(first + served, usable)  # the sum may round to more
    return used, (served + nothing) / (wanted + nothing)
