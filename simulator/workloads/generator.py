"""A Kubernetes-like workload from a seed: services with releases and budgets, bursts of batch jobs, an agent per node.

Pure: the same seed and shape give the same scenario, whatever the policy; `world` lets it happen. `workloads.arrivals`
says who comes when, `load_curves` how load moves, `workloads.owner_profiles` how requests mislead; here they are put
together and brought to the fill asked for. `DEMO` is the day that `make demo` shows, `WEEK` what the speed budget is
measured on.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from simulator import contention, load_curves, scenario
from simulator.workloads import arrivals, owner_profiles, scenario_builder

JOB_CURVES = 64  # jobs play windows of so many curves: a new curve for each of thousands of minutes would cost seconds
AGENT_USE = contention.Load(60.0, 180 * 2.0**20)
AGENT_REQUESTS = contention.Load(100.0, 200 * 2.0**20)
AGENT_PRIORITY = 2_000_001_000  # system-node-critical
BUSY_PERCENTILE = 95
ONE = contention.Load(1.0, 1.0)


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """Size and shape of a generated scenario.

    `rule` is how owners ask: "guessing", "careful", or "mix" (four of five guess). All use together reaches
    `cpu_fill_ratio` and `memory_fill_ratio` of the nodes in the busiest twentieth of the steps; requests never add up
    to more than `request_fill_ratio`, and those of one pod stay under `pod_ceiling_ratio` of a node, so that a
    scheduler that looks at requests alone can place every pod. A job's replica is `job_size_ratio` as big as a
    service's. `pods` are all that come, agents not counted. `daily_ratio` of the owners work by the clock.
    """

    nodes: int = 40
    node: contention.Load = contention.Load(8000.0, 32 * 2.0**30)  # noqa: RUF009 - immutable
    days: float = 1.0
    step_seconds: float = load_curves.STEP_SECONDS
    pods: int = 900
    service_pods_per_node: float = 5.0
    rule: str = "mix"
    cpu_fill_ratio: float = 0.56
    memory_fill_ratio: float = 0.50
    request_fill_ratio: float = 0.80
    pod_ceiling_ratio: float = 0.40
    job_size_ratio: float = 0.5
    agents: bool = True
    daily_ratio: float = 0.0


DEMO = Shape()
WEEK = Shape(nodes=100, days=7.0, pods=10_000)


def generate(seed: int, shape: Shape = DEMO) -> scenario.Scenario:
    """The scenario of a seed. ValueError for an unknown rule, or where `pods` are fewer than the services' own."""
    rng = np.random.default_rng((seed, 4))
    frame = scenario_builder.Frame(shape.step_seconds, round(shape.days * arrivals.DAY_SECONDS / shape.step_seconds))
    crowd = arrivals.OwnerArrivals(
        seconds=frame.seconds,
        pods=shape.pods,
        service_pods=round(shape.nodes * shape.service_pods_per_node),
        largest_batch=shape.nodes,
    )
    nodes = scenario_builder.machines(shape.nodes, shape.node)
    drafts = [
        _draft(seed, number, life, shape, frame=frame, rng=rng) for number, life in enumerate(arrivals.draw(crowd, rng))
    ]
    agents = [_agents(nodes, frame)] if shape.agents else []
    sized = [*agents, *_sized(drafts, agents, shape, frame)]
    return scenario_builder.built(f"seed {seed}", sized, nodes, frame, assumptions=_assumptions(seed, shape))


def _draft(
    seed: int,
    number: int,
    life: arrivals.Life,
    shape: Shape,
    *,
    frame: scenario_builder.Frame,
    rng: np.random.Generator,
) -> scenario_builder.Draft:
    job = life.kind == "Job"
    curve_seed = seed * 100_000 + (number % JOB_CURVES + 50_000 if job else number)
    days = math.ceil(frame.seconds / arrivals.DAY_SECONDS)
    used, curve = _source(
        curve_seed, max(2, days) * load_curves.DAY_STEPS, shape.node, shape.job_size_ratio if job else 1.0
    )
    clock = np.random.default_rng((seed, number, 6))
    if clock.random() < shape.daily_ratio:
        curve = load_curves.by_the_clock(curve, clock)
        used = owner_profiles.use(used.mean, curve)
    guessing = bool(rng.random() < owner_profiles.guessing_ratio(shape.rule))
    levels, lags = scenario_builder.levels_and_lags(life.slots, frame, rng)
    return scenario_builder.Draft(
        name=f"{life.kind.lower()}-{'guessed' if guessing else 'fitting'}-requests-{number:04d}",
        life=life,
        first_step=frame.steps_of(life)[0],
        curve=scenario_builder.cut(curve, frame, life),
        mean=used.mean,
        requests=owner_profiles.requests(used, guessing, rng),
        levels=levels,
        lags=lags,
    )


