"""The candidates of one request: nodes as they stand at one moment, with their verdicts, ranking and what they lack.

`state.cluster_view` makes `Candidates`, which do not change any more; `verbs` asks them. Their arrays go to the pure
functions of `policy.rules`.
"""

import itertools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from extender.state import node_cache, usage_estimates
from extender.state.compiled_policy import CompiledPolicy
from kube import objects
from kube.pods import pod_view
from policy.contract import owner_usage
from policy.rules import expected_load, filtering, hotspots, scoring
from policy.schema import node_pools

Mask = npt.NDArray[np.bool_]


class Candidates(NamedTuple):
    """The nodes of one request at one moment; every array's first axis is `names`.

    `values[nodes, metrics]` are ratios, NaN where unusable now; `expected[nodes, metrics]` ratios of recent pods' load;
    `counts[nodes, hot spots]` placements per window; `rows` where the nodes stand in `loads`; `stale_watches` the
    causes for which all of it may be old.
    """

    in_force: CompiledPolicy
    now_seconds: float
    names: tuple[str, ...]
    loads: node_cache.NodeLoads
    rows: node_cache.Rows
    fresh: Mask
    values: node_cache.Floats
    expected: node_cache.Floats
    counts: npt.NDArray[np.int64]
    stale_watches: tuple[str, ...] = ()

    @property
    def every(self) -> "Candidates":
        """This one, as `CandidateRows.every`."""
        return self

    def name(self, at: int) -> str:
        """Returns the name of a candidate."""
        return self.names[at]

    def only(self, keep: Mask) -> "Candidates":
        """Returns the table with only the marked nodes."""
        (places,) = keep.nonzero()
        if len(places) == len(keep):
            return self
        names = tuple(itertools.compress(self.names, keep.tolist()))
        read = self.rows.take(places), self.fresh.take(places), self.values.take(places, axis=0)
        placed = self.expected.take(places, axis=0), self.counts.take(places, axis=0)
        return Candidates(self.in_force, self.now_seconds, names, self.loads, *read, *placed, self.stale_watches)

    def repaired(self, changed: "Candidates") -> "Candidates":
        """Returns the table with the placements of some nodes replaced by those in `changed`, at its moment; the rows
        are places in this one, which holds all nodes.
        """
        expected, counts = self.expected.copy(), self.counts.copy()
        expected[changed.rows], counts[changed.rows] = changed.expected, changed.counts
        read = self.names, self.loads, self.rows, self.fresh, self.values
        return Candidates(self.in_force, changed.now_seconds, *read, expected, counts, changed.stale_watches)

    @property
    def limits(self) -> node_cache.Floats | None:
        """The filter thresholds that nodes or their pools have instead of the policy's [nodes, metrics], NaN for none;
        None when no node has any.
        """
        return _limits(self.in_force, self.loads, self.rows)

    @property
    def score_places(self) -> node_cache.Rows | None:
        """The places of the nodes' pools [nodes], where these make a difference to the score."""
        places = self.loads.pools if self.in_force.weighing.of_pools else None
        return None if places is None else places[self.rows]

    def verdicts(self, *, each_alone: bool = False) -> filtering.Verdicts:
        """Returns the filter's verdict of each node for any pod; `each_alone`: as if no other node was asked about, so
        that `coolest` keeps none.
        """
        rules = self.in_force.rules_alone if each_alone else self.in_force.rules
        return filtering.verdicts(self.values, self.expected, rules, self.limits)

    @property
    def penalty(self) -> node_cache.Floats:
        """Hot-spot points [nodes] on the 0..10 scale."""
        return hotspots.penalty(self.counts, self.in_force.pricing)

    def score(self, pod: objects.Pod | None, mean: owner_usage.Mean | None = None) -> scoring.Breakdown:
        """Returns every factor of the scores for a pod, or as any pod would find them (None); `mean` is what the
        replicas of its owner are known to use.
        """
        return scoring.scores(*self._scored, incoming=self.incoming(pod, mean), places=self.score_places)

    def ranking(self, pod: objects.Pod, mean: owner_usage.Mean | None = None) -> scoring.Ranking:
        """Returns the ranking of `score` without the factors behind it."""
        return scoring.ranking(*self._scored, incoming=self.incoming(pod, mean), places=self.score_places)

    @property
    def _scored(self) -> tuple[node_cache.Floats, node_cache.Floats, node_cache.Floats, scoring.Weighing]:
        return self.values, self.expected, self.penalty, self.in_force.weighing

    def incoming(self, pod: objects.Pod | None, mean: owner_usage.Mean | None) -> node_cache.Floats | None:
        """The pod's own expected load [nodes, metrics], if the policy adds it to the score; `mean` is its owner's."""
        if pod is None or not self.in_force.weighing.incoming_pod:
            return None
        per_allocatable = self.loads.per_allocatable.take(self.rows, axis=0)
        return self.in_force.incoming(self.estimate(pod, mean).load, per_allocatable)

    def estimate(self, pod: objects.Pod, mean: owner_usage.Mean | None) -> expected_load.Estimate:
        """Returns the expected load of a pod; `mean` is its owner's."""
        request, own, most = usage_estimates.request_of(pod), pod_view.expected_usage(pod), self.loads.largest_node
        return expected_load.estimate(request, self.in_force.policy.recent_pods, mean, own, largest_node=most)

    def place(self, at: int) -> int:
        """Returns the place of a candidate's pool in the policy, `node_pools.NO_POOL` without one."""
        return node_pools.NO_POOL if self.loads.pools is None else int(self.loads.pools[self.rows[at]])

    def degradations(self) -> tuple[str, ...]:
        """Why the data behind this decision is less than whole, in words fit for a metric label; empty when it is
        whole.
        """
        if np.count_nonzero(self.fresh) == len(self.fresh) and not np.isnan(self.values).any():
            return self.stale_watches
        return tuple(cause for cause, nodes_hit in self.lacking().items() if nodes_hit.any()) + self.stale_watches

    def lacking(self) -> dict[str, Mask]:
        """Masks [nodes] of nodes with missing data, by the words of `degradations`."""
        unknown = self.rows == node_cache.UNKNOWN
        unread = np.isnan(self.loads.effective_seconds[self.rows]) & ~unknown
        return {
            "unknown_node": unknown,
            "missing_reading": unread,
            "stale_reading": ~(self.fresh | unknown | unread),
            "missing_metric": (np.isnan(self.values) & self._needed()).any(axis=1) & self.fresh,
        }

    def _needed(self) -> Mask:
        """The metrics that have a weight or a threshold: [metrics], or [nodes, metrics] with thresholds of nodes."""
        ruled = np.zeros(len(self.in_force.metric_names), dtype=np.bool_)
        ruled[[rule.column for rule in self.in_force.rules.rules]] = True
        limits = self.limits
        if limits is not None:
            ruled = np.where(np.isnan(limits), ruled, limits > 0)
        weighing, places = self.in_force.weighing, self.score_places
        if places is None:
            needed: Mask = ruled | (weighing.weights > 0)
            return needed
        weighted = np.zeros((len(self.rows), len(weighing.weights)), dtype=np.bool_)
        for own, rows in weighing.parts(places):
            weighted[rows] = own.weights > 0
        return ruled | weighted


