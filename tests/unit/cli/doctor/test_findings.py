"""Findings: how several become one, and which exit code they make."""

import pytest

from cli.doctor import findings
from runtime.exit_codes import Exit

OK, WARN, FAIL = findings.ok("fine"), findings.warn("odd", "turn it"), findings.fail("dead", "wake it")
UNKNOWN = findings.unknown("dark")
GONE = findings.Finding(findings.Verdict.UNKNOWN, "gone", "", unreachable=True)


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        pytest.param([OK, OK], Exit.OK, id="all well"),
        pytest.param([OK, UNKNOWN], Exit.PARTIAL, id="one could not be looked at"),
        pytest.param([UNKNOWN, WARN], Exit.FINDINGS, id="something to put right"),
        pytest.param([FAIL, OK], Exit.FINDINGS, id="something that does not work"),
        pytest.param([FAIL, GONE], Exit.UNREACHABLE, id="a server that gave no answer"),
    ],
)
def test_the_exit_code_is_that_of_the_gravest(verdicts: list[findings.Finding], code: Exit) -> None:
    assert findings.exit_code(verdicts) is code


def test_several_findings_become_the_gravest_with_all_that_is_not_ok() -> None:
    assert findings.worst([OK, WARN, FAIL, WARN]) == findings.Finding(
        findings.Verdict.FAIL, "odd; dead; odd", "turn it; wake it"
    )
    assert findings.worst([OK, findings.ok("too")]) == findings.ok("fine; too")
    assert findings.worst([OK, GONE]).unreachable


def test_a_few_of_many_say_how_many_more() -> None:
    assert findings.few("abc") == "a, b, c"
    assert findings.few("abcde") == "a, b, c and 2 more"
