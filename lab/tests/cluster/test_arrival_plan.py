"""A plan is the same for the same seed and fills the cluster as asked."""

import numpy as np
import pytest

from lab.cluster import exporter_load
from lab.cluster.demo import arrival_plan, arriving
from simulator import contention, load_curves
from simulator.workloads import owner_profiles

SEEDS = [1, 2, 3, 11, 42]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_gives_one_plan(seed: int) -> None:
    assert arrival_plan.plan(seed) == arrival_plan.plan(seed)
    assert arrival_plan.plan(seed) != arrival_plan.plan(seed + 1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("nodes", [3, 20])
def test_use_fills_the_cluster_as_asked_at_its_peak_and_requests_fit(seed: int, nodes: int) -> None:
    shape = arrival_plan.Shape(nodes=nodes)
    plan = arrival_plan.plan(seed, shape)
    asked = sum(owner.requests.cpu_millicores * owner.replicas for owner in plan.staying)
    asked_memory = sum(owner.requests.memory_bytes * owner.replicas for owner in plan.staying)
    peak = arrival_plan.peak_use(plan)
    assert peak.cpu_millicores == pytest.approx(shape.cpu_fill_ratio * nodes * shape.node.cpu_millicores, rel=0.01)
    assert peak.memory_bytes == pytest.approx(shape.memory_fill_ratio * nodes * shape.node.memory_bytes, rel=0.01)
    assert asked <= shape.request_fill_ratio * nodes * shape.node.cpu_millicores * 1.02
    assert asked_memory <= shape.request_fill_ratio * nodes * shape.node.memory_bytes * 1.02


@pytest.mark.parametrize("seed", SEEDS)
def test_batches_arrive_in_order_within_the_span_and_every_owner_once(seed: int) -> None:
    plan = arrival_plan.plan(seed)
    times = [arrival.at_seconds for arrival in plan.arrivals]
    names = [owner.name for owner in plan.owners]
    assert times == sorted(times)
    assert 0 <= times[0] < times[-1] < plan.shape.span_seconds
    assert len(set(names)) == len(names)
    assert {owner.replicas for owner in plan.owners} <= set(owner_profiles.REPLICAS)


@pytest.mark.parametrize("seed", SEEDS)
def test_some_owners_leave_and_some_have_a_budget_that_allows_a_disruption(seed: int) -> None:
    plan = arrival_plan.plan(seed)
    arrived = {owner.name: arrival.at_seconds for arrival in plan.arrivals for owner in arrival.owners}
    assert plan.departures
    assert all(departure.at_seconds > arrived[departure.owner.name] for departure in plan.departures)
    budgets = [owner for owner in plan.owners if owner.min_available is not None]
    assert budgets
    assert all(1 <= (owner.min_available or 0) < owner.replicas for owner in budgets)


def test_the_manifests_say_requests_use_and_budget() -> None:
    owner = next(o for o in arrival_plan.plan(1).owners if o.min_available is not None)
    budget, deployment = arriving.manifests(owner, "shop")
    assert budget["spec"] == {"minAvailable": owner.min_available, "selector": {"matchLabels": {"app": owner.name}}}
    spec = deployment["spec"]
    assert isinstance(spec, dict)
    assert spec["replicas"] == owner.replicas
    annotations = spec["template"]["metadata"]["annotations"]
    assert exporter_load.profile(annotations, contention.Load()) == owner.profile
    (container,) = spec["template"]["spec"]["containers"]
    assert container["resources"]["requests"]["cpu"] == f"{owner.requests.cpu_millicores:.0f}m"


def test_an_owner_without_a_budget_is_a_deployment_only() -> None:
    owner = next(o for o in arrival_plan.plan(1).owners if o.min_available is None)
    (deployment,) = arriving.manifests(owner, "shop")
    assert deployment["kind"] == "Deployment"


def test_memory_is_guessed_here_alone() -> None:
    mean = contention.Load(1000.0, 1e9)
    used = owner_profiles.use(mean, load_curves.generate(5))
    known, guessed = (
        [requests(used, True, np.random.default_rng(seed)) for seed in range(300)]
        for requests in (owner_profiles.requests, arrival_plan.requests)
    )
    assert len({one.memory_bytes for one in known}) == 1
    ratios = [mean.memory_bytes / one.memory_bytes for one in guessed]
    assert min(ratios) == pytest.approx(0.25)
    assert max(ratios) == pytest.approx(3.0, rel=0.05)
    assert np.median(ratios) == pytest.approx(0.27, abs=0.08), "as in the Alibaba cluster"
    assert [one.cpu_millicores for one in known] == [one.cpu_millicores for one in guessed]
