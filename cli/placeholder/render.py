"""`evenload placeholder render`: options in, manifests of a set of placeholders out.

What is printed goes to `kubectl apply -f -`, or with --kustomization into a repository as an overlay over deploy/. Both
are the same patches over the files of deploy/placeholder (`choice`); no cluster is asked, and no kubectl. `build` reads
the very files that `kubectl apply -k` reads and knows no templates; a field of kustomize that is not read here is an
error, never passed over. That both come to the same is held by tests/contract/test_kustomize.py.

| here | kustomize |
|---|---|
| JSON patches (test, add, replace, remove) of objects by kind and name | strategic merges and other targets too |
| resources and components are files and folders of ours | also URLs |
| objects keep the order in which they are named | sorted by kind |
"""

import copy
import pathlib
from collections.abc import Sequence
from typing import Any, Final

import click
import yaml

from cli.common import option_types, output, shipped
from cli.placeholder import buffers, choice, sizing
from cli.placeholder.choice import Choice

Document = dict[str, Any]
FILE: Final = "kustomization.yaml"
_READ: Final = {"apiVersion", "kind", "resources", "components", "patches"}


@click.command("render", context_settings={"help_option_names": ["-h", "--help"]})
@choice.form_option
@click.option(
    "--preset",
    type=click.Choice(choice.PRESETS),
    default="order",
    show_default=True,
    help="order: an autoscaler adds nodes for those that lost their place. soak: free room only.",
)
@click.option("--name", type=choice.NAME_TYPE, help="Of the set, to have several.")
@click.option(
    "-n",
    "--namespace",
    default=choice.NAMESPACE,
    show_default=True,
    type=choice.NAMESPACE_TYPE,
    help="Where it is put; another one than this must exist.",
)
@click.option(
    "--requests",
    type=option_types.Text("LIST", choice.requests),
    help="What one holds, its limits too. Default: cpu=300m,memory=600Mi.",
)
@sizing.options
@click.option("--image", type=choice.IMAGE_TYPE, help="One that does nothing for ever.")
@click.option("--priority", type=int, metavar="N", help="Of the PriorityClass. Default: -5 (order), -100 (soak).")
@click.option(
    "--priority-class",
    type=option_types.Text("NAME", choice.priority_class),
    help="Its name. Default: evenload-placeholder (order), evenload-placeholder-soak.",
)
@click.option("--existing-priority-class", is_flag=True, help="It is there already: make none.")
@click.option("--burst-class", is_flag=True, help="Also make high-priority, an example for the pods that burst.")
@click.option(
    "--expendable-below",
    type=int,
    default=choice.CUTOFF,
    show_default=True,
    help="cluster-autoscaler's expendable-pods-priority-cutoff.",
)
@click.option(
    "--node-selector",
    "node_selectors",
    multiple=True,
    type=option_types.Text("KEY=VALUE", choice.label),
    help="Only on nodes with this label; may be repeated.",
)
@click.option(
    "--toleration",
    "tolerations",
    multiple=True,
    type=option_types.Text("TAINT", choice.toleration),
    help="KEY[=VALUE][:EFFECT], or * for all taints; may be repeated.",
)
@click.option("--affinity", type=option_types.Text("FILE", choice.affinity), help="A pod's `affinity`.")
@click.option(
    "--spread-nodes", type=click.Choice(choice.SPREADS), default="soft", show_default=True, help="Over hostnames."
)
@click.option(
    "--spread-zones", type=click.Choice(choice.SPREADS), default="soft", show_default=True, help="Over zones."
)
@click.option("--evenload-image", type=choice.IMAGE_TYPE, help="Of the job that sets the number.")
@click.option(
    "--kustomization",
    "deploy",
    metavar="DEPLOY",
    help="Print an overlay instead, over deploy/ at this relative path or URL.",
)
@output.option("yaml", "json")
def main(deploy: str | None, output_format: str, **options: Any) -> None:
    """Write the manifests of a set of placeholders, from options.

    What is not given stays as deploy/placeholder has it. With --during, or a number that follows the cluster, a CronJob
    that sets the number is part of it. Exit code 2: an option is refused, and nothing is printed to stdout.

    \b
    Examples:
      evenload placeholder render --replicas 20 --requests cpu=1,memory=2Gi | kubectl apply -f -
      evenload placeholder render --during 20:00-07:00=2 --during 'Fri 20:00-Mon 07:00=0' --time-zone Europe/Berlin
      evenload placeholder render --name gpu --toleration nvidia.com/gpu --node-selector pool=gpu --spread-zones off
      evenload placeholder render --preset soak --kustomization ../evenload/deploy > kustomization.yaml
    """
    chosen = Choice(**options)
    wrong = [*choice.refusals(chosen)]
    if deploy is not None and (not deploy or deploy.startswith("/")):
        place = "a path relative to the overlay or a URL expected, kustomize takes no other"
        wrong.append(f"--kustomization {deploy!r}: {place}")
    if wrong:
        output.fail("\nerror: ".join(wrong))
    objects = build(choice.kustomization(chosen, "."), shipped.DEPLOY)
    if deploy is not None:
        output.data(output.structured(choice.kustomization(chosen, deploy), output_format))
    elif output_format == "json":  # one list, for `kubectl apply -f -`
        output.data(output.as_json({"apiVersion": "v1", "kind": "List", "items": objects}))
    else:
        output.data("\n---\n".join(output.as_yaml(one, block=True) for one in objects))
    for remark in remarks(chosen, objects, overlay=deploy is not None):
        output.say(remark)


