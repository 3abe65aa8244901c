"""kube-scheduler's questions put to the extender's own functions, without a request around them, and what happens to
pods told to its view, without a watch.

`world.world` gives a `DirectExtender` to the scheduler's model unless a run goes through all doors
(`asking.InProcess`): what a pod may use and how good each node is say `extender.verbs.verbs`, as for every request;
JSON, WSGI, the memory of decisions and the metrics are left out. The view counts the simulation's whole pods instead of
those that a watch would decode. tests/unit/simulator/test_handing.py holds whole runs equal to those with requests.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from extender import protocol
from extender.service import Service
from extender.state.candidates import Candidates
from extender.verbs import explain, verbs
from kube.objects import Pod
from kube.pods import pod_view
from kube_scheduler.arrays import Ints
from runtime.clock import Clock
from simulator.scheduling.extenders import FilterResult, Victims


class _FilterReply(NamedTuple):
    """The reply to a filter call: the passing nodes by name, and the same nodes as objects."""

    pod: Pod
    passed: Sequence[str]
    left: Candidates


class DirectExtender:
    """An `ExtenderPort` over a view; `weight` is the stanza's."""

    def __init__(self, extender: Service, clock: Clock, *, weight: int) -> None:
        self._extender, self._view = extender, extender.view
        self._clock, self.weight = clock, weight
        self._news: list[tuple[Pod | None, Pod | None]] = []  # of pods, since it last caught up
        self._filtered: _FilterReply | None = None  # the last answer

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """A pod came, changed or went; the extender hears of it in its time, as from its watch of living pods."""
        old, new = _living(old), _living(new)
        if old is None or new is None:
            if old is not None or (new is not None and new.node_name):  # what waits for a node counts nowhere
                self._news.append((old, new))
        elif not pod_view.counts_alike(old, new):
            self._news.append((old, new))

    def catch_up(self, *, others: bool) -> None:
        """Feeds the changes of pods to the view, and of `others` what its watches have."""
        if others:
            self._extender.catch_up(pods=False)
        news, self._news = self._news, []
        for old, new in news:
            self._view.pod_changed(old, new, self._clock.now())

    def filter(self, pod: Pod, names: Sequence[str]) -> FilterResult:
        """Which of the nodes may take the pod."""
        candidates = self._candidates(pod, names)
        left, judged = verbs.judge_nominated(self._view, candidates, pod)
        passed = left.names if judged.rejected else names
        self._filtered = _FilterReply(pod, passed, left)
        return FilterResult(passed, {}, judged.rejected)

    def prioritize(self, pod: Pod, names: Sequence[str]) -> Ints:
        """0 to 10 for each node. Of all that passed the filter a moment ago the candidates are at hand."""
        last, self._filtered = self._filtered, None
        same = last is not None and last.pod is pod and last.passed is names
        candidates = last.left if same and last is not None else self._candidates(pod, names)
        return candidates.ranking(pod, self._view.mean(pod, self._clock.now())).scores

    def preempt(self, pod: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """The nodes on which victims may be made."""
        left, _ = verbs.judge(self._candidates(pod, tuple(victims)), pod)
        return {name: victims[name] for name in left.names}

    def explain(self, pod: Pod, names: Sequence[str]) -> dict[str, object]:
        """POST /explain at this moment."""
        body = protocol.encode(explain.explain(self._view, pod, tuple(names), self._clock.now()))
        answer: dict[str, object] = msgspec.json.decode(body)
        return answer

    def _candidates(self, pod: Pod, names: Sequence[str]) -> Candidates:
        return self._view.candidates(tuple(names), self._clock.now(), pod)


def _living(pod: Pod | None) -> Pod | None:
    """Returns the change as a watch of pods that have not ended reports it (`extender.service.LIVING`)."""
    return None if pod is None or pod.finished else pod
