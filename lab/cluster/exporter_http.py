"""The exporter's HTTP side: one page for Prometheus, the true loads as JSON, and the controls tests use.

    GET  /metrics       node_exporter and cAdvisor series of all nodes
    GET  /nodes         what each node really uses now, its pods and controls (no measurement involved)
    GET  /healthz       "ok"
    POST /nodes/NAME    a Control as JSON; NAME `*` means every node there is; 200 with what is in force now
    POST /clock         {"trace_seconds": 0}: set the trace's clock

Controls change what every reader measures, so they are taken from the machine itself only. Used by `cluster.exporter`.
"""

import http.server
import ipaddress
import math
import threading
import urllib.parse
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from lab.cluster import exporter_fleet, exporter_text
from runtime import clock as clocks

MAX_BODY_BYTES = 64 * 1024
JSON, TEXT = "application/json", "text/plain; version=0.0.4; charset=utf-8"


class Answer(NamedTuple):
    """An answer of the exporter."""

    status: HTTPStatus
    content_type: str
    body: bytes


class ClockControl(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /clock."""

    trace_seconds: float = 0.0


class Exporter:
    """The fleet behind a lock: the watch thread changes it, scrapes and controls use it."""

    def __init__(self, fleet: exporter_fleet.Fleet, page: exporter_text.Page, clock: clocks.Clock) -> None:
        self._fleet, self._page, self._clock = fleet, page, clock
        self._lock = threading.Lock()

    def set_node(self, facts: exporter_fleet.NodeFacts) -> None:
        """A node appeared or changed."""
        with self._lock:
            self._fleet.set_node(facts, self._clock.now())

    def remove_node(self, name: str) -> None:
        """A node is gone."""
        with self._lock:
            self._fleet.remove_node(name)

    def place(self, facts: exporter_fleet.PodFacts) -> None:
        """A pod runs on a node."""
        with self._lock:
            self._fleet.place(facts, self._clock.now())

    def remove_pod(self, key: str) -> None:
        """A pod runs no longer."""
        with self._lock:
            self._fleet.remove_pod(key, self._clock.now())

    def answer_get(self, path: str) -> Answer:
        """Answers a GET."""
        if path == "/metrics":
            return Answer(HTTPStatus.OK, TEXT, self._page_text().encode())
        if path == "/nodes":
            return Answer(HTTPStatus.OK, JSON, msgspec.json.encode(self._truth()))
        if path in ("/healthz", "/livez", "/readyz"):
            return Answer(HTTPStatus.OK, TEXT, b"ok\n")
        return _refused(HTTPStatus.NOT_FOUND, f"{path} is not here; there are /metrics, /nodes and /healthz")

    def answer_post(self, path: str, body: bytes) -> Answer:
        """Answers a POST; a body that is not understood changes nothing."""
        try:
            if path == "/clock":
                return self._set_clock(msgspec.json.decode(body or b"{}", type=ClockControl))
            if path.startswith("/nodes/") and len(path) > len("/nodes/"):
                name = urllib.parse.unquote(path.removeprefix("/nodes/"))
                return self._set_control(name, msgspec.json.decode(body or b"{}", type=exporter_fleet.Control))
        except (msgspec.DecodeError, UnicodeError) as error:
            return _refused(HTTPStatus.BAD_REQUEST, f"POST {path}: {error}")
        return _refused(HTTPStatus.NOT_FOUND, f"POST {path} is not here; there are /nodes/NAME and /clock")

    def _page_text(self) -> str:
        with self._lock:
            self._fleet.advance(self._clock.now())
            return exporter_text.render(self._fleet, self._page)

    def _truth(self) -> dict[str, object]:
        with self._lock:
            self._fleet.advance(self._clock.now())
            return {node.facts.name: _node_truth(node) for node in self._fleet.nodes()}

    def _set_clock(self, control: ClockControl) -> Answer:
        with self._lock:
            self._fleet.restart_clock(control.trace_seconds, self._clock.now())
        return Answer(HTTPStatus.OK, JSON, msgspec.json.encode(control))

    def _set_control(self, name: str, control: exporter_fleet.Control) -> Answer:
        if problem := control_problem(control):
            return _refused(HTTPStatus.BAD_REQUEST, f"POST /nodes/{name}: {problem}")
        with self._lock:
            names = [node.facts.name for node in self._fleet.nodes()] if name == "*" else [name]
            now_seconds = self._clock.now()
            in_force = {each: self._fleet.control(each, control, now_seconds) for each in names}
        return Answer(HTTPStatus.OK, JSON, msgspec.json.encode(in_force))


def control_problem(control: exporter_fleet.Control) -> str | None:
    """Returns the problem of a control, or None."""
    for name in ("cpu_ratio", "memory_ratio"):
        value = getattr(control, name)
        if isinstance(value, float | int) and not 0 <= value < math.inf:
            return f"{name} is {value}, expected a share of the node's capacity such as 0.9"
    if isinstance(control.garbage, str) and control.garbage not in exporter_text.GARBAGE:
        return f'garbage is "{control.garbage}", expected one of {", ".join(exporter_text.GARBAGE)}, or null'
    return None


def _node_truth(node: exporter_fleet.NodeState) -> dict[str, object]:
    return {
        "cpu_ratio": round(node.cpu_ratio, 6),
        "memory_ratio": round(node.memory_ratio, 6),
        "control": node.control,
        "pods": {key: pod.now for key, pod in sorted(node.pods.items())},
    }


def _refused(status: HTTPStatus, message: str) -> Answer:
    return Answer(status, JSON, msgspec.json.encode({"error": message}))


class _Handler(http.server.BaseHTTPRequestHandler):
    """Wire only: reads a body of decent size, asks the exporter, writes the answer with its length."""

    protocol_version = "HTTP/1.1"
    exporter: Exporter

    def do_GET(self) -> None:
        self._send(self.exporter.answer_get(urllib.parse.urlsplit(self.path).path))

    def do_POST(self) -> None:
        if not ipaddress.ip_address(self.client_address[0].partition("%")[0]).is_loopback:
            self.close_connection = True
            self._send(_refused(HTTPStatus.FORBIDDEN, "controls are taken from this machine only"))
            return
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            self._send(
                _refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MAX_BODY_BYTES} bytes, with Content-Length")
            )
            return
        body = self.rfile.read(int(length))
        self._send(self.exporter.answer_post(urllib.parse.urlsplit(self.path).path, body))

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: a scrape a second is no news."""

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)


class Server(http.server.ThreadingHTTPServer):
    """A listening exporter; `serve_forever` in a thread, `shutdown` and `server_close` to end it."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], exporter: Exporter) -> None:
        super().__init__(address, type("Handler", (_Handler,), {"exporter": exporter}))
