"""A Kubernetes door for the descheduler's unit tests: holds what a test puts in and answers evictions as told."""

import collections.abc
from typing import Any, Unpack

import msgspec

from kube import errors, kinds
from kube.api.small_objects import FieldsOwner, Replicas, ScaleMetadata
from kube.door import EvictionAnswer, EvictionOptions, KubeWriter, Listing, WriteRequest
from kube.kinds import Kind
from kube.objects import ApiResource, Deployment, Pod, Scale

ACCEPTED = EvictionAnswer(True, 201, "", "")
BLOCKED = EvictionAnswer(
    False, 429, errors.BUDGET_CAUSE, "Cannot evict pod as it would violate the pod's disruption budget."
)


class FakeDoor(KubeWriter):
    """Answers `evict` with the next of `answers` (an exception is raised), and remembers every write."""

    def __init__(
        self, answers: collections.abc.Iterable[EvictionAnswer | Exception] = (), pods: tuple[Pod, ...] = ()
    ) -> None:
        self.answers = list(answers)
        self.objects: dict[str, tuple[Any, ...]] = {kinds.PODS.plural: pods}
        self.evictions: list[tuple[str, str, bool]] = []
        self.versions: list[str] = []
        self.grace_periods_seconds: list[float | None] = []
        self.patches: list[tuple[str, collections.abc.Mapping[str, object]]] = []
        self.created: list[collections.abc.Mapping[str, Any]] = []
        self.before_create: collections.abc.Callable[[], object] = lambda: None
        self.before_evict: collections.abc.Callable[[], object] = lambda: None
        self.unreachable = False
        self.served: dict[str, tuple[ApiResource, ...]] = {}
        self.scales_asked: list[str] = []
        self.scale_failure: errors.KubeError | None = None
        self.after_scale: collections.abc.Callable[[], object] = lambda: None
        self.scaled: list[tuple[str, int, bool]] = []
        self.scale_refusals: list[errors.KubeError | None] = []
        self.managers: tuple[FieldsOwner, ...] = ()
        self.versions_asked: list[str] = []
        self.listed: dict[str, str] = {}
        self.lists: list[tuple[str, str]] = []
        self.pod_metrics_failure: errors.KubeError | None = None

    def evict(
        self, *, namespace: str, name: str, uid: str, dry_run: bool, **options: Unpack[EvictionOptions]
    ) -> EvictionAnswer:
        self.before_evict()
        self.evictions.append((f"{namespace}/{name}", uid, dry_run))
        self.versions.append(options.get("resource_version", ""))
        self.grace_periods_seconds.append(options.get("grace_period_seconds"))
        answer = self.answers.pop(0) if self.answers else ACCEPTED
        if isinstance(answer, Exception):
            raise answer
        return answer

    def list(self, kind: Kind[Any], *, namespace: str = "", field_selector: str = "", **_: object) -> Listing[Any]:
        self._check()
        if kind is kinds.POD_METRICS and self.pod_metrics_failure is not None:
            raise self.pod_metrics_failure
        self.listed[kind.plural] = field_selector
        self.lists.append((kind.plural, namespace))
        items = self.objects.get(kind.name if kind is kinds.POD_METRICS else kind.plural, ())
        return Listing(tuple(one for one in items if namespace in ("", one.namespace)), "1")

    def resources(self, api_version: str) -> tuple[ApiResource, ...]:
        self.versions_asked.append(api_version)
        self._check()
        if api_version not in self.served:
            raise errors.NotFound("GET", status=404, reason="NotFound", message=api_version)
        return self.served[api_version]

    def scale(self, kind: Kind[Scale], name: str, *, namespace: str) -> Scale:
        self.scales_asked.append(f"{kind.path}/{kind.plural}/{namespace}/{name}")
        self.after_scale()
        if self.scale_failure is not None:
            raise self.scale_failure
        found: Scale = self.get(kind, name, namespace=namespace)
        return found

    def get(self, kind: Kind[Any], name: str, *, namespace: str = "") -> Any:
        self._check()
        for item in self.objects.get(kind.plural, ()):
            if item.name == name and item.namespace == namespace:
                return self._read_as_scale(item) if kind is kinds.DEPLOYMENT_SCALES else item
        raise errors.NotFound("GET", status=404, reason="NotFound", message=name)

    def _read_as_scale(self, deployment: Deployment) -> Scale:
        if self.scale_failure is not None:
            raise self.scale_failure
        version = str(len(self.scaled))
        metadata = ScaleMetadata(
            deployment.name, deployment.namespace, deployment.uid, version, managed_fields=self.managers
        )
        return Scale(metadata=metadata, spec=Replicas(deployment.spec_replicas))

    def write(self, request: WriteRequest) -> None:
        if request.verb == "create":
            self.before_create()
            self.created.append(request.body)
        elif request.subresource == "scale":
            self._write_scale(request)
        else:
            self.patches.append((request.name, request.body))

    def _write_scale(self, request: WriteRequest) -> None:
        """Takes the replicas, as long as nobody has written them since they were read."""
        assert request.body["metadata"] == {"resourceVersion": str(len(self.scaled))}
        if self.scale_refusals and (refusal := self.scale_refusals.pop(0)):
            raise refusal
        replicas = msgspec.convert(request.body["spec"], Replicas).replicas
        self.scaled.append((request.name, replicas, request.dry_run))
        if not request.dry_run:
            (one,) = self.objects[kinds.DEPLOYMENTS.plural]
            spec = msgspec.structs.replace(one.spec, replicas=replicas)
            self.objects[kinds.DEPLOYMENTS.plural] = (msgspec.structs.replace(one, spec=spec),)

    def delete(self, kind: Kind[Any], name: str, **_: object) -> None:
        raise NotImplementedError

    def watch(self, kind: Kind[Any], **_: object) -> Any:
        raise NotImplementedError

    def _check(self) -> None:
        if self.unreachable:
            raise errors.Unreachable("GET: connection refused")
