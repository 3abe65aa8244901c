"""Asks the services again and again and publishes their answers, each topic on a thread and at a period of its own.

A service that cannot be asked leaves its topic as it was and says so in the topic `status`, with the reason: the page
shows old figures as old, never as none. The extender gives answers for people a small share of its time (400 rows a
second), so nodes are asked for the less often the more there are.
"""

import collections.abc
import functools
import random
import threading
from typing import Any, Final, NamedTuple

import msgspec

from console import board
from console.sources import Doors, Find, Json, Replica, SourceError
from extender.verbs import documents
from runtime import clock, loop

NODES_SECONDS: Final = 5.0
NODES_PER_SECOND: Final = 250.0
DECISIONS: Final = 60
EVICTIONS: Final = 300
EFFECTIVENESS_SPAN_SECONDS: Final = 7 * 86_400.0
REPLICAS_SECONDS: Final = 30.0
_ENCODER: Final = msgspec.json.Encoder()


class Task(NamedTuple):
    """One topic: how it is asked for, and how often."""

    name: str
    work: collections.abc.Callable[[], None]
    period_seconds: collections.abc.Callable[[], float]


class Status(msgspec.Struct):
    """How the last question of a topic went; `at_seconds` is when it was last answered, 0 for never."""

    at_seconds: float = 0.0
    error: str = ""
    by: tuple[str, ...] = ()


class Poller:
    """The topics of a page, kept up to date; `start` once."""

    def __init__(
        self, doors: Doors, topics: board.Board, *, ticking: clock.Clock, rng: random.Random, pace: float = 1.0
    ) -> None:
        self._doors, self._topics, self._clock, self._rng, self._pace = doors, topics, ticking, rng, pace
        self._lock = threading.Lock()
        self._status: dict[str, Status] = {}
        self._pools: collections.abc.Mapping[str, str] = {}
        self._node_count = 0
        self._extenders = ReplicaCache(doors.extenders, ticking)
        self._deschedulers = ReplicaCache(doors.deschedulers, ticking)

    def start(self, stop: threading.Event) -> None:
        """Begin to ask, until `stop` is set."""
        for task in self.tasks():
            period = loop.Loop(
                f"ask for {task.name}", task.work, period_seconds=task.period_seconds, clock=self._clock, rng=self._rng
            )
            loop.start_thread(task.name, period.run, stop)

    def tasks(self) -> collections.abc.Sequence[Task]:
        """Everything that is asked for here."""
        tasks = [
            self._task("nodes", self._nodes, NODES_SECONDS)._replace(period_seconds=self._nodes_seconds),
            self._task("decisions", self._decisions, 2.0),
            self._task("plan", lambda: self._descheduler("plan", "/plan"), 10.0),
            self._task("evictions", self._evictions, 4.0),
            self._task("breakers", lambda: self._descheduler("breakers", "/breaker"), 15.0),
            self._task("policy", lambda: self._descheduler("policy", "/configz"), 15.0),
        ]
        if self._doors.pools is not None:
            tasks.insert(0, self._task("pools", functools.partial(self._find_pools, self._doors.pools), 60.0))
        if (measure := self._doors.effectiveness) is not None:
            tasks.append(self._task("effectiveness", functools.partial(self._effectiveness, measure), 60.0))
        return tasks

    def _task(self, name: str, ask: collections.abc.Callable[[], tuple[str, ...]], period_seconds: float) -> Task:
        def work() -> None:
            by, problem = tuple[str, ...](), ""
            try:
                by = ask()
            except SourceError as error:
                problem = str(error)
            except (msgspec.DecodeError, msgspec.ValidationError) as error:
                problem = f"the answer cannot be read: {error}; is it a service of Evenload, of this version?"
            with self._lock:
                before = self._status.get(name, Status())
                now_seconds = self._doors.now()
                self._status[name] = Status(before.at_seconds if problem else now_seconds, problem, by or before.by)
                self._publish("status", {"now_seconds": now_seconds, "topics": self._status})

        return Task(name, work, lambda: period_seconds * self._pace)

    def _publish(self, topic: str, document: object) -> None:
        self._topics.publish(topic, _ENCODER.encode(document))

    # the extender

    def _nodes_seconds(self) -> float:
        return max(NODES_SECONDS, self._node_count / NODES_PER_SECOND) * self._pace

    def _nodes(self) -> tuple[str, ...]:
        replica, body = first_answer(self._extenders.replicas(), "/nodes")
        answer = msgspec.json.decode(body, type=documents.Nodes)
        self._node_count = len(answer.nodes)
        self._publish("nodes", columns(answer, self._pools))
        return (replica.name,)

    def _decisions(self) -> tuple[str, ...]:
        """The newest of all replicas: each knows its own."""
        decisions: list[Json] = []
        names, failure = [], None
        for replica in self._extenders.replicas():
            try:
                document = _document(replica.get("/decisions", limit=str(DECISIONS)))
            except SourceError as error:
                failure = error
                continue
            names.append(replica.name)
            decisions += (one | {"replica": replica.name} for one in _rows(document, "decisions"))
        if not names and failure is not None:
            raise failure
        decisions.sort(key=lambda one: -float(str(one.get("at_seconds", 0.0))))
        self._publish("decisions", decisions[:DECISIONS])
        return tuple(names)

    # the descheduler

    def _descheduler(self, topic: str, path: str) -> tuple[str, ...]:
        replica, body = first_answer(self._deschedulers.replicas(), path)
        self._publish(topic, _document(body))
        return (replica.name,)

    def _evictions(self) -> tuple[str, ...]:
        replica, body = first_answer(self._deschedulers.replicas(), "/evictions", limit=str(EVICTIONS))
        self._publish("evictions", _rows(_document(body), "evictions"))
        return (replica.name,)

    # the rest

    def _find_pools(self, find: collections.abc.Callable[[], collections.abc.Mapping[str, str]]) -> tuple[str, ...]:
        self._pools = find()
        return ()

    def _effectiveness(self, measure: collections.abc.Callable[[float], Json]) -> tuple[str, ...]:
        self._publish("effectiveness", measure(EFFECTIVENESS_SPAN_SECONDS))
        return ()


