"""In which order nodes are looked at, and how many: what keeps a large cluster from being searched for every pod.

`state` keeps its rows in this order, `scheduler` takes the sample. Zones take turns, so that a sample has nodes of all.
Sources: kubernetes v1.36 pkg/scheduler/backend/cache/node_tree.go, pkg/scheduler/schedule_one.go
(numFeasibleNodesToFind, findNodesThatPassFilters). The real one filters 16 nodes at a time and may look a few further
than it needs; the model looks one after another.
"""

import itertools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kube_scheduler.arrays import Bools, Ints

LEAST_NODES, LEAST_PERCENT = 100, 5
ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
REGIONS = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
Zone = tuple[str, str]


class Tree:
    """Names of nodes by zone, in the order in which zones and nodes came."""

    def __init__(self) -> None:
        self._zones: dict[Zone, dict[str, None]] = {}

    def add(self, name: str, labels: Mapping[str, str]) -> None:
        """Put a node at the end of its zone."""
        self._zones.setdefault(zone(labels), {})[name] = None

    def remove(self, name: str, labels: Mapping[str, str]) -> None:
        """Take a node out; a zone without nodes is forgotten. KeyError for a node that is not there."""
        there = self._zones[zone(labels)]
        del there[name]
        if not there:
            del self._zones[zone(labels)]

    def names(self) -> list[str]:
        """One node of each zone, then the next of each."""
        rounds = itertools.zip_longest(*self._zones.values())
        return [name for each in rounds for name in each if name is not None]


def zone(labels: Mapping[str, str]) -> Zone:
    """Region and zone of a node, "" where it does not say."""
    return _first(labels, REGIONS), _first(labels, ZONES)


def _first(labels: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((labels[key] for key in keys if key in labels), "")


def enough(nodes: int) -> int:
    """How many nodes that fit are enough to choose among: all of 100; of more, 50 % less 1 % per 125 nodes, at least
    5 % and 100 (percentageOfNodesToScore 0).
    """
    if nodes < LEAST_NODES:
        return nodes
    percent = max(LEAST_PERCENT, 50 - nodes // 125)
    return max(LEAST_NODES, nodes * percent // 100)


class Sample(NamedTuple):
    """Rows that were found to fit, in the order looked at, and how many nodes were looked at."""

    rows: Ints
    looked_at: int


def sample(fits: Bools | None, rows: Ints, start: int) -> Sample:
    """The first nodes that fit from `start` on, round about; `fits` is by row, None for all; `rows` are those to look
    at, in order. The search ends when one more fits than is enough; that one is not counted as looked at.
    """
    wanted = enough(len(rows))
    turned = np.roll(rows, -(start % len(rows))) if start and len(rows) else rows
    if fits is None:
        return Sample(turned if wanted == len(turned) else turned[:wanted], wanted)
    places = np.flatnonzero(fits[turned])
    looked_at = int(places[wanted]) if len(places) > wanted else len(rows)
    return Sample(turned[places[:wanted]], looked_at)
