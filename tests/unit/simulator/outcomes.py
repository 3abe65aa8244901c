"""Outcomes as `simulator.world` would make them, drawn from a seed: enough to look at a report without a simulation."""

import numpy as np

from policy.loading import loader
from policy.schema import load_policy
from simulator.results import figures, study
from simulator.results.outcome import EvictedPod, Outcome, ScheduledPod, Timeline

START_SECONDS = 1_790_000_000.0
POLICY_TEXT = """\
apiVersion: evenload.io/v1alpha1
kind: LoadPolicy
descheduler: {mode: Enforce}
"""


def policy() -> load_policy.LoadPolicy:
    """The shipped defaults, enforced."""
    return loader.load(POLICY_TEXT, "policy.yaml")


def timeline(seed: int = 1, *, nodes: int = 12, steps: int = 288, spread_ratio: float = 0.2) -> Timeline:
    """Daily swings around a level of each node's own; the last node joins after a tenth of the time."""
    rng = np.random.default_rng(seed)
    swing = np.sin(np.arange(steps)[:, None] * 2 * np.pi / 288) * 0.12
    levels = 0.5 + spread_ratio * rng.standard_normal(nodes)
    noise = rng.normal(0.0, 0.03, (2, steps, nodes))
    cpu, memory = (np.clip(levels + swing + one, 0.01, 1.0).astype(np.float32) for one in noise)
    cpu[: steps // 10, -1] = memory[: steps // 10, -1] = np.nan
    return Timeline(START_SECONDS, 300.0, tuple(f"node-{at:02d}" for at in range(nodes)), cpu, memory)


def outcome(variant: str = "plain", seed: int = 1, *, load_timeline: Timeline | None = None, moves: int = 0) -> Outcome:
    """A run whose load figures are those of its timeline."""
    load_timeline = load_timeline or timeline(seed)
    cpu = figures.load_over(load_timeline.cpu_ratio, load_timeline.step_seconds)
    memory = figures.load_over(load_timeline.memory_ratio, load_timeline.step_seconds)
    placed = figures.Effectiveness(0.41, 0.38, 61.5 + moves, 120.0 + moves, (61.5 + moves) / (120 + moves))
    moved = tuple(_moved(load_timeline, number) for number in range(moves))
    explained = tuple(_explained(load_timeline, number) for number in range(3 if variant != "plain" else 0))
    found = figures.Figures(placed, cpu, memory, moves, 0, 120 + moves, 0)
    return Outcome(variant, seed, found, load_timeline, moved, explained, assumptions=("Memory is never reclaimed.",))


def _moved(load_timeline: Timeline, number: int) -> EvictedPod:
    at_seconds = load_timeline.start_seconds + (number + 1) * 3 * load_timeline.step_seconds
    node, target = (
        load_timeline.nodes[number % len(load_timeline.nodes)],
        load_timeline.nodes[(number + 1) % len(load_timeline.nodes)],
    )
    metric = ("cpu_avg_5m", "memory_avg_5m")[number % 2]
    return EvictedPod(
        at_seconds, f"shop/web-{number}", "shop/Deployment/web", node, metric, 0.87, 0.8, 0.6, 0.74, target
    )


def _explained(load_timeline: Timeline, number: int) -> ScheduledPod:
    terms = {"cpu_avg_5m": 1.1, "memory_avg_5m": 2.2}
    rows: list[dict[str, object]] = [
        {
            "name": name,
            "values": {"cpu_avg_5m": 0.4, "memory_avg_5m": 0.3},
            "expected": {"cpu_avg_5m": 0.012, "memory_avg_5m": 0.0},
            "terms": terms,
            "base": 6.5,
            "penalty": 1.0,
            "score": 6 - at % 4,
            "allowed": at % 5 != 4,
            "rejected": "cpu_avg_5m over 0.65" if at % 5 == 4 else None,
        }
        for at, name in enumerate(load_timeline.nodes)
    ]
    at_seconds = load_timeline.start_seconds + number * 3600
    return ScheduledPod(
        at_seconds, f"shop/web-{number}", load_timeline.nodes[1], {"nodes": rows, "exempt": None, "degraded": []}
    )


def variant(name: str = "policy.yaml") -> study.Variant:
    """The policy above as a variant."""
    return study.Variant(name, policy(), "policy.yaml", "0123456789ab", POLICY_TEXT)


def study_of(*outcomes: tuple[Outcome, ...], variants: tuple[study.Variant, ...] | None = None) -> study.Study:
    """A study of outcomes, one tuple a variant; by default plain and the policy above."""
    outcomes = outcomes or ((outcome(),), (outcome("policy.yaml", load_timeline=timeline(spread_ratio=0.08), moves=9),))
    variants = variants or (study.PLAIN, variant())[: len(outcomes)]
    by_name = {one.name: results for one, results in zip(variants, outcomes, strict=True)}
    seeds = tuple(one.seed for one in outcomes[0])
    return study.Study("A day of 12 nodes", {"seed": seeds[0], "nodes": 12}, variants, seeds, by_name)
