"""`python -m tests.chaos.sabotaged --sabotage NAME OPTIONS`: a service with one defect, which a judge has to find."""

import atexit
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from annotator import __main__ as annotator_command
from annotator.service import Service
from descheduler import __main__ as descheduler_command
from descheduler.eviction.evictor import Call, EvictionOutcome, Evictor, ExecutionContext
from descheduler.planning import limits, protections
from descheduler.planning.plans import Eviction
from kube import kinds
from kube.door import EvictionAnswer
from kube.http.client import Client

OPTION: Final = "--sabotage"
LATE_SECONDS: Final = 0.2


class Sabotage(NamedTuple):
    """A defect: the service that gets it, what applies it, and words of the complaint that it has to cause."""

    service: str
    apply: Callable[[], None]
    complaint: str


def row_after_the_call() -> None:
    """The intent is written once the eviction was asked for."""
    whole = Evictor._evict

    def evict(self: Evictor, eviction: Eviction, terms: ExecutionContext, call: Call) -> EvictionOutcome:
        told = self._call(eviction, terms, call)
        time.sleep(LATE_SECONDS)
        self._call = lambda *_: told  # type: ignore[method-assign]
        try:
            return whole(self, eviction, terms, call)
        finally:
            del self._call

    Evictor._evict = evict  # type: ignore[method-assign]


def no_protections() -> None:
    """No pod is protected."""
    protections.verdict = lambda case: None


def deletes_pods() -> None:
    """Pods are deleted, not evicted."""

    def evict(self: Client, *, namespace: str, name: str, **_: Any) -> Any:
        self.delete(kinds.PODS, name, namespace=namespace)

    Client.evict = evict  # type: ignore[method-assign]


def no_caps() -> None:
    """No cap of a run, an hour or a node holds, and no rest."""
    limits.Caps.node_verdict = lambda *_, **__: None  # type: ignore[method-assign]


def claims_evictions() -> None:
    """No eviction is asked for, and all are taken for accepted."""
    Client.evict = lambda *_, **__: EvictionAnswer(True, 201, "", "")  # type: ignore[method-assign]


def raises() -> None:
    """Every cycle of the annotator ends with a bug."""

    def sync(self: Service) -> None:
        raise ValueError("a bug")

    Service.sync = sync  # type: ignore[method-assign]


def grows() -> None:
    """The annotator keeps ten MiB of each cycle."""
    whole, held = Service.sync, list[bytes]()

    def sync(self: Service) -> None:
        held.append(random.randbytes(10 * 2**20))
        whole(self)

    Service.sync = sync  # type: ignore[method-assign]


def ends_badly() -> None:
    """The annotator ends with 3 whatever ends it."""
    atexit.register(os._exit, 3)


SABOTAGES: Final = {
    "row_after_the_call": Sabotage("descheduler", row_after_the_call, "after the call"),
    "no_protections": Sabotage("descheduler", no_protections, "which is protected"),
    "deletes_pods": Sabotage("descheduler", deletes_pods, "deleted a pod"),
    "no_caps": Sabotage("descheduler", no_caps, "rested"),
    "claims_evictions": Sabotage("descheduler", claims_evictions, "accepted no eviction of that pod"),
    "raises": Sabotage("annotator", raises, "logged a traceback"),
    "grows": Sabotage("annotator", grows, "grew from"),
    "ends_badly": Sabotage("annotator", ends_badly, "at SIGTERM, 0 expected"),
}
COMMANDS: Final[dict[str, Callable[[], object]]] = {
    "annotator": annotator_command.main,
    "descheduler": descheduler_command.main,
}


def is_about(name: str, service: str) -> bool:
    """True if the sabotage of that name ("" for none) is one of this service."""
    return name in SABOTAGES and SABOTAGES[name].service == service


def main() -> None:
    """Puts the defect in and runs the service."""
    place = sys.argv.index(OPTION)
    _, name = sys.argv.pop(place), sys.argv.pop(place)
    found = SABOTAGES[name]
    found.apply()
    COMMANDS[found.service]()


if __name__ == "__main__":
    main()
