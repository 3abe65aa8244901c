"""`python -m lab.campaigns.mutants TARGET`: change a place at a time, run the tests that reach it, print what survived.

mutmut works on a copy of the tree, so that nothing of it lands here; a second run of the same target begins anew.
"""

import collections
import configparser
import contextlib
import importlib
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterable
from typing import Any, Final

import click

from lab.campaigns.mutants.targets import TARGETS, Target

ROOT: Final = pathlib.Path(__file__).parents[3]
LEFT_BEHIND: Final = (".*", "build", "dist", "mutants", "__pycache__")
MUTMUT: Final = (sys.executable, "-m", "mutmut")
PYTEST: Final = ("-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider")
# Property tests take a hundred examples for each mutant, so that they run for survivors alone, where they are to.
EXAMPLES: Final = (*PYTEST, "-m", "not hypothesis")
PROPERTIES: Final = (*PYTEST, "-m", "hypothesis", "--hypothesis-profile", "unshrunk")
NO_TESTS: Final = 5  # the exit code of pytest


@click.command()
@click.argument("name", type=click.Choice(tuple(TARGETS)))
@click.option("--directory", type=click.Path(path_type=pathlib.Path), help="Of the copy; build/mutants/NAME if unset.")
@click.option("--processes", default=2, show_default=True)
@click.option("--properties", is_flag=True, help="Run the survivors again by property tests.")
def main(name: str, directory: pathlib.Path | None, processes: int, properties: bool) -> None:
    """Mutate one target; the survivors as diffs on stdout, mutmut's progress and the count on stderr."""
    if properties and not has_properties(TARGETS[name]):
        raise click.UsageError(f"{name} has no property tests; leave out --properties")
    where = directory or ROOT / "build" / "mutants" / name
    shutil.rmtree(where, ignore_errors=True)
    shutil.copytree(ROOT, where, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
    found = run(where, TARGETS[name], EXAMPLES, processes)
    survivors = sorted(mutant for mutant, status in found.items() if status != "killed")
    if properties and survivors:
        again = run(where, TARGETS[name], PROPERTIES, processes, survivors)
        found |= {mutant: "killed by properties" for mutant in survivors if again[mutant] == "killed"}
        survivors = [mutant for mutant in survivors if again[mutant] != "killed"]
    show(where, survivors)
    for status, count in collections.Counter(found.values()).most_common():
        click.echo(f"{name}: {count} {status} of {len(found)}", err=True)


def has_properties(target: Target) -> bool:
    """Returns whether a property test is among the target's tests: mutmut fails where there is none to run."""
    command = [sys.executable, "-m", "pytest", "--collect-only", *PROPERTIES, *target.tests]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False).returncode != NO_TESTS


def run(
    where: pathlib.Path, target: Target, pytest: Iterable[str], processes: int, mutants: Iterable[str] = ()
) -> dict[str, str]:
    """Runs the mutants, all if none is named; each one's status (killed, survived, timeout, no tests ...)."""
    with (where / "setup.cfg").open("w", encoding="utf-8") as file:
        settings(target, pytest).write(file)
    command = [*MUTMUT, "run", "--max-children", str(processes), *mutants]
    subprocess.run(command, cwd=where, stdout=sys.stderr, check=True)
    command = [*MUTMUT, "results", "--all", "True"]
    listed = subprocess.run(command, cwd=where, capture_output=True, text=True, check=True)
    return dict(line.strip().split(": ", 1) for line in listed.stdout.splitlines() if ": " in line)


def settings(target: Target, pytest: Iterable[str]) -> configparser.ConfigParser:
    """The settings of mutmut: everything is copied beside the mutants, and only the target is changed."""
    packages = sorted({module.split("/")[0] for module in target.modules})
    others = sorted(path.name for path in ROOT.iterdir() if path.name not in packages and path.name[0] != ".")
    parser = configparser.ConfigParser()
    parser["mutmut"] = {
        "source_paths": _lines(*packages),
        "only_mutate": _lines(*target.modules),
        "also_copy": _lines(*(name for name in others if name not in {"build", "dist", "tests"})),
        "pytest_add_cli_args": _lines(*pytest),
        "pytest_add_cli_args_test_selection": _lines(*target.tests),
        "use_git_change_detection": "false",
    }
    return parser


def show(where: pathlib.Path, mutants: Iterable[str]) -> None:
    """Prints the diffs; by mutmut's command within this process, as hundreds of starts would take minutes."""
    with contextlib.chdir(where):  # the import reads the settings there
        mutmut: Any = importlib.import_module("mutmut.__main__")
        for mutant in mutants:
            mutmut.cli(["show", mutant], standalone_mode=False)


def _lines(*words: str) -> str:
    return "\n" + "\n".join(words)


if __name__ == "__main__":
    main()
