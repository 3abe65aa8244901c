"""`evenload policy init`: the shipped policy files with comments, as a start.

They live in deploy/policies; the first line names the JSON Schema for the editor.
"""

from typing import Final

import click

from cli import recording_rules
from cli.common import output, shipped
from policy.schema import json_schema

PRESETS: Final = ("default", "field", "memory-bound", "crane")
_SCHEMA_COMMENT: Final = "# yaml-language-server: $schema="


@click.command("init")
@click.option("--preset", type=click.Choice(PRESETS), default=PRESETS[0], show_default=True, help="What to start from.")
@click.option("--schema", metavar="URL", default=json_schema.ID, help="Where the editor finds the JSON Schema.")
@click.option("--recording-rules", "recorded", is_flag=True, help="Read what deploy/monitoring's rules record.")
def main(preset: str, schema: str, recorded: bool) -> None:
    """Print a commented policy to start from.

    \b
    default       every key with its default
    field         the field's usual score: one mean, yesterday's maximum most, without the pod's own load
    memory-bound  for nodes that run out of memory long before CPU
    crane         crane-scheduler's own default policy, converted

    \b
    Examples:
      evenload policy init > policy.yaml
      evenload policy init --preset memory-bound > policy.yaml
    """
    output.data(_recorded(text(preset, schema)) if recorded else text(preset, schema))


def schema_line(url: str = json_schema.ID) -> str:
    """The comment by which an editor's YAML server finds the schema."""
    return f"{_SCHEMA_COMMENT}{url}"


def text(preset: str, schema: str = json_schema.ID) -> str:
    """A preset with its schema line."""
    lines = (shipped.DEPLOY / "policies" / f"{preset}.yaml").read_text(encoding="utf-8").splitlines()
    return "\n".join([schema_line(schema), *(line for line in lines if not line.startswith(_SCHEMA_COMMENT))])


def _recorded(policy: str) -> str:
    """The policy with the recorded series as its metrics, before those of its own, and before filter and score."""
    lines = [line for line in policy.splitlines() if line != "metrics:" and not line.startswith("metrics: ")]
    at = next(number for number, line in enumerate(lines) if line.startswith(("  - {name: ", "filter:", "score:")))
    return "\n".join([*lines[:at], recording_rules.metrics_text(), *lines[at:]])
