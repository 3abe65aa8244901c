"""Koordinator's LoadAwareScheduling: use as measured plus estimates of pods that are not measured yet.

    used = measured load + estimate(pod) + sum of estimate(p) over pods p bound after the last report, or within the
           report interval before it;  estimate = 85 % of the CPU request, 70 % of memory's, else 250m and 200 MiB
    rejected where used is over 65 % of CPU or 95 % of memory, in whole percent
    points = mean over both resources of 100 * (allocatable - used) / allocatable, whole points, 0 where over

What the last report measured of a pod that is estimated all the same is taken off there; here, a pod bound within the
minute before a report was in it for a fifth of its five minutes at most, and nothing is taken off. A node without a
measurement passes and has 0 points. No aggregation, no limits, no profiles: the defaults.
Sources: koordinator-sh/koordinator pkg/scheduler/plugins/loadaware/{load_aware,helper}.go,
pkg/scheduler/plugins/loadaware/estimator/default_estimator.go, pkg/scheduler/apis/config/v1beta3/defaults.go.
"""

from collections.abc import Mapping

import numpy as np

from lab.peers.formula import MAX_POINTS, FormulaInput, Mask
from lab.peers.observations import Floats

WINDOW_SECONDS = 300.0
REPORT_SECONDS = 60.0
FACTORS = np.array([0.85, 0.70])
DEFAULTS = np.array([250.0, 200 * 2.0**20])
LIMITS_PERCENT = {"cpu": 65.0, "memory": 95.0}


class LoadAware:
    """A `formula.Formula`."""

    def rejected(self, inputs: FormulaInput) -> Mapping[str, Mask]:
        """Nodes whose estimated use with the pod is over a limit."""
        percent = np.round(100 * used(inputs) / inputs.capacity)
        return {
            f"node(s) {resource} usage exceed threshold": percent[:, column] > limit
            for column, (resource, limit) in enumerate(LIMITS_PERCENT.items())
        }

    def points(self, inputs: FormulaInput) -> Floats:
        """The more is left of both resources, the better."""
        left = np.floor(MAX_POINTS * np.clip(1 - used(inputs) / inputs.capacity, 0.0, 1.0))
        return np.asarray(np.nan_to_num(np.floor(left.mean(axis=1))))


def used(inputs: FormulaInput) -> Floats:
    """Estimated use of each node with the pod [nodes, 2], millicores and bytes; NaN without a measurement."""
    unseen = inputs.bound.since(inputs.observations.seen_seconds - REPORT_SECONDS)
    measured = inputs.observations.mean(WINDOW_SECONDS)[inputs.rows] * inputs.capacity
    return measured + inputs.summed(unseen, estimate(unseen.requests)) + estimate(inputs.request)


def estimate(requests: Floats) -> Floats:
    """A scheduler's knowledge of a simulated cluster: loads of past steps, and the pods it bound since."""
    return np.asarray(np.where(requests > 0, requests * FACTORS, DEFAULTS))
