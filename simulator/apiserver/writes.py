"""The writes of the simulated apiserver: create, patch, replace, delete, and the bindings of a scheduler.

`door.SimulatedDoor` is these with the reads; `bind`, `rewrite` and `remove` are for simulated
controllers. All take plain JSON, check it by `admission` and raise `kube.errors` as the real one does.
"""

import math
from typing import Any, TypeVar, Unpack

from kube import kinds
from kube.door import EvictionAnswer, EvictionOptions, KubeWriter, WriteRequest
from kube.errors import Conflict, NotFound, TooManyRequests
from kube.kinds import Kind
from kube.objects import IdentifiedObject
from runtime import clock as clocks
from simulator.apiserver import admission, eviction, merge_patch, refusals
from simulator.apiserver.state import State
from simulator.apiserver.storage import Body, Storage, Version

T = TypeVar("T", bound=IdentifiedObject)
OVER = ("Succeeded", "Failed")


class Writer(KubeWriter):
    """The writing half of a `kube.door.ScalesDoor`."""

    def __init__(self, state: State) -> None:
        self._state = state

    def write(self, request: WriteRequest) -> None:
        """See KubeWriter."""
        if request.verb == "create":
            self._create_from(request)
            return
        own = (merge_patch.patch if request.verb == "merge_patch" else merge_patch.wire)(request.body)
        with self._state.lock:
            shelf, old = self._existing(request.kind, request.name, request.namespace)
            if request.verb == "merge_patch":
                own = merge_patch.merged(old.body, own)
            else:
                _check_uid(_what(request.kind, old.key), own, old)
                own["apiVersion"], own["kind"] = shelf.kind.api_version, shelf.kind.name
            self._updated(shelf, old, own, subresource=request.subresource, dry_run=request.dry_run)

    def create_pod(self, metadata: Body, spec: bytes, *, namespace: str) -> None:
        """`create` for simulated controllers: they are trusted, give `metadata` away and have the spec's text."""
        self._create(kinds.PODS, {"metadata": metadata}, spec, namespace, dry_run=False)

    def delete(self, kind: Kind[T], name: str, *, namespace: str = "", uid: str = "", dry_run: bool = False) -> None:
        """See KubeDoor. A namespace takes everything in it along, at once."""
        with self._state.lock:
            shelf, old = self._existing(kind, name, namespace)
            _check_uid(_what(kind, old.key), {"metadata": {"uid": uid}}, old)
            if not dry_run:
                self._end(shelf, old)

    def evict(
        self, *, namespace: str, name: str, uid: str, dry_run: bool, **options: Unpack[EvictionOptions]
    ) -> EvictionAnswer:
        """See KubeDoor."""
        resource_version = options.get("resource_version", "")
        try:
            with self._state.lock:
                self._state.fresh(kinds.BUDGETS)
                shelf, pod = self._existing(kinds.PODS, name, namespace)
                eviction.permit(self._state, pod, self._rewritten, dry_run=dry_run)
                if resource_version not in ("", pod.metadata["resourceVersion"]):
                    text = f"its resourceVersion is {pod.metadata['resourceVersion']}, not {resource_version}"
                    raise refusals.conflict(_what(kinds.PODS, pod.key), text)
                _check_uid(_what(kinds.PODS, pod.key), {"metadata": {"uid": uid}}, pod)
                if not dry_run:
                    self._end(shelf, pod, options.get("grace_period_seconds"))
        except (NotFound, Conflict, TooManyRequests) as refusal:
            return EvictionAnswer(False, refusal.status, refusal.reason, refusal.message, refusal.retry_after_seconds)
        return EvictionAnswer(True, 201, "", "")

    def bind(self, namespace: str, name: str, node_name: str) -> None:
        """Give a pod its node; Conflict where it has one or is going away."""
        with self._state.lock:
            shelf, old = self._existing(kinds.PODS, name, namespace)
            spec, status = old.body["spec"], old.body["status"]
            if spec.get("nodeName") or "deletionTimestamp" in old.metadata:
                raise refusals.conflict(_what(kinds.PODS, old.key), f"it cannot be bound to {node_name}")
            condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self._state.stamp()}
            others = [one for one in status.get("conditions", ()) if one["type"] != "PodScheduled"]
            changed = {
                "spec": {**spec, "nodeName": node_name},
                "status": {**status, "conditions": [*others, condition]},
            }
            self._rewritten(shelf, old, changed)

    def body(self, kind: Kind[Any], name: str, *, namespace: str = "") -> Body:
        """A stored object, which must not change; empty where there is none of that name."""
        try:
            with self._state.lock:
                return self._existing(kind, name, namespace)[1].body
        except NotFound:
            return {}

    def rewrite(self, kind: Kind[Any], name: str, parts: Body, *, namespace: str = "") -> None:
        """Put whole top-level parts (status, spec) of an object: how simulated controllers write, who are trusted and
        give `parts` away.
        """
        with self._state.lock:
            self._rewritten(*self._existing(kind, name, namespace), parts)

    def remove(self, kind: Kind[Any], name: str, *, namespace: str = "") -> None:
        """Delete with no grace: how the kubelet ends a pod."""
        with self._state.lock:
            self._state.remove(*self._existing(kind, name, namespace))

    def _create_from(self, request: WriteRequest) -> None:
        spec, body = b"", request.body
        if request.kind.plural == kinds.PODS.plural:
            spec = merge_patch.text(body.get("spec") or {})
            body = {key: value for key, value in body.items() if key != "spec"}
        self._create(request.kind, merge_patch.wire(body), spec, request.namespace, dry_run=request.dry_run)

    def _create(self, kind: Kind[T], own: Body, spec: bytes, namespace: str, *, dry_run: bool) -> None:
        with self._state.lock:
            shelf = self._state.shelf(kind)
            what, key = self._identified(shelf, own, namespace)
            if shelf.get(key) is not None:
                raise refusals.exists(what)
            admission.created(what, shelf, own, spec, priorities=self._priority)
            own["metadata"].update(uid=self._state.new_uid(shelf), creationTimestamp=self._state.stamp())
            new = self._state.draft(key, own)
            admission.checked(what, new, kind.type)
            if not dry_run:
                self._state.commit(shelf, None, new)

    def _existing(self, kind: Kind[Any], name: str, namespace: str) -> tuple[Storage, Version]:
        shelf = self._state.shelf(kind)
        key = f"{namespace}/{name}" if kind.namespaced and namespace else name
        version = shelf.get(key)
        if version is None:
            raise refusals.not_found(_what(kind, key))
        return shelf, version

    def _identified(self, shelf: Storage, body: Body, namespace: str) -> tuple[str, str]:
        """Returns a new object's name in messages and its key; fills in its name and namespace."""
        kind, metadata = shelf.kind, body.setdefault("metadata", {})
        if not isinstance(metadata, dict):
            raise refusals.bad_request(f"metadata is {metadata!r}, expected an object")
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + self._state.new_suffix(shelf)
        name = metadata.get("name")
        what = _what(kind, f"{namespace}/{name}" if kind.namespaced else f"{name}")
        admission.check_name(what, kind, name)
        admission.check_metadata(what, metadata)
        if not kind.namespaced:
            metadata.pop("namespace", None)
            return what, str(name)
        if not namespace or metadata.setdefault("namespace", namespace) != namespace:
            raise refusals.bad_request(f"{what}: metadata.namespace is {metadata.get('namespace')!r}")
        if self._state.shelf(kinds.NAMESPACES).get(namespace) is None:
            raise refusals.not_found(f"namespaces {namespace}")
        return what, f"{namespace}/{name}"

    def _updated(self, shelf: Storage, old: Version, body: Body, *, subresource: str, dry_run: bool) -> None:
        kind, what = shelf.kind, _what(shelf.kind, old.key)
        if subresource and subresource not in shelf.subresources:
            raise refusals.not_found(f"{what}/{subresource}")
        if body is old.body:
            return
        body = admission.updated(what, shelf, old, body, subresource=subresource)
        if body == old.body:
            return  # nothing changes: then there is no new version, as with the real one
        new = self._state.draft(old.key, body)
        admission.checked(what, new, kind.type)
        if not dry_run:
            self._state.commit(shelf, old, new)

    def _rewritten(self, shelf: Storage, old: Version, parts: Body) -> None:
        body = {**old.body, **parts}
        body["metadata"] = {**old.metadata, **parts.get("metadata", {})}
        self._state.commit(shelf, old, self._state.draft(old.key, body))

    def _end(self, shelf: Storage, old: Version, grace_period_seconds: float | None = None) -> None:
        """Delete: a pod that runs gets its grace, which the kubelet makes it use or not."""
        grace_seconds = _grace_seconds(old, grace_period_seconds) if shelf.kind.plural == "pods" else 0
        if grace_seconds and "deletionTimestamp" in old.metadata:
            return
        if grace_seconds:
            until = clocks.to_rfc3339(self._state.clock.now() + grace_seconds)
            times = {"deletionTimestamp": until, "deletionGracePeriodSeconds": grace_seconds}
            self._rewritten(shelf, old, {"metadata": times})
            return
        if shelf.kind.plural == "namespaces":
            self._empty(old.key)
        self._state.remove(shelf, old)

    def _empty(self, namespace: str) -> None:
        for shelf in self._state.shelves():
            if shelf.kind.namespaced:
                for version in shelf.within(namespace):
                    current = shelf.get(version.key)  # a controller may have been faster
                    if current is not None:
                        self._state.remove(shelf, current)

    def _priority(self, name: str) -> tuple[int, str]:
        """Value and preemption policy of a PriorityClass; of no name, those of the default."""
        if not name:
            return admission.NO_PRIORITY
        priority_class = self._state.shelf(kinds.PRIORITY_CLASSES).get(name)
        if priority_class is None:
            raise refusals.forbidden(f"priorityclasses {name}", "no such PriorityClass")
        decoded = priority_class.decoded(kinds.PRIORITY_CLASSES.type)
        return decoded.value, decoded.preemption_policy or admission.NO_PRIORITY[1]


def _check_uid(what: str, body: Body, old: Version) -> None:
    """Conflict where a body or a precondition speaks of another object of the same name."""
    metadata = body.get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, dict) else ""
    if uid and uid != old.metadata["uid"]:
        raise refusals.conflict(what, f"its uid is {old.metadata['uid']}, not {uid}")


def _what(kind: Kind[Any], key: str) -> str:
    return f"{kind.plural} {key}"


def _grace_seconds(pod: Version, wanted: float | None) -> int:
    """Returns the wanted grace period, or the pod's own, in seconds: 0 without a kubelet, or once the pod has ended."""
    if not pod.body["spec"].get("nodeName") or pod.body["status"].get("phase") in OVER:
        return 0
    if wanted is not None:
        return math.ceil(wanted)
    return int(pod.body["spec"].get("terminationGracePeriodSeconds", admission.GRACE_SECONDS))
