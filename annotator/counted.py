"""What the annotator reads of a pod: the same of a pod of its watch and of a whole one.

`annotator.followed` keeps it in columns, `annotator.bindings` counts by it. The watch decodes `kube.lean_pods.Pod`; a
simulation has whole pods (`kube.objects.Pod`) anyway and hands them over.
"""

from collections.abc import Mapping
from typing import Protocol

from kube import lean_pods, objects


class Pod(Protocol):
    """A `kube.lean_pods.Pod` or a `kube.objects.Pod`; it never changes."""

    @property
    def uid(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def node_name(self) -> str: ...
    @property
    def finished(self) -> bool: ...
    @property
    def deleting(self) -> bool: ...
    @property
    def is_daemonset(self) -> bool: ...
    @property
    def is_from_node(self) -> bool: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def annotations(self) -> Mapping[str, str]: ...
    @property
    def owner(self) -> objects.OwnerReference | None: ...
    @property
    def scheduled_at_seconds(self) -> float | None: ...
    @property
    def ready_since_seconds(self) -> float | None: ...


def is_placeholder(pod: Pod) -> bool:
    """Whether it only holds room for others."""
    return pod.labels.get(lean_pods.PLACEHOLDER_LABEL) == "true"


def preset(pod: Pod) -> str:
    """What a placeholder is for, as its annotation says."""
    return pod.annotations.get(lean_pods.PRESET_ANNOTATION, "")
