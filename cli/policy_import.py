"""`evenload policy import`: a crane DynamicSchedulerPolicy in, our policy as YAML out, remarks on stderr.

Reads the file as strictly as a policy of our own (`policy.trees`), lets `policy.crane` convert it, and holds the result
to our own loader before it is printed.
"""

from typing import Final

import click

from cli import output, policy_files, policy_presets
from policy import crane, loading, problems, schema, trees

_BEYOND: Final = (
    "recentPods, filter.exempt and the descheduler (mode Observe) have no equal in crane and keep our defaults; "
    "`evenload policy show` reads them back"
)


@click.command("import")
@click.argument("file", type=policy_files.FILE)
def main(file: str) -> None:
    """Convert crane's DynamicSchedulerPolicy (v1alpha1) to a LoadPolicy.

    The policy goes to stdout, what has no equal or means something else to stderr. "-" reads stdin.

    \b
    Examples:
      evenload policy import crane.yaml > policy.yaml
      kubectl -n crane-system get cm dynamic-scheduler-policy \\
        -o jsonpath='{.data.policy\\.yaml}' | evenload policy import -
    """
    source = policy_files.name(file)
    try:
        imported = crane.convert(_tree(file, source))
        text = _text(imported, source)
        loading.load(text, f"the policy made of {source}")
    except crane.CraneError as error:
        output.say("\n".join(f"{source}: {wrong.path}: {wrong.message}" for wrong in error.problems))
        output.fail(f"{source} is no policy of crane's that could be imported")
    except problems.PolicyError as error:
        output.say(str(error))
        output.fail(f"what {source} says is no policy here: change it there and import again")
    output.data(text)
    for remark in imported.remarks:
        output.say(f"{source}: {remark.path}: {remark.message}")
    output.say(f"note: {_BEYOND}")


def _text(imported: crane.Imported, source: str) -> str:
    document = {"apiVersion": schema.API_VERSION, "kind": schema.KIND, **imported.sections}
    origin = source if source.isprintable() else "a file"
    comment = f"# Made of crane's DynamicSchedulerPolicy ({origin})."
    return "\n".join([policy_presets.schema_line(), comment, output.as_yaml(document)])


def _tree(file: str, source: str) -> trees.Tree:
    """The plain tree of the file, read like a policy of ours. Raises problems.PolicyError with all that is wrong."""
    document = trees.read_tree(policy_files.text(file)[1])
    if document.findings:
        raise problems.PolicyError(source, document.findings)
    return document.tree
