"""`evenload policy init` and `policy import`: a policy to start from, a shipped one or another project's.

The shipped files with their comments live in deploy/policies. A file to be imported is read as strictly as a policy
(`policy.loading.yaml_tree`), converted by a module of `policy.imports` according to its kind, and loaded before it is
printed; remarks go to stderr. The first line of both names the JSON Schema for the editor.
"""

import collections.abc
from typing import Final, NamedTuple

import click

from cli import recording_rules
from cli.common import output, policy_files, shipped
from policy.imports import converting, crane, low_node_utilization
from policy.loading import loader, yaml_tree
from policy.schema import json_schema, load_policy, problems

PRESETS: Final = ("default", "field", "memory-bound", "pressure", "crane")
_SCHEMA_COMMENT: Final = "# yaml-language-server: $schema="


class Kind(NamedTuple):
    """A kind of file: how it is converted, what it is called, and what it says nothing about."""

    convert: collections.abc.Callable[[object], converting.ImportedPolicy]
    title: str
    beyond: str


KINDS: Final = {
    crane.KIND: Kind(
        crane.convert,
        "crane's DynamicSchedulerPolicy",
        "recentPods, filter.exempt and the descheduler (mode Observe) have no equal in crane and keep Evenload's "
        "defaults",
    ),
    low_node_utilization.KIND: Kind(
        low_node_utilization.convert,
        "descheduler's LowNodeUtilization",
        "it only observes, and the filter of new pods is off: both are steps of their own. Limits, cool-downs and "
        "protections that the file does not name keep Evenload's defaults, which evict less",
    ),
}


@click.command("init")
@click.option("--preset", type=click.Choice(PRESETS), default=PRESETS[0], show_default=True, help="What to start from.")
@click.option("--schema", metavar="URL", default=json_schema.ID, help="Where the editor finds the JSON Schema.")
@click.option("--recording-rules", "recorded", is_flag=True, help="Read what deploy/monitoring's rules record.")
def init(preset: str, schema: str, recorded: bool) -> None:
    """Print a commented policy to start from.

    \b
    default       every key with its default
    field         the field's usual score: one mean, yesterday's maximum most, without the pod's own load
    memory-bound  for nodes that run out of memory long before CPU
    pressure      for nodes that may be busy as long as no pod waits (PSI)
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


@click.command("import")
@click.argument("file", type=policy_files.FILE)
def import_policy(file: str) -> None:
    """Convert a policy of crane-scheduler or descheduler.

    Of descheduler's, LowNodeUtilization is read. The policy goes to stdout, what has no equal or means something else
    to stderr. "-" reads stdin.

    \b
    Examples:
      evenload policy import crane.yaml > policy.yaml
      kubectl -n kube-system get cm descheduler-policy-configmap \\
        -o jsonpath='{.data.policy\\.yaml}' | evenload policy import -
    """
    source = policy_files.name(file)
    try:
        document = yaml_tree.read_tree(policy_files.text(file)[1])
        if document.findings:
            raise problems.PolicyError(source, document.findings)
        tree = document.tree
        kind = KINDS.get(str(tree.get("kind")) if isinstance(tree, dict) else "")
        if kind is None:
            output.fail(f"{source}: kind {' or '.join(KINDS)} expected: nothing else can be imported")
        imported = kind.convert(tree)
        policy = {"apiVersion": load_policy.API_VERSION, "kind": load_policy.KIND, **imported.sections}
        comment = f"# Made of {kind.title} ({source if source.isprintable() else 'a file'})."
        text = "\n".join([schema_line(), comment, output.as_yaml(policy)])
        loader.load(text, f"the policy made of {source}")
    except converting.ImportRefused as error:
        output.say("\n".join(f"{source}: {wrong.path}: {wrong.message}" for wrong in error.problems))
        output.fail(f"{source} is not a policy that can be imported")
    except problems.PolicyError as error:
        output.say(str(error))
        output.fail(f"what {source} says is no policy here: change it there and import again")
    output.data(text)
    for remark in imported.remarks:
        output.say(f"{source}: {remark.path}: {remark.message}")
    output.say(f"note: {kind.beyond}; {output.program()} policy show reads them back")