def remarks(chosen: Choice, objects: list[Document], *, overlay: bool) -> list[str]:
    """Returns a summary and the next step, for stderr."""
    by_kind, buffered = {one["kind"]: one for one in objects}, chosen.form == "buffers"
    holder = by_kind["PodTemplate" if buffered else "Deployment"]
    pod, name = holder.get("spec", holder)["template"]["spec"], f"{chosen.namespace}/{holder['metadata']['name']}"
    held = ", ".join(f"{key} {value}" for key, value in pod["containers"][0]["resources"]["requests"].items())
    number = by_kind.get("CapacityBuffer", holder)["spec"].get("replicas", "a changing number of")
    rows = [f"{name}: {number} placeholders of {held}, PriorityClass {pod['priorityClassName']}"]
    if buffered:
        rows.append(f"needs {buffers.API} and an autoscaler that acts on it; kubectl explain capacitybuffers knows it")
    if chosen.sizing.changes:
        first = number if buffered else 1
        rows.append(f"a CronJob sets the number every five minutes, for the first time within five; until then {first}")
    if chosen.namespace != choice.NAMESPACE:
        rows.append(f"the namespace {chosen.namespace} must exist; it may enforce the pod security standard restricted")
    target = "apply -k ." if overlay else "apply -f -"
    form = " --as buffers" if buffered else ""
    return [*rows, f"next: kubectl {target}, then evenload placeholder status -n {chosen.namespace}{form}"]


def build(kustomization: Document, folder: pathlib.Path, objects: Sequence[Document] = ()) -> list[Document]:
    """The objects so far with those of a kustomization whose paths count from `folder`, patched by it; a component's
    patches reach the former too. ValueError names what is not read here.
    """
    unread = set(kustomization) - _READ
    if unread:
        raise ValueError(f"{folder / FILE}: {', '.join(sorted(unread))} cannot be read here, {sorted(_READ)} can")
    resources = [*objects, *(one for name in kustomization.get("resources", ()) for one in _resource(folder / name))]
    for name in kustomization.get("components", ()):
        resources = build(yaml.safe_load((folder / name / FILE).read_text("utf-8")), folder / name, resources)
    for patch in kustomization.get("patches", ()):
        resources = _patched_all(resources, patch["target"], patch["patch"])
    return resources


def _resource(path: pathlib.Path) -> list[Document]:
    if path.is_dir():
        return build(yaml.safe_load((path / FILE).read_text("utf-8")), path)
    return list(yaml.safe_load_all(path.read_text("utf-8")))


def _patched_all(objects: list[Document], target: Document, patch: str) -> list[Document]:
    if not {"kind"} <= set(target) <= {"kind", "name"}:
        raise ValueError(f"patch of {target}: a target by kind, or by kind and name, is read here")
    operations = yaml.safe_load(patch)
    meant = [one["kind"] == target["kind"] and target.get("name") in (None, one["metadata"]["name"]) for one in objects]
    if not any(meant):
        raise ValueError(f"patch of {target}: there is no such object")
    return [patched(one, operations) if hit else one for one, hit in zip(objects, meant, strict=True)]


def patched(document: Document, operations: list[Document]) -> Document:
    """A copy after the operations of a JSON patch; ValueError names the path that is not there or not so."""
    result = copy.deepcopy(document)
    for operation in operations:
        _apply(result, operation)
    return result


def _apply(document: Document, operation: Document) -> None:
    path, kind = operation["path"], operation["op"]
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
    place: Any = document
    for part in parents:
        place = place[_key(place, part, path)]
    if kind == "add" and isinstance(place, list):
        place.insert(len(place) if last == "-" else _key(place, last, path), operation["value"])
    elif kind == "add":
        place[last] = operation["value"]
    elif kind == "replace":
        place[_key(place, last, path)] = operation["value"]
    elif kind == "remove":
        del place[_key(place, last, path)]
    elif kind != "test" or place[_key(place, last, path)] != operation["value"]:
        raise ValueError(f"JSON patch: {kind} {path} does not hold")


def _key(place: Any, part: str, path: str) -> Any:
    """The index or key of what is there."""
    if isinstance(place, list) and part.isdigit() and int(part) < len(place):
        return int(part)
    if isinstance(place, dict) and part in place:
        return part
    raise ValueError(f"JSON patch: there is no {path}")
