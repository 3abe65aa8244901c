"""`evenload policy import`: a crane DynamicSchedulerPolicy in, a LoadPolicy as YAML out, remarks on stderr.

Reads the file as strictly as a policy (`policy.loading.yaml_tree`), lets `policy.crane_import` convert it,
and loads the result before it is printed.
"""

from typing import Final

import click

from cli import policy_presets
from cli.common import output, policy_files
from policy import crane_import
from policy.loading import loader, yaml_tree
from policy.schema import load_policy, problems

_BEYOND: Final = (
    "recentPods, filter.exempt and the descheduler (mode Observe) have no equal in crane and keep Evenload's defaults; "
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
        imported = crane_import.convert(_tree(file, source))
        text = _text(imported, source)
        loader.load(text, f"the policy made of {source}")
    except crane_import.CraneError as error:
        output.say("\n".join(f"{source}: {wrong.path}: {wrong.message}" for wrong in error.problems))
        output.fail(f"{source} is not a crane policy that can be imported")
    except problems.PolicyError as error:
        output.say(str(error))
        output.fail(f"what {source} says is no policy here: change it there and import again")
    output.data(text)
    for remark in imported.remarks:
        output.say(f"{source}: {remark.path}: {remark.message}")
    output.say(f"note: {_BEYOND}")


def _text(imported: crane_import.Imported, source: str) -> str:
    document = {"apiVersion": load_policy.API_VERSION, "kind": load_policy.KIND, **imported.sections}
    origin = source if source.isprintable() else "a file"
    comment = f"# Made of crane's DynamicSchedulerPolicy ({origin})."
    return "\n".join([policy_presets.schema_line(), comment, output.as_yaml(document)])


def _tree(file: str, source: str) -> yaml_tree.Tree:
    """The plain tree of the file, read like a policy. Raises problems.PolicyError with all that is wrong."""
    document = yaml_tree.read_tree(policy_files.text(file)[1])
    if document.findings:
        raise problems.PolicyError(source, document.findings)
    return document.tree
