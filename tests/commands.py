"""The commands of `evenload`, run in this process as their users type them, and what they say when they refuse."""

import json
from typing import Any

import click.testing

import cli.__main__
from runtime.exit_codes import Exit


def run(*words: object, stdin: str | bytes = "", code: int | None = None) -> click.testing.Result:
    """What became of a command, whatever its exit code unless one is given."""
    result = click.testing.CliRunner().invoke(cli.__main__.main, [*map(str, words)], input=stdin)
    assert code in (None, result.exit_code), result.output
    return result


def output(*words: object, codes: tuple[int, ...] = (Exit.OK,)) -> str:
    """What a command prints that ends with one of these codes."""
    result = run(*words)
    assert result.exit_code in codes, result.stderr
    return result.stdout


def document(*words: object, codes: tuple[int, ...] = tuple(Exit)) -> dict[str, Any]:
    """The same as JSON."""
    text = output(*words, "-o", "json", codes=codes)
    assert text, f"{words} printed nothing"
    found: dict[str, Any] = json.loads(text)
    return found


def assert_refused(result: click.testing.Result, exit_code: int, *words: str) -> None:
    """The command ended with this code, printed no data, and its errors have all these words."""
    assert (result.exit_code, result.stdout) == (exit_code, ""), result.output
    assert [word for word in words if word not in result.stderr] == [], result.stderr
