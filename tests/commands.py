"""The commands of `evenload`, run in this process as their users type them."""

import json
from typing import Any

import click.testing

import cli.__main__
from runtime.exit_codes import Exit


def run(*words: str) -> click.testing.Result:
    """What became of a command, whatever its exit code."""
    return click.testing.CliRunner().invoke(cli.__main__.main, words)


def output(*words: str, codes: tuple[int, ...] = (Exit.OK,)) -> str:
    """What a command prints that ends with one of these codes."""
    result = run(*words)
    assert result.exit_code in codes, result.stderr
    return result.stdout


def document(*words: str, codes: tuple[int, ...] = tuple(Exit)) -> dict[str, Any]:
    """The same as JSON."""
    text = output(*words, "-o", "json", codes=codes)
    assert text, f"{words} printed nothing"
    found: dict[str, Any] = json.loads(text)
    return found
