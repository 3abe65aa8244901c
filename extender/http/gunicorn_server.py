"""The extender under gunicorn: one worker with threads, whose connections outlive kube-scheduler's idle ones.

`__main__` calls `run`, which does not return. The master only holds the port; the worker makes the `ServingState`
service, starts its watches after the fork, and stops them when it ends. Each setting stands here with its reason
(docs/reference/extender.md has the measurements). With a `tls.Security` the same port speaks TLS.
"""

import collections.abc
import ctypes
import logging
import pathlib
import signal
import sys
import threading
from typing import Any, Final, Protocol
from wsgiref import types as wsgi

from gunicorn import glogging
from gunicorn.app import base

from extender.http import gunicorn_worker, tls
from runtime import http_exchange, options

DEFAULT_PORT: Final = 8900
KEEPALIVE_SECONDS: Final = 120  # over the 90 s for which kube-scheduler keeps idle connections: it must close first
_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_M_MMAP_THRESHOLD: Final = -3  # malloc.h
_SHARED_MEMORY: Final = pathlib.Path("/dev/shm")  # noqa: S108 - gunicorn's own heartbeat file, on a read-only root


class ServingState(Protocol):
    """The state of the worker: threads to start, and an application."""

    def app(self) -> wsgi.WSGIApplication:
        """The application to serve."""

    def start(self, stop: threading.Event) -> None:
        """Start the background threads; they end when `stop` is set."""

    def dropped(self, reason: str) -> None:
        """Count a connection that was ended before its answer, by one of the reasons of `metrics`."""


def run(
    listen: str,
    make: collections.abc.Callable[[], ServingState],
    *,
    security: tls.Security | None = None,
    keepalive_seconds: int = KEEPALIVE_SECONDS,
) -> None:
    """Serve until SIGTERM or SIGINT; `make` is called in the worker. Ends the process with gunicorn's exit code.

    `security` is loaded already, or None for plain HTTP. Only tests ask for another keep-alive: to see it fail.
    """
    chosen = settings(listen, keepalive_seconds=keepalive_seconds)
    if security is not None:
        chosen |= {
            "certfile": str(security.files.certificate),  # turns TLS on; the hook decides what is used
            "keyfile": str(security.files.key),
            "ssl_context": lambda _config, _default: security.context,  # asked for by `worker` for each connection
        }
    _Server(chosen, make, security).run()


def settings(listen: str, *, keepalive_seconds: int = KEEPALIVE_SECONDS) -> dict[str, object]:
    """gunicorn's settings for an address as in `--listen`."""
    host, port = options.listen_address(listen, DEFAULT_PORT)
    host = host or options.every_interface()
    chosen: dict[str, object] = {
        "bind": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        "worker_class": gunicorn_worker.Worker,
        "workers": 1,  # one process = one view, one count of placements; scale by replicas
        "threads": 8,
        "keepalive": keepalive_seconds,
        "graceful_timeout": 10,  # under terminationGracePeriodSeconds
        "timeout": 30,
        "max_requests": 0,  # a restart by count would reset kept connections
        "control_socket_disable": True,
        "accesslog": None,
        "logger_class": _Log,
        **http_exchange.LIMITS,
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


def _give_large_buffers_back() -> None:
    """Let every buffer of a large request go back to the kernel when it is freed.

    glibc raises the size from which it does so to 32 MiB by itself, and then each of the threads keeps its last ones.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # none in musl, which gives them back
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 2**20)


class _Log(glogging.Logger):  # type: ignore[misc]
    """gunicorn's messages as log lines of the service."""

    def setup(self, cfg: Any) -> None:
        """Hand everything to the root logger that `runtime.logs` configured."""
        self.cfg = cfg
        self._access_log_enabled = False
        self.loglevel = logging.INFO
        self.error_log.setLevel(self.loglevel)
        self.error_log.propagate = True


class _Server(base.BaseApplication):  # type: ignore[misc]
    """gunicorn's view of the service. It forks after construction: nothing may be connected or started in here before
    `load`.
    """

    def __init__(
        self, chosen: dict[str, object], make: collections.abc.Callable[[], ServingState], security: tls.Security | None
    ) -> None:
        self._chosen = chosen
        self._make = make
        self._security = security
        self._service: ServingState | None = None
        self._stop = threading.Event()
        super().__init__()

    def load_config(self) -> None:
        """Settings and hooks; called again on SIGHUP."""
        for name, value in self._chosen.items():
            self.cfg.set(name, value)
        self.cfg.set("post_fork", _die_with_parent)
        self.cfg.set("post_worker_init", self._started)
        self.cfg.set("worker_exit", lambda _server, _worker: self._stop.set())

    def load(self) -> wsgi.WSGIApplication:
        """The application, made in the worker, which may be younger than the certificate that the master read."""
        _give_large_buffers_back()
        self._service = self._make()
        application = http_exchange.readable(self._service.app())
        if self._security is None:
            return application
        self._security.poll(at_start=True)
        return self._security.guard(application)

    def _started(self, begun: gunicorn_worker.Worker) -> None:
        if self._service is not None:
            begun.dropped = self._service.dropped
            if self._security is not None:
                begun.refusal = self._security.refusal
            self._service.start(self._stop)
