"""The extender under gunicorn: one worker with threads, whose connections outlive kube-scheduler's idle ones.

`__main__` calls `run`, which does not return. The master only holds the port; the worker makes the `Served` service,
starts its watches after the fork, and stops them when it ends. Each setting stands here with its reason
(docs/extender.md has the measurements). With a `tls.Security` the same port speaks TLS.
"""

import collections.abc
import ctypes
import functools
import gc
import logging
import math
import pathlib
import select
import selectors
import signal
import sys
import threading
from typing import Any, Final, Protocol
from wsgiref import types as wsgi

from gunicorn import glogging
from gunicorn.app import base
from gunicorn.workers import gthread

from extender import deadline, direct, later, tls
from runtime import clock, exchange, options, reading

DEFAULT_PORT: Final = 8900
KEEPALIVE_SECONDS: Final = 120  # over the 90 s for which kube-scheduler keeps idle connections: it must close first
STAY_SECONDS: Final = 0.1  # a scheduler at 10 pods/s or more never leaves its thread
STAYING: Final = 2  # of 8 threads
# While one thread decodes a page of pods, others get the interpreter after this long instead of Python's 5 ms.
SWITCH_SECONDS: Final = 0.0005
# The memory of decisions grows with every request, and none of it is garbage. Python's 700 had it looked through in one
# request of 35 for 0.3 ms and in one of 400 for 3 ms; this is one of some thousands.
OBJECTS_BEFORE_COLLECTING: Final = 20_000
_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_SHARED_MEMORY: Final = pathlib.Path("/dev/shm")  # noqa: S108 - gunicorn's own heartbeat file, on a read-only root


class Served(Protocol):
    """What runs in the worker: threads to start, and an application."""

    def app(self) -> wsgi.WSGIApplication:
        """The application to serve."""

    def start(self, stop: threading.Event) -> None:
        """Start the background threads; they end when `stop` is set."""


def run(
    listen: str,
    make: collections.abc.Callable[[], Served],
    *,
    security: tls.Security | None = None,
    keepalive_seconds: int = KEEPALIVE_SECONDS,
) -> None:
    """Serve until SIGTERM or SIGINT; `make` is called in the worker. Ends the process with gunicorn's exit code.

    `security` is loaded already, or None for plain HTTP. Only tests ask for another keep-alive: to see it fail.
    """
    chosen = settings(listen, keepalive_seconds=keepalive_seconds)
    if security is not None:
        chosen |= _tls_settings(security)
    _Server(chosen, make, security).run()


def _tls_settings(security: tls.Security) -> dict[str, object]:
    """gunicorn asks the hook for every new connection, so a context that was swapped serves from the next one on."""
    return {
        "certfile": str(security.files.certificate),  # turns TLS on; the hook decides what is used
        "keyfile": str(security.files.key),
        "ssl_context": lambda _config, _default: security.context,
        "do_handshake_on_connect": False,  # in the worker's thread, by `tls.Connection`
    }


def settings(listen: str, *, keepalive_seconds: int = KEEPALIVE_SECONDS) -> dict[str, object]:
    """gunicorn's settings for an address as in `--listen`."""
    host, port = options.listen_address(listen, DEFAULT_PORT)
    host = host or options.every_interface()
    chosen: dict[str, object] = {
        "bind": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        "worker_class": Worker,
        "workers": 1,  # one process = one view, one count of placements; scale by replicas
        "threads": 8,
        "keepalive": keepalive_seconds,
        "graceful_timeout": 10,  # under terminationGracePeriodSeconds
        "timeout": 30,
        "max_requests": 0,  # a restart by count would reset kept connections
        "control_socket_disable": True,
        "accesslog": None,
        "logger_class": _Log,
        **exchange.LIMITS,
    }
    if _SHARED_MEMORY.is_dir():
        chosen["worker_tmp_dir"] = str(_SHARED_MEMORY)
    return chosen


def _die_with_parent(_server: object, _worker: object) -> None:
    """Let the kernel end the worker when the master is killed.

    Without this it serves on for its graceful timeout, holds the port, and the restarted extender cannot listen.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class _Timed(gthread.ThreadWorker):  # type: ignore[misc]
    """gunicorn's threads, which tell `deadline` how long a request waited for one and `reading` that it begins."""

    ticking: clock.Clock = clock.WallClock()

    def enqueue_req(self, conn: gthread.TConn) -> None:
        """Something came on a connection; a thread takes it as soon as one is free."""
        conn.queued_seconds = self.ticking.monotonic()
        if not isinstance(conn.sock, reading.Limited):
            conn.sock = reading.Plain.of(conn.sock)
        super().enqueue_req(conn)

    def handle(self, conn: gthread.TConn) -> Any:
        """In the thread. Time in which the client said nothing, or shook hands, does not count as waiting."""
        now_seconds = self.ticking.monotonic()
        queued_seconds, conn.queued_seconds = getattr(conn, "queued_seconds", None), None
        deadline.waited(0.0 if queued_seconds is None else now_seconds - queued_seconds)
        conn.sock.expect()
        return self._answered(conn) or super().handle(conn)

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """What cannot be read is refused as on our other ports; the rest is gunicorn's to tell."""
        refused = exchange.refusal(addr, exc)
        if refused is None:
            super().handle_error(req, client, addr, exc)
        else:
            client.sendall(refused)

    def _answered(self, conn: gthread.TConn) -> bool:
        """Whether the request was one that `direct` takes; not while its answer would have to end the connection."""
        if not self.alive or len(self.keepalived_conns) >= self.max_keepalived:
            return False
        return direct.answer(conn, self.wsgi, self.ticking.now())


