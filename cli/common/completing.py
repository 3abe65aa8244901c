"""Names of the cluster that a shell offers while a command is typed: nodes, namespaces, pods of a namespace.

Parameters name these functions as `shell_complete`. The cluster is the one that the options typed so far mean. What
keeps an answer away (no cluster, no rights) offers nothing: a shell has no place for an error.
"""

from typing import Any

import click

from cli.common import api_types
from kube import config, errors, kinds


def nodes(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of nodes."""
    return _names(context, kinds.NODES, incomplete)


def namespaces(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of namespaces."""
    return _names(context, kinds.NAMESPACES, incomplete)


def pods(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of pods in the namespace that is named before."""
    return _names(context, kinds.PODS, incomplete, str(context.params.get("namespace") or "default"))


def _names(context: click.Context, kind: kinds.Kind[Any], incomplete: str, namespace: str = "") -> list[str]:
    options = context.params
    try:
        kube = config.connect(options.get("kubeconfig"), options.get("context"))
        names = [one.name for one in kube.list(kind, namespace=namespace).items]
    except errors.KubeError:
        return []
    return sorted((name for name in names if name.startswith(incomplete)), key=api_types.natural)
