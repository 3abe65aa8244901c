"""A Prometheus that only repeats prepared answers: what it takes to ask and to read them, without the time of a query.

`bench.descheduler` puts it where the services expect Prometheus. An unprepared expression is answered with no
series, as Prometheus does; how often that happened is counted, because a bench of empty answers would measure nothing.
"""

import collections.abc
import contextlib
import http.server
import threading
import typing
import urllib.parse

import msgspec

from promql.queries import pod_queries

Series = collections.abc.Iterable[tuple[collections.abc.Mapping[str, str], float]]


class Answers(typing.Protocol):
    """Response bodies by the expression that is asked for."""

    def body(self, expression: str) -> bytes:
        """Returns the response body of an expression."""


class StoredAnswers:
    """Answers by expression, encoded once (those about some pods when they are first asked for); `unknown` counts the
    queries that had none.
    """

    def __init__(self, at_seconds: float) -> None:
        self._at_seconds = at_seconds
        self._bodies: dict[str, bytes] = {}
        self._by_pod: dict[str, dict[str, tuple[collections.abc.Mapping[str, str], float]]] = {}
        self._empty = self._encoded(())
        self.unknown = 0

    def answer(self, expression: str, series: Series) -> None:
        """Prepare the vector of an expression."""
        entries = list(series)
        if entries and "pod" in entries[0][0]:
            self._by_pod[expression] = {entry[0]["pod"]: entry for entry in entries}
        self._bodies[expression] = self._encoded(entries)

    def body(self, expression: str) -> bytes:
        """Returns the response body of an expression, or of one that names some of a prepared expression's pods."""
        body = self._bodies.get(expression)
        if body is None:
            question = pod_queries.named(expression)
            by_pod = self._by_pod.get(question.expression)
            if by_pod is not None and question.names is not None:
                body = self._encoded([by_pod[name] for name in question.names if name in by_pod])
                self._bodies[expression] = body
        self.unknown += body is None
        return self._empty if body is None else body

    def _encoded(self, series: Series) -> bytes:
        result = [{"metric": labels, "value": [self._at_seconds, f"{value:.6f}"]} for labels, value in series]
        data = {"resultType": "vector", "result": result}
        return msgspec.json.encode({"status": "success", "data": data})


@contextlib.contextmanager
def serving(prepared: Answers) -> collections.abc.Iterator[str]:
    """The URL at which the answers are given while the body runs."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        disable_nagle_algorithm = True  # what follows a first packet waits 40 ms for the other side's acknowledgement

        def do_GET(self) -> None:
            self._reply(urllib.parse.urlsplit(self.path).query)

        def do_POST(self) -> None:
            self._reply(self.rfile.read(int(self.headers["Content-Length"])).decode())

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: one line per query would drown the table."""

        def _reply(self, form: str) -> None:
            body = prepared.body(urllib.parse.parse_qs(form).get("query", [""])[0])
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
