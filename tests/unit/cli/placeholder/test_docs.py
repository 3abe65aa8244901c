"""The pages cli.md and hold-room.md name every option of the commands, and none that they do not have."""

import pathlib
import re

import click
import pytest

from cli.placeholder import command, render

DOCS = pathlib.Path(__file__).parents[4] / "docs"
OPTION = re.compile(r"`(--?[A-Za-z][a-z-]*)")
NUMBER = "those of the number"


def section() -> str:
    """What docs/reference/cli.md says of `evenload placeholder`."""
    text = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    return text[text.index("## evenload placeholder") :]


def named(name: str) -> set[str]:
    """The options that the table of docs/reference/cli.md gives a command."""
    (row,) = re.findall(rf"^\\| `placeholder {name}` .*$", section(), re.MULTILINE)
    (number,) = re.findall(r"^The number: .*$", section(), re.MULTILINE)
    return set(OPTION.findall(row)) | (set(OPTION.findall(number)) if NUMBER in row else set())


@pytest.mark.parametrize("name", sorted(command.main.commands))
def test_the_table_of_commands_has_every_option_in_one_of_its_spellings(name: str) -> None:
    spellings = [set(one.opts) for one in command.main.commands[name].params if isinstance(one, click.Option)]
    assert [opts for opts in spellings if not opts & named(name)] == []
    assert named(name) <= set().union(*spellings)


def test_the_page_on_placeholders_explains_every_option_of_render() -> None:
    text = set(OPTION.findall((DOCS / "how-to" / "hold-room.md").read_text(encoding="utf-8")))
    spellings = [set(one.opts) for one in render.main.params]
    assert [opts for opts in spellings if not opts & text] == []
