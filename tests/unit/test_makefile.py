"""The Makefile: what its recipes get of the caller's environment."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
FILES = {"BIN": "", "RUNTIME": "runtime", "STAMP": "stamp"}
SHOWN = "include Makefile\nshown:\n\t@echo [$$PYTHONDONTWRITEBYTECODE] [$$FUZZ_EXAMPLES]\n"


def test_what_python_compiled_is_kept_where_the_environment_forbids_it() -> None:
    kept = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}  # `make unit` runs this, too
    environment = {**kept, "PYTHONDONTWRITEBYTECODE": "1", "FUZZ_EXAMPLES": "7"}
    done = subprocess.run(
        ["make", "--no-print-directory", "--file=-", "shown"],
        input=SHOWN,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "[] [7]\n"


@pytest.mark.parametrize(("target", "program"), [("demo", "evenload"), ("run", "python"), ("cluster", "python")])
def test_stdout_of_a_command_is_what_the_command_prints(target: str, program: str, tmp_path: pathlib.Path) -> None:
    for name in ("runtime", "stamp", program):  # newer than what they are made from, so that nothing is installed
        (tmp_path / name).write_text("#!/bin/sh\necho '{}'\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    words = ["make", "--no-print-directory", target, *(f"{name}={tmp_path}/{file}" for name, file in FILES.items())]
    done = subprocess.run(words, cwd=ROOT, env=kept, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "{}\n"


def test_the_command_of_the_environment_runs_from_any_directory(tmp_path: pathlib.Path) -> None:
    command = [str(ROOT / ".venv" / "bin" / "evenload"), "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("evenload, version ")


def test_the_programs_that_suites_run_are_built_before_them() -> None:
    """The real metrics-server, of `make -C lab metrics-server`, takes minutes."""
    modules = {str(path.parent.relative_to(ROOT)) for path in (ROOT / "tests").rglob("go.mod")}
    command = ["make", "--no-print-directory", "--dry-run", "programs", "STAMP="]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    built = set(done.stdout.partition(" build ")[2].split())
    assert built == {one for one in modules if pathlib.PurePath(one).name != "metrics_server"}
