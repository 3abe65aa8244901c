"""`evenload simulate` and `evenload demo` on clusters so small that a run takes a second."""

import json
import pathlib

import click
import click.testing
import pytest

from simulator.commands import demo, simulate
from simulator.results import table
from tests.unit.simulator import outcomes

SMALL = ("--nodes", "5", "--days", "0.15")


def run(command: click.Command, *arguments: str) -> click.testing.Result:
    """A command in this process."""
    result = click.testing.CliRunner().invoke(command, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_plain_and_each_policy_run_on_each_seed_and_again_to_the_same_figures(tmp_path: pathlib.Path) -> None:
    policy = tmp_path / "tried.yaml"
    policy.write_text(outcomes.POLICY_TEXT, encoding="utf-8")
    asked = (*SMALL, "--policy", str(policy), "--seed", "3", "--workers", "1", "-o", "json")
    first = run(simulate.main, *asked)
    assert first.exit_code == 0, first.stderr
    found = json.loads(first.stdout)
    assert [variant["name"] for variant in found["variants"]] == ["plain", "tried"]
    assert found["seeds"] == [3]
    assert found["settings"]["days"] == pytest.approx(0.15, abs=0.01)
    bound = found["figures"]["pods_bound"]["variants"]
    assert min(bound["plain"]["median"], bound["tried"]["median"]) >= 0.9 * found["settings"]["pods"]
    assert "tried, seed 3: done (2 of 2)" in first.stderr
    again = run(simulate.main, *asked[:-3], "2", "-o", "json")  # in other processes, to the last digit
    assert json.loads(again.stdout) == found


def test_the_demo_prints_the_table_writes_the_report_and_says_what_is_next(tmp_path: pathlib.Path) -> None:
    report = tmp_path / "demo.html"
    result = run(demo.main, "--nodes", "5", "--hours", "3", "--html", str(report))
    assert result.exit_code == 0, result.stderr
    assert "3 hours of 5 nodes" in result.stdout
    assert "effective_schedule_ratio" in result.stdout
    assert f"report: {report}" in result.stderr
    assert "next: evenload simulate --help" in result.stderr
    text = report.read_text(encoding="utf-8")
    assert "Decisions, as the extender explained them" in text
    assert "No decision was recorded." not in text


def test_a_reader_of_the_table_that_goes_away_does_not_cost_the_report(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(table, "print_table", gone)
    report = tmp_path / "report.html"
    with pytest.raises(BrokenPipeError):
        run(simulate.main, *SMALL, "--workers", "1", "--html", str(report))
    assert report.read_text(encoding="utf-8").endswith("</html>")
