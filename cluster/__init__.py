"""The real control plane on one machine: etcd, Kubernetes, fake kubelets, Prometheus and the exporters.

`Cluster` is what tests, benches and the demo use; `python -m cluster up|down|build|status` is the same for people.
Start reading at `control_plane`. The exporter and the watchdog are processes of this package too and need none of it:
the names below are imported when they are asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cluster.control_plane import Cluster
    from cluster.errors import BuildError, ClusterError, ComponentError
    from cluster.nodes import NodeShape
    from cluster.processes import Process

__all__ = ["BuildError", "Cluster", "ClusterError", "ComponentError", "NodeShape", "Process"]

_MODULES = {"Cluster": "control_plane", "NodeShape": "nodes", "Process": "processes"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, 'errors')}"), name)
