"""A descheduler that ends with SIGKILL at the step it is told: `run` for tests/contract/test_descheduler_kills.py,
`lead` for tests/e2e/test_surge_kills.py.

Only usage is made up. Steps are counted where anything leaves the process: around every write to the apiserver, and
before every BEGIN and COMMIT of the ledger. Those of a surge have names, too.
"""

import math
import os
import pathlib
import random
import signal
import threading
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry

from descheduler.eviction.eviction_events import CONTROLLER, EventPublisher
from descheduler.eviction.evictor import Evictor
from descheduler.ledger.ledger import Ledger
from descheduler.metrics import Telemetry
from descheduler.service import Parts, Service
from descheduler.snapshot.cluster_reader import Reader
from descheduler.snapshot.cluster_watch import ClusterWatch
from descheduler.snapshot.usage import NodeUsage, PodUsage
from descheduler.surges import FINISHED, OPEN, UNDONE
from kube.events import EventWriter
from kube.http import client
from kube.http.request import Request
from kube.objects import Node, Pod
from policy.loading import loader
from policy.schema.load_policy import LoadPolicy
from runtime.clock import WallClock
from runtime.reloading import Reloading
from tests import patience
from tests.e2e import waiting

WINDOWS = ("avg_5m", "max_1h")  # without its hourly maximum a node is no destination
POD_CORES, POD_BYTES = 0.01, 2.0**30
STATES = (*OPEN, FINISHED, UNDONE, "intended", "evicted")  # of surges and evictions


class Order(NamedTuple):
    """What a process is told: where everything is, which node is hot, at which step to die (0: never), and by how much
    its clock is ahead.
    """

    kubeconfig: pathlib.Path
    policy: pathlib.Path
    ledger: pathlib.Path
    hot: str
    dies_at: int | str
    ahead_seconds: float = 0.0


class Ahead(WallClock):
    """A clock that is ahead."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def now(self) -> float:
        """Unix seconds."""
        return super().now() + self._seconds


class Steps:
    """Counts, and kills this process at the one it is told by number or name."""

    def __init__(self, dies_at: int | str) -> None:
        self._dies_at = dies_at
        self._count = 0
        self._written = ""

    def step(self, name: str = "") -> None:
        """One more."""
        self._count += 1
        if self._dies_at in (self._count, name):
            os.kill(os.getpid(), signal.SIGKILL)

    def traced(self, statement: str) -> None:
        """A statement that SQLite is about to run, with its values."""
        if statement.startswith(("INSERT INTO", "UPDATE")):
            state = next((state for state in STATES if f"'{state}'" in statement), "")
            self._written = f"the row {state}"
        elif statement.startswith(("BEGIN", "COMMIT")):
            self.step(f"before {self._written}" if statement == "COMMIT" else "")


class Mortal(client.Client):
    """The real door, with a step before and after each write."""

    def __init__(self, door: client.Client, steps: Steps) -> None:
        super().__init__(door._transport, door.undecodable)
        self._steps = steps

    def _write(self, request: Request, **options: Any) -> bytes:
        name = request.path.rpartition("/")[2]
        if name == "scale":
            spec = (request.body or {})["spec"]
            name = f"scale {spec['replicas']}"  # type: ignore[index]
        self._steps.step(f"before the {name}")
        answer = super()._write(request, **options)
        self._steps.step(f"after the {name}")
        return answer


class Heated:
    """A source that finds one node hot and every pod using the same."""

    windows_end_at_readings = False

    def __init__(self, hot: str, clock: WallClock) -> None:
        self._hot = hot
        self._clock = clock

    def node_usage(
        self, nodes: Iterable[Node], policy: LoadPolicy, *, at_seconds: float | None = None
    ) -> dict[str, NodeUsage]:
        """0.9 of the hot node, 0.1 of the others."""
        now_seconds = self._clock.now()
        ratios = {node.name: 0.9 if node.name == self._hot else 0.1 for node in nodes}
        return {
            name: NodeUsage(
                name, {f"memory_{one}": ratio for one in WINDOWS} | {f"cpu_{one}": 0.1 for one in WINDOWS}, now_seconds
            )
            for name, ratio in ratios.items()
        }

    def pod_usage(self, policy: LoadPolicy, pods: Collection[Pod], *, of_all: int) -> dict[str, PodUsage]:
        """Returns the same of every pod."""
        now_seconds = self._clock.now()
        return {pod.key: PodUsage(pod.key, 1000 * POD_CORES, POD_BYTES, now_seconds) for pod in pods}

    def absence(self, pod: Pod) -> str:
        """Never asked: every pod has its usage."""
        raise NotImplementedError

    def known_until_seconds(self, now_seconds: float) -> float:
        """Now."""
        return now_seconds

    def follow(self, nodes: frozenset[str], *, until_seconds: float) -> None:
        """Nothing."""


def run(order: Order) -> None:
    """The whole run, in a process of its own; exit code 0 if it lives to its end."""
    Service(_parts(order)[0]).run()


def lead(order: Order) -> None:
    """Runs until no surge is open."""
    parts, watch = _parts(order)
    watch.start(parts.stopping)
    service = Service(parts)

    def ended() -> bool:
        service.run()
        return not parts.ledger.surges(math.inf)

    waiting.until(ended, "no surge to be open")
    parts.stopping.set()


def _parts(order: Order) -> tuple[Parts, ClusterWatch]:
    clock, steps = Ahead(order.ahead_seconds), Steps(order.dies_at)
    door = Mortal(patience.connect(order.kubeconfig), steps)
    ledger = Ledger(order.ledger)
    ledger.open_or_set_aside(clock.now())
    writer = ledger._writer
    assert writer is not None
    writer.set_trace_callback(steps.traced)
    policy = Reloading(order.policy, loader.load, clock=clock)
    policy.load()
    events = EventWriter(door, controller=CONTROLLER, instance="mortal", clock=clock)
    announcer = EventPublisher(events, ledger, clock)
    watch = ClusterWatch(door, clock=clock, rng=random.Random())
    watch.begin_lists()
    parts = Parts(
        policy=policy,
        reader=Reader(watch.view, door, Heated(order.hot, clock)),
        ledger=ledger,
        evicter=Evictor(door, ledger, announcer, clock=clock),
        announcer=announcer,
        telemetry=Telemetry(CollectorRegistry()),
        door=door,
        clock=clock,
        rng=random.Random(),
        leads=lambda: True,
        holds_lease=lambda: True,
        stopping=threading.Event(),
    )
    return parts, watch
