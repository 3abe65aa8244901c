"""`make -C lab audit`: a finding is named, and a package that was not looked at never counts as sound."""

import json

import pytest

from lab import audit

SOUND: dict[str, object] = {"name": "sound", "version": "1", "vulns": []}
SKIPPED: dict[str, object] = {"name": "skipped", "skip_reason": "Dependency not found on PyPI: skipped (1)"}


def parsed(*packages: dict[str, object]) -> audit.Report:
    return audit.parse(json.dumps({"dependencies": packages, "fixes": []}))


@pytest.mark.parametrize(("fixes", "fixed"), [(["3", "4"], "3, 4"), ([], "no version yet")])
def test_a_finding_names_package_version_advisory_and_fix(fixes: list[str], fixed: str) -> None:
    bad: dict[str, object] = {"name": "bad", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": fixes}]}
    report = parsed(SOUND, bad)
    assert report.findings == (f"bad 2: PYSEC-1, fixed in {fixed}",)
    assert audit.summary("a.txt", report) == "a.txt: 1 vulnerabilities known in 2 packages"


def test_a_package_that_was_not_looked_at_is_counted_with_the_reason() -> None:
    assert audit.summary("a.txt", parsed(SOUND, SKIPPED, SKIPPED)) == (
        "a.txt: 0 vulnerabilities known in 1 packages; 2 were NOT looked at: Dependency not found on PyPI: skipped (1)"
    )
