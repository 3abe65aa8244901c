"""The door to the Kubernetes API: the Protocol that every part of Evenload uses.

`kube.http.client.Client` is the real implementation, over HTTP, `simulator.apiserver.door.SimulatedDoor` the simulated
one; both pass the same contract suite (tests/door_suite.py). All methods block, may be called from any thread, and
raise only `kube.errors`. Every request has a timeout. Bodies of writes are plain JSON mappings, so that what goes over
the wire can be read in the code that sends it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypedDict, TypeVar, Unpack

import msgspec

from kube import errors
from kube.kinds import Kind
from kube.objects import ApiResource, IdentifiedObject, Scale

T = TypeVar("T", bound=IdentifiedObject)
EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A whole list and the resourceVersion from which to watch on."""

    items: tuple[T, ...]
    resource_version: str


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One change. A BOOKMARK has no object, only a resourceVersion; a DELETED object is its last state.

    There are thousands a minute: a struct is made in a fifth of a frozen dataclass's time.
    """

    type: EventType
    object: T | None
    resource_version: str


class EvictionAnswer(NamedTuple):
    """The apiserver's answer to an eviction.

    status 201 or 200: accepted; 202: accepted, and carried out later. 404: the pod is gone. 409: another pod has its
    name (uid), or it has changed. 429: a budget allows none now and `message` names it (`of_budget`), the apiserver
    sheds load (`of_flow_control`), or admission denies this pod; retry_after_seconds is the apiserver's wish, often
    absent.
    """

    accepted: bool
    status: int
    reason: str
    message: str
    retry_after_seconds: float | None = None

    @property
    def of_budget(self) -> bool:
        """Whether it is a PodDisruptionBudget that refuses."""
        return self.status == errors.TOO_MANY_REQUESTS and self.reason == errors.BUDGET_CAUSE

    @property
    def of_flow_control(self) -> bool:
        """Whether the request was turned away before anything had looked at the pod: `errors.FLOW_CONTROL`."""
        return self.status == errors.TOO_MANY_REQUESTS and self.reason == errors.FLOW_CONTROL


class Selection(TypedDict, total=False):
    """The objects that a list or a watch is about; without a namespace those of all."""

    namespace: str
    label_selector: str
    field_selector: str


class KubeReader(Protocol):
    """Reads of the Kubernetes API."""

    def list(
        self,
        kind: Kind[T],
        *,
        limit: int = 500,
        from_cache: bool = False,
        **selection: Unpack[Selection],
    ) -> Listing[T]:
        """All objects of a kind, page by page of `limit`. Gone when a page token ran out.

        `from_cache`: as the apiserver has it in memory, which may be a moment old. It then answers at once, without
        pages, for a fraction of the work.
        """

    def watch(
        self,
        kind: Kind[T],
        *,
        resource_version: str,
        timeout_seconds: float = 300,
        **selection: Unpack[Selection],
    ) -> "Watch[T]":
        """Changes after `resource_version` until the server ends the stream, after `timeout_seconds` at the latest."""

    def get(self, kind: Kind[T], name: str, *, namespace: str = "") -> T:
        """One object; NotFound."""


class WriteRequest(NamedTuple):
    """A write of one object, by the method of KubeWriter that asks for it; `name` is in the body of a create."""

    verb: Literal["create", "merge_patch", "replace"]
    kind: Kind[Any]
    name: str
    body: Mapping[str, object]
    namespace: str = ""
    subresource: str = ""
    dry_run: bool = False


class WriteOptions(TypedDict, total=False):
    """Where an object is written, and whether the write is only checked."""

    namespace: str
    subresource: str
    dry_run: bool


class KubeWriter(Protocol):
    """Writes of single objects: each is a `WriteRequest`, which the implementations `write`."""

    def write(self, request: WriteRequest) -> None:
        """Carry out a write as the method of its verb promises."""

    def create(self, kind: Kind[T], body: Mapping[str, object], *, namespace: str = "", dry_run: bool = False) -> None:
        """Create from a whole body, apiVersion and kind are filled in; Conflict when it exists. Never repeated by
        itself.
        """
        self.write(WriteRequest("create", kind, "", body, namespace, dry_run=dry_run))

    def merge_patch(
        self, kind: Kind[T], name: str, body: Mapping[str, object], **options: Unpack[WriteOptions]
    ) -> None:
        """RFC 7396: the keys given are set, None removes; NotFound."""
        self.write(WriteRequest("merge_patch", kind, name, body, **options))

    def replace(self, kind: Kind[T], name: str, body: Mapping[str, object], **options: Unpack[WriteOptions]) -> None:
        """Put a whole body, apiVersion and kind are filled in; Conflict when its metadata.resourceVersion is no longer
        the newest.
        """
        self.write(WriteRequest("replace", kind, name, body, **options))


class EvictionOptions(TypedDict, total=False):
    """In which version alone the pod is evicted, and its time to end, rounded up to seconds, in place of its own."""

    resource_version: str
    grace_period_seconds: float | None


class KubeDoor(KubeReader, KubeWriter, Protocol):
    """The Kubernetes API as Evenload uses it."""

    def delete(self, kind: Kind[T], name: str, *, namespace: str = "", uid: str = "", dry_run: bool = False) -> None:
        """Delete; with `uid` only that very object (Conflict otherwise); NotFound."""

    def evict(
        self, *, namespace: str, name: str, uid: str, dry_run: bool, **options: Unpack[EvictionOptions]
    ) -> EvictionAnswer:
        """Ask for the eviction of exactly this pod. 404, 409 and 429 are answers; other failures raise."""


class ScalesDoor(KubeDoor, Protocol):
    """A Kubernetes door that also counts the replicas of custom kinds through their scale subresource."""

    def resources(self, api_version: str) -> tuple[ApiResource, ...]:
        """The kinds and subresources that an API version serves; NotFound when it is not served."""

    def scale(self, kind: Kind[Scale], name: str, *, namespace: str) -> Scale:
        """The scale of one object; NotFound."""


class Watch(Iterator[WatchEvent[T]], Protocol[T]):
    """A stream of changes that another thread may end with `close`."""

    def close(self) -> None:
        """End the stream now: a blocked `next` returns within moments. Safe from any thread, and twice."""