@functools.lru_cache(maxsize=4096)
def _source(
    curve_seed: int, steps: int, node: contention.Load, size_ratio: float
) -> tuple[owner_profiles.Use, load_curves.Curve]:
    """Returns a replica's use and its curve; many jobs share one, because percentiles cost more than all the rest."""
    curve = load_curves.generate(curve_seed, steps)
    mean = owner_profiles.mean_use(load_curves.owner_means(curve_seed), node)
    return owner_profiles.use(owner_profiles.times(mean, contention.Load(size_ratio, size_ratio)), curve), curve


def _agents(nodes: Sequence[scenario.Machine], frame: scenario_builder.Frame) -> scenario_builder.Draft:
    """A DaemonSet that uses the same on every node all the time."""
    stays = tuple(arrivals.Stay(slot, 0.0, math.inf, machine.name) for slot, machine in enumerate(nodes))
    life = arrivals.Life("DaemonSet", AGENT_PRIORITY, None, stays)
    return scenario_builder.Draft(
        name="agent",
        life=life,
        first_step=0,
        curve=scenario_builder.cut(load_curves.FLAT, frame, life),
        mean=AGENT_USE,
        requests=AGENT_REQUESTS,
        levels=(1.0,) * len(nodes),
        lags=(0,) * len(nodes),
    )


def _sized(
    drafts: Sequence[scenario_builder.Draft],
    agents: Sequence[scenario_builder.Draft],
    shape: Shape,
    frame: scenario_builder.Frame,
) -> list[scenario_builder.Draft]:
    """Brings the use of the busy steps to the fill asked for, then the most requests under what can be placed.

    Use is scaled per resource for all owners alike, requests with it, so what misleads stays. Only if the requests do
    not fit are they all scaled down by one more factor.
    """
    busy = np.percentile(scenario_builder.used_by_step(drafts, frame), BUSY_PERCENTILE, axis=1)
    taken = scenario_builder.used_by_step(agents, frame).max(axis=1)
    usage = _factor(shape, (shape.cpu_fill_ratio, shape.memory_fill_ratio), taken, busy)
    grown = [each.sized(usage, usage, shape.node, shape.pod_ceiling_ratio) for each in drafts]
    most = scenario_builder.asked_by_step(grown, frame).max(axis=1)
    room = _factor(
        shape, (shape.request_fill_ratio,) * 2, scenario_builder.asked_by_step(agents, frame).max(axis=1), most
    )
    request = contention.Load(min(1.0, room.cpu_millicores), min(1.0, room.memory_bytes))
    return [each.sized(ONE, request, shape.node, shape.pod_ceiling_ratio) for each in grown]


def _factor(
    shape: Shape, fills: tuple[float, float], taken: scenario_builder.Amounts, amounts: scenario_builder.Amounts
) -> contention.Load:
    """Returns the factor per resource that makes amounts, with those taken already, a share of all nodes."""
    capacity = np.array([shape.node.cpu_millicores, shape.node.memory_bytes]) * shape.nodes
    factors = (capacity * fills - taken) / amounts
    return contention.Load(float(factors[0]), float(factors[1]))


def _assumptions(seed: int, shape: Shape) -> tuple[str, ...]:
    return (
        f"The workload is generated (seed {seed}): load moves as in 251 jobs of the Google cell of 2011, jobs come and "
        "go as virtual machines in the Azure region of 2016.",
        owner_profiles.sentence(shape.rule),
        f"Sizes are scaled so that use reaches {100 * shape.cpu_fill_ratio:.0f} % of CPU and "
        f"{100 * shape.memory_fill_ratio:.0f} % of memory in the busiest twentieth of the time, and requests at most "
        f"{100 * shape.request_fill_ratio:.0f} %.",
    )


@dataclasses.dataclass(frozen=True, slots=True)
class GeneratedScenarios:
    """A workload of this shape, drawn again for each seed."""

    shape: Shape

    def scenario(self, seed: int) -> scenario.Scenario:
        """The workload of a seed; ValueError for a shape that cannot be."""
        return generate(seed, self.shape)
