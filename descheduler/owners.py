"""Owners of kinds that we do not know: how many replicas they want, by the scale subresource of their kind.

`reading.py` asks for the owners of pods on nodes that may be relieved: an Argo Rollout, a CloneSet, whatever a cluster
has. What has no scale, or may not be read, is left out; its pods then stay, because nobody can say what replaces them.
"""

import collections.abc
from typing import NamedTuple

from descheduler.workloads import Workload
from kube import errors, kinds
from kube.door import ScalesDoor
from kube.objects import OwnerReference, Scale
from runtime import logs

log = logs.get(__name__)

KNOWN_VERSIONS = frozenset({"v1", "apps/v1", "batch/v1"})  # of the kinds that are listed, and of DaemonSet and Node


class Custom(NamedTuple):
    """An owner of a kind of somebody else's, and the namespace it is in."""

    namespace: str
    reference: OwnerReference


def is_custom(reference: OwnerReference | None) -> bool:
    """Whether the owner is of none of Kubernetes' own kinds."""
    return reference is not None and reference.api_version not in KNOWN_VERSIONS


def workloads(door: ScalesDoor, owners: collections.abc.Collection[Custom]) -> dict[str, Workload]:
    """The owners with a scale by their uid: one request per API version and one per owner.

    Raises KubeError where an answer does not come; what is gone, not served or forbidden is left out.
    """
    found: dict[str, Workload] = {}
    scales = {version: _scales(door, version) for version in sorted({one.reference.api_version for one in owners})}
    for owner in sorted(set(owners), key=lambda one: (one.namespace, one.reference.uid)):
        plural = scales[owner.reference.api_version].get(owner.reference.kind)
        scale = _scale(door, owner, plural) if plural is not None else None
        if scale is not None:
            kind, name, uid = owner.reference.kind, owner.reference.name, owner.reference.uid
            found[uid] = Workload(kind, owner.namespace, name, uid, scale.spec_replicas, scale.observed_replicas)
    return found


def _scales(door: ScalesDoor, version: str) -> dict[str, str]:
    """The plural of every kind of an API version that has a scale."""
    try:
        served = door.resources(version)
    except (errors.NotFound, errors.Forbidden) as error:
        log.info("kinds not known, their pods stay", version=version, error=str(error))
        return {}
    names = {one.name for one in served}
    return {one.kind: one.name for one in served if "/" not in one.name and f"{one.name}/scale" in names}


def _scale(door: ScalesDoor, owner: Custom, plural: str) -> Scale | None:
    reference = owner.reference
    kind = kinds.Kind(f"apis/{reference.api_version}", plural, reference.kind, Scale)
    try:
        scale = door.scale(kind, reference.name, namespace=owner.namespace)
    except (errors.NotFound, errors.Forbidden) as error:
        log.info("owner's scale not known, its pods stay", owner=f"{reference.kind}/{reference.name}", error=str(error))
        return None
    return scale if scale.uid in ("", reference.uid) else None
