"""The doors through which the console sees a cluster: a Protocol of a replica, and a record of everything to ask.

`cli.console` fills a `Doors` with a real cluster's or a simulated one's. Every function may raise `SourceError`, whose
text is shown on the page beside the name of what could not be asked.
"""

import collections.abc
import dataclasses
from typing import NamedTuple, Protocol

Json = dict[str, object]


class SourceError(Exception):
    """An answer that did not come."""


class Replica(Protocol):
    """One replica of a service."""

    @property
    def name(self) -> str: ...
    def get(self, path: str, **query: str) -> bytes: ...


class RunningPod(NamedTuple):
    """A pod of a node: its owner ("Deployment/web"), its requests, and its use, None where that is not known."""

    namespace: str
    name: str
    workload: str
    phase: str
    cpu_millicores: float
    memory_bytes: float
    cpu_used_millicores: float | None = None
    memory_used_bytes: float | None = None


Find = collections.abc.Callable[[], collections.abc.Sequence[Replica]]
Report = collections.abc.Callable[[float], None]  # the share of a simulation that is done
Replay = collections.abc.Callable[[str, Json, Report], Json]  # a policy's text, the policy in force


@dataclasses.dataclass(frozen=True, slots=True)
class Doors:
    """Everything to ask. What is None cannot be asked here, and the page says so.

    `title` names the cluster, `now` is its time (Unix seconds). `pods` are those of a node, `pools` the pool of each
    node that has one. `effectiveness` answers for a span of seconds. `check` judges a policy's text and `what_if`
    replays a day under it, both beside the policy in force. `story` is what happened between two moments.
    """

    title: str
    now: collections.abc.Callable[[], float]
    extenders: Find
    deschedulers: Find
    pods: collections.abc.Callable[[str], collections.abc.Sequence[RunningPod]] | None = None
    pools: collections.abc.Callable[[], collections.abc.Mapping[str, str]] | None = None
    effectiveness: collections.abc.Callable[[float], Json] | None = None
    check: collections.abc.Callable[[str, Json], Json] | None = None
    what_if: Replay | None = None
    story: collections.abc.Callable[[float, float], Json] | None = None
    note: str = ""
