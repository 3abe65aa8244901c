"""The nodes and the pods on them, as far as rules about other pods read them."""

from collections.abc import Mapping
from typing import Protocol

from kube_scheduler.columns import Columns
from kube_scheduler.pod_groups import PodGroups, Terms


class ClusterState(Protocol):
    """Nodes by row, their pods in groups, the terms that pods have about others, and labels of namespaces."""

    @property
    def columns(self) -> Columns: ...
    @property
    def groups(self) -> PodGroups: ...
    @property
    def terms(self) -> Terms: ...
    @property
    def namespaces(self) -> Mapping[str, Mapping[str, str]]: ...
