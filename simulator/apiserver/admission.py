"""Admission of the simulated apiserver: checks names, fills in defaults, overwrites the fields that the server owns.

`writes` calls `created` for a creation and `updated` for every other write. Only what the services and the simulated
controllers read is defaulted, and what a kind's struct does not know is not validated; the contract suite holds what is
here to the real apiserver.
"""

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kube.api import resources
from kube.kinds import Kind
from simulator.apiserver import merge_patch, refusals
from simulator.apiserver.storage import Body, Storage, Version

SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
LABEL = re.compile(r"(?=.{1,63}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_VALUE = re.compile(r"(?=.{0,63}$)([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?")
_PART = re.compile(r"(?=.{1,63}$)[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
SHORT_NAMES = frozenset({"namespaces", "services"})  # these must be one DNS label
COUNTED = frozenset({"pods", "replicasets", "deployments", "statefulsets", "jobs", "poddisruptionbudgets"})
SERVERS_OWN = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
YEAR_0 = re.compile(rb'"0000(?=-[0-9]{2}-[0-9]{2}T)')
IMMUTABLE = ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
FIXED = ("resourceVersion", "name", "namespace", *SERVERS_OWN)  # no update changes them
GRACE_SECONDS = 30
EVICTABLE_SECONDS = 300  # of the tolerations that every pod gets
NOTE_LIMIT_BYTES, TEXT_LIMIT = 1024, 128
MEASURED = ("cpu", "memory")  # what the QoS class speaks of
UNKNOWN: Mapping[str, Any] = {}  # nothing was there before
NO_PRIORITY = (0, "PreemptLowerPriority")
Priorities = Callable[[str], tuple[int, str]]  # name of a PriorityClass -> value and preemption policy; Forbidden


def check_name(what: str, kind: Kind[Any], name: object) -> None:
    """Invalid for a name that the kind may not have."""
    pattern = LABEL if kind.plural in SHORT_NAMES else SUBDOMAIN
    if not isinstance(name, str) or pattern.fullmatch(name) is None:
        raise refusals.invalid(what, f"metadata.name is {name!r}, expected a DNS name of lower case")


def check_metadata(what: str, metadata: Mapping[str, Any], before: Mapping[str, Any] = UNKNOWN) -> None:
    """Invalid for labels that no selector could match, and for names of annotations that are none.

    What is in `before`, too, was checked when it came.
    """
    labels, annotations = metadata.get("labels"), metadata.get("annotations")
    if labels and labels is not before.get("labels") and (problem := _labels_problem(tuple(labels.items()))):
        raise refusals.invalid(what, f"metadata.labels: {problem}")
    for key in (annotations or ()) if annotations is not before.get("annotations") else ():
        if problem := _key_problem(key):
            raise refusals.invalid(what, f"metadata.annotations: {problem}")


@functools.lru_cache(maxsize=4096)  # those of a workload's pods are the same
def _labels_problem(labels: tuple[tuple[str, object], ...]) -> str:
    return next((problem for key, value in labels if (problem := _key_problem(key) or _value_problem(value))), "")


@functools.lru_cache(maxsize=4096)
def _key_problem(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    good = _PART.fullmatch(name) is not None and (not slash or SUBDOMAIN.fullmatch(prefix) is not None)
    return "" if good else f"{key!r} is not a qualified name"


def _value_problem(value: object) -> str:
    good = isinstance(value, str) and _VALUE.fullmatch(value) is not None
    return "" if good else f"{value!r} is not a label value"


def created(what: str, shelf: Storage, body: Body, spec: bytes, *, priorities: Priorities) -> None:
    """Fill in what a new object gets, in place: its status is the controllers' to say. `spec` is a pod's, as sent."""
    plural = shelf.kind.plural
    body["apiVersion"], body["kind"] = shelf.kind.api_version, shelf.kind.name
    for name in SERVERS_OWN:
        body["metadata"].pop(name, None)
    if plural in COUNTED:
        body["metadata"]["generation"] = 1
    if plural == "pods":
        _new_pod(what, body, spec, priorities)
    elif plural == "events":
        _check_event(what, body)
    elif "status" in shelf.subresources and plural != "nodes":  # who creates a Node may say its status
        body["status"] = {}


def updated(what: str, shelf: Storage, old: Version, body: Body, *, subresource: str) -> Body:
    """Returns the object that a write stores. Changes `body` in place where needed, but never a part that it shares
    with the old object.
    """
    metadata, was = body.get("metadata"), old.body
    if metadata is old.metadata:
        body["metadata"] = dict(old.metadata)
    elif isinstance(metadata, dict):
        if [*map(metadata.get, FIXED)] != [*map(old.metadata.get, FIXED)]:
            _keep_fixed(what, metadata, old)
        check_metadata(what, metadata, old.metadata)
    else:
        raise refusals.bad_request(f"{what}: metadata is {metadata!r}, expected an object")
    if "status" in shelf.subresources:
        part = "spec" if subresource == "status" else "status"
        body.pop(part, None)
        if part in was:
            body[part] = was[part]
    spec, before = body.get("spec"), was.get("spec")
    if spec is not before and spec != before and shelf.kind.plural in COUNTED:
        body["metadata"]["generation"] = old.metadata.get("generation", 0) + 1
    return body


def _keep_fixed(what: str, metadata: Body, old: Version) -> None:
    """Refuse what contradicts the object as it is, and give metadata what no writer says."""
    before = old.metadata
    for name in FIXED:
        value, held = metadata.get(name), before.get(name)
        if value == held:
            continue
        if value is not None:
            _refuse(what, name, value, old)
        if held is None:
            del metadata[name]
        else:
            metadata[name] = held


def _refuse(what: str, name: str, value: object, old: Version) -> None:
    """The error of a field that is another than the object's, if the real apiserver minds."""
    if name == "resourceVersion" and value != "":
        raise refusals.conflict(what, f"it is at version {old.number}, not {value}")
    if name in IMMUTABLE:
        raise refusals.invalid(what, f"metadata.{name} is immutable")
    if name in ("name", "namespace"):
        raise refusals.bad_request(f"{what}: metadata.{name} is {value!r}")


def checked(what: str, version: Version, type_: type[Any]) -> None:
    """Invalid where the body is not what the kind's struct can be made of; a time of the year 0 is stored all the same,
    as by the real apiserver.
    """
    try:
        version.decoded(type_)
    except msgspec.ValidationError as error:
        body = msgspec.json.decode(YEAR_0.sub(b'"2000', msgspec.json.encode(version.body)))
        if body == version.body:
            raise refusals.invalid(what, str(error)) from error
        checked(what, Version(version.key, version.number, body), type_)


def _new_pod(what: str, body: Body, spec: bytes, priorities: Priorities) -> None:
    """Pods of one workload have one spec: it is made once, and all of them share it."""
    try:
        request = _request_decoder.decode(spec)
    except msgspec.ValidationError as error:
        raise refusals.invalid(what, f"spec: {error}") from error
    if not request.containers:
        raise refusals.invalid(what, "spec.containers: expected one at least")
    value, policy = priorities(request.priority_class_name)
    if request.priority not in (None, value):
        raise refusals.forbidden(what, f"spec.priority is {request.priority}, its PriorityClass says {value}")
    try:
        body["spec"], qos = _prepared(spec, value, policy)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise refusals.invalid(what, f"spec is not understood: {error}") from error
    body["status"] = {"phase": "Pending", "qosClass": qos}


class _AdmissionRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a Pod that admission reads: its priority, and whether it has containers."""

    containers: tuple[msgspec.Raw, ...]
    priority: int | None = None
    priority_class_name: str = ""


_request_decoder = msgspec.json.Decoder(_AdmissionRequest)


@functools.lru_cache(maxsize=8192)
def _prepared(text: bytes, priority: int, preemption_policy: str) -> tuple[Body, str]:
    """A pod's spec with its defaults, and its QoS class."""
    spec = merge_patch.read(text)
    spec.setdefault("preemptionPolicy", preemption_policy)
    spec["priority"] = priority
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", GRACE_SECONDS)
    spec["tolerations"] = _tolerations(spec.get("tolerations") or [])
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        options = container.get("resources")
        if options and options.get("limits"):  # a limit without a request is a request, too
            options["requests"] = {**options["limits"], **(options.get("requests") or {})}
    return spec, qos_class(spec)


def _tolerations(entries: list[Body]) -> list[Body]:
    """With those of DefaultTolerationSeconds, where the pod says nothing of these taints itself."""
    items = list(entries)
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(one.get("key", "") in ("", key) and one.get("effect", "") in ("", "NoExecute") for one in entries):
            items.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": EVICTABLE_SECONDS}
            )
    return items


def qos_class(spec: Mapping[str, Any]) -> str:
    """Guaranteed where every container has equal requests and limits of CPU and memory, BestEffort without any."""
    amounts = [one.get("resources") or {} for one in (*spec["containers"], *(spec.get("initContainers") or ()))]
    if not any(_amounts(one, part) for one in amounts for part in ("requests", "limits")):
        return "BestEffort"
    equal = all(_amounts(one, "requests") == _amounts(one, "limits") != {} for one in amounts)
    return (
        "Guaranteed" if equal and all(len(_amounts(one, "limits")) == len(MEASURED) for one in amounts) else "Burstable"
    )


def _amounts(options: Mapping[str, Any], part: str) -> dict[str, float]:
    amounts = resources.resources(options.get(part) or {})
    return {name: amounts.get(name) for name in MEASURED if amounts.get(name)}


def _check_event(what: str, body: Body) -> None:
    """The rules of events.k8s.io/v1 that a writer can break: where it lies, what must be said, and how long."""
    about, metadata = body.get("regarding") or {}, body["metadata"]
    wanted = about.get("namespace") or "default"
    if metadata.get("namespace") != wanted and not (
        not about.get("namespace") and metadata["namespace"] == "kube-system"
    ):
        raise refusals.invalid(what, f"metadata.namespace is {metadata.get('namespace')!r}, expected {wanted!r}")
    for name in ("reason", "action", "reportingController", "reportingInstance"):
        if not 0 < len(str(body.get(name, ""))) <= TEXT_LIMIT:
            raise refusals.invalid(what, f"{name} is {body.get(name)!r}, expected 1 to {TEXT_LIMIT} characters")
    if len(str(body.get("note", "")).encode()) > NOTE_LIMIT_BYTES:
        raise refusals.invalid(what, f"note has over {NOTE_LIMIT_BYTES} bytes")
    if body.get("type") not in ("Normal", "Warning") or not body.get("eventTime"):
        raise refusals.invalid(what, f"type is {body.get('type')!r} and eventTime {body.get('eventTime')!r}")
