"""`evenload policy show`: a policy in sentences, as a whole or as it is on one node, for one pod, or both.

`--node` reads the node's labels and its annotation `evenload.io/thresholds` from the cluster, `--labels` gives the
labels by hand and needs no cluster; `--pod` reads the pod, `--class` names its class. Pool and class, and what they
change, are decided by `policy.schema`, as in the services.
"""

import collections.abc
import re
import sys
from typing import Any, Final, NamedTuple

import click

from cli.common import completing, output, policy_files
from kube import config, errors, kinds
from policy.contract import node_thresholds
from policy.explain import descheduler_summary, summary, wording
from policy.schema.load_policy import LoadPolicy
from policy.schema.pod_classes import PodClass
from runtime import exit_codes, terminal

# Kubernetes' own syntax of labels, but for lengths: an empty value is one, an empty key none.
_LABEL: Final = re.compile(r"(?P<key>([A-Za-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)=(?P<value>[^=,]*)")


class OneNode(NamedTuple):
    """A node as a pool's selector and the filter see it: how it is called, its labels, its own thresholds."""

    name: str
    labels: collections.abc.Mapping[str, str]
    own: node_thresholds.Own | None = None


class OnePod(NamedTuple):
    """A pod as messages call it, and its class."""

    name: str
    pod_class: PodClass | None


