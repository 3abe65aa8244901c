"""The Makefile: what its recipes get of the caller's environment."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).parents[2]
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
