"""The plain routes every service answers, and the small server that answers them.

`ops_blueprint` gives a Flask application /livez, /readyz, /healthz, /metrics, /configz and /version, and a deliberate
JSON body for every 404, 405 and the like. `serve` runs an application on a background thread for annotator and
descheduler: a few short requests a minute, and under gunicorn the loop that does the work would be in a forked worker.
The extender, for which kube-scheduler waits, runs its own under gunicorn. Nothing here knows what is checked or
measured: services pass that in.
"""

import contextlib
import json
import platform
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import flask
import prometheus_client
from prometheus_client import exposition
from werkzeug import exceptions

from runtime import connection_limits, health, http_exchange, http_limits, logs, loop, options, version
from runtime.health import Check

log = logs.get(__name__)

BODY_LIMIT_BYTES = 1 << 20
CONNECTION_LIMIT = 64  # each has a thread
Request = socket.socket | tuple[bytes, socket.socket]  # as typeshed has it


def ops_blueprint(
    *,
    livez: Sequence[Check],
    readyz: Sequence[Check],
    registry: prometheus_client.CollectorRegistry,
    configz: Callable[[], object],
) -> flask.Blueprint:
    """The common routes of docs/contract.md, processes.

    `configz` gives what is in force, as anything JSON can say (default=str).
    """
    blueprint = flask.Blueprint("ops", __name__)
    versions = {"version": version.VERSION, "python": platform.python_version()}
    blueprint.add_url_rule("/livez", "livez", _probing(livez))
    blueprint.add_url_rule("/healthz", "healthz", _probing(livez))
    blueprint.add_url_rule("/readyz", "readyz", _probing(readyz))
    blueprint.add_url_rule("/metrics", "metrics", lambda: _metrics(registry))
    blueprint.add_url_rule("/configz", "configz", lambda: json_response(configz()))
    blueprint.add_url_rule("/version", "version", lambda: json_response(versions))
    blueprint.app_errorhandler(exceptions.HTTPException)(_refused)
    return blueprint


def json_response(body: object, status: int = 200) -> flask.Response:
    """A JSON answer with its length, never streamed (Go clients drop connections on chunked replies)."""
    return flask.Response(json.dumps(body, default=str) + "\n", status=status, mimetype="application/json")


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A listening application, made by `serve`: a thread a connection, one request each; `app` is asked."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], app: flask.Flask) -> None:
        self._app, self._settings = app, http_exchange.settings()
        self._lock = threading.Lock()
        self._open: connection_limits.Open[http_limits.LimitedSocket] = connection_limits.Open(CONNECTION_LIMIT)
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, socketserver.BaseRequestHandler)
        self.port: int = self.server_address[1]

    def get_request(self) -> tuple[socket.socket, Any]:
        """The next connection, its times limited."""
        taken, client = super().get_request()
        return http_limits.LimitedSocket.of(taken, client[0]), client

    def verify_request(self, request: Request, client_address: Any) -> bool:
        """Take a connection in, in the place of another where there are too many; False where all others are being
        answered.
        """
        new = _connection(request)
        with self._lock:
            surplus = self._open.add(new)
            if surplus is not None:
                self._open.remove(surplus)
        if surplus is not None:
            log.debug("connection dropped", client=surplus.address)
            surplus.drop()
        return surplus is not new

    def process_request_thread(self, request: Request, client_address: Any) -> None:
        """In the thread, to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._open.remove(_connection(request))

    def finish_request(self, request: Request, client_address: Any) -> None:
        """The exchange itself."""
        http_exchange.answer(_connection(request), client_address, self._app.wsgi_app, self._settings)

    def shutdown_request(self, request: Request) -> None:
        """The end of the connection, after the last byte of the answer."""
        http_exchange.end(_connection(request))

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away or was too slow is not news."""
        log.debug("connection failed", client=str(client_address), error=repr(sys.exception()))


@contextlib.contextmanager
def serve(app: flask.Flask, listen: str, *, default_port: int) -> Iterator[Server]:
    """Serve `app` on "HOST:PORT" while the body runs; port 0 picks a free one (see `.port`).

    OSError names the address.
    """
    host, port = options.listen_address(listen, default_port)
    host = host or options.every_interface()
    app.config["MAX_CONTENT_LENGTH"] = app.config["MAX_CONTENT_LENGTH"] or BODY_LIMIT_BYTES
    try:
        server = Server((host, port), app)
    except OSError as error:
        raise OSError(error.errno, f"cannot listen on {listen}: {error.strerror}; choose another --listen") from error
    stop = threading.Event()
    thread = loop.start_thread("ops", lambda _stop: server.serve_forever(0.1), stop)
    log.info("listening", address=f"[{host}]:{server.port}" if ":" in host else f"{host}:{server.port}")
    try:
        yield server
    finally:
        stop.set()
        server.shutdown()
        server.server_close()  # requests being answered end on their own
        thread.join()


def _connection(request: Request) -> http_limits.LimitedSocket:
    assert isinstance(request, http_limits.LimitedSocket)  # noqa: S101 - made by get_request
    return request


def _probing(checks: Sequence[Check]) -> Callable[[], flask.Response]:
    def answer() -> flask.Response:
        excluded: Iterable[str] = flask.request.args.getlist("exclude")
        status, text = health.render(checks, verbose="verbose" in flask.request.args, exclude=set(excluded))
        return flask.Response(text, status=status, mimetype="text/plain")

    return answer


def _metrics(registry: prometheus_client.CollectorRegistry) -> flask.Response:
    encode, content_type = exposition.choose_encoder(flask.request.headers.get("Accept", ""))
    return flask.Response(encode(registry), content_type=content_type)


def _refused(error: exceptions.HTTPException) -> flask.Response:
    """404, 405, 413, 500 …: the status, its name and what was asked, as JSON; Allow and Retry-After stay."""
    original = error.get_response()
    body = {"code": original.status_code, "error": error.name, "path": flask.request.path, "message": error.description}
    answer = json_response(body, original.status_code)
    for name in ("Allow", "Retry-After"):
        if name in original.headers:
            answer.headers[name] = original.headers[name]
    return answer
