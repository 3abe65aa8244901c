"""A generated scenario is the same for the same seed, fills the nodes as asked, says where all use stands."""

import collections
import dataclasses

import numpy as np
import pytest

from simulator.workloads import generator, owner_profiles
from tests.unit.simulator import scenarios

SMALL = generator.Shape(nodes=8, days=0.5, pods=200)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_gives_one_scenario(seed: int) -> None:
    one, other = generator.generate(seed, SMALL), generator.generate(seed, SMALL)
    assert (one.owners, one.replicas, one.machines) == (other.owners, other.replicas, other.machines)
    assert np.array_equal(one.usage.cpu_millicores, other.usage.cpu_millicores)
    assert generator.generate(seed + 1, SMALL).replicas != one.replicas


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("rule", list(owner_profiles.RULES))
def test_use_fills_the_nodes_as_asked_in_the_busy_steps_and_requests_fit(seed: int, rule: str) -> None:
    shape = dataclasses.replace(SMALL, rule=rule)
    drawn = generator.generate(seed, shape)
    used, asked = scenarios.used_ratio(drawn), scenarios.asked_ratio(drawn)
    busy = np.percentile(used, 95, axis=1)
    assert busy == pytest.approx([shape.cpu_fill_ratio, shape.memory_fill_ratio], rel=0.02)
    assert asked.max() <= shape.request_fill_ratio * 1.03


def test_most_of_the_swing_is_the_days_where_most_owners_work_by_the_clock() -> None:
    shape = generator.Shape(nodes=20, days=2.0, pods=700, service_pods_per_node=6.0, step_seconds=3600.0)

    def swing(daily_ratio: float) -> float:
        scenario = generator.generate(3, dataclasses.replace(shape, daily_ratio=daily_ratio))
        cpu = np.nan_to_num(scenario.usage.cpu_millicores)
        return float(np.mean([np.std(cpu[start : start + 24]) for start in range(0, len(cpu) - 24, 24)]) / cpu.mean())

    assert swing(0.7) > 1.5 * swing(0.0)


def test_what_the_speed_budget_is_measured_on_has_its_size() -> None:
    drawn = generator.generate(1, generator.WEEK)
    pods = [replica for replica in drawn.replicas if drawn.owners[replica.owner].kind != "DaemonSet"]
    assert (len(drawn.machines), drawn.steps, drawn.step_seconds, len(pods)) == (100, 2016, 300, 10_000)


def test_what_the_demo_shows_is_a_day_of_forty_nodes() -> None:
    assert (generator.DEMO.nodes, generator.DEMO.days, generator.DEMO.step_seconds) == (40, 1, 300)


def test_every_replica_has_a_known_use_for_all_its_time_and_a_little_longer() -> None:
    drawn = generator.generate(4, SMALL)
    for replica in drawn.replicas:
        first, end = scenarios.steps(drawn, replica)
        used = drawn.usage.cpu_millicores[replica.offset + first : replica.offset + end + 1]
        assert len(used) == end + 1 - first
        assert (used > 0).all()


def test_replicas_of_an_owner_share_a_curve_with_levels_and_lags_of_their_own() -> None:
    drawn = generator.generate(4, dataclasses.replace(SMALL, agents=False))
    by_owner = collections.defaultdict(list)
    for replica in drawn.replicas:
        by_owner[replica.owner].append(replica)
    batches = [replicas for owner, replicas in by_owner.items() if drawn.owners[owner].kind == "Job"]
    siblings = max(batches, key=len)
    assert len({replica.level for replica in siblings}) == len(siblings)
    assert {replica.offset - siblings[0].offset for replica in siblings} <= {-2, -1, 0, 1, 2}
    assert np.log([replica.level for replica in drawn.replicas]).std() == pytest.approx(0.15, rel=0.2)


def test_an_agent_runs_on_every_node_or_none_does() -> None:
    drawn = generator.generate(1, SMALL)
    agents = [replica for replica in drawn.replicas if drawn.owners[replica.owner].kind == "DaemonSet"]
    assert sorted(agent.node for agent in agents) == [machine.name for machine in drawn.machines]
    none = generator.generate(1, dataclasses.replace(SMALL, agents=False))
    assert all(owner.kind != "DaemonSet" for owner in none.owners)
    assert all(replica.node == "" for replica in none.replicas)


def test_guessing_owners_mislead_and_careful_ones_do_not() -> None:
    def spread(rule: str) -> float:
        ratios = scenarios.used_per_request(generator.generate(1, dataclasses.replace(SMALL, rule=rule)))
        return float(np.percentile(ratios, 90) / np.percentile(ratios, 10))

    assert spread("guessing") > 2 * spread("careful")


def test_an_unknown_rule_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match='"hopeful", expected one of guessing, careful, mix'):
        generator.generate(1, dataclasses.replace(SMALL, rule="hopeful"))


def test_the_assumptions_name_the_seed_and_the_rule() -> None:
    told = " ".join(generator.generate(7, SMALL).assumptions)
    assert "seed 7" in told
    assert "80 % of the owners guess" in told
