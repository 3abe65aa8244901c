"""`evenload placeholder`: the group of the three commands about room held for bursts, and the one of them that writes.

The console script loads this module when `placeholder` is asked for. `render` writes manifests, `status` reads, `size`
sets the number: the CronJob of deploy/placeholder/components/sizing runs it every five minutes. It goes by the state
that should be, not by what has changed: the next run corrects a number that a person set, and makes up for a run that
did not come. One request writes (a patch of the Deployment's scale, docs/decisions/0010, or of a CapacityBuffer, which
has none); where the number follows the cluster two read the pods' template and the nodes before.
"""

import collections
import contextlib
from typing import Any, Final

import click

from cli.common import option_types, output
from cli.placeholder import buffers, choice, render, sizing, status
from kube import config, door, errors, kinds, objects
from kube.api.selectors import untolerated
from policy.contract import load_annotation
from runtime import clock, exit_codes


class Deployment(objects.Object, frozen=True, kw_only=True):
    """A Deployment of placeholders, as far as its spec has a template of pods."""

    spec: buffers.PodTemplate = buffers.PodTemplate()

    @property
    def template(self) -> objects.Pod:
        """The template of its pods."""
        return self.spec.template


DEPLOYMENTS: Final = kinds.Kind("apis/apps/v1", "deployments", "Deployment", Deployment)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Hold room for bursts: write the manifests, see what is held, set how much.

    \b
    Examples:
      evenload placeholder render --replicas 20 --requests cpu=1,memory=2Gi | kubectl apply -f -
      evenload placeholder status
    """


main.add_command(render.main, "render")
main.add_command(status.main, "status")


@main.command()
@click.option("--deployment", metavar="NAME", help="The placeholders' Deployment.")
@click.option("--buffer", metavar="NAME", help="Instead, the CapacityBuffer, whose PodTemplate has the same name.")
@click.option("-n", "--namespace", default=choice.NAMESPACE, show_default=True, metavar="NAME", help="Its namespace.")
@click.option(
    "--node-selector",
    "node_selectors",
    multiple=True,
    type=option_types.Text("KEY=VALUE", choice.label),
    help="Count only nodes with this label, too; may be repeated.",
)
@sizing.options
@click.option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config, else in-cluster.")
@click.option("--context", metavar="NAME", help="A context of the kubeconfig.")
@click.option("--dry-run", is_flag=True, help="Say the number; the apiserver judges the patch and stores nothing.")
def size(namespace: str, node_selectors: tuple[tuple[str, str], ...], *, dry_run: bool, **options: Any) -> None:
    """Set how many placeholders there are to be now.

    It sets the number whatever it was, so it may run as often as one likes. Exit code 2: an option or the apiserver
    refuses; 3: the apiserver cannot be reached.

    \b
    Examples:
      evenload placeholder size --deployment placeholder --replicas 10 --during 20:00-07:00=2 --time-zone Europe/Berlin
      evenload placeholder size --buffer placeholder --nodes-per-replica 4 --max-replicas 50 --dry-run
    """
    size_options: sizing.Sizing = options.pop("sizing")
    wrong = [*sizing.refusals(size_options)]
    if not size_options.proportional and size_options.replicas is None:
        wrong.append(f"the number is missing: give --replicas N, or {sizing.PROPORTIONS}")
    deployment, buffer = options.pop("deployment"), options.pop("buffer")
    if (deployment is None) == (buffer is None):
        wrong.append("exactly one of --deployment NAME and --buffer NAME expected")
    if wrong:
        output.fail("\nerror: ".join(wrong))
    name, scale = (deployment, "scale") if buffer is None else (buffer, "")
    templates: kinds.Kind[Any] = DEPLOYMENTS if buffer is None else buffers.TEMPLATES
    numbers: kinds.Kind[Any] = kinds.DEPLOYMENTS if buffer is None else buffers.BUFFERS
    with exit_codes.reported(errors.KubeError, codes=output.REFUSAL_CODES), buffers.served():
        kube = config.connect(**options)
        nodes = sizing.Nodes()
        if size_options.proportional:
            nodes = counted(kube, node_selectors, kube.get(templates, name, namespace=namespace).template)
            if unread := [use.metric for use in size_options.use_per_replica if use.metric not in nodes.ratios]:
                output.fail(f"no node has a reading of {', '.join(unread)}: the number stays as it is")
        plan = sizing.planned(size_options, nodes, clock.WallClock().now())
        body = {"spec": {"replicas": plan.replicas}}
        kube.merge_patch(numbers, name, body, namespace=namespace, subresource=scale, dry_run=dry_run)
    verb = "would be" if dry_run else "is"
    output.data(f"{namespace}/{name}: the number {verb} {plan.replicas} ({plan.why})")


def counted(kube: door.KubeDoor, selectors: tuple[tuple[str, str], ...], template: objects.Pod) -> sizing.Nodes:
    """The nodes that carry the labels and can take the placeholders: Ready, not cordoned, and neither the template's
    tolerations nor its nodeSelector and required node affinity keep its pods away.
    """
    listed = kube.list(kinds.NODES, label_selector=",".join(f"{key}={value}" for key, value in selectors)).items
    taking = [
        node
        for node in listed
        if node.ready
        and not node.unschedulable
        and untolerated(node.taints, template.tolerations) is None
        and template.selects(node.name, node.labels)
    ]
    ratios: dict[str, float] = collections.defaultdict(float)
    for node in taking:
        # The last reading, however old: without an annotator the number stays. A new node has none, and adds none.
        with contextlib.suppress(load_annotation.AnnotationError):
            reading = load_annotation.decode(node.annotations.get(load_annotation.KEY, ""))
            for metric, ratio in reading.values.items():
                ratios[metric] += ratio
    return sizing.Nodes(len(taking), sum(node.allocatable.cpu_millicores for node in taking), ratios)
