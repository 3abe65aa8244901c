"""The console script lists its subcommands without importing them and refuses names it does not know."""

import subprocess
import sys

import pytest

import cli.__main__
from tests import commands


def test_help_names_every_subcommand_with_its_summary() -> None:
    result = commands.run("--help", code=0)
    for name, subcommand in cli.__main__.SUBCOMMANDS.items():
        assert f"{name}  " in result.output
        assert subcommand.summary in result.output


def test_help_imports_no_service_and_no_kubernetes() -> None:
    program = (
        "import sys, click.testing, cli.__main__ as m;"
        "click.testing.CliRunner().invoke(m.main, ['--help']);"
        "sys.exit(any(name in sys.modules for name in "
        "('cli.doctor', 'kubernetes', 'annotator', 'extender', 'descheduler', 'numpy', 'pydantic', 'yaml')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("name", ["annotator", "descheduler", "extender"])
def test_a_services_subcommand_is_the_service_itself(name: str) -> None:
    assert "--policy" in commands.run(name, "--help", code=0).output


@pytest.mark.parametrize("name", sorted(cli.__main__.SUBCOMMANDS))
def test_every_subcommand_explains_itself_with_exit_code_0(name: str) -> None:
    assert commands.run(name, "--help", code=0).output.startswith("Usage: ")


def test_an_unknown_subcommand_is_bad_input() -> None:
    assert "No such command 'anotator'. Did you mean 'annotator'?" in commands.run("anotator", code=2).output
