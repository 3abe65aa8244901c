"""Fields of a pod that the annotator reads: a Protocol for watched and for whole pods.

`annotator.placements.pod_index` keeps it in columns, `annotator.placements.hot_counts` counts by it. The watch decodes
`kube.pods.compact.Pod`; a simulation has whole pods (`kube.objects.Pod`) anyway and hands them over.
"""

from collections.abc import Mapping
from typing import Protocol

from kube.pods import compact, pod_view


class Pod(pod_view.Pod, Protocol):
    """A `kube.pods.compact.Pod` or a `kube.objects.Pod`."""

    @property
    def key(self) -> str: ...
    @property
    def annotations(self) -> Mapping[str, str]: ...
    @property
    def left_out(self) -> str: ...
    @property
    def ready_since_seconds(self) -> float | None: ...


def preset(pod: Pod) -> str:
    """Returns the preset of a placeholder, from its annotation."""
    return pod.annotations.get(compact.PRESET_ANNOTATION, "")
