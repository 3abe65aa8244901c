"""The real Prometheus door: prometheus-api-client for session, retries and encoding, every answer checked here.

Made by `connect` in each service's wiring and used through `promql.door.PrometheusDoor`. The library (0.7.2) drops
`warnings`, has no time limit of its own, fixes headers at construction, rounds range ends to whole seconds and leaks
four families of exceptions; so a response hook keeps each raw body, `promql.http.json_decoding` decodes it, the limit
is always set and every failure becomes one of `promql.errors`. Works against anything that speaks the query API
(Thanos, Mimir, VictoriaMetrics), also below a path prefix. Nothing is sent before the first query.
"""

import functools
import math
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import requests
from prometheus_api_client import exceptions as library_errors
from prometheus_api_client import prometheus_connect
from urllib3.util import retry

from promql import door, errors
from promql.http import DEFAULT_TIMEOUT_SECONDS, credentials, json_decoding, proxied_transport, response_limits
from runtime import clock as clocks

_LIBRARY_COMPLAINTS = (library_errors.PrometheusApiClientException, ValueError, KeyError, TypeError)
_UNAVAILABLE = (408, 425, 429)
LONGEST_IN_ADDRESS_CHARACTERS = 2000
MOST_SAID = 300  # characters of a server's own words about a partial answer: Thanos names every store that is down
# What the library is left to decode in place of an answer: of 100,000 series it would make 83 MB of unused objects.
# The attribute has no setter; requests' own test transports write it, too.
_NOTHING = b'{"status":"success","data":{"result":[]}}'
T = TypeVar("T")
# The library would ask three times more with pauses between, and log each. The caller's next cycle is the retry: until
# then the last good values stand, and a server in trouble is not asked more often than a healthy one.
_NO_RETRY = retry.Retry(total=0, read=False)


class _Reply(threading.local):
    """The last raw reply of this thread, and how large it may be; a client may be asked from several threads."""

    status: int = 0
    body: bytes | None = None
    most_bytes: float = math.inf


