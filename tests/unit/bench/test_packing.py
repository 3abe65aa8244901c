"""The contestants of the study of packing, and how it counts nodes without pods."""

import pathlib

import numpy as np
import pytest
from click import testing

from bench import __main__ as bench
from bench import packing, relief, scoring
from policy.schema import checks, load_policy
from simulator import contention, peer_comparison
from simulator.results.figures import Effectiveness, Figures, Load
from simulator.results.outcome import Outcome, Timeline

NOTHING = Load(0.0, 0.0, 0.0, 0.0, 0.0)
EMPTY = contention.SystemLoad()


def outcome(cpu: list[list[float]], memory: list[list[float]]) -> Outcome:
    """A run of half-hour steps with these loads [steps, nodes]."""
    loads = np.array(cpu, np.float32), np.array(memory, np.float32)
    timeline = Timeline(0.0, 1800.0, tuple("abc"[: len(cpu[0])]), *loads)
    figures = Figures(Effectiveness(0.3, 0.3, 7.5, 10.0, 0.75), NOTHING, NOTHING, 0, 0, 100, 0)
    return Outcome("x", 1, figures, timeline)


def test_a_node_without_pods_has_the_load_of_the_system_alone() -> None:
    cpu, memory = EMPTY.cpu_ratio, EMPTY.memory_ratio
    alone = [[cpu, cpu, 0.5], [cpu, 0.4, cpu]]
    run = outcome(alone, [[memory, 0.3, memory], [memory, 0.3, memory]])
    assert packing.empty_node_hours(run) == 0.5 * 3  # b has a pod that computes nothing at first, c one that ends


def test_a_node_that_has_not_joined_is_not_empty() -> None:
    nan = float("nan")
    assert packing.empty_node_hours(outcome([[nan, EMPTY.cpu_ratio]], [[nan, EMPTY.memory_ratio]])) == 0.5


def test_the_variants_pack_and_differ_in_nothing_else_than_they_say() -> None:
    for each in packing.VARIANTS:
        policy = each.variant.policy
        assert policy is not None
        assert not checks.combinations(policy), each.name
        assert (policy.score.goal, each.conditions(1).descheduler) == ("pack", False)
        assert policy.score.weights == load_policy.defaults().score.weights
    assert len({each.name for each in packing.CONTESTANTS}) == len(packing.CONTESTANTS)
    assert packing.CONTESTANTS[0].name == relief.DEFAULT


def test_every_part_is_played_under_both_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    run = outcome([[EMPTY.cpu_ratio]], [[EMPTY.memory_ratio]])
    played: list[peer_comparison.TraceSource] = []

    def held(source: peer_comparison.TraceSource, *_: object, **__: object) -> dict[str, tuple[Outcome, ...]]:
        played.append(source)
        return {each.name: (run, run) for each in packing.CONTESTANTS}

    monkeypatch.setattr(peer_comparison, "held", held)
    settings = scoring.Settings(pathlib.Path("t.npz"), seeds=2, contestants=packing.CONTESTANTS)
    rows = packing.measure(settings)
    rules = ("guessing", "careful")
    assert [(each.part, each.rule) for each in played] == [(part, rule) for part in (0, 1) for rule in rules]
    assert len(rows) == 4 * len(packing.VARIANTS)
    assert {(row.ours, row.yardstick) for row in rows} == {(1.0, 1.0)}


def test_it_needs_a_trace() -> None:
    result = testing.CliRunner().invoke(bench.main, ["packing"])
    assert "packing plays a trace" in result.output
