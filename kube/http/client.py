"""The real Kubernetes door: `kube.door.KubeDoor` and `ScalesDoor` over HTTP.

`kube.config.connect` makes a Client; services, reflectors and the lease call it from any thread. It builds paths and
bodies and decodes answers; `kube.http.transport` below it authenticates, sends, repeats by rule and raises
`kube.errors`.
"""

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping
from email import utils
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, Unpack
from urllib import parse

from kube import errors, kinds
from kube.api.salvage import UndecodableObject
from kube.door import (
    EventType,
    EvictionAnswer,
    EvictionOptions,
    KubeWriter,
    Listing,
    Selection,
    WatchEvent,
    WriteRequest,
)
from kube.http import decoding
from kube.http.request import Request
from kube.http.undecodable import Source, UndecodableObjects
from kube.kinds import Kind
from kube.objects import ApiResource, IdentifiedObject, Scale

if TYPE_CHECKING:
    from kube.http.transport import Stream, Transport

T = TypeVar("T", bound=IdentifiedObject)
Query = tuple[tuple[str, str], ...]

LIST_SECONDS = 30.0  # until a busy apiserver begins with a list, or goes on with it
WATCH_IDLE_SECONDS = 180.0  # a quiet watch gets a bookmark every 60 to 120 s: longer silence is a dead connection
LINE_LIMIT_BYTES = 16 << 20  # etcd takes objects of 1.5 MiB: a longer line is not from an apiserver
WATCH_END_SECONDS = 5.0  # a watch that is silent for so long past its end is dead, too
DRY_RUN: Query = (("dryRun", "All"),)
MANAGER: Query = (("fieldManager", "evenload"),)
MERGE_PATCH = "application/merge-patch+json"
JSON = "application/json"
METHODS = {"create": "POST", "merge_patch": "PATCH", "replace": "PUT"}
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"  # for answers to writes, whose body is not read
EVICTED_BY = {"evenload.io/evicted-by": "descheduler"}  # by it deploy/guard takes an Eviction up


class Place(NamedTuple):
    """An endpoint in the cluster: a pod or a Service, and its port by name or number."""

    kind: Kind[Any]
    namespace: str
    name: str
    port: str
    scheme: str = "http"

    def __str__(self) -> str:
        """`service monitoring/prometheus:9090`."""
        return f"{self.kind.name.lower()} {self.namespace}/{self.name}:{self.port}"


class HttpWatch(Generic[T]):
    """One watch, read on one thread and closed from another: bytes in pieces to lines, lines to events. It ends when
    the server ends the stream or `close` is called.

    Raises Gone or another ApiError for an ERROR event, Unreachable when the stream breaks off or falls silent,
    Undecodable for a line that is no event, among them a last line cut short. An object that cannot be decoded and does
    not count in part is DELETED: it is missing until a version of it can be decoded.
    """

    def __init__(
        self, name: str, kind: type[T], stream: "Stream", source: Source, *, undecodable: UndecodableObjects
    ) -> None:
        self._name = name
        self._kind = kind
        self._stream = stream
        self._source = source
        self._undecodable = undecodable
        self._events = self._decoded()

    def __iter__(self) -> Iterator[WatchEvent[T]]:
        return self._events

    def __next__(self) -> WatchEvent[T]:
        return next(self._events)

    def close(self) -> None:
        """End the stream now; from any thread."""
        self._stream.close()

    def _decoded(self) -> Iterator[WatchEvent[T]]:
        try:
            for line in self._lines():
                yield self._event(decoding.one(self._name, decoding.Frame, line))
        finally:
            self._stream.close()

    def _lines(self) -> Iterator[bytes]:
        rest: list[bytes] = []
        for piece in self._stream:
            head, *more = piece.split(b"\n")
            rest.append(head)
            for following in more:
                line = b"".join(rest)
                rest = [following]
                if line.strip():
                    yield line
            if sum(map(len, rest)) > LINE_LIMIT_BYTES:
                raise errors.Undecodable(f"{self._name}: a line of over {LINE_LIMIT_BYTES} bytes")
        if b"".join(rest).strip() and not self._stream.closed:
            raise errors.Unreachable(f"{self._name}: the stream was cut in the middle of an event")

    def _event(self, frame: decoding.Frame) -> WatchEvent[T]:
        match frame.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                return self._changed(frame.type, frame)
            case "BOOKMARK":
                bookmark = decoding.one(self._name, decoding.Bookmark, frame.object)
                return WatchEvent("BOOKMARK", None, bookmark.metadata.resource_version)
            case "ERROR":
                raise decoding.failure_in_watch(self._name, frame.object)
        raise errors.Undecodable(f"{self._name}: expected an event ADDED, MODIFIED, DELETED …, got {frame.type!r}")

    def _changed(self, type_: EventType, frame: decoding.Frame) -> WatchEvent[T]:
        item, lost = decoding.decoded(self._name, self._kind, frame.object)
        if item is None and lost is not None:
            type_, item = "DELETED", decoding.one(self._name, self._kind, lost.identity())  # who held it lets go of it
        assert item is not None  # noqa: S101 - decoding names what it leaves out
        self._undecodable.changed(self._source, item.key, None if frame.type == "DELETED" else lost)
        return WatchEvent(type_, item, item.resource_version if lost is None else lost.resource_version)


