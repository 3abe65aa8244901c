"""`python -m lab.release`: make a release's files (`make -C lab release` runs it), or set the tree's version.

Nothing is tagged or committed, and only the chart is published, where --registry names a place.
"""

import pathlib
import shutil
import subprocess
import sys
from typing import Final

import click

from lab.release import changelog, places, steps
from runtime import version

ROOT: Final = pathlib.Path(__file__).parents[2]
DIST: Final = ROOT / "dist"


@click.group()
def main() -> None:
    """Make the files of a release, or give the tree a version."""


@main.command()
@click.option("--dry-run", is_flag=True, help="Print the steps and whether the tree is ready; make nothing.")
@click.option(
    "--skip",
    multiple=True,
    type=click.Choice([step.name for step in steps.STEPS]),
    help="Leave a step out, to try the others: what is made is then no release. Repeatable.",
)
@click.option("--registry", metavar="URL", help="Push the chart there, for example oci://registry.example.com/charts.")
def build(*, dry_run: bool, skip: tuple[str, ...], registry: str | None) -> None:
    """Make every file of the release in dist/, which is emptied first."""
    problems = obstacles(ROOT, version.VERSION)
    if dry_run:
        click.echo(table(version.VERSION, skip))
    if problems:
        raise click.ClickException("\n".join(problems))
    if dry_run:
        return
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    release = steps.Build(ROOT, DIST, version.VERSION, int(_git(ROOT, "log", "-1", "--format=%ct")), registry)
    for step in steps.STEPS:
        if step.name not in skip:
            click.echo(f"release {release.version}: {step.name}: {step.task}", err=True)
            _perform(step, release)
    click.echo((DIST / steps.SUMS).read_text(encoding="utf-8") if "sums" not in skip else "", nl=False)
    if skip:
        raise click.ClickException(f"no release: {', '.join(skip)} left out")


@main.command("version")
@click.argument("number")
def set_version(number: str) -> None:
    """Write NUMBER (X.Y.Z) into every place of the tree, and over the section Unreleased (NUMBER) of CHANGELOG.md."""
    if not places.NUMBER.fullmatch(number):
        raise click.BadParameter(f"{number!r} is not a version such as 1.2.3")
    history = ROOT / "CHANGELOG.md"
    try:
        text = changelog.numbered(history.read_text(encoding="utf-8"), number)
    except changelog.ChangelogError as error:
        raise click.ClickException(str(error)) from error
    history.write_text(text, encoding="utf-8")
    changed = places.write(ROOT, number)
    click.echo("\n".join(["CHANGELOG.md", *changed]))
    click.echo(f"next: review `git diff`, commit it, then run `make -C lab release` for {number}", err=True)


def obstacles(root: pathlib.Path, number: str) -> list[str]:
    """Why a tree cannot be released as this version, each with the next step."""
    problems = []
    if changed := _git(root, "status", "--porcelain"):
        problems.append(f"the tree differs from its commit; commit or remove:\n{changed}")
    try:
        changelog.notes((root / "CHANGELOG.md").read_text(encoding="utf-8"), number)
    except changelog.ChangelogError as error:
        problems.append(str(error))
    problems += [
        f"{place.path}:{place.line}: version {place.number}, runtime/version.py has {number}"
        for place in places.stated(root)
        if place.number != number
    ]
    return problems


def table(number: str, skip: tuple[str, ...]) -> str:
    """The steps, one a line, with their files."""
    rows = []
    for step in steps.STEPS:
        note = "left out" if step.name in skip else " ".join(step.made_files(number))
        rows.append(f"{step.name:6} {step.task}" + (f"\n       {note}" if note else ""))
    return "\n".join(rows)


def _perform(step: steps.Step, release: steps.Build) -> None:
    try:
        steps.perform(step, release)
    except (steps.StepError, OSError) as error:
        raise click.ClickException(
            f"step {step.name} failed: {error}\n{release.dist} is incomplete and holds nothing to publish; "
            "run `make -C lab release` again after the repair"
        ) from error


def _git(root: pathlib.Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(
            f"`{' '.join(command)}` failed: {done.stderr.strip()}; a release needs a Git checkout"
        )
    return done.stdout.rstrip()


if __name__ == "__main__":
    sys.exit(main())
