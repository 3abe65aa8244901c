"""How an owner is drawn: how many replicas, what each asks for against what it really uses, whether it has a budget.

Pure, of a random generator that is handed in. `generator` and `workloads.trace_files` draw the owners of scenarios with
it: the rules by which requests mislead are written here. A "guessing" owner's requests have little to do with its use
(the used/requested quantiles of the Alibaba cluster of 2018); a "careful" owner asks for a little more than its 95th
percentile.
"""

import math
from dataclasses import dataclass

import numpy as np

from simulator import load_curves
from simulator.contention import Load

# used / requested CPU over the Alibaba cluster of 2018, at these shares of the instances.
USED_SHARES = (0.0, 0.05, 0.25, 0.50, 0.75, 0.95, 1.0)
USED_PER_REQUEST = (0.02, 0.03, 0.48, 0.94, 1.68, 2.08, 3.0)
USED_PER_REQUEST_LIMITS = (0.25, 3.0)
GUESSED_MEMORY_PER_P95 = 1.1
CAREFUL_PER_P95 = (1.0, 1.3)
RULES = {"guessing": 1.0, "careful": 0.0, "mix": 0.8}  # how many of the owners guess
REPLICAS = (1, 2, 3, 4, 5, 6, 8)
REPLICA_WEIGHTS = (0.10, 0.20, 0.20, 0.20, 0.10, 0.10, 0.10)
MIN_REQUEST = Load(50.0, 64 * 2.0**20)
LARGEST_MEAN_RATIO = 0.35  # before scaling: one pod of a job that fills a machine could only ever be moved around


def guessing_ratio(rule: str) -> float:
    """The share of owners that guess under a rule of RULES; ValueError for another."""
    if rule not in RULES:
        raise ValueError(f'the rule of requests is "{rule}", expected one of {", ".join(RULES)}')
    return RULES[rule]


def sentence(rule: str) -> str:
    """The rule in a sentence for the reader of a result."""
    least, most = CAREFUL_PER_P95
    return (
        f"{100 * RULES[rule]:.0f} % of the owners guess their CPU requests (used/requested as in the Alibaba cluster "
        f"of 2018), the others ask for {least} to {most} times their 95th percentile."
    )


@dataclass(frozen=True, slots=True)
class Use:
    """The use of one replica: its mean and its 95th percentile over the curve."""

    mean: Load
    p95: Load


def use(mean: Load, curve: load_curves.Curve) -> Use:
    """Mean and 95th percentile of a replica that plays a curve around a mean; steps without a sample are left out."""
    return Use(mean, times(mean, Load(_p95(curve.cpu), _p95(curve.memory))))


def _p95(values: load_curves.Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.percentile(known, 95)) if len(known) else math.nan


def mean_use(means: load_curves.Means, node: Load) -> Load:
    """The mean of an owner as an amount: its shares of one node, of which it has LARGEST_MEAN_RATIO at most."""
    return Load(
        min(means.cpu_ratio, LARGEST_MEAN_RATIO) * node.cpu_millicores,
        min(means.memory_ratio, LARGEST_MEAN_RATIO) * node.memory_bytes,
    )


def replicas(rng: np.random.Generator) -> int:
    """How many replicas a Deployment has."""
    return int(rng.choice(REPLICAS, p=REPLICA_WEIGHTS))


def budget(number: int, budget_ratio: float, rng: np.random.Generator) -> int | None:
    """How many replicas a disruption budget keeps, a quarter of them free to go; None is no budget."""
    with_budget = bool(rng.random() < budget_ratio)
    return number - max(1, number // 4) if with_budget and number > 1 else None


def requests(used: Use, guessing: bool, rng: np.random.Generator) -> Load:
    """Returns the requests of an owner.

    guessing: CPU = mean / q with q drawn from used/requested, clipped to .25-3; memory = 1.1 x p95 of its curve.
    careful:  1.0 to 1.3 x p95 of both.
    """
    cpu_millicores = used.mean.cpu_millicores / used_per_request(USED_PER_REQUEST, rng)
    margin = float(rng.uniform(*CAREFUL_PER_P95))
    if guessing:
        return Load(cpu_millicores, used.p95.memory_bytes * GUESSED_MEMORY_PER_P95)
    return Load(used.p95.cpu_millicores * margin, used.p95.memory_bytes * margin)


def used_per_request(quantiles: tuple[float, ...], rng: np.random.Generator) -> float:
    """Draws use for each unit asked for, from its quantiles at USED_SHARES."""
    least, most = USED_PER_REQUEST_LIMITS
    return min(max(float(np.interp(rng.random(), USED_SHARES, quantiles)), least), most)


def times(amount: Load, factor: Load) -> Load:
    """An amount grown per resource."""
    return Load(amount.cpu_millicores * factor.cpu_millicores, amount.memory_bytes * factor.memory_bytes)


def fitting(wanted: Load, node: Load, ceiling_ratio: float) -> Load:
    """Requests as a cluster takes them: MIN_REQUEST at least and where nothing is known, at most a share of a node."""
    ceiling = times(node, Load(ceiling_ratio, ceiling_ratio))
    return Load(
        _between(MIN_REQUEST.cpu_millicores, wanted.cpu_millicores, ceiling.cpu_millicores),
        _between(MIN_REQUEST.memory_bytes, wanted.memory_bytes, ceiling.memory_bytes),
    )


def _between(least: float, wanted: float, most: float) -> float:
    return least if math.isnan(wanted) else min(max(least, wanted), most)
