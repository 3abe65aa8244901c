"""Commands as a person runs them, and what they say when they refuse."""

import click.testing

import cli.__main__


def run(*words: object, stdin: str | bytes = "") -> click.testing.Result:
    """`evenload ...`."""
    return click.testing.CliRunner().invoke(cli.__main__.main, [*map(str, words)], input=stdin)


def assert_refused(result: click.testing.Result, exit_code: int, *words: str) -> None:
    """The command ended with this code, printed no data, and its errors have all these words."""
    assert (result.exit_code, result.stdout) == (exit_code, ""), result.output
    assert [word for word in words if word not in result.stderr] == [], result.stderr
