"""`evenload console`: the playground's judgement and replay, figures of a simulated day, options that are refused."""

import dataclasses
import pathlib
from typing import Any

import click.testing
import pytest

from cli.console import command, playground, simulated
from console.sources import SourceError
from policy.schema import load_policy
from simulator.workloads import generator
from simulator.world import live

DOCUMENT = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"
IN_FORCE = load_policy.defaults().as_file()
SMALL = generator.GeneratedScenarios(dataclasses.replace(playground.SHAPE, nodes=4, pods=40, days=0.1))


def test_problems_of_a_policy_have_their_places() -> None:
    found: Any = playground.check(f"{DOCUMENT}filter:\n  thresholds: {{cpu_avg_5m: 65}}\n", IN_FORCE)
    (problem,) = found["problems"]
    assert (problem["line"], problem["path"]) == (4, "filter.thresholds.cpu_avg_5m")
    assert found["differences"] == []


def test_a_sound_policy_says_what_differs_from_the_one_in_force() -> None:
    found = playground.check(f"{DOCUMENT}filter:\n  thresholds: {{cpu_avg_5m: 0.5}}\n", IN_FORCE)
    assert found["problems"] == []
    assert "filter.thresholds.cpu_avg_5m: 0.65 -> 0.5" in found["differences"]  # type: ignore[operator]
    assert playground.check(DOCUMENT, IN_FORCE)["differences"] == []
    assert playground.check(DOCUMENT, {})["differences"] == []


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
        playground.replay(SMALL, "a day", "kind: Nothing", IN_FORCE, report=lambda share: None)


def test_figures_of_a_simulated_day_are_of_its_span() -> None:
    def moment(hours: float, total: float, effective: float) -> live.Moment:
        sums = dict.fromkeys(("cpu", "memory", "left_out", "looked_back", "stayed"), 0.0)
        return live.Moment(hours * 3600.0, sums | {"total": total, "effective": effective})

    moments = [moment(0, 0, 0), moment(1, 10, 5), moment(2, 20, 14)]
    found: Any = simulated.effectiveness(moments, 7 * 86400.0)
    assert found["figures"]["effective_schedule_ratio"] == 0.7
    assert [one["effective_schedule_ratio"] for one in found["moments"]] == [0.5, 0.9]
    assert simulated.effectiveness(moments, 3600.0)["figures"]["effective_schedule_ratio"] == 0.9  # type: ignore[index]
    with pytest.raises(SourceError):
        simulated.effectiveness([], 3600.0)


@pytest.mark.parametrize(("token", "message"), [("", "is empty"), ("short", "expected 16 or more")])
def test_a_token_that_anybody_could_guess_is_refused(tmp_path: pathlib.Path, token: str, message: str) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    arguments = ["--demo", "--token-file", str(file), "--demo-nodes", "2", "--demo-hours", "0"]
    result = click.testing.CliRunner().invoke(command.main, arguments)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    ("host", "local"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("10.0.0.1", False), ("", False)]
)
def test_it_is_known_when_only_this_machine_is_listened_to(host: str, local: bool) -> None:
    assert command._is_loopback(host) is local
