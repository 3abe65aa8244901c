"""The kinds that Evenload reads and writes: where each lives in the API and which struct its objects become.

Callers name a Kind at every call of the door (`door.list(kinds.PODS)`); the type of what comes back follows from it.
"""

import dataclasses
from typing import Any, Generic, TypeVar

from kube import objects

T = TypeVar("T", bound=objects.IdentifiedObject)


@dataclasses.dataclass(frozen=True)
class Kind(Generic[T]):
    """A kind of object: path "api/v1" or "apis/policy/v1", plural as in URLs, and the struct it decodes into."""

    path: str
    plural: str
    name: str  # as in `kind:`
    type: type[T]
    namespaced: bool = True
    answer_seconds: float = 10.0  # how long an answer about one may take to begin

    @property
    def api_version(self) -> str:
        """As in `apiVersion:`: "v1", "policy/v1"."""
        return self.path.split("/", 1)[1]


NODES = Kind("api/v1", "nodes", "Node", objects.Node, namespaced=False)
PODS = Kind("api/v1", "pods", "Pod", objects.Pod)
NAMESPACES = Kind("api/v1", "namespaces", "Namespace", objects.Namespace, namespaced=False)
CONFIG_MAPS = Kind("api/v1", "configmaps", "ConfigMap", objects.ConfigMap)
SERVICES = Kind("api/v1", "services", "Service", objects.Service)
ENDPOINT_SLICES = Kind("apis/discovery.k8s.io/v1", "endpointslices", "EndpointSlice", objects.EndpointSlice)
CLAIMS = Kind("api/v1", "persistentvolumeclaims", "PersistentVolumeClaim", objects.PersistentVolumeClaim)
VOLUMES = Kind("api/v1", "persistentvolumes", "PersistentVolume", objects.PersistentVolume, namespaced=False)
CSI_NODES = Kind("apis/storage.k8s.io/v1", "csinodes", "CSINode", objects.CsiNode, namespaced=False)
REPLICATION_CONTROLLERS = Kind(
    "api/v1", "replicationcontrollers", "ReplicationController", objects.ReplicationController
)
REPLICA_SETS = Kind("apis/apps/v1", "replicasets", "ReplicaSet", objects.ReplicaSet)
DEPLOYMENTS = Kind("apis/apps/v1", "deployments", "Deployment", objects.Deployment)
STATEFUL_SETS = Kind("apis/apps/v1", "statefulsets", "StatefulSet", objects.StatefulSet)
JOBS = Kind("apis/batch/v1", "jobs", "Job", objects.Job)
BUDGETS = Kind("apis/policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", objects.DisruptionBudget)
# A request that is never answered must leave `kube.lease` the time to ask again before it has to stop leading.
LEASES = Kind("apis/coordination.k8s.io/v1", "leases", "Lease", objects.Lease, answer_seconds=4.0)
EVENTS = Kind("apis/events.k8s.io/v1", "events", "Event", objects.Event)
PRIORITY_CLASSES = Kind(
    "apis/scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", objects.PriorityClass, namespaced=False
)
ALL: tuple[Kind[Any], ...] = tuple([one for one in [*vars().values()] if isinstance(one, Kind)])  # those above
# Not of kube-apiserver itself, but of metrics-server behind it, where there is one; they can be listed, not watched.
NODE_METRICS = Kind("apis/metrics.k8s.io/v1beta1", "nodes", "NodeMetrics", objects.NodeMetrics, namespaced=False)
POD_METRICS = Kind("apis/metrics.k8s.io/v1beta1", "pods", "PodMetrics", objects.PodMetrics)
JOB_SETS = Kind("apis/jobset.x-k8s.io/v1alpha2", "jobsets", "JobSet", objects.JobSet)  # read where groups may leave
# Read where pods surge alone; the last two are of other makers, and not everywhere.
DEPLOYMENT_SCALES = Kind("apis/apps/v1", "deployments", "Deployment", objects.Scale)  # `get` reads the Deployment
QUOTAS = Kind("api/v1", "resourcequotas", "ResourceQuota", objects.ResourceQuota)
AUTOSCALERS = (
    Kind("apis/autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", objects.Autoscaler),
    Kind("apis/keda.sh/v1alpha1", "scaledobjects", "ScaledObject", objects.Autoscaler),
    Kind("apis/autoscaling.k8s.io/v1", "verticalpodautoscalers", "VerticalPodAutoscaler", objects.Autoscaler),
)
