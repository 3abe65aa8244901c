"""Owners of custom kinds: how many replicas they want, by the scale subresource of their kind.

`snapshot.cluster_reader` asks for the owners of pods on nodes that may be relieved: an Argo Rollout, a CloneSet,
whatever a cluster has. What has no scale, or may not be read, is left out; its pods then stay, because it is unknown
what replaces them.

A pod's author writes its ownerReferences, and what answers for another kind need not be the apiserver: an aggregated
API, a conversion webhook. So an owner that cannot be looked up is a failure of its own, which keeps its pods and no
others. Whether the apiserver itself has gone, the lists that follow tell.
"""

import collections.abc
from typing import Final, NamedTuple

from descheduler.snapshot.workloads import Workload
from kube import errors, kinds
from kube.api import identifiers
from kube.door import ScalesDoor
from kube.objects import OwnerReference, Scale
from runtime import logs

log = logs.get(__name__)

KNOWN_VERSIONS = frozenset({"v1", "apps/v1", "batch/v1"})  # of the kinds that are listed, and of DaemonSet and Node
# An API that does not answer is waited for; after so many of them owners of further ones are not asked for in this run,
# nor after one 429: the apiserver's flow control is about this process, and each answer asks for a pause.
MOST_UNANSWERED: Final = 2
UNANSWERED: Final = "unanswered"
OF_ERRORS: Final = {errors.InvalidPath: "invalid", errors.ServerError: "server_error", errors.ApiError: "refused"}
REASONS: Final = (*OF_ERRORS.values(), UNANSWERED)


class Custom(NamedTuple):
    """An owner of a custom kind, and its namespace."""

    namespace: str
    reference: OwnerReference

    def __str__(self) -> str:
        return f"{self.reference.kind}/{self.reference.name}"


class Failure(NamedTuple):
    """Why an owner could not be looked up: one of REASONS, and the words for a verdict."""

    reason: str
    text: str


class ScaledOwner(NamedTuple):
    """The owners with a scale by their uid, and those that could not be looked up."""

    workloads: dict[str, Workload]
    failures: dict[Custom, Failure]


class _NotServedError(Exception):
    """The owner has gone, its kind is not served or has no scale, or neither may be read."""


def workloads(door: ScalesDoor, owners: collections.abc.Collection[Custom]) -> ScaledOwner:
    """Returns the workloads of the owners: one request per API version and one per owner. Raises no KubeError."""
    asking, result, unknown = _Asking(door), ScaledOwner({}, {}), list[str]()
    for owner in sorted(set(owners), key=lambda one: (one.namespace, one.reference.uid, str(one.reference))):
        try:
            scale = asking.scale(owner)
        except _NotServedError as error:
            unknown.append(f"{owner}: {error}")
        except errors.KubeError as error:
            reason = next((word for kind, word in OF_ERRORS.items() if isinstance(error, kind)), UNANSWERED)
            result.failures[owner] = Failure(reason, f"{owner}: {error}")
        else:
            uid = owner.reference.uid
            result.workloads[uid] = Workload(
                owner.reference.kind,
                owner.namespace,
                owner.reference.name,
                uid,
                scale.spec.replicas,
                scale.status.replicas,
                api_version=owner.reference.api_version,
            )
    if unknown:
        log.info("owners not known, their pods stay", count=len(unknown), first=unknown[0])
    if result.failures:
        first = next(iter(result.failures.values()))
        log.warning("owners not looked up, their pods stay", count=len(result.failures), first=first.text)
    return result


class _Asking:
    """The questions of one run: an API version is asked for once, and one that does not answer not again."""

    def __init__(self, door: ScalesDoor) -> None:
        self._door = door
        self._plurals: dict[str, dict[str, str]] = {}
        self._failed: dict[str, errors.KubeError] = {}

    def scale(self, owner: Custom) -> Scale:
        """The owner's scale. Raises KubeError where it cannot be looked up, _NotServedError where there is none."""
        _require_names(owner)
        try:
            self._require_answers(owner.reference.api_version)
            return self._scale(owner)
        except (errors.NotFound, errors.Forbidden) as error:
            raise _NotServedError(str(error)) from error

    def _require_answers(self, version: str) -> None:
        throttled = (error for error in self._failed.values() if isinstance(error, errors.TooManyRequests))
        if failed := next(throttled, self._failed.get(version)):
            raise failed
        silent = [name for name, error in self._failed.items() if isinstance(error, errors.Unreachable)]
        if len(silent) >= MOST_UNANSWERED:
            raise errors.Unreachable(f"not asked in this run, because {' and '.join(silent)} did not answer")

    def _scale(self, owner: Custom) -> Scale:
        reference = owner.reference
        plural = self._served(reference.api_version).get(reference.kind)
        if plural is None:
            raise _NotServedError(f"{reference.api_version} serves no scale of {reference.kind}")
        kind = kinds.Kind(f"apis/{reference.api_version}", plural, reference.kind, Scale)
        try:
            scale = self._door.scale(kind, reference.name, namespace=owner.namespace)
        except (errors.Unreachable, errors.TooManyRequests) as error:
            self._failed[reference.api_version] = error
            raise
        if scale.uid not in ("", reference.uid):
            raise _NotServedError("another object has its name")
        return scale

    def _served(self, version: str) -> dict[str, str]:
        """The plural of every kind of an API version that has a scale."""
        if version not in self._plurals:
            try:
                served = self._door.resources(version)
            except errors.KubeError as error:
                self._failed[version] = error
                raise
            names = {one.name for one in served}
            scaled = {one.kind: one.name for one in served if "/" not in one.name and f"{one.name}/scale" in names}
            self._plurals[version] = scaled
        return self._plurals[version]


def _require_names(owner: Custom) -> None:
    """InvalidPath for a reference of which no request is made."""
    reference = owner.reference
    if not identifiers.is_api_version(reference.api_version):
        raise errors.InvalidPath(f"apiVersion {reference.api_version!r} is not VERSION or GROUP/VERSION")
    if not identifiers.is_kind(reference.kind):
        raise errors.InvalidPath(f"kind {reference.kind!r} is not the name of a kind")
    if not identifiers.is_name(reference.name):
        raise errors.InvalidPath(f"name {reference.name!r} is not the name of an object")
