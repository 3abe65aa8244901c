"""Trimaran's two plugins for balancing: TargetLoadPacking (CPU alone) and LoadVariationRiskBalancing.

Target load packing, with u the predicted CPU in percent and t the target of 40:

    u = 100 * (mean load + pod + pods not yet seen) / capacity;  a pod is 1.5 x its request, 1 core without one
    points = (100 - t) * u / t + t up to t;  t * (100 - u) / (100 - t) up to 100;  0 above

Risk balancing, per resource, the worse of the two deciding:

    mu = (mean load + request) / capacity, sigma = deviation ^ (1 / sensitivity) * margin, both cut off at 0 and 1
    points = 100 * (1 - (mu + sigma) / 2), with margin 1 and sensitivity 1, their defaults

Loads are means over the 15 minutes that load-watcher asks for. A node without a measurement has 0 points. Neither
plugin filters. Sources: kubernetes-sigs/scheduler-plugins pkg/trimaran/targetloadpacking/targetloadpacking.go,
pkg/trimaran/loadvariationriskbalancing/{analysis.go,README.md}, apis/config/v1/defaults.go.
"""

from collections.abc import Mapping

import numpy as np

from lab.peers.formula import MAX_POINTS, FormulaInput, Mask
from lab.peers.observations import Floats

WINDOW_SECONDS = 900.0
TARGET_PERCENT = 40.0
REQUEST_FACTOR = 1.5
DEFAULT_MILLICORES = 1000.0
REPORTING_SECONDS = 60.0  # pods bound so shortly before a measurement are thought not to be in it
MARGIN, SENSITIVITY = 1.0, 1.0


class TargetLoadPacking:
    """A `formula.Formula`."""

    def rejected(self, inputs: FormulaInput) -> Mapping[str, Mask]:
        """None: it does not filter."""
        del inputs
        return {}

    def points(self, inputs: FormulaInput) -> Floats:
        """The closer to the target from below, the better."""
        unseen = inputs.bound.since(inputs.observations.seen_seconds - REPORTING_SECONDS)
        coming = predicted_millicores(inputs.request[None, :])[0] + inputs.summed(unseen, _both(unseen.requests))[:, 0]
        capacity = inputs.capacity[:, 0]
        percent = 100 * (inputs.observations.mean(WINDOW_SECONDS)[inputs.rows, 0] + coming / capacity)
        return np.asarray(np.nan_to_num(packing_points(percent)))


def packing_points(percent: Floats) -> Floats:
    """Points for predicted CPU in percent; NaN stays NaN."""
    target = TARGET_PERCENT
    below = (100 - target) * percent / target + target
    above = target * (100 - percent) / (100 - target)
    points = np.where(percent > target, np.where(percent > 100, 0.0, above), below)
    return np.asarray(np.floor(points + 0.5))


def predicted_millicores(requests: Floats) -> Floats:
    """Returns the use predicted from requests [pods, 2], in millicores [pods]."""
    cpu = requests[:, 0]
    return np.asarray(np.where(cpu > 0, np.round(cpu * REQUEST_FACTOR), DEFAULT_MILLICORES))


def _both(requests: Floats) -> Floats:
    """The prediction in the column of CPU; memory plays no part."""
    millicores = predicted_millicores(requests)
    return np.stack([millicores, np.zeros_like(millicores)], axis=1)


class RiskBalancing:
    """A `formula.Formula`."""

    def rejected(self, inputs: FormulaInput) -> Mapping[str, Mask]:
        """None: it does not filter."""
        del inputs
        return {}

    def points(self, inputs: FormulaInput) -> Floats:
        """The lower the risk of the riskier resource, the better."""
        mean = inputs.observations.mean(WINDOW_SECONDS)[inputs.rows]
        deviation = inputs.observations.deviation(WINDOW_SECONDS)[inputs.rows]
        points = risk_points(mean + inputs.request / inputs.capacity, deviation)
        worse = np.where(np.isnan(points).any(axis=1), np.fmax(points[:, 0], points[:, 1]), points.min(axis=1))
        return np.asarray(np.nan_to_num(np.round(worse)))


def risk_points(mean: Floats, deviation: Floats) -> Floats:
    """Points by resource for ratios of capacity; NaN stays NaN."""
    mu = np.clip(mean, 0.0, 1.0)
    sigma = np.clip(MARGIN * np.clip(deviation, 0.0, 1.0) ** (1 / SENSITIVITY), 0.0, 1.0)
    return np.asarray(MAX_POINTS * (1 - (mu + sigma) / 2))
