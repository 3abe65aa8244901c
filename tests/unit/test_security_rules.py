"""ruff's security rules are on for all that users run; what is excepted is named here and says why."""

import pathlib
import re
import tomllib
from typing import Any

import pytest

from tests import pages

ROOT = pathlib.Path(__file__).parents[2]
PROVING = {"tests/**", "lab/**"}  # in no image of ours, and not reachable from any port of a cluster
PRODUCT = (*(package for package in pages.PACKAGES if f"{package}/**" not in PROVING), "deploy")
EXCEPTION = re.compile(r"#\s*(?:noqa: [A-Z0-9, ]*\bS[0-9]{3}|nosec)[A-Z0-9, ]*(.*)")


@pytest.fixture(scope="module")
def rules() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]
    return found


def is_security(rule: str) -> bool:
    """Whether a code is one of flake8-bandit's."""
    return re.fullmatch(r"S[0-9]*", rule) is not None


def test_all_of_them_are_on(rules: dict[str, Any]) -> None:
    assert "S" in rules["lint"]["select"]
    assert "RUF" in rules["lint"]["select"]  # RUF100: an exception that excepts nothing is a mistake itself
    assert not list(filter(is_security, rules["lint"]["ignore"]))
    assert rules["extend-exclude"] == [".venv"]


def test_whole_files_are_excepted_only_where_nothing_is_shipped(rules: dict[str, Any]) -> None:
    excepted = {
        place: set(filter(is_security, codes))
        for place, codes in rules["lint"]["per-file-ignores"].items()
        if any(map(is_security, codes)) and place not in PROVING
    }
    assert excepted == {"descheduler/ledger/ledger.py": {"S608"}}


def test_every_exception_of_a_line_says_why() -> None:
    sources = [path for package in PRODUCT for path in (ROOT / package).rglob("*.py")]
    lines = [(path, line) for path in sources for line in path.read_text(encoding="utf-8").splitlines()]
    found = [(path.name, line, match[1]) for path, line in lines if (match := EXCEPTION.search(line))]
    assert len(found) > 5  # or nothing is looked at
    assert not [(name, line) for name, line, why in found if not re.match(r" ?- \w", why)]
