"""`evenload console`: the playground's replay, and figures of a simulated day."""

import dataclasses
from typing import Any

import pytest

from console.sources import SourceError
from policy.schema import load_policy
from simulator.commands import playground
from simulator.commands import simulated_console as simulated
from simulator.workloads import generator
from simulator.world import live

DOCUMENT = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"
IN_FORCE = load_policy.defaults().as_file()
SMALL = generator.GeneratedScenarios(dataclasses.replace(playground.SHAPE, nodes=4, pods=40, days=0.1))


def test_a_replay_has_both_days_beside_each_other() -> None:
    shares: list[float] = []
    text = f"{DOCUMENT}filter:\n  thresholds: {{cpu_avg_5m: 0.5}}\n"
    found: Any = playground.replay(SMALL, "a day", text, IN_FORCE, report=shares.append)
    assert [day["name"] for day in found["days"]] == ["in force", "tried"]
    assert len(found["nodes"]) == 4
    for day in found["days"]:
        assert len(day["hot_nodes"]) == len(day["spread"]) == len(found["at_seconds"])
        assert len(day["peaks"]) == 4
        assert max(day["peaks"]) > 0
    assert shares[-1] == 1.0
    assert shares == sorted(shares)
    assert {len(row["values"]) for row in found["figures"]} == {2}


def test_what_is_no_policy_is_not_replayed() -> None:
    with pytest.raises(SourceError, match="policy:1"):
        playground.replaying(None)("kind: Nothing", IN_FORCE, lambda share: None)


def test_figures_of_a_simulated_day_are_of_its_span() -> None:
    def moment(hours: float, total: float, effective: float) -> live.Moment:
        sums = dict.fromkeys(("cpu", "memory", "left_out", "looked_back", "stayed"), 0.0)
        return live.Moment(hours * 3600.0, sums | {"total": total, "effective": effective})

    moments = [moment(0, 0, 0), moment(1, 10, 5), moment(2, 20, 14)]
    found: Any = simulated.effectiveness(moments, 7 * 86400.0)
    assert (found["figures"]["effective_schedule_ratio"], found["covered_seconds"]) == (0.7, 7200.0)
    assert [one["effective_schedule_ratio"] for one in found["moments"]] == [0.5, 0.9]
    assert simulated.effectiveness(moments, 3600.0)["figures"]["effective_schedule_ratio"] == 0.9  # type: ignore[index]
    with pytest.raises(SourceError):
        simulated.effectiveness([], 3600.0)
