"""Frozen views of API objects, decoded once from the wire and partial: unused fields are not kept.

`kube.http.client` decodes lists and watch events straight into these structs with msgspec; every service reads them and
nothing else. This module is their index: import from here. Fields follow the wire; properties flatten them
(`pod.node_name`, `node.ready`) and give times as Unix seconds. An absent label map is an empty one, an absent time is
None, an unbound pod's node_name is "".
"""

from kube.api.affinity import PodAffinityTerm, TopologySpread
from kube.api.budgets import DisruptionBudget
from kube.api.metadata import (
    Condition,
    IdentifiedObject,
    Identity,
    Metadata,
    Object,
    OwnerReference,
    controller,
)
from kube.api.nodes import Node, NodeMetrics, PodMetrics
from kube.api.pods import Pod
from kube.api.resources import NOTHING, Container, Resources
from kube.api.selectors import LabelSelector, NodeSelector, Taint, Toleration
from kube.api.small_objects import (
    ApiResource,
    Autoscaler,
    ConfigMap,
    CsiNode,
    CsiSource,
    EndpointSlice,
    Event,
    Lease,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    PriorityClass,
    Reference,
    ResourceQuota,
    Scale,
    Service,
)
from kube.api.workloads import Deployment, Job, JobSet, ReplicaSet, ReplicationController, StatefulSet
