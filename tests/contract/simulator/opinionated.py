"""An extender whose answers follow from the names alone (`test_scheduler_model`): over HTTP for the real scheduler,
in-process for the model. Both write down what they were asked, so that the calls can be compared.
"""

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kube import objects
from kube_scheduler.arrays import Ints
from simulator.scheduling import extenders
from tests import scripted_http

Call = tuple[str, str, tuple[str, ...]]  # verb, pod, nodes


class Opinionated:
    """An extender whose answers follow from the names; over HTTP for the real scheduler, in-process for the model.

    Both write down what they were asked, so that the calls can be compared.
    """

    weight = 2

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def filter(self, pod: objects.Pod, names: Sequence[str]) -> extenders.FilterResult:
        """A tenth of the nodes are refused, half of these for good."""
        self.calls.append(("filter", pod.name, tuple(sorted(names))))
        drawn = {name: _drawn(pod.name, name, 20) for name in names}
        return extenders.FilterResult(
            [name for name in names if drawn[name] > 1],
            {name: "not today" for name in names if drawn[name] == 0},
            {name: "never" for name in names if drawn[name] == 1},
        )

    def prioritize(self, pod: objects.Pod, names: Sequence[str]) -> Ints:
        """0 to 10."""
        self.calls.append(("prioritize", pod.name, tuple(sorted(names))))
        return np.array([_drawn(name, pod.name, 11) for name in names], np.int64)

    def preempt(self, _pod: objects.Pod, victims: Mapping[str, extenders.Victims]) -> Mapping[str, extenders.Victims]:
        """Everywhere."""
        return victims


class Recorder(Opinionated):
    """An extender that refuses no node: the nodes it is asked about are those that kube-scheduler's own rules let
    through.
    """

    def filter(self, pod: objects.Pod, names: Sequence[str]) -> extenders.FilterResult:
        """All of them."""
        self.calls.append(("filter", pod.name, tuple(sorted(names))))
        return extenders.FilterResult(names, {}, {})

    def fitting(self, pod: str) -> tuple[str, ...]:
        """The nodes that it was first asked about for the pod; no call is made where there are none."""
        return next((names for verb, name, names in self.calls if (verb, name) == ("filter", pod)), ())


def _drawn(text: str, other: str, sides: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{text}/{other}".encode()).digest()[:4]) % sides


@contextlib.contextmanager
def served(opinionated: Opinionated) -> Iterator[dict[str, object]]:
    """The stanza by which kube-scheduler asks it for filters, while it answers over HTTP."""

    def answer(exchange: scripted_http.Exchange) -> None:
        pod = objects.Pod(metadata=objects.Metadata(name=exchange.body["Pod"]["metadata"]["name"]))
        names = exchange.body["NodeNames"]
        if exchange.path == "/filter":
            passed, failed, never = opinionated.filter(pod, names)
            exchange.answer({"nodenames": passed, "failedNodes": failed, "failedAndUnresolvableNodes": never})
        else:
            scores = opinionated.prioritize(pod, names).tolist()
            exchange.answer([{"host": name, "score": score} for name, score in zip(names, scores, strict=True)])

    with scripted_http.serving(answer) as server:
        yield {"urlPrefix": server.url, "filterVerb": "filter", "nodeCacheCapable": True, "httpTimeout": "60s"}


def first(calls: Sequence[Call]) -> list[Call]:
    """The first call of each verb for each pod: kube-scheduler asks again for a pod that fits nowhere."""
    return list({(verb, pod): (verb, pod, names) for verb, pod, names in reversed(calls)}.values())[::-1]
