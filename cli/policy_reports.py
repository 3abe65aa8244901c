"""Problems of a policy file as annotations of a GitHub workflow, and as SARIF.

`evenload policy validate -o github` prints workflow commands, which a pull request shows at the line; `-o sarif` prints
a SARIF 2.1.0 log (OASIS), which code scanning takes. Warnings are in both.
"""

from typing import Any, Final

from policy.schema import problems
from runtime import version

SARIF_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_RULES: Final = {"error": "policy-problem", "warning": "policy-warning"}
_WORDS: Final = {
    "error": "The services refuse a policy file with this.",
    "warning": "The services take it; it is hardly meant.",
}

Problems = tuple[problems.Problem, ...]


def github(source: str, wrong: Problems, warnings: Problems) -> str:
    """A workflow command for each problem and warning, a line each; "" for none."""
    return "\n".join(
        f"::{level} file={_property(source)},line={one.line},col={one.column},title={_property(one.path or 'policy')}"
        f"::{_escaped(_message(one))}"
        for level, one in _levelled(wrong, warnings)
    )


def sarif(source: str, wrong: Problems, warnings: Problems) -> dict[str, Any]:
    """A log with one run, and a result for each problem and warning."""
    rules = [{"id": rule, "shortDescription": {"text": _WORDS[level]}} for level, rule in _RULES.items()]
    driver = {"name": "evenload", "version": version.VERSION, "rules": rules}
    results = [_result(source, level, one) for level, one in _levelled(wrong, warnings)]
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _levelled(wrong: Problems, warnings: Problems) -> list[tuple[str, problems.Problem]]:
    return [("error", one) for one in wrong] + [("warning", one) for one in warnings]


def _result(source: str, level: str, problem: problems.Problem) -> dict[str, Any]:
    region = {"startLine": problem.line, "startColumn": problem.column}
    place = {"artifactLocation": {"uri": source}, "region": region}
    return {
        "ruleId": _RULES[level],
        "level": level,
        "message": {"text": _message(problem)},
        "locations": [{"physicalLocation": place}],
    }


def _message(problem: problems.Problem) -> str:
    return f"{problem.path}: {problem.message}" if problem.path else problem.message


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
