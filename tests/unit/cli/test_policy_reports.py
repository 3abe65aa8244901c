"""Problems of a policy beside its lines: annotations of a GitHub workflow, and SARIF."""

import json
import pathlib

import click.testing

from cli import policy_reports
from policy.schema import problems
from tests.unit.cli import commands

BROKEN = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\nfilter:\n  thresholds: {cpu_avg_5m: 65}\n"


def run(path: pathlib.Path, form: str) -> click.testing.Result:
    """The command on a file."""
    return commands.run("policy", "validate", path, "-o", form)


def test_an_annotation_names_file_line_and_column(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(BROKEN)
    result = run(path, "github")
    assert result.exit_code == 2
    (line,) = result.stdout.splitlines()
    assert line.startswith(f"::error file={path},line=4,col=28,title=filter.thresholds.cpu_avg_5m::")
    assert "65" in line


def test_a_text_cannot_begin_a_command_of_its_own() -> None:
    hostile = problems.Problem(1, 2, "a,b:c", "50 %\n::error::injected")
    (line,) = policy_reports.github("x.yaml", (), (hostile,)).splitlines()
    assert line == "::warning file=x.yaml,line=1,col=2,title=a%2Cb%3Ac::a,b:c: 50 %25%0A::error::injected"


def test_a_sarif_log_has_a_result_for_each_problem_at_its_place(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(BROKEN)
    result = run(path, "sarif")
    assert result.exit_code == 2
    log = json.loads(result.stdout)
    assert log["version"] == "2.1.0"
    (one,) = log["runs"][0]["results"]
    rules = [rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]]
    assert (one["level"], one["ruleId"] in rules) == ("error", True)
    place = one["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": str(path)}, "region": {"startLine": 4, "startColumn": 28}}


def test_a_sound_file_has_no_results_and_code_0(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n")
    result = run(path, "sarif")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["runs"][0]["results"] == []
    assert run(path, "github").stdout.strip() == ""