class Traffic:
    """Traffic with the server since the start: whole queries, and bytes of bodies as decoded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.queries = 0
        self.received_bytes = 0
        self.partial_answers = 0

    def count(self, *, queries: int = 0, received_bytes: int = 0, partial_answers: int = 0) -> None:
        """Count a query before it is sent, a body, or an answer of which the server says that it is not whole."""
        with self._lock:
            self.queries += queries
            self.received_bytes += received_bytes
            self.partial_answers += partial_answers


@dataclass(frozen=True, slots=True)
class Client:
    """A PrometheusDoor over HTTP; `name` is the address for messages, without credentials."""

    name: str
    timeout_seconds: float
    traffic: Traffic
    _library: prometheus_connect.PrometheusConnect
    _reply: _Reply

    def query(self, expression: str, *, at_seconds: float | None = None) -> door.Answer:
        """Instant query; see the door. `at_seconds` None lets the server take its own now."""
        params = self._limit() | ({} if at_seconds is None else {"time": f"{at_seconds:.3f}"})
        ask = lambda: self._library.custom_query(expression, params=params)  # noqa: E731
        body = self._ask(ask, expression, most_bytes=response_limits.LARGEST_VECTOR_BYTES)
        return self._decoded(json_decoding.vector, body, expression)

    def measure(self, expression: str) -> door.MeasuredAnswer:
        """Instant query with what it cost the server, for diagnosis; no service asks it, so it is not of the door."""
        params = self._limit() | {"stats": "all"}
        body = self._ask(lambda: self._library.custom_query(expression, params=params), expression)
        return self._decoded(json_decoding.measured, body, expression)

    def query_range(
        self, expression: str, *, start_seconds: float, end_seconds: float, step_seconds: float
    ) -> door.RangeAnswer:
        """Range query; see the door. The exact ends go as parameters because the library rounds its own."""
        params = self._limit() | {"start": f"{start_seconds:.3f}", "end": f"{end_seconds:.3f}"}
        start, end = (datetime.fromtimestamp(seconds, UTC) for seconds in (start_seconds, end_seconds))
        step = f"{step_seconds:g}"
        body = self._ask(
            lambda: self._library.custom_query_range(expression, start, end, step, params=params), expression
        )
        return self._decoded(json_decoding.matrix, body, expression)

    def close(self) -> None:
        """Give the kept connections back."""
        self._library.close()

    def _limit(self) -> dict[str, str]:
        # The server's own limit: without it a query that was given up goes on costing the server.
        return {"timeout": f"{self.timeout_seconds:g}s"}

    def _ask(self, call: Callable[[], object], expression: str, *, most_bytes: float = math.inf) -> bytes:
        self._reply.body, self._reply.status, self._reply.most_bytes = None, 0, most_bytes
        self.traffic.count(queries=1)
        try:
            call()
        except (*_LIBRARY_COMPLAINTS, requests.RequestException, OSError) as problem:
            if self._reply.body is None:
                self._no_reply(problem, expression)
            if self._reply.status != 200:
                self._bad_status(expression, problem)
        if self._reply.body is None:
            raise errors.Garbage(f"{self.name} answered with a redirect that leads nowhere; check --prometheus")
        body, self._reply.body = self._reply.body, None
        return body

    def _decoded(self, decode: Callable[[bytes], T], body: bytes, expression: str) -> T:
        try:
            return decode(body)
        except errors.Partial as problem:
            self.traffic.count(partial_answers=1)
            words = str(problem) if len(str(problem)) <= MOST_SAID else f"{str(problem)[:MOST_SAID]}…"
            raise errors.Partial(
                f"{self.name} has only a part of the answer to {_short(expression)}: {words}; look at the stores "
                "behind it that do not answer",
                answer=problem.answer,
                reasons=problem.reasons,
            ) from problem
        except (errors.Garbage, ValueError) as problem:
            raise errors.Garbage(
                f"{self.name} gave no query API answer to {_short(expression)}: {problem}; "
                "check the query, and that --prometheus is the query API with its path prefix, not a login page"
            ) from problem

    def _no_reply(self, problem: Exception, expression: str) -> NoReturn:
        if isinstance(problem, requests.exceptions.InvalidURL):  # the proxy's, whose text quotes it with its password
            raise errors.Unreachable(
                f"{self.name} cannot be asked: the proxy is not http://[USER:PASSWORD@]HOST:PORT; check $HTTP_PROXY"
            ) from None
        if isinstance(problem, requests.exceptions.SSLError):
            raise errors.Unreachable(
                f"{self.name}: TLS failed ({_reason(problem)}); check the CA file and the host name"
            )
        if isinstance(problem, response_limits.TooLarge):
            raise errors.Garbage(
                f"{self.name} answered more than can be read ({problem}) to {_short(expression)}; expected one series "
                "per node or pod: check the metric's query in the policy"
            ) from problem
        if isinstance(problem, response_limits.TooSlow):
            raise errors.Unreachable(
                f"{self.name} was not done with its answer in time ({problem}); check its load and the network "
                "between, or raise the time limit"
            ) from problem
        if isinstance(problem, requests.Timeout):
            raise errors.Unreachable(
                f"{self.name} did not answer within {self.timeout_seconds:g} s; check its load, or raise the time limit"
            ) from problem
        if isinstance(problem, requests.exceptions.ChunkedEncodingError | requests.exceptions.ContentDecodingError):
            raise errors.Garbage(
                f"{self.name} broke its answer off ({_reason(problem)}); check the proxy between"
            ) from problem
        raise errors.Unreachable(
            f"{self.name} cannot be reached ({_reason(problem)}); check --prometheus, the Service and network policies"
        ) from problem

    def _bad_status(self, expression: str, problem: Exception) -> NoReturn:
        status = self._reply.status
        reason = json_decoding.server_error(self._reply.body or b"")
        text = f"{self.name} answered {status} to {_short(expression)}: {reason}"
        if status in (401, 403):
            raise errors.Refused(f"{text}; check the token or password file and what it may query") from problem
        if status in _UNAVAILABLE or status >= 500:
            raise errors.Unavailable(f"{text}; look at the server's own log and load") from problem
        if status in (400, 404, 405, 422):
            raise errors.BadQuery(f"{text}; check the metric's query in the policy and the path prefix") from problem
        raise errors.Garbage(f"{text}; expected 200") from problem


def connect(
    url: str,
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    token_file: Path | None = None,
    username: str | None = None,
    password_file: Path | None = None,
    ca_file: Path | None = None,
    certificate_file: Path | None = None,
    key_file: Path | None = None,
    headers: Mapping[str, str] | None = None,
    fetch: proxied_transport.Fetch | None = None,
    clock: clocks.Clock | None = None,
) -> Client:
    """A client for `url` (scheme, host, optional path prefix; user:password@ is read as basic authentication).

    With `fetch`, requests go through it and the address is only a name. Raises ConfigError for an address or a file
    that cannot be used. Sends nothing.
    """
    bare, name, url_login = _address(url)
    session = requests.Session() if fetch is not None else _Session()
    session.verify = credentials.readable(ca_file, "CA file") or True
    certificate = credentials.readable(certificate_file, "client certificate")
    key = credentials.readable(key_file, "client key")
    session.cert = (certificate, key) if certificate and key else certificate
    reply, traffic = _Reply(), Traffic()
    ticking = clock or clocks.WallClock()
    reading = functools.partial(response_limits.read, seconds=timeout_seconds, monotonic=ticking.monotonic)
    session.hooks["response"].append(_keeper(reply, traffic, reading))
    session.auth = credentials.login(url_login, token_file=token_file, username=username, password_file=password_file)
    library = prometheus_connect.PrometheusConnect(
        bare, headers=dict(headers or {}), retry=_NO_RETRY, session=session, timeout=timeout_seconds, auth=session.auth
    )
    if fetch is not None:
        # After the library, which mounts its own for the same address.
        session.mount(bare, proxied_transport.Adapter(fetch))
    return Client(name, timeout_seconds, traffic, library, reply)


class _Session(requests.Session):
    """Sends a long query as a form: proxies accept request lines of 4 to 8 KiB only.

    Short ones stay GET, which read-only rights and caches on the way allow.
    """

    def request(self, method: str | bytes, url: str | bytes, **options: Any) -> requests.Response:  # type: ignore[override]
        """As the library's; `params` become the body of a POST if the query is long."""
        if len((options.get("params") or {}).get("query", "")) > LONGEST_IN_ADDRESS_CHARACTERS:
            return super().request("POST", url, data=options.pop("params"), **options)
        return super().request(method, url, **options)


