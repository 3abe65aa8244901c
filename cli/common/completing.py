"""Names of the cluster that a shell offers while a command is typed: nodes, namespaces, pods of a namespace.

Parameters name these functions as `shell_complete`. The cluster is the one that the options typed so far mean. What
keeps an answer away (no cluster, no rights) offers nothing: a shell has no place for an error.
"""

import functools
from typing import Any, Final

import click

from cli.common import api_types
from kube import config, errors, kinds


def _names(kind: kinds.Kind[Any], context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of a kind; of pods in the namespace that is named before."""
    options = context.params
    namespace = str(options.get("namespace") or "default") if kind.namespaced else ""
    try:
        kube = config.connect(options.get("kubeconfig"), options.get("context"))
        names = [one.name for one in kube.list(kind, namespace=namespace).items]
    except errors.KubeError:
        return []
    return sorted((name for name in names if name.startswith(incomplete)), key=api_types.natural)


nodes: Final = functools.partial(_names, kinds.NODES)
namespaces: Final = functools.partial(_names, kinds.NAMESPACES)
pods: Final = functools.partial(_names, kinds.PODS)
