"""The contestants of the study of memory, and the load that they play."""

import pathlib

import numpy as np
import pytest
from click import testing

from bench import __main__ as bench
from bench import memory, relief, scoring
from policy.schema import checks, load_policy
from simulator import peer_comparison
from simulator.results.figures import Effectiveness, Figures, Load
from simulator.results.outcome import Outcome, Timeline


def test_the_variants_leave_what_is_said_of_cpu_as_it_is() -> None:
    default = load_policy.defaults()
    for each in memory.VARIANTS:
        policy = each.variant.policy
        assert policy is not None
        assert not checks.combinations(policy), each.name
        assert not each.conditions(1).descheduler
        weights = {name: weight for name, weight in policy.score.weights.items() if name.startswith("cpu")}
        assert weights == memory.CPU_WEIGHTS
        assert policy.recent_pods.usage_per_request.cpu == default.recent_pods.usage_per_request.cpu
    assert len({each.name for each in memory.CONTESTANTS}) == len(memory.CONTESTANTS)
    assert memory.CONTESTANTS[0].variant.policy == default


def test_every_part_is_played_under_both_rules_with_less_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = Load(0.0, 0.0, 0.0, 0.0, 0.0)
    timeline = Timeline(0.0, 60.0, ("a",), np.zeros((1, 1), np.float32), np.zeros((1, 1), np.float32))
    uneven = nothing._replace(spread_ratio=0.1)
    effective = Effectiveness(0.3, 0.3, 7.5, 10.0, 0.75)
    outcome = Outcome("x", 1, Figures(effective, nothing, uneven, 0, 0, 100, 0), timeline)
    played: list[peer_comparison.TraceSource] = []

    def held(source: peer_comparison.TraceSource, *_: object, **__: object) -> dict[str, tuple[Outcome, ...]]:
        played.append(source)
        return {each.name: (outcome, outcome) for each in memory.CONTESTANTS}

    monkeypatch.setattr(peer_comparison, "held", held)
    settings = scoring.Settings(pathlib.Path("t.npz"), seeds=2, contestants=memory.CONTESTANTS)
    rows = memory.measure(settings)
    assert [(one.part, one.rule, one.cpu_share) for one in played] == [
        (part, rule, memory.CPU_SHARE) for part in (0, 1) for rule in scoring.RULES
    ]
    assert len(rows) == 4 * len(memory.VARIANTS)
    assert {row.ours for row in rows} == {0.2}
    assert memory.CONTESTANTS[0].name == relief.DEFAULT


def test_it_needs_a_trace() -> None:
    result = testing.CliRunner().invoke(bench.main, ["memory"])
    assert "memory plays a trace" in result.output
