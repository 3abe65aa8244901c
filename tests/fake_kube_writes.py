"""A KubeDoor in memory that only records node patches and keeps ConfigMaps: what the annotator writes through."""

from collections.abc import Mapping
from typing import Any, TypeVar, Unpack

import msgspec

from kube import door, errors, kinds, objects

T = TypeVar("T", bound=objects.IdentifiedObject)


class FakeKubeWrites(door.KubeWriter):
    """`patches`: (node, body) in order; `config_maps`: data by "namespace/name"; `lists`: what list() gives by kind;
    `done`: names and bodies of all writes that did not raise, but Events', in order.
    """

    def __init__(self) -> None:
        self.patches: list[tuple[str, Mapping[str, Any]]] = []
        self.config_maps: dict[str, dict[str, str]] = {}
        self.done: list[tuple[str, Mapping[str, Any]]] = []
        self.events: list[str] = []
        self.lists: dict[str, tuple[objects.Object, ...]] = {}
        self._failures: dict[str, errors.KubeError] = {}

    def fail(self, name: str, error: errors.KubeError | None) -> None:
        """Make writes to an object of this name raise; None makes them work again."""
        if error is None:
            self._failures.pop(name, None)
        else:
            self._failures[name] = error

    def list(self, kind: kinds.Kind[T], **_: object) -> door.Listing[T]:
        """What was put into `lists`."""
        return door.Listing(tuple(self.lists.get(kind.plural, ())), "1")  # type: ignore[arg-type]

    def watch(self, kind: kinds.Kind[T], **_: object) -> door.Watch[T]:
        """Not served."""
        raise NotImplementedError(kind.plural)

    def get(self, kind: kinds.Kind[T], name: str, *, namespace: str = "") -> T:
        """A ConfigMap as it was written last; nothing else is served."""
        if kind.plural != kinds.CONFIG_MAPS.plural:
            raise NotImplementedError(name)
        return msgspec.convert({"metadata": {"name": name}, "data": self._existing(namespace, name)}, kind.type)

    def write(self, request: door.WriteRequest) -> None:
        """Record an Event's reason or a node's patch; create, change or put a ConfigMap."""
        body: Mapping[str, Any] = request.body
        if request.kind is kinds.EVENTS:
            self.events.append(body["reason"])
            return
        name = request.name or body["metadata"]["name"]
        if name in self._failures:
            raise self._failures[name]
        if request.kind.plural == kinds.NODES.plural:
            self.patches.append((name, body))
        elif request.verb == "create":
            self.config_maps[f"{request.namespace}/{name}"] = dict(body["data"])
        else:
            data = self._existing(request.namespace, name)
            if request.verb == "replace":
                data.clear()
            data.update(body["data"])
        self.done.append((name, body))

    def _existing(self, namespace: str, name: str) -> dict[str, str]:
        """The data of a ConfigMap; NotFound as the apiserver says it."""
        key = f"{namespace}/{name}"
        if key not in self.config_maps:
            raise errors.NotFound(key, status=404, reason="NotFound", message="no such ConfigMap")
        return self.config_maps[key]

    def delete(self, kind: kinds.Kind[T], name: str, **_: object) -> None:
        """Not served."""
        raise NotImplementedError(name)

    def evict(
        self, *, namespace: str, name: str, uid: str, dry_run: bool, **options: Unpack[door.EvictionOptions]
    ) -> door.EvictionAnswer:
        """Not served."""
        raise NotImplementedError(name)
