"""Tells the cluster that a changed policy file was refused, and that one was accepted: an Event for each, once.

The policy loop of each service calls `PolicyEventPublisher.tell` after its poll, when the change is in force already;
never a thread that answers requests. Best effort as all Events: one attempt, whose failure is logged. What is in force
is said by /readyz?verbose, /configz and the metrics.
"""

from typing import Any, NamedTuple

from kube import events, kinds
from kube.door import KubeDoor
from kube.objects import Reference
from runtime import clock as clocks
from runtime.options import ServiceOptions
from runtime.reloading import Reloading

ACTION = "Reload"
SEPARATOR = " | "  # kubectl's tables end a cell at a line break
MORE_BYTES = 40  # kept free for "and 17 more"
News = tuple[events.Reason, str, Reference]  # with its note and object


class EventSource(NamedTuple):
    """The source of an Event (`controller`, `instance`) and the object it is shown on."""

    controller: str
    instance: str
    regarding: Reference


def speaker(component: str, options: ServiceOptions) -> EventSource:
    """This process: its pod where the downward API names one, else the namespace it works in.

    The Event lives in that namespace either way, so that the right to create Events there is enough.
    """
    namespace, pod = options.namespace, options.pod_name
    if pod:
        regarding = Reference(kinds.PODS.name, pod, namespace, options.pod_uid, kinds.PODS.api_version)
    else:
        regarding = Reference(kinds.NAMESPACES.name, namespace, namespace, "", kinds.NAMESPACES.api_version)
    return EventSource(f"evenload.io/{component}", pod or f"{component} at {options.listen}", regarding)


class PolicyEventPublisher:
    """Writes an Event when what is refused or in force is no longer what was told last; the start is no news."""

    def __init__(self, held: Reloading[Any], door: KubeDoor, by: EventSource, *, clock: clocks.Clock) -> None:
        self._held = held
        self._by = by
        self._writer = events.EventWriter(door, controller=by.controller, instance=by.instance, clock=clock)
        self._last_state = self._state()

    def tell(self) -> News | None:
        """One Event if there is news. Told before it is posted: a refused Event is not tried again every 5 s."""
        state = self._state()
        if state == self._last_state:
            return None
        self._last_state = state
        refused = self._held.error is not None
        reason = events.Reason.POLICY_REFUSED if refused else events.Reason.POLICY_ACCEPTED
        news = reason, note(self._held), self._by.regarding
        self._writer.write(*news[:2], regarding=self._by.regarding, action=ACTION, warning=refused)
        return news

    def _state(self) -> tuple[str, str, str | None]:
        return self._held.content_hash, self._held.refused_hash, self._held.error


def note(held: Reloading[Any]) -> str:
    """Returns the Event's note: the hash in force and, of a refused file, its first problems as file:line:column,
    within 1 KiB.
    """
    if held.error is None:
        return f"policy {held.content_hash} is in force"
    what = f"policy file {held.refused_hash} refused" if held.refused_hash else "policy file cannot be read"
    start = f"{what}, {held.content_hash} stays in force: "
    return start + _first(held.error.splitlines(), events.NOTE_LIMIT_BYTES - len(start.encode()))


def _first(problems: list[str], limit_bytes: int) -> str:
    """As many whole problems as fit, at least one, and how many more there are."""
    count = 1
    while count < len(problems) and len(SEPARATOR.join(problems[: count + 1]).encode()) + MORE_BYTES <= limit_bytes:
        count += 1
    more = len(problems) - count
    return SEPARATOR.join([*problems[:count], f"and {more} more"] if more else problems[:count])