class ReplicaCache:
    """The replicas of a service, looked for again after a while, and at once after an error."""

    def __init__(self, find: Find, ticking: clock.Clock) -> None:
        self._find, self._clock = find, ticking
        self._lock = threading.Lock()
        self._replicas: collections.abc.Sequence[Replica] = ()
        self._until_seconds = float("-inf")

    def replicas(self) -> collections.abc.Sequence[Replica]:
        """At least one replica. Raises SourceError."""
        with self._lock:
            if self._clock.monotonic() >= self._until_seconds:
                self._replicas = self._find()
                self._until_seconds = self._clock.monotonic() + REPLICAS_SECONDS
            return self._replicas


def first_answer(replicas: collections.abc.Sequence[Replica], path: str, **query: str) -> tuple[Replica, bytes]:
    """The first answer that a replica gives. Raises the SourceError of the last where none does."""
    failure = SourceError("no replica is known")
    for replica in replicas:
        try:
            return replica, replica.get(path, **query)
        except SourceError as error:
            failure = error
    raise failure


def _document(body: bytes) -> Json:
    return msgspec.json.decode(body, type=dict[str, Any])


def _rows(document: Json, key: str) -> list[Json]:
    return msgspec.convert(document.get(key, []), list[dict[str, Any]])


def columns(answer: documents.Nodes, pools: collections.abc.Mapping[str, str]) -> Json:
    """The nodes by column, in the order of the answer: 5,000 in some 250 KB instead of 13 MB.

    Ratios are whole thousandths, what is missing is null, and a reason is its place in a list of reasons.
    """
    nodes = answer.nodes
    metrics = list(dict.fromkeys(name for node in nodes for name in node.values))
    windows = list(dict.fromkeys(window for node in nodes for window in node.hot))
    reasons, states = dict[str, int](), dict[str, int]()  # texts by the order in which they first came
    limits = {rule.metric: rule.limit for node in nodes for rule in node.rules if not (rule.own or rule.pool)}
    own = {
        node.name: {rule.metric: rule.limit for rule in node.rules if rule.own or rule.pool}
        for node in nodes
        if any(rule.own or rule.pool for rule in node.rules)
    }
    return {
        "at": answer.at,
        "policy": answer.policy,
        "heartbeat": answer.heartbeat,
        "names": [node.name for node in nodes],
        "values": {name: [_thousandths(node.values.get(name)) for node in nodes] for name in metrics},
        "expected": {
            name: [_thousandths(node.expected.get(name, 0.0)) for node in nodes]
            for name in metrics
            if any(node.expected.get(name) for node in nodes)
        },
        "hot": {window: [node.hot.get(window, 0) for node in nodes] for window in windows},
        "penalty": [node.penalty for node in nodes],
        "score": [node.score for node in nodes],
        "age_seconds": [None if node.age_seconds is None else round(node.age_seconds) for node in nodes],
        "state": [states.setdefault(node.state, len(states)) for node in nodes],
        "states": list(states),
        "rejected": [
            -1 if node.rejected is None else reasons.setdefault(node.rejected, len(reasons)) for node in nodes
        ],
        "reasons": list(reasons),
        "conditions": {node.name: node.conditions for node in nodes if node.conditions},
        "limits": limits,
        "own_limits": own,
        "pools": [pools.get(node.name, "") for node in nodes] if pools else [],
    }


def _thousandths(ratio: float | None) -> int | None:
    return None if ratio is None else round(ratio * 1000)
