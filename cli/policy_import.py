"""`evenload policy import`: a crane DynamicSchedulerPolicy in, our policy as YAML out, remarks on stderr.

Reads the file as crane's own loader does (YAML 1.1, first document), within the limits of a policy file, lets
`policy.crane` convert it, and holds the result to our own loader before it is printed.
"""

from typing import Final

import click
import yaml

from cli import output, policy_files, policy_presets
from policy import crane, loading, problems, schema

_MAX_DEPTH: Final = 16
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
        imported = crane.convert(_tree(policy_files.read(file), source))
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


def _tree(content: bytes, source: str) -> object:
    """The plain tree of the first document; anything that could cost more than it says ends the command."""
    if len(content) > loading.MAX_BYTES:
        output.fail(f"{source} is larger than {loading.MAX_BYTES // 1024} KiB: no policy is")
    try:
        text = content.decode()
        _refuse_depth(text, source)
        return next(yaml.safe_load_all(text), None)
    except UnicodeDecodeError:
        output.fail(f"{source} is no UTF-8 text: save it as UTF-8")
    except yaml.YAMLError as error:
        output.fail(f"{source} is no YAML: {' '.join(str(error).split())}")
    except (ValueError, OverflowError) as error:  # int() and dates inside the constructor
        output.fail(f"{source} holds a value that YAML cannot mean: {error}")


def _refuse_depth(text: str, source: str) -> None:
    """End the command for aliases and deep nesting, before a tree is built of them."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or depth > _MAX_DEPTH:
            what = "an alias (*name)" if isinstance(event, yaml.AliasEvent) else f"more than {_MAX_DEPTH} levels"
            line = event.start_mark.line + 1 if event.start_mark else 1
            output.fail(f"{source}:{line}: {what}: crane's policy needs none, write it out")
