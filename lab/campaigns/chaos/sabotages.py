"""Defects of services, each of which a judge has to find. Several can be in one service.

A defect of evictions is in a share of them, so that all are seen in one run.
"""

import atexit
import collections
import io
import itertools
import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from wsgiref import types as wsgi

import flask

from annotator.publish import write_plan
from annotator.service import Service
from descheduler.eviction.api_results import EvictionResult
from descheduler.eviction.evictor import EvictionOutcome, Evictor, ExecutionContext
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import Intent, Run
from descheduler.planning import protections
from descheduler.planning.plans import Eviction
from extender.http import fast_path
from kube import kinds
from kube.cache.reflector import Reflector
from kube.door import EvictionAnswer, KubeWriter
from kube.http.client import Client
from runtime import health, ops_server

LATE_SECONDS: Final = 0.2
BUDGETED: Final = "shop-"  # names of the workloads with budgets
CANARY: Final = "canary-"  # names of the pods by which a run proves that new pods are placed
Evict = Callable[..., EvictionAnswer]


class Sabotage(NamedTuple):
    """A defect: the service that gets it, what applies it, and words of the complaints that it has to cause.

    A descheduler that does not keep to a part of its policy is one that obeys another `policy`, by key.
    """

    service: str
    apply: Callable[[], None]
    complaints: tuple[str, ...]
    policy: Mapping[str, object] = {}


def row_after_the_call() -> None:
    """The intent is written once the eviction was asked for."""
    whole = Evictor._evict

    def evict(
        self: Evictor, eviction: Eviction, terms: ExecutionContext, barred: EvictionResult | None
    ) -> EvictionOutcome:
        told = barred or self._call(eviction, terms)
        time.sleep(LATE_SECONDS)
        self._call = lambda *_: told  # type: ignore[method-assign]
        try:
            return whole(self, eviction, terms, barred)
        finally:
            del self._call

    Evictor._evict = evict  # type: ignore[method-assign]


def no_protections() -> None:
    """No pod is protected."""
    protections.verdict = lambda case: None


def obeys_another_policy() -> None:
    """Nothing but the policy is wrong."""


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


def keeps_rows_open() -> None:
    """The first row of a pod with a budget never gets an outcome; more would leave no workload to evict from."""
    intend_whole, decide_whole, open_ids = Ledger.intend, Ledger.decide, list[int]()

    def intend(self: Ledger, run: Run, eviction: Eviction, *, at_seconds: float) -> Intent:
        intent = intend_whole(self, run, eviction, at_seconds=at_seconds)
        if not open_ids and eviction.pod.name.startswith(BUDGETED):
            open_ids.append(intent.row_id)
        return intent

    def decide(self: Ledger, row_id: int, result: str, **outcome: Any) -> None:
        if row_id not in open_ids:
            decide_whole(self, row_id, result, **outcome)

    Ledger.intend = intend  # type: ignore[method-assign]
    Ledger.decide = decide  # type: ignore[method-assign]


def raises() -> None:
    """Every cycle of the annotator ends with a bug."""
    whole = Service.sync

    def sync(self: Service) -> None:
        whole(self)
        raise ValueError("a bug")

    Service.sync = sync  # type: ignore[method-assign]


def idles() -> None:
    """A cycle of the annotator ends at once."""
    Service.sync = lambda self: None  # type: ignore[method-assign]


def annotates_once() -> None:
    """Every third node is annotated once, and what follows is taken for written."""
    whole, written = write_plan._write_one, set[str]()

    def write(door: KubeWriter, patch: write_plan.Patch) -> write_plan.WriteResult:
        if patch.node in written and _third(patch.node) == 0:
            return write_plan.WriteResult(write_plan.WRITTEN)
        written.add(patch.node)
        return whole(door, patch)

    write_plan._write_one = write