class CandidateRows(NamedTuple):
    """Some rows of what stood for all nodes at one moment: the candidates of a request before they are looked up. The
    node on which its pod counts already stands without it: `own`, one row whose number is its place among these.
    """

    every: Candidates
    rows: node_cache.Rows
    own: Candidates | None = None

    def name(self, at: int) -> str:
        """Returns the name of a candidate."""
        return self.every.loads.names[int(self.rows[at])]

    def verdicts(self) -> filtering.Verdicts:
        """Returns the filter's verdicts, as `Candidates.verdicts`."""
        every, rows = self.every, self.rows
        limits, expected = _limits(every.in_force, every.loads, rows), every.expected[rows]
        if self.own is not None:
            expected[self.own.rows] = self.own.expected
        return filtering.verdicts(every.values[rows], expected, every.in_force.rules, limits)

    def candidates(self) -> Candidates:
        """Returns the candidates with arrays and names of their own."""
        every, rows = self.every, self.rows
        names = tuple(map(every.loads.names.__getitem__, rows.tolist()))
        read = every.fresh.take(rows), every.values.take(rows, axis=0)
        placed = every.expected.take(rows, axis=0), every.counts.take(rows, axis=0)
        stale = every.stale_watches
        table = Candidates(every.in_force, every.now_seconds, names, every.loads, rows, *read, *placed, stale)
        return table if self.own is None else table.repaired(self.own)


AnyCandidates = Candidates | CandidateRows


def _limits(in_force: CompiledPolicy, loads: node_cache.NodeLoads, rows: node_cache.Rows) -> node_cache.Floats | None:
    """Returns the node's own threshold, else its pool's, else NaN [nodes, metrics]; None when no node has either."""
    own = None if loads.own_limits is None else loads.own_limits[rows]
    if loads.pools is None:
        return own
    of_pool = in_force.pool_limits[loads.pools[rows]]
    return of_pool if own is None else np.where(np.isnan(own), of_pool, own)