@click.command("show", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", type=policy_files.FILE)
@click.option("--node", "node_name", metavar="NAME", shell_complete=completing.nodes,
    help="As the policy is on this node of the cluster.")  # fmt: skip
@click.option("--labels", metavar="KEY=VALUE,...", help="As it is on a node with these labels; no cluster is asked.")
@click.option("--pod", "pod_name", metavar="NAMESPACE/NAME", help="As it is for this pod of the cluster.")
@click.option("--class", "class_name", metavar="NAME", help="As it is for pods of this class; no cluster is asked.")
@click.option("--kubeconfig", metavar="FILE", help="The cluster of --node and --pod. Default: as kubectl.")
@click.option("--context", metavar="NAME", help="A context of the kubeconfig.")
@output.option("text", "json", "yaml")
def main(
    file: str,
    *,
    node_name: str | None,
    labels: str | None,
    pod_name: str | None,
    class_name: str | None,
    output_format: str,
    **cluster: Any,
) -> None:
    """Read a policy back in sentences.

    Every rule in force has one, defaults included. With --node or --labels, as it is on that node: with the values of
    its pool, and of its annotation evenload.io/thresholds. With --pod or --class, as it is for that pod: with the
    values of its class. With -o yaml or json, the full policy in force: all keys, in the form of the file.

    \b
    Examples:
      evenload policy show policy.yaml
      evenload policy show policy.yaml --node worker-7
      evenload policy show policy.yaml --labels pool=spot,zone=a
      evenload policy show policy.yaml --pod shop/web-7 --node worker-7
      evenload policy show policy.yaml -o yaml > full.yaml
    """
    if node_name is not None and labels is not None:
        output.fail("--node and --labels exclude each other: the labels of a node are those it has in the cluster")
    if pod_name is not None and class_name is not None:
        output.fail("--pod and --class exclude each other: the class of a pod is that of its priority and namespace")
    loaded = policy_files.load(file)
    with exit_codes.reported(errors.KubeError):
        pod = _pod(loaded.policy, pod_name, class_name, cluster)
        node = _node(node_name, labels, cluster)
    policy = loaded.policy
    if pod is not None and pod.pod_class is not None:
        policy = policy.of_classes[policy.pod_classes.index(pod.pod_class)]
    elif pod is not None:
        policy = policy.model_copy(update={"pod_classes": ()})
    policy = policy if node is None else on_node(policy, node)
    if output_format != "text":
        output.data(output.structured(policy.as_file(), output_format))
        return
    for section in _sections(loaded.policy, policy, node, pod):
        output.data(output.coloured(f"{section.key}:", "cyan"))
        output.data(terminal.wrapped("\n".join(f"  - {sentence}" for sentence in section.sentences), sys.stdout))
    output.say(f"{loaded.source}, hash {loaded.content_hash}")


def _sections(whole: LoadPolicy, policy: LoadPolicy, node: OneNode | None, pod: OnePod | None) -> list[summary.Section]:
    """The sections of the policy in force; instead of the pools that of the node, instead of the classes the pod's."""
    sections = {section.key: section for section in summary.read_back(policy)}
    first = []
    if pod is not None:
        del sections["podClasses"]
        sentence = f"{pod.name} is of no class: it has the policy's own values"
        if pod.pod_class is not None:
            selected = wording.pods(pod.pod_class.match)
            sentence = f"{pod.name} is of class {pod.pod_class.name}, the first that matches it ({selected})"
        first.append(summary.Section("pod", (sentence,)))
    if node is not None:
        del sections["pools"]
        first.append(summary.Section("node", tuple(membership(whole, node))))
    return [*first, *sections.values()]


def on_node(policy: LoadPolicy, node: OneNode) -> LoadPolicy:
    """The policy as it is on one node: its annotation before classes and its pool, its pool before the policy."""
    of_pool = policy.on_node(node.labels)
    in_force = {metric.name for metric in policy.metrics_in_force}
    own = {name: ratio for name, ratio in (node.own.limits if node.own else {}).items() if name in in_force}
    filtering = of_pool.filter.model_copy(update={"thresholds": {**of_pool.filter.thresholds, **own}})
    classes = tuple(one.without(own) for one in of_pool.pod_classes)
    return of_pool.model_copy(update={"filter": filtering, "pools": (), "pod_classes": classes})


def membership(policy: LoadPolicy, node: OneNode) -> collections.abc.Iterator[str]:
    """Sentences about the node's pool, and about its annotation where it has one."""
    pool = policy.pool_of(node.labels)
    if pool is None:
        yield f"{node.name} belongs to no pool: it has the policy's own values"
    else:
        selected = wording.selector(pool.node_selector) or "every node"
        yield f"{node.name} belongs to pool {pool.name}, the first that matches it ({selected})"
        yield from descheduler_summary.caps_of_pool(pool)
    if node.own is None:
        return
    in_force = {metric.name for metric in policy.metrics_in_force}
    named = sorted(in_force.intersection(node.own.limits))
    if named:
        yield f"its annotation {node_thresholds.KEY} decides by {wording.listed(named)}"
    if ignored := node.own.ignored(in_force):
        yield f"of its annotation {node_thresholds.KEY} is not in force: {ignored}"


def _node(name: str | None, labels: str | None, cluster: dict[str, Any]) -> OneNode | None:
    """The node that the options name, None without one. Raises KubeError."""
    if labels is not None:
        return OneNode("a node with these labels", _parsed(labels))
    if name is None:
        return None
    node = config.connect(**cluster).get(kinds.NODES, name)
    return OneNode(f"node {name}", node.labels, node_thresholds.decode(node.annotations.get(node_thresholds.KEY)))


def _pod(policy: LoadPolicy, name: str | None, class_name: str | None, cluster: dict[str, Any]) -> OnePod | None:
    """The pod that the options name, None without one. Raises KubeError."""
    if class_name is not None:
        named = {one.name: one for one in policy.pod_classes}
        if class_name not in named:
            known = ", ".join(named) or "none"
            output.fail(f"--class {class_name}: the policy has no such class; expected one of podClasses: {known}")
        return OnePod("a pod", named[class_name])
    if name is None:
        return None
    namespace, _, pod_name = name.partition("/")
    if not namespace or not pod_name or "/" in pod_name:
        output.fail(f"--pod {name}: expected the namespace and the name of a pod, such as shop/web-7")
    pod = config.connect(**cluster).get(kinds.PODS, pod_name, namespace=namespace)
    words = f"pod {name} (priority {pod.priority}, PriorityClass {pod.priority_class or 'none'})"
    return OnePod(words, policy.class_of(pod))


def _parsed(text: str) -> dict[str, str]:
    """The labels in `key=value,key=value`; "" for none."""
    labels: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        match = _LABEL.fullmatch(part)
        if match is None:
            output.fail(f"--labels {text}: {part!r} is no label; expected such as pool=spot,zone=a")
        if match["key"] in labels:
            output.fail(f"--labels {text}: {match['key']} is given twice: a node has one value of each label")
        labels[match["key"]] = match["value"]
    return labels