class Client(KubeWriter):
    """See KubeDoor for what each method promises; `undecodable` tells which objects could not be decoded."""

    def __init__(
        self,
        transport: "Transport",
        undecodable: UndecodableObjects,
        *,
        watch_idle_seconds: float = WATCH_IDLE_SECONDS,
    ) -> None:
        self._transport = transport
        self.undecodable = undecodable
        self._watch_idle_seconds = watch_idle_seconds

    @property
    def url(self) -> str:
        """The apiserver's URL."""
        return self._transport.url

    def close(self) -> None:
        """Close pooled connections."""
        self._transport.close()

    def list(
        self,
        kind: Kind[T],
        *,
        limit: int = 500,
        from_cache: bool = False,
        **selection: Unpack[Selection],
    ) -> Listing[T]:
        """All objects of a kind, in one answer or page by page; in one, too, where the next page is too old (410)."""
        items: list[T] = []
        undecodable: list[UndecodableObject] = []
        path = _path(kind, selection.get("namespace", ""))
        selected = _selectors(selection) + ((("limit", str(limit)),) if limit else ())
        token = ""
        while True:
            where = ("continue", token) if token else ("resourceVersion", "0")
            query = selected + ((where,) if token or from_cache else ())
            request = Request("GET", path, query=query, read_seconds=LIST_SECONDS, compressed=True)
            decoded = functools.partial(decoding.page, self._transport.name(request), kind.type)
            try:
                page = self._transport.take(request, decoded)
            except errors.Gone:
                if not token:
                    raise
                return self.list(kind, limit=0, **selection)
            items.extend(page.items or ())
            undecodable.extend(page.undecodable)
            token = page.metadata.token
            if not token:
                self.undecodable.listed(Source(kind.name, **selection), undecodable)
                return Listing(tuple(items), page.metadata.resource_version)

    def watch(
        self,
        kind: Kind[T],
        *,
        resource_version: str,
        timeout_seconds: float = 300,
        **selection: Unpack[Selection],
    ) -> HttpWatch[T]:
        """Changes after `resource_version`."""
        query = (
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", resource_version),
            ("timeoutSeconds", str(int(timeout_seconds))),
            *_selectors(selection),
        )
        idle_seconds = min(timeout_seconds + WATCH_END_SECONDS, self._watch_idle_seconds)
        request = Request("GET", _path(kind, selection.get("namespace", "")), query=query, read_seconds=idle_seconds)
        name, stream = f"watch {self.url}{request.path}", self._transport.open(request)
        source = Source(kind.name, **selection)
        return HttpWatch(name, kind.type, stream, source, undecodable=self.undecodable)

    def get(self, kind: Kind[T], name: str, *, namespace: str = "") -> T:
        """One object."""
        request = Request("GET", _path(kind, namespace, name), read_seconds=kind.answer_seconds)
        item, lost = decoding.decoded(self._transport.name(request), kind.type, self._transport.send(request))
        if lost is not None:
            self.undecodable.read(kind.name, lost)
        if item is None:
            raise errors.Undecodable(
                f"{self._transport.name(request)}: {kind.name} {name}: {lost.error if lost else ''}"
            )
        return item

    def scale(self, kind: Kind[Scale], name: str, *, namespace: str) -> Scale:
        """The scale of one object."""
        request = Request("GET", _path(kind, namespace, name, "scale"))
        return decoding.one(self._transport.name(request), Scale, self._transport.send(request))

    def resources(self, api_version: str) -> tuple[ApiResource, ...]:
        """Returns the resources that an API version serves."""
        root = "apis" if "/" in api_version else "api"
        request = Request("GET", _joined([root, *api_version.split("/")]))
        body = self._transport.send(request)
        return decoding.one(self._transport.name(request), decoding.ServedList, body).resources or ()

    def write(self, request: WriteRequest) -> None:
        """POST, PATCH or PUT of one object."""
        patches = request.verb == "merge_patch"
        whole = Request(
            METHODS[request.verb],
            _path(request.kind, request.namespace, request.name, request.subresource),
            body=request.body if patches else _typed(request.kind, request.body),
            content_type=MERGE_PATCH if patches else JSON,
            read_seconds=request.kind.answer_seconds,
        )
        self._write(whole, dry_run=request.dry_run)

    def delete(self, kind: Kind[T], name: str, *, namespace: str = "", uid: str = "", dry_run: bool = False) -> None:
        """Delete, in the background for owned objects."""
        options: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if dry_run:
            options["dryRun"] = ["All"]
        self._transport.send(Request("DELETE", _path(kind, namespace, name), body=options))

    def evict(
        self, *, namespace: str, name: str, uid: str, dry_run: bool, **options: Unpack[EvictionOptions]
    ) -> EvictionAnswer:
        """Ask for the eviction of exactly this pod, and of this version of it."""
        versions = (("uid", uid), ("resourceVersion", options.get("resource_version")))
        preconditions = {key: value for key, value in versions if value}
        delete_options: dict[str, object] = {"preconditions": preconditions} if preconditions else {}
        if (seconds := options.get("grace_period_seconds")) is not None:
            delete_options["gracePeriodSeconds"] = math.ceil(seconds)
        if dry_run:
            delete_options["dryRun"] = ["All"]  # the apiserver wants body and query to agree
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace, "labels": EVICTED_BY},
            "deleteOptions": delete_options,
        }
        try:
            request = Request("POST", _path(kinds.PODS, namespace, name, "eviction"), body=body)
            answer = self._write(request, dry_run=dry_run)
        except (errors.NotFound, errors.Conflict, errors.TooManyRequests) as refusal:
            return EvictionAnswer(False, refusal.status, refusal.reason, refusal.message, refusal.retry_after_seconds)
        return EvictionAnswer(True, decoding.status_code(answer, decoding.CREATED), "", "")

    # for diagnosis only (`evenload doctor`), and therefore not of the door: no service asks these

    def review(self, kind: Kind[T], body: Mapping[str, object]) -> T:
        """POST of a review (`kube.access`), which is answered and not stored."""
        request = Request("POST", _path(kind, ""), body=_typed(kind, body))
        return decoding.one(self._transport.name(request), kind.type, self._transport.send(request))

    def server_time_seconds(self) -> float:
        """The apiserver's clock by its Date header, in whole Unix seconds; Undecodable when it sends none."""
        request = Request("GET", "/version")
        stream = self._transport.open(request)
        try:
            return utils.parsedate_to_datetime(stream.header("Date")).timestamp()
        except ValueError as error:
            raise errors.Undecodable(f"{self._transport.name(request)}: no usable Date header ({error})") from error
        finally:
            stream.close()

    def proxied(self, place: Place, path: str, *, query: Query = (), body: Mapping[str, object] | None = None) -> bytes:
        """GET `path`, or POST the body there, of what listens behind a pod or a Service: through the apiserver with the
        caller's own rights.

        An answer that is not 2xx raises as the apiserver's own would; NotFound and ServerError may be either's.
        """
        name = f"{place.scheme + ':' if place.scheme == 'https' else ''}{place.name}:{place.port}"
        whole = f"{_path(place.kind, place.namespace, name, 'proxy')}{path}"
        return self._transport.send(Request("GET" if body is None else "POST", whole, query=query, body=body))

    def _write(self, request: Request, *, dry_run: bool) -> bytes:
        query = MANAGER + (DRY_RUN if dry_run else ())
        return self._transport.send(dataclasses.replace(request, query=query, accept=METADATA))


def _path(kind: Kind[T], namespace: str, name: str = "", subresource: str = "") -> str:
    """/apis/policy/v1/namespaces/shop/poddisruptionbudgets/web, every part escaped."""
    scope = ["namespaces", namespace] if namespace and kind.namespaced else []
    parts = [*scope, kind.plural, *([name] if name else []), *([subresource] if subresource else [])]
    return _joined([*kind.path.split("/"), *parts])


def _joined(parts: list[str]) -> str:
    """The parts as a path. InvalidPath for one that would lead elsewhere: clients and proxies resolve "..", escaped or
    not.
    """
    if any(part in ("", ".", "..") for part in parts):
        raise errors.InvalidPath(f"no path of the API can be made of {parts!r}: expected names, neither empty nor dots")
    return "".join(f"/{parse.quote(part, safe='')}" for part in parts)


def _selectors(selection: Selection) -> Query:
    pairs = ("labelSelector", selection.get("label_selector")), ("fieldSelector", selection.get("field_selector"))
    return tuple((name, text) for name, text in pairs if text)


def _typed(kind: Kind[T], body: Mapping[str, object]) -> dict[str, object]:
    return {"apiVersion": kind.api_version, "kind": kind.name, **body}
