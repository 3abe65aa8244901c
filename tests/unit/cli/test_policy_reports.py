"""Problems of a policy beside its lines: annotations of a GitHub workflow, and SARIF."""

import json
import pathlib

from cli import policy as command
from policy.schema import problems
from tests import commands

HEAD = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"
BROKEN = HEAD + "filter:\n  thresholds: {cpu_avg_5m: 65}\n"


def reported(path: pathlib.Path, text: str, form: str, code: int) -> str:
    """What the command prints of a file that has this text."""
    path.write_text(text)
    return commands.output("policy", "validate", path, "-o", form, codes=(code,))


def test_an_annotation_names_file_line_and_column(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "policy.yaml"
    (line,) = reported(path, BROKEN, "github", 2).splitlines()
    assert line.startswith(f"::error file={path},line=4,col=28,title=filter.thresholds.cpu_avg_5m::")
    assert "65" in line


def test_a_text_cannot_begin_a_command_of_its_own() -> None:
    hostile = problems.Problem(1, 2, "a,b:c", "50 %\n::error::injected")
    (line,) = command.github("x.yaml", (), (hostile,)).splitlines()
    assert line == "::warning file=x.yaml,line=1,col=2,title=a%2Cb%3Ac::a,b:c: 50 %25%0A::error::injected"


def test_a_sarif_log_has_a_result_for_each_problem_at_its_place(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "policy.yaml"
    log = json.loads(reported(path, BROKEN, "sarif", 2))
    assert log["version"] == "2.1.0"
    (one,) = log["runs"][0]["results"]
    rules = [rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]]
    assert (one["level"], one["ruleId"] in rules) == ("error", True)
    place = one["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": str(path)}, "region": {"startLine": 4, "startColumn": 28}}


def test_a_sound_file_has_no_results_and_code_0(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "policy.yaml"
    assert json.loads(reported(path, HEAD, "sarif", 0))["runs"][0]["results"] == []
    assert reported(path, HEAD, "github", 0).strip() == ""
