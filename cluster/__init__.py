"""The real control plane on one machine: etcd, Kubernetes, fake kubelets, Prometheus and the exporters.

`Cluster` is what tests, benches and the demo use; `python -m cluster up|down|build|status` is the same for people.
Start reading at `control_plane`.
"""

from cluster.control_plane import Cluster
from cluster.errors import BuildError, ClusterError, ComponentError
from cluster.nodes import NodeShape
from cluster.processes import Process

__all__ = ["BuildError", "Cluster", "ClusterError", "ComponentError", "NodeShape", "Process"]
