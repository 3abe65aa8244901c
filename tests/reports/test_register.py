"""The register: every test of a report names its source, and the page says them all."""

import ast
import subprocess
import sys

import pytest

from tests.reports import register

PAGE = register.HERE.parents[1] / "docs" / "why" / "reports.md"


def test_every_test_of_a_report_names_its_report() -> None:
    without = [
        f"{path.name}: {node.name}"
        for path in register.HERE.rglob("test_*.py")
        if path.name != "test_register.py"
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        if not any("reported" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]
    assert not without


def test_the_page_has_every_report() -> None:
    command = [sys.executable, "-m", "tests.reports.register"]
    written = subprocess.run(command, cwd=PAGE.parents[2], capture_output=True, text=True, check=True, timeout=120)
    assert PAGE.read_text(encoding="utf-8") == written.stdout, f"write it anew: {' '.join(command)} > {PAGE}"
    assert written.stdout.count("\n| ") > 2, "the page has no report"


def test_a_source_that_cannot_be_looked_up_is_refused() -> None:
    with pytest.raises(ValueError, match="owner/repository#number"):
        register.reported("readings", "a blog", before=register.Before.RIGHT)
