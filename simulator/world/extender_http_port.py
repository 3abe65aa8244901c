"""kube-scheduler's side of the extender: the requests it would send, to the real application in this process.

`scheduling.scheduler` asks an `ExtenderHttpPort` where the real one would send HTTP. Body in, body out: what the
extender reads and answers is JSON as on the wire, names only (`nodeCacheCapable: true`), by the whole WSGI application
of `extender.service`, with its fast path. Only the socket is missing.
"""

import collections.abc
import io
from wsgiref import types as wsgi

import msgspec
import numpy as np
from werkzeug import test

from extender import protocol
from extender.service import Service
from kube.objects import Pod
from kube_scheduler.arrays import Ints
from simulator.scheduling.extenders import FilterResult, Victims

Names = collections.abc.Sequence[str]


class Refusal(RuntimeError):
    """The extender did not answer 200: a bug, as nothing it is sent here is malformed."""


class _FilterReply(msgspec.Struct, frozen=True):
    names: list[str] | None = msgspec.field(name="NodeNames", default=None)
    failed: dict[str, str] | None = msgspec.field(name="FailedNodes", default=None)
    unresolvable: dict[str, str] | None = msgspec.field(name="FailedAndUnresolvableNodes", default=None)


class ExtenderHttpPort:
    """An `ExtenderPort` over the extender's WSGI application; `weight` is the stanza's."""

    def __init__(self, extender: Service, *, weight: int) -> None:
        self._extender, self.weight = extender, weight
        self.application: wsgi.WSGIApplication = extender.app().wsgi_app
        self._pod: Pod | None = None  # whose JSON is at hand: prioritize follows filter
        self._opening = b""
        self._last_names: Names = ()  # as given the last time, and what it holds: callers' sequences stay as they are
        self._names: list[str] = []
        self._listed = b"[]"

    def catch_up(self, *, others: bool) -> None:
        """Lets the extender's watches of pods catch up, and with `others` all the rest."""
        self._extender.catch_up(others=others)

    def filter(self, pod: Pod, names: Names) -> FilterResult:
        """Which of the nodes may take the pod."""
        answer = _FILTERED.decode(self._post("/filter", self._args(pod, names)))
        passed = names if answer.names == self._names else answer.names or ()  # the same object: nobody looks for rows
        return FilterResult(passed, answer.failed or {}, answer.unresolvable or {})

    def prioritize(self, pod: Pod, names: Names) -> Ints:
        """0 to 10 for each node; one that is not named has 0."""
        answer = _SCORES.decode(self._post("/prioritize", self._args(pod, names)))
        scores = {one.host: one.score for one in answer}
        return np.array([scores.get(name, 0) for name in names], np.int64)

    def preempt(
        self, pod: Pod, victims: collections.abc.Mapping[str, Victims]
    ) -> collections.abc.Mapping[str, Victims]:
        """The nodes on which victims may be made."""
        uids = {
            name: protocol.Victims(tuple(each.uid for each in one.pods), one.violations)
            for name, one in victims.items()
        }
        body = b'{"Pod":%b,%b' % (_ENCODER.encode(pod), protocol.encode_preemption(uids).removeprefix(b"{"))
        left = msgspec.json.decode(self._post("/preempt", body))["NodeNameToMetaVictims"]
        return {name: one for name, one in victims.items() if name in left}

    def explain(self, pod: Pod, names: Names) -> dict[str, object]:
        """POST /explain at this moment."""
        answer: dict[str, object] = msgspec.json.decode(self._post("/explain", self._args(pod, names)))
        return answer

    def _args(self, pod: Pod, names: Names) -> bytes:
        if pod is not self._pod:
            self._pod, self._opening = pod, b'{"Pod":%b,"Nodes":null,"NodeNames":' % _ENCODER.encode(pod)
        if names is not self._last_names and list(names) != self._names:
            self._names, self._listed = list(names), _ENCODER.encode(names)
        self._last_names = names
        return b"%b%b}" % (self._opening, self._listed)

    def _post(self, path: str, body: bytes) -> bytes:
        arguments = {"PATH_INFO": path, "CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body)}
        reply, status, _ = test.run_wsgi_app(self.application, _ENVIRON | arguments, buffered=True)
        answer = b"".join(reply)
        if not status.startswith("200 "):
            raise Refusal(f"the extender answered {path} with {status}: {answer[:200]!r}; 200 expected")
        return answer


_ENVIRON: wsgi.WSGIEnvironment = test.create_environ(method="POST", content_type="application/json")
_ENCODER = msgspec.json.Encoder()
_FILTERED = msgspec.json.Decoder(_FilterReply)
_SCORES = msgspec.json.Decoder(list[protocol.HostPriority])