def _keeper(reply: _Reply, traffic: Traffic, read: Callable[..., bytes]) -> Callable[..., None]:
    def keep(response: requests.Response, *_: object, **__: object) -> None:
        if response.raw is not None:  # else the transport fetched it, whole
            response._content = read(response, most_bytes=reply.most_bytes)
        traffic.count(received_bytes=len(response.content))
        if not response.is_redirect:
            reply.status, reply.body = response.status_code, response.content
            if response.status_code == 200:
                response._content = _NOTHING

    return keep


def _address(url: str) -> tuple[str, str, tuple[str, str] | None]:
    try:
        parts = urllib.parse.urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:  # its text quotes what stands where a port should, such as half a password
        raise errors.ConfigError(
            f"Prometheus address cannot be read; {_EXPECTED}; percent-encode signs such as : / # ? @ in a password"
        ) from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        text = f"{parts.scheme}://{host}{parts.path}" if host else url.rsplit("@", 1)[-1]
        raise errors.ConfigError(f"Prometheus address {text!r} is not usable; {_EXPECTED}")
    netloc = (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
    bare = urllib.parse.urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", ""))
    login = None
    if parts.username is not None:
        login = urllib.parse.unquote(parts.username), urllib.parse.unquote(parts.password or "")
    return bare, f"Prometheus at {bare}", login


_EXPECTED = "expected http(s)://HOST[:PORT][/PREFIX], for example http://prometheus-operated.monitoring:9090"


def _short(expression: str) -> str:
    text = " ".join(expression.split())
    return f"`{text[:100]}…`" if len(text) > 100 else f"`{text}`"


def _reason(problem: BaseException) -> str:
    """The innermost cause in one line: requests wraps three layers of repr around 'Connection refused'."""
    inner = problem
    while (deeper := inner.__cause__ or inner.__context__) is not None:
        inner = deeper
    return " ".join(str(inner).split())[:160] or type(inner).__name__
