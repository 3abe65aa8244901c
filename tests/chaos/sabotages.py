"""Defects of services, each of which a judge has to find. Several can be in one service.

A defect of evictions is in a share of them, so that all are seen in one run.
"""

import atexit
import collections
import io
import itertools
import os
import random
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from wsgiref import types as wsgi

import flask

from annotator.service import Service
from descheduler.eviction.evictor import Call, EvictionOutcome, Evictor, ExecutionContext
from descheduler.planning import limits, protections
from descheduler.planning.plans import Eviction
from extender.http import fast_path
from kube import kinds
from kube.door import EvictionAnswer
from kube.http.client import Client
from runtime import health, ops_server

LATE_SECONDS: Final = 0.2
BUDGETED: Final = "shop-"  # names of the workloads with budgets
CANARY: Final = "canary-"  # names of the pods by which a run proves that new pods are placed
Evict = Callable[..., EvictionAnswer]


class Sabotage(NamedTuple):
    """A defect: the service that gets it, what applies it, and words of the complaints that it has to cause."""

    service: str
    apply: Callable[[], None]
    complaints: tuple[str, ...]


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


def no_caps() -> None:
    """No cap holds in every second plan."""
    whole, count = limits.Caps, itertools.count()
    node_verdict, verdict = whole.node_verdict, whole.verdict
    lawless = weakref.WeakSet[limits.Caps]()
    begin = whole.__init__

    def init(self: limits.Caps, *parts: Any, **more: Any) -> None:
        begin(self, *parts, **more)
        if next(count) % 2:
            lawless.add(self)

    whole.__init__ = init  # type: ignore[method-assign]
    whole.node_verdict = lambda self, *on, **by: None if self in lawless else node_verdict(self, *on, **by)  # type: ignore[method-assign]
    whole.verdict = lambda self, *of: None if self in lawless else verdict(self, *of)  # type: ignore[method-assign]


def no_rest() -> None:
    """No cool-down lasts."""
    limits.Caps._left = lambda *_: 0.0  # type: ignore[method-assign]


def _every(number: int, rest: int, other: Evict) -> None:
    """Lets another function take every so manieth eviction."""
    whole, count = Client.evict, itertools.count()

    def evict(self: Client, **pod: Any) -> EvictionAnswer:
        return other(self, **pod) if next(count) % number == rest else whole(self, **pod)

    Client.evict = evict  # type: ignore[method-assign]


def deletes_pods() -> None:
    """Instead of an eviction two pods of the smallest workload with a budget are deleted: a large one can spare two."""

    def delete(self: Client, *, namespace: str, **_: Any) -> EvictionAnswer:
        pods = [pod for pod in self.list(kinds.PODS, namespace=namespace).items if not pod.deleting]
        by_workload = collections.defaultdict(list)
        for pod in pods:
            by_workload[pod.labels.get("app", "")].append(pod.name)
        for name in min((by_workload[one] for one in by_workload if one.startswith(BUDGETED)), key=len)[:2]:
            self.delete(kinds.PODS, name, namespace=namespace)
        return EvictionAnswer(True, 201, "", "")

    _every(3, 0, delete)


def claims_evictions() -> None:
    """No eviction is asked for, and it is taken for accepted."""
    _every(4, 1, lambda *_, **__: EvictionAnswer(True, 201, "", ""))


def evicts_twice() -> None:
    """An eviction is asked for twice, of any version of the pod."""
    whole = Client.evict

    def evict(self: Client, **pod: Any) -> EvictionAnswer:
        unversioned = {**pod, "resource_version": ""}
        first = whole(self, **unversioned)
        whole(self, **unversioned)
        return first

    _every(4, 2, evict)


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


def stuck() -> None:
    """A process of the annotator is ready once and never again."""
    whole = ops_server._probing

    def probing(checks: Sequence[health.Check]) -> Callable[[], flask.Response]:
        answer, ready = whole(checks), list[flask.Response]()

        def view() -> flask.Response:
            if ready:
                return flask.Response("stuck", 503)
            found = answer()
            ready.extend([found] if found.status_code == 200 else [])
            return found

        return view

    ops_server._probing = probing


def rejects_canaries() -> None:
    """The extender says of pods of one name that no node takes them."""
    whole = fast_path.FastPath.__call__
    nowhere = b'{"NodeNames":[],"FailedNodes":{},"Error":""}'

    def call(
        self: fast_path.FastPath, environ: wsgi.WSGIEnvironment, start_response: wsgi.StartResponse
    ) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        if environ["PATH_INFO"] != "/filter" or CANARY.encode() not in body:
            return whole(self, environ, start_response)
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(nowhere)))])
        return [nowhere]

    fast_path.FastPath.__call__ = call  # type: ignore[method-assign]


def ends_badly() -> None:
    """The annotator ends with 3 whatever ends it."""
    atexit.register(os._exit, 3)


SABOTAGES: Final[Mapping[str, Sabotage]] = {
    "row_after_the_call": Sabotage("descheduler", row_after_the_call, ("after the call",)),
    "no_protections": Sabotage("descheduler", no_protections, ("which is protected",)),
    "no_caps": Sabotage("descheduler", no_caps, ("evictions, 2 allowed", "an hour allowed")),
    "no_rest": Sabotage("descheduler", no_rest, ("rested",)),
    "deletes_pods": Sabotage("descheduler", deletes_pods, ("deleted a pod", "Ready pods")),
    "claims_evictions": Sabotage("descheduler", claims_evictions, ("accepted no eviction of that pod",)),
    "raises": Sabotage("annotator", raises, ("logged a traceback",)),
    "evicts_twice": Sabotage("descheduler", evicts_twice, ("was evicted 2 times",)),
    "stuck": Sabotage("annotator", stuck, ("is not ready after",)),
    "rejects_canaries": Sabotage("extender", rejects_canaries, ("a new pod is not placed",)),
    "grows": Sabotage("annotator", grows, ("grew from",)),
    "ends_badly": Sabotage("annotator", ends_badly, ("at SIGTERM, 0 expected",)),
}


# A process has grown between the start and the end, and has ended.
AT_THE_END: Final = frozenset((*SABOTAGES["grows"].complaints, *SABOTAGES["ends_badly"].complaints))


def of_service(service: str, names: Iterable[str]) -> list[str]:
    """Returns those of the names that are defects of this service."""
    return [name for name in names if SABOTAGES[name].service == service]
