"""The contestants with a forecast, and the time that counts."""

import dataclasses
import pathlib

import numpy as np
import pytest
from click import testing

from bench import __main__ as bench
from bench import forecast, relief, scoring
from policy.schema import checks, load_policy
from simulator import peer_comparison
from simulator.results.figures import Effectiveness, Figures, Load
from simulator.results.outcome import Outcome, Timeline
from simulator.workloads import generator

STEP_SECONDS = 6 * 3600.0


def test_contestants_with_a_forecast_differ_in_metrics_and_weights_alone() -> None:
    default = load_policy.defaults()
    for each in forecast.FORECASTING:
        policy = each.variant.policy
        assert policy is not None
        assert not checks.combinations(policy)
        assert {metric.resource for metric in policy.metrics_in_force if metric.is_forecast} == {"cpu", "memory"}
        assert policy.model_copy(update={"metrics": (), "score": default.score}) == default
        assert policy.score.model_copy(update={"weights": default.score.weights}) == default.score
        assert not each.conditions(1).descheduler
    assert forecast.CONTESTANTS[0].variant.policy == default


def test_the_hours_in_which_a_forecast_learns_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node is hot for the first 30 hours and for one of the steps after them."""
    ratios = np.array([[0.9]] * 5 + [[0.9], [0.1], [0.1]], np.float32)
    timeline = Timeline(0.0, STEP_SECONDS, ("a",), ratios, ratios)
    nothing = Load(0.0, 0.0, 0.0, 0.0, 0.0)
    figures = Figures(Effectiveness(0.3, 0.3, 7.5, 10.0, 0.75), nothing, nothing, 0, 0, 100, 0)
    outcome = Outcome("x", 1, figures, timeline)
    settings = scoring.Settings(pathlib.Path("t.npz"), seeds=1, contestants=forecast.CONTESTANTS, parts=("judged",))
    monkeypatch.setattr(peer_comparison, "held", lambda *_, **__: {relief.DEFAULT: (outcome,)})
    assert [row.what for row in forecast.measure(settings)] == []
    monkeypatch.setattr(
        peer_comparison,
        "held",
        lambda *_, **__: {each.name: (dataclasses.replace(outcome),) for each in forecast.CONTESTANTS},
    )
    rows = forecast.measure(settings)
    assert len(rows) == 3 * len(forecast.FORECASTING)  # daily load, and a part of the trace under two rules
    assert {row.ours for row in rows} == {2 * STEP_SECONDS / 60}


def test_most_owners_of_the_daily_load_work_by_the_clock() -> None:
    """Half of the load's swing at least is the day's, where the default shape has hardly any."""
    shape = dataclasses.replace(forecast.DAILY, days=2.0, step_seconds=3600.0)

    def swing(daily_ratio: float) -> float:
        scenario = generator.generate(3, dataclasses.replace(shape, daily_ratio=daily_ratio))
        cpu = np.nan_to_num(scenario.usage.cpu_millicores)
        return float(np.mean([np.std(cpu[start : start + 24]) for start in range(0, len(cpu) - 24, 24)]) / cpu.mean())

    assert swing(0.7) > 1.5 * swing(0.0)


def test_it_needs_a_trace() -> None:
    result = testing.CliRunner().invoke(bench.main, ["forecast"])
    assert "forecast plays a trace" in result.output
