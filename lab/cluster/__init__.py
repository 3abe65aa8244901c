"""The real control plane on one machine: etcd, Kubernetes, fake kubelets, Prometheus and the exporters.

`Cluster` is what tests, benches and the demo use; `python -m lab.cluster up|down|build|status` is the same for people.
Start reading at `control_plane`. The names below are imported when they are used: each cluster runs a watchdog and an
exporter out of this package, which need little of it, and importing all of it took them half a second each.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.cluster.control_plane import Cluster
    from lab.cluster.errors import BuildError, ClusterError, ComponentError
    from lab.cluster.nodes import NodeShape
    from lab.cluster.processes import Process

__all__ = ["BuildError", "Cluster", "ClusterError", "ComponentError", "NodeShape", "Process"]
_HOMES = {"Cluster": "control_plane", "NodeShape": "nodes", "Process": "processes"}


def __getattr__(name: str) -> object:
    """One of the names above; AttributeError for any other (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
