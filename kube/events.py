"""The Kubernetes Events that Evenload writes: their reasons, their form, and a writer that never fails its caller.

All three services post through EventWriter; `kubectl get events` and Event exporters read them. The API
calls Events best effort, so nothing may depend on one: the ledger is the truth. Bodies are plain events.k8s.io/v1 JSON:
the official model refuses Events of other writers whose eventTime is null.
"""

import enum
import math
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from kube import errors, kinds
from kube.door import KubeDoor
from kube.kinds import Kind
from kube.objects import Object, Reference
from runtime import clock as clocks
from runtime import logs

log = logs.get(__name__)

T = TypeVar("T", bound=Object)

NOTE_LIMIT_BYTES = 1024  # validation of events.k8s.io/v1; name limits likewise
NAME_LIMIT = 128
SILENT_SECONDS = 60.0  # after an Event that was not taken: a run has hundreds, and each would be waited for as long
_UNTAKEN = (errors.Unreachable, errors.TooManyRequests, errors.ServerError)  # of whatever object it is
CLUSTER_NAMESPACE = "default"  # where Events about cluster-wide objects must live


class Reason(enum.StrEnum):
    """Why an Event was written: public names, read aloud in review, never changed."""

    NODE_OVERLOADED = "NodeOverloaded"  # a pod was evicted (or would be), because its node is over its line
    EVICTION_BLOCKED_BY_PDB = "EvictionBlockedByPDB"  # a budget allows none now
    EVICTION_LOOP = "EvictionLoop"  # the replacement came back to the node it left
    NO_FITTING_NODE = "NoFittingNode"  # an overloaded node, and nowhere for its pods to go
    REPLACEMENTS_NOT_READY = "ReplacementsNotReady"  # nothing more leaves: too many evicted pods are not replaced
    NODE_LOAD_NOT_FALLING = "NodeLoadNotFalling"  # evictions lowered a node's load by less than half of the expected
    SURGE_STARTED = "SurgeStarted"  # a Deployment got a replica more, so that a pod of it can leave without loss
    SURGE_FINISHED = "SurgeFinished"  # the old pod has left, the replicas are as before
    SURGE_UNDONE = "SurgeUndone"  # the replicas are as before, and no pod was evicted
    SURGE_ABANDONED = "SurgeAbandoned"  # another client changed the replicas: nothing more is changed
    SURGE_STUCK = "SurgeStuck"  # the replicas could not be put back; every run tries again
    POLICY_REFUSED = "PolicyRefused"  # the changed policy file is invalid, the last good one stays in force
    POLICY_ACCEPTED = "PolicyAccepted"  # a changed policy file is in force, or a refused one was put back as it was


def reference(kind: Kind[T], item: T) -> Reference:
    """Returns a pointer to an object."""
    return Reference(
        kind=kind.name, name=item.name, namespace=item.namespace, uid=item.uid, api_version=kind.api_version
    )


def cut(text: str, limit_bytes: int) -> str:
    """The text in at most so many bytes of UTF-8, ending in "…" where something was cut, never inside a character."""
    whole = text.encode()
    if len(whole) <= limit_bytes:
        return text
    mark = "…".encode()
    return (whole[: limit_bytes - len(mark)]).decode(errors="ignore") + "…"


class EventWriter:
    """Posts Events; a failure is logged, never raised. After no answer, 429 or 5xx none for SILENT_SECONDS."""

    def __init__(self, door: KubeDoor, *, controller: str, instance: str, clock: clocks.Clock) -> None:
        self._door = door
        self._controller = controller
        self._instance = instance
        self._clock = clock
        self._silent_until_seconds = -math.inf  # monotonic

    def write(
        self,
        reason: Reason,
        note: str,
        *,
        regarding: Reference,
        action: str,
        warning: bool = False,
        related: Reference | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Post an events.k8s.io/v1 Event; a note over 1 KiB is cut at a character. The name is the server's."""
        if self._clock.monotonic() < self._silent_until_seconds:
            return
        namespace = regarding.namespace or CLUSTER_NAMESPACE
        metadata: dict[str, object] = {"generateName": f"{regarding.name[:200]}-", "namespace": namespace}
        if annotations:
            metadata["annotations"] = dict(annotations)
        body: dict[str, object] = {
            "apiVersion": kinds.EVENTS.api_version,
            "kind": kinds.EVENTS.name,
            "metadata": metadata,
            "eventTime": clocks.to_rfc3339(self._clock.now(), micros=True),
            "reportingController": self._controller,
            "reportingInstance": self._instance[:NAME_LIMIT],
            "action": action,
            "reason": str(reason),
            "type": "Warning" if warning else "Normal",
            "note": cut(note, NOTE_LIMIT_BYTES),
            "regarding": msgspec.to_builtins(regarding),
        }
        if related is not None:
            body["related"] = msgspec.to_builtins(related)
        try:
            self._door.create(kinds.EVENTS, body, namespace=namespace)
        except errors.KubeError as error:
            silent_seconds = SILENT_SECONDS if isinstance(error, _UNTAKEN) else 0.0
            self._silent_until_seconds = self._clock.monotonic() + silent_seconds
            log.warning("event not written", reason=str(reason), error=str(error), silent_seconds=silent_seconds)
