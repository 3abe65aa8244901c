"""kube-scheduler's questions put to the extender's own functions, without a request around them.

`running` gives a `Direct` to the scheduler's model unless a run goes through all doors (`asking.InProcess`): what a pod
may use and how good each node is say `extender.verbs`, as for every request; JSON, WSGI, the memory of decisions and
the metrics are left out. tests/unit/simulator/test_handing.py holds whole runs equal to those with requests.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from extender import explaining, protocol, verbs
from extender.view import Candidates, View
from kube.objects import Pod
from runtime.clock import Clock
from simulator.scheduling.extenders import Filtered, Victims
from simulator.scheduling.order import Ints


class _Filtered(NamedTuple):
    """What came of a question: the nodes that the pod may go to, as the answer names them and as they stand."""

    pod: Pod
    passed: Sequence[str]
    left: Candidates


class Direct:
    """An `ExtenderPort` over a view; `weight` is the stanza's."""

    def __init__(self, seen: View, clock: Clock, *, weight: int) -> None:
        self._seen, self._clock, self._weight = seen, clock, weight
        self._filtered: _Filtered | None = None  # the last answer

    @property
    def weight(self) -> int:
        """How much its scores count."""
        return self._weight

    def filter(self, pod: Pod, names: Sequence[str]) -> Filtered:
        """Which of the nodes may take the pod."""
        candidates = self._candidates(pod, names)
        left, judged = verbs.judge(candidates, pod)
        passed = left.names if judged.rejected else names
        self._filtered = _Filtered(pod, passed, left)
        return Filtered(passed, {}, judged.rejected)

    def prioritize(self, pod: Pod, names: Sequence[str]) -> Ints:
        """0 to 10 for each node. Of all that passed the filter a moment ago the candidates are at hand."""
        last, self._filtered = self._filtered, None
        same = last is not None and last.pod is pod and last.passed is names
        candidates = last.left if same and last is not None else self._candidates(pod, names)
        return verbs.rank(candidates, pod, self._seen.mean(pod, self._clock.now())).scores

    def preempt(self, pod: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """The nodes on which victims may be made."""
        left, _ = verbs.judge(self._candidates(pod, tuple(victims)), pod)
        return {name: victims[name] for name in left.names}

    def explain(self, pod: Pod, names: Sequence[str]) -> dict[str, object]:
        """POST /explain at this moment."""
        body = protocol.encode(explaining.explain(self._seen, pod, tuple(names), self._clock.now()))
        found: dict[str, object] = msgspec.json.decode(body)
        return found

    def _candidates(self, pod: Pod, names: Sequence[str]) -> Candidates:
        return self._seen.candidates(tuple(names), self._clock.now(), besides=pod.uid)
