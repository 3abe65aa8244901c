"""An installation without the simulator: its commands say what is missing, all others work as before."""

import subprocess
import sys

import pytest

from cli.__main__ import SUBCOMMANDS
from tests import sources

OF_THE_SIMULATOR = {name for name, one in SUBCOMMANDS.items() if one.module.startswith("simulator.")}
# An import of the package fails as where it is not installed.
WITHOUT = "import sys; sys.modules['simulator'] = None; from cli.__main__ import main; main(sys.argv[1:])"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_there_are_commands_with_and_without_it() -> None:
    assert {"demo", "simulate", "tune", "whatif"} == OF_THE_SIMULATOR


@pytest.mark.parametrize("name", sorted(SUBCOMMANDS))
def test_a_command_works_or_names_the_package(name: str) -> None:
    result = run(name, "--help")
    if name in OF_THE_SIMULATOR:
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr == (
            f"Error: this installation leaves out the simulator, which {name} needs; "
            "install Evenload from its repository: pipx install .\n"
        )
    else:
        assert (result.returncode, result.stderr) == (0, "")


def test_the_console_without_it_has_no_replay_and_no_simulated_day() -> None:
    program = (
        "import sys; sys.modules['simulator'] = None\n"
        "from cli.console import command\n"
        "assert command._replay(None) is None\n"
        "command.main(['--demo'])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 1
    assert "Error: this installation leaves out the simulator, which simulated console needs; " in result.stderr


def test_no_package_below_it_imports_it() -> None:
    packages = ("annotator", "cli", "console", "descheduler", "extender", "kube", "kube_scheduler", "policy", "promql")
    imports = {path: sources.source(path).imports for path in sources.paths(*packages, "runtime")}
    assert len(imports) > 300
    assert not [path for path, names in imports.items() if any(name.startswith("simulator") for name, _ in names)]