def annotates_falsely() -> None:
    """Every third node is annotated with half of its load."""
    whole = write_plan._write_one

    def write(door: KubeWriter, patch: write_plan.Patch) -> write_plan.WriteResult:
        if _third(patch.node) == 1:
            body = json.loads(patch.row.text)
            body["m"] = {name: ratio / 2 for name, ratio in body["m"].items()}
            patch = patch._replace(row=patch.row._replace(text=json.dumps(body)))
        return whole(door, patch)

    write_plan._write_one = write


def _third(node: str) -> int:
    return int(node.rpartition("-")[2]) % 3


def hears_nothing() -> None:
    """The extender lists nodes and pods, and its watches bring nothing."""
    Reflector._follow = lambda self: threading.Event().wait()  # type: ignore[assignment,method-assign]


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


NO_LIMITS: Final = {"perRun": 1000, "perNamespace": 1000}  # all pods are of one namespace
NO_RESTS: Final = {"node": "0s", "workload": "0s"}  # else too few leave at once


def _lawless(*complaints: str, **sections: object) -> Sabotage:
    """A descheduler with other values in sections of its policy."""
    return Sabotage("descheduler", obeys_another_policy, complaints, sections)


SABOTAGES: Final[Mapping[str, Sabotage]] = {
    "row_after_the_call": Sabotage("descheduler", row_after_the_call, ("after the call",)),
    "no_protections": Sabotage("descheduler", no_protections, ("which is protected",)),
    "no_caps": _lawless(
        "evictions, 2 allowed", "an hour allowed", limits={**NO_LIMITS, "perHour": 1000}, cooldown=NO_RESTS
    ),
    "no_node_cap": _lawless("from node-", limits={"perNode": 1000}),
    "no_namespace_cap": _lawless("in default, 2 allowed", limits=NO_LIMITS, cooldown=NO_RESTS),
    "no_node_rest": _lawless("s as a node, 60 s expected", cooldown={"node": "0s"}),
    "no_workload_rest": _lawless("s as a workload, 60 s expected", cooldown={"workload": "0s"}),
    "observes": _lawless("no pod was evicted from it", mode="Observe"),
    "keeps_rows_open": Sabotage("descheduler", keeps_rows_open, ("is still intended",)),
    "idles": Sabotage("annotator", idles, ("has no load annotation", "there is no heartbeat")),
    "annotates_once": Sabotage("annotator", annotates_once, ("is still annotated with", "does not vouch")),
    "annotates_falsely": Sabotage("annotator", annotates_falsely, ("is annotated with",)),
    "hears_nothing": Sabotage("extender", hears_nothing, ("extender-0 takes", "extender-1 takes", "counts 0 pods on")),
    "deletes_pods": Sabotage("descheduler", deletes_pods, ("deleted a pod", "Ready pods")),
    "claims_evictions": Sabotage("descheduler", claims_evictions, ("accepted no eviction of that pod",)),
    "raises": Sabotage("annotator", raises, ("logged a traceback",)),
    "evicts_twice": Sabotage("descheduler", evicts_twice, ("was evicted 2 times",)),
    "stuck": Sabotage("annotator", stuck, ("is not ready after",)),
    "rejects_canaries": Sabotage("extender", rejects_canaries, ("a new pod is not placed",)),
    "grows": Sabotage("annotator", grows, ("grew from",)),
    "ends_badly": Sabotage("annotator", ends_badly, ("at SIGTERM, 0 expected",)),
}


# Services that do nothing: with them no other defect shows, and sound ones pass under their terms.
SILENT: Final = frozenset(("observes", "idles"))
# A process has grown between the start and the end, and has ended.
AT_THE_END: Final = frozenset((*SABOTAGES["grows"].complaints, *SABOTAGES["ends_badly"].complaints))


def of_service(service: str, names: Iterable[str]) -> list[str]:
    """Returns those of the names that are defects of this service."""
    return [name for name in names if SABOTAGES[name].service == service]
