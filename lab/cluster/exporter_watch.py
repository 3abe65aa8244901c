"""From the apiserver's Nodes and Pods to the exporter's facts: a pod's load follows the pod.

Two reflectors feed it (`cluster.exporter` starts them). A pod loads the node it is bound to from the moment it runs
until it has finished or is deleted; a terminating pod still runs. What an annotation says and cannot be understood is
logged once per text and replaced by the default, because one author's mistake must not stop the others' series.
"""

from kube import objects
from lab.cluster import exporter_fleet, exporter_http, exporter_load
from runtime import logs
from simulator import contention

log = logs.get(__name__)

REMEMBERED_COMPLAINTS = 1000
IMAGE = "registry.k8s.io/app:1"  # kube/ does not keep images; nothing reads this label but people


class Watcher:
    """Turns changes of Node and Pod objects into changes of the fleet. One thread per kind may call it."""

    def __init__(self, exporter: exporter_http.Exporter, system: contention.SystemLoad) -> None:
        self._exporter, self._system = exporter, system
        self._complained: set[str] = set()

    def on_node(self, old: objects.Node | None, new: objects.Node | None) -> None:
        """A node was added, changed or deleted."""
        if new is not None:
            self._exporter.set_node(self.node_facts(new))
        elif old is not None:
            self._exporter.remove_node(old.name)

    def on_pod(self, old: objects.Pod | None, new: objects.Pod | None) -> None:
        """A pod was added, changed or deleted."""
        if new is not None and new.node_name and new.phase == "Running":
            self._exporter.place(self.pod_facts(new))
        elif (gone := new or old) is not None:
            self._exporter.remove_pod(gone.key)

    def node_facts(self, node: objects.Node) -> exporter_fleet.NodeFacts:
        """A node's address, capacity and own load."""
        internal = (address.address for address in node.addresses if address.type == "InternalIP")
        capacity = contention.Load(node.capacity.cpu_millicores, node.capacity.memory_bytes)
        try:
            system = exporter_load.system_load(node.annotations, self._system)
        except exporter_load.LoadError as error:
            self._complain(f"node {node.name}", error)
            system = self._system
        return exporter_fleet.NodeFacts(node.name, next(internal, node.name), capacity, system)

    def pod_facts(self, pod: objects.Pod) -> exporter_fleet.PodFacts:
        """A running pod's place and load."""
        requests = contention.Load(pod.requests.cpu_millicores, pod.requests.memory_bytes)
        try:
            profile = exporter_load.profile(pod.annotations, requests)
        except exporter_load.LoadError as error:
            self._complain(f"pod {pod.key}", error)
            profile = exporter_load.profile({}, requests)
        return exporter_fleet.PodFacts(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            owner=pod.owner.uid if pod.owner else pod.uid,
            node=pod.node_name,
            profile=profile,
            containers=tuple((container.name, IMAGE) for container in pod.spec.containers),
        )

    def _complain(self, whose: str, error: exporter_load.LoadError) -> None:
        text = str(error)
        if text not in self._complained and len(self._complained) < REMEMBERED_COMPLAINTS:
            self._complained.add(text)
            log.warning("load annotation not understood, the default is used", object=whose, error=text)
