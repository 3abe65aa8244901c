"""`evenload policy import`: another project's policy in, a LoadPolicy as YAML out, remarks on stderr.

Reads the file as strictly as a policy (`policy.loading.yaml_tree`), lets a module of `policy.imports` convert it by its
kind, and loads the result before it is printed.
"""

import collections.abc
from typing import Final, NamedTuple

import click

from cli import policy_presets
from cli.common import output, policy_files
from policy.imports import converting, crane, low_node_utilization
from policy.loading import loader, yaml_tree
from policy.schema import load_policy, problems


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


@click.command("import")
@click.argument("file", type=policy_files.FILE)
def main(file: str) -> None:
    """Convert the policy of crane-scheduler or descheduler (LowNodeUtilization) to a LoadPolicy.

    The policy goes to stdout, what has no equal or means something else to stderr. "-" reads stdin.

    \b
    Examples:
      evenload policy import crane.yaml > policy.yaml
      kubectl -n kube-system get cm descheduler-policy-configmap \\
        -o jsonpath='{.data.policy\\.yaml}' | evenload policy import -
    """
    source = policy_files.name(file)
    try:
        tree = _tree(file, source)
        kind = KINDS.get(str(tree.get("kind")) if isinstance(tree, dict) else "")
        if kind is None:
            output.fail(f"{source}: kind {' or '.join(KINDS)} expected: nothing else can be imported")
        imported = kind.convert(tree)
        text = _text(imported, kind, source)
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


def _text(imported: converting.ImportedPolicy, kind: Kind, source: str) -> str:
    document = {"apiVersion": load_policy.API_VERSION, "kind": load_policy.KIND, **imported.sections}
    origin = source if source.isprintable() else "a file"
    comment = f"# Made of {kind.title} ({origin})."
    return "\n".join([policy_presets.schema_line(), comment, output.as_yaml(document)])


def _tree(file: str, source: str) -> yaml_tree.Tree:
    """The plain tree of the file, read like a policy. Raises problems.PolicyError with all that is wrong."""
    document = yaml_tree.read_tree(policy_files.text(file)[1])
    if document.findings:
        raise problems.PolicyError(source, document.findings)
    return document.tree
