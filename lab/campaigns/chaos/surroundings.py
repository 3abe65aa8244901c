"""Faults of what services read and write: exporters, disks, admission webhooks, objects, clients and clocks.

Like those of `faults`: each breaks something, mends it again, and says in words what it did.
"""

import contextlib
import os
import resource
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from lab.campaigns.chaos import judging
from lab.campaigns.chaos.site import Process, Site
from lab.cluster import api
from tests.contract import webhook

LIES: Final[tuple[Mapping[str, object], ...]] = (
    {"garbage": "nan"}, {"garbage": "negative"}, {"garbage": "over"}, {"garbage": "infinite"}, {"garbage": "twice"},
    {"frozen": True}, {"hidden_pods": True}, {"hidden": True},
)  # fmt: skip
REFUSALS: Final[tuple[dict[str, object], ...]] = (
    {"code": 403, "reason": "Forbidden", "message": "no"},
    {"code": 429, "reason": "TooManyRequests", "message": "later", "details": {"retryAfterSeconds": 2}},
    {"code": 500, "reason": "InternalError", "message": "broken"},
)
ASKED_SECONDS: Final = 20.0  # until there is something to refuse
DELAY_SECONDS: Final = 3.0
YEAR_0: Final = "0000-01-01T00:00:00Z"  # kube-apiserver stores and serves it, and no reader of dates takes it
CONNECTIONS: Final = 40  # to each service
JUMPS_SECONDS: Final = (-7200.0, -90_000.0, 7200.0, 90_000.0)


def lie_about_load(site: Site) -> str:
    """A node's series are nonsense for a while, or stand still, or come from two exporters, or not at all."""
    node, lie = site.rng.choice(site.nodes()), site.rng.choice(LIES)
    site.load(node, **lie)
    site.pause()
    site.load(node, **dict.fromkeys(lie, None))
    return f"{node}: {lie}"


def reset_counters(site: Site) -> str:
    """The exporter of all nodes is killed and started again: its counters begin anew."""
    process = site.cluster.processes["load-exporter"]
    process.kill()
    site.pause()
    process.start()
    return "all nodes"


def fill_disk(site: Site) -> str:
    """The files of both deschedulers cannot grow for a while, or cannot be written at all."""
    limit_bytes = site.rng.choice((0, site.ledger.stat().st_size))
    running = [one for one in site.deschedulers() if one.running]
    for one in running:
        limit_files(one, limit_bytes)
    site.pause()
    for one in running:
        limit_files(one, resource.RLIM_INFINITY)
    return f"no byte over {limit_bytes}"


def limit_files(service: Process, limit_bytes: int) -> None:
    """Writes beyond this size fail (EFBIG) in this process; one that has ended is left alone."""
    _, hard = resource.prlimit(os.getpid(), resource.RLIMIT_FSIZE)
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (limit_bytes, hard))


def slow_disk(site: Site) -> str:
    """A write of the ledger lasts for a while: another process has the lock."""
    seconds = site.terms.ready_seconds
    with contextlib.closing(sqlite3.connect(site.ledger, timeout=seconds, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        site.pause()
        other.execute("ROLLBACK")
    return "locked"


def refuse_writes(site: Site) -> str:
    """An admission webhook refuses evictions or writes of nodes, each in the same way, or delays them: from the first
    that is asked for on for a while.
    """
    about = site.rng.choice((webhook.EVICTIONS, webhook.EVICTIONS, webhook.NODE_UPDATES))
    refusal = site.rng.choice((*REFUSALS, None))

    def delay(_: str) -> None:
        time.sleep(DELAY_SECONDS)

    with webhook.registered(site.cluster, about) as hook:
        hook.answer = delay if refusal is None else lambda _: refusal
        limit = time.monotonic() + ASKED_SECONDS
        while not hook.asked and time.monotonic() < limit:
            site.pause(0.1)
        site.pause()
        reviews = len(hook.asked)
    return f"{about.resource}: {refusal['code'] if refusal else 'late'}, {reviews} reviews"


def spoil_object(site: Site) -> str:
    """A node or a pod has a condition for a while that no reader of dates takes."""
    nodes = [f"api/v1/nodes/{name}" for name in site.nodes()]
    pods = [f"api/v1/namespaces/default/pods/{pod.name}" for pod in site.pods() if pod.node_name]
    path = site.rng.choice((*nodes, *pods))
    with contextlib.suppress(api.ApiError):  # a pod may be gone by now
        conditions = site.cluster.api.get(path)["status"].get("conditions", [])
        spoilt = {"type": "Spoilt", "status": "True", "reason": "x", "message": "x", "lastTransitionTime": YEAR_0}
        site.cluster.api.patch(f"{path}/status", {"status": {"conditions": [*conditions, spoilt]}})
        site.pause()
        left = [one for one in site.cluster.api.get(path)["status"]["conditions"] if one["type"] != "Spoilt"]
        site.cluster.api.patch(f"{path}/status", {"status": {"conditions": left}})
    return path


def slow_clients(site: Site) -> str:
    """Many clients of each service send a byte now and then, and a new pod is placed nevertheless."""
    with contextlib.ExitStack() as undo:
        clients = [
            undo.enter_context(contextlib.closing(one))
            for name in sorted(site.services)
            for one in _clients(site, name)
        ]
        limit = time.monotonic() + site.pause_seconds()
        while time.monotonic() < limit:
            for one in clients:
                with contextlib.suppress(OSError):  # the service has had enough of it
                    one.send(b"x")
            site.pause(0.5)
        site.recovered(f"{len(clients)} slow clients")
    return f"{len(clients)} clients"


def _clients(site: Site, name: str) -> Iterator[socket.socket]:
    """Half of them never end a head, half never end a body."""
    for number in range(CONNECTIONS):
        try:
            client = socket.create_connection(("127.0.0.1", site.services[name].port), timeout=5)
        except OSError:
            return
        verb = b"POST /filter" if name.startswith("extender") else b"GET /readyz"
        body = b"Content-Length: 100000\r\nContent-Type: application/json\r\n\r\n{" if number % 2 else b"X-Slow: "
        with contextlib.suppress(OSError):
            client.sendall(verb + b" HTTP/1.1\r\nHost: slow\r\n" + body)
        client.setblocking(False)
        yield client


def jump_clock(site: Site) -> str:
    """The clock of a service is wrong by hours for a while."""
    name, by_seconds = site.rng.choice(sorted(site.services)), site.rng.choice(JUMPS_SECONDS)
    from_seconds = time.time()
    site.services[name].shift.set(by_seconds)
    site.pause()
    site.services[name].shift.set(0.0)
    if name.startswith("descheduler"):
        site.jumps.append(judging.Jump(from_seconds, time.time(), by_seconds))
    return f"{name} by {by_seconds:+.0f} s"


ALL: Final[tuple[Callable[[Site], str], ...]] = (
    lie_about_load, reset_counters, fill_disk, slow_disk, refuse_writes, spoil_object, slow_clients, jump_clock,
)  # fmt: skip