class Worker(_Timed):
    """gunicorn's threads, except that a new connection gets one only when something comes on it, and that a stopping
    worker goes on accepting for `STOP_KEEPALIVE_LINGER` seconds.

    A connection that the kernel took just before the signal, or that a Service still sends for a moment after it, would
    wait in the queue and be reset at the end: a failed filter. Its answer says `Connection: close` like all late ones.
    """

    _accepts_until = 0.0  # monotonic; 0 unless stopping
    _silent_until = math.inf  # the same of connections on which nothing ever came
    _stayed: threading.BoundedSemaphore | None = None

    def init_process(self) -> None:
        """In the worker, before any thread runs."""
        sys.setswitchinterval(SWITCH_SECONDS)
        gc.set_threshold(OBJECTS_BEFORE_COLLECTING)
        self._stayed = threading.BoundedSemaphore(STAYING)
        super().init_process()

    def enqueue_req(self, conn: gthread.TConn) -> None:
        """Wait in the main thread's poller for the first byte of a new connection: gunicorn waits 5 s for it in one of
        its threads, and eight clients that only connect would keep the scheduler's requests from all of them.
        """
        if conn.initialized or conn.data_ready:
            super().enqueue_req(conn)
            return
        conn.set_timeout()
        conn.timeout = min(conn.timeout, self._silent_until)
        self.pending_conns.append(conn)
        spoken = functools.partial(self.on_pending_socket_readable, conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, spoken)

    def handle(self, conn: gthread.TConn) -> Any:
        """Handle a request, and the next ones of the connection as long as they follow within STAY_SECONDS.

        Otherwise each request of a kept connection wakes the main thread, which hands it to a pool's thread, which
        hands the connection back. A scheduler asks prioritize right after filter and the next pod's filter soon after.
        At most STAYING threads wait like this, blocked in poll and without the GIL, and none while a connection waits
        for a thread, so that no other connection finds the pool occupied by idle ones. A stopping worker ends it after
        STAY_SECONDS at the latest and drains as always.
        """
        with later.keeping():
            again = super().handle(conn)
            while again is True and self._follows(conn):
                again = super().handle(conn)
        return again

    def _follows(self, conn: gthread.TConn) -> bool:
        """Whether the next request comes in time; False gives the connection back to the main thread."""
        if not self.alive or self._stayed is None or self.tpool._work_queue.qsize():
            return False
        if conn.parser.unreader.buf.getvalue() or not self._stayed.acquire(blocking=False):
            return False
        try:
            waiting = select.poll()
            waiting.register(conn.sock, select.POLLIN)
            while later.pending():
                if waiting.poll(0):
                    return bool(self.alive)
                later.some()
            return bool(waiting.poll(1000 * STAY_SECONDS) and self.alive)
        finally:
            self._stayed.release()

    def set_accept_enabled(self, enabled: bool) -> None:
        """As asked; while stopping, off only after the linger."""
        if enabled or self.alive:
            super().set_accept_enabled(enabled)
        else:
            self._accepts_until = self.ticking.monotonic() + gthread.STOP_KEEPALIVE_LINGER
            self.nr_conns += 1  # the open port counts as one: gunicorn leaves as soon as there is none

    def _cap_keepalive(self, deadline: float) -> None:
        """What gunicorn does when it begins to stop; silent connections end with the kept ones, too."""
        super()._cap_keepalive(deadline)
        self._silent_until = deadline + gthread.STOP_KEEPALIVE_LINGER  # of those that come until then
        for conn in self.pending_conns:
            conn.timeout = min(conn.timeout, deadline)

    def murder_pending(self) -> None:
        """What gunicorn does in each round; the first one after the linger closes the port.

        However many connections keep coming, the exit does not wait for them.
        """
        super().murder_pending()
        if self._accepts_until and self.ticking.monotonic() >= self._accepts_until:
            self._accepts_until = 0.0
            super().set_accept_enabled(False)
            self.nr_conns -= 1


class _Log(glogging.Logger):  # type: ignore[misc]
    """gunicorn's messages as lines of ours: in our format, to our place."""

    def setup(self, cfg: Any) -> None:
        """Hand everything to the root logger that `runtime.logs` configured."""
        self.cfg = cfg
        self._access_log_enabled = False
        self.loglevel = logging.INFO
        self.error_log.setLevel(self.loglevel)
        self.error_log.propagate = True


class _Server(base.BaseApplication):  # type: ignore[misc]
    """gunicorn's view of us. It forks after construction, so nothing may be connected or started in here before
    `load`.
    """

    def __init__(
        self, chosen: dict[str, object], make: collections.abc.Callable[[], Served], security: tls.Security | None
    ) -> None:
        self._chosen = chosen
        self._make = make
        self._security = security
        self._service: Served | None = None
        self._stop = threading.Event()
        super().__init__()

    def load_config(self) -> None:
        """Settings and hooks; called again on SIGHUP."""
        for name, value in self._chosen.items():
            self.cfg.set(name, value)
        self.cfg.set("post_fork", _die_with_parent)
        self.cfg.set("post_worker_init", self._started)
        self.cfg.set("worker_exit", self._ended)

    def load(self) -> wsgi.WSGIApplication:
        """The application, made in the worker, which may be younger than the certificate that the master read."""
        self._service = self._make()
        application = exchange.readable(self._service.app())
        if self._security is None:
            return application
        self._security.poll()
        return self._security.guard(application)

    def _started(self, _worker: object) -> None:
        if self._service is not None:
            self._service.start(self._stop)

    def _ended(self, _server: object, _worker: object) -> None:
        self._stop.set()
