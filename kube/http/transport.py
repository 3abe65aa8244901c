"""HTTP to the apiserver through the official client: authentication, TLS, proxies and pooling are its work.

`kube.http.client` sends its requests here and gets back bytes or a stream; this module turns everything that urllib3,
ssl and the kubernetes package raise into `kube.errors`. It is the only module that imports the kubernetes package's
client (half a second and 48 MiB, whichever part is asked for), so `kube.config` imports it only when it connects.

Repeats by rule, with the package's own client-go retry: a read (GET) is sent again once after a broken connection, and
up to three times after a 429 or 5xx that carries a Retry-After of at most ten seconds. A write is never repeated here:
after a broken connection it is unknown whether it took place.
"""

import contextlib
import functools
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

import urllib3
from kubernetes.client import api_client, configuration, exceptions, rest
from kubernetes.utils import retry

from kube import errors
from kube.http import decoding
from kube.http.request import Request
from runtime import clock as clocks
from runtime import version

T = TypeVar("T")

CONNECT_SECONDS = 5.0
HEADER_SECONDS = 10.0  # a watch's headers come at once
BODY_TIMEOUTS = 6  # a body may take so many read timeouts in all: a peer that trickles must not hold a thread for ever
PIECE_BYTES = 1 << 16
POOL_SIZE = 32  # parallel patches of a sync, watches and leases together
READ_ATTEMPTS = 4
RETRY_AFTER_LIMIT_SECONDS = 10.0  # a longer wish is passed on: the caller has its own schedule
_POOL: Final = re.compile(r"HTTPS?Connection(Pool)?\(.*?\): (Failed to establish a new connection: )?")
_UNCONNECTED: Final = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
AUTHENTICATION = ["BearerToken"]  # without the name the client sends no token at all (as 36.0.0 did)


class Transport:
    """Requests to one apiserver. Thread-safe; opens its first connection at the first request."""

    def __init__(self, settings: "configuration.Configuration", *, clock: clocks.Clock, impersonate: str = "") -> None:
        settings.connection_pool_maxsize = POOL_SIZE
        settings.keep_alive = True
        settings.retries = False  # of urllib3, which are hidden; nor redirects
        self._api = api_client.ApiClient(settings)
        self._api.user_agent = f"evenload/{version.VERSION}"
        if impersonate:
            self._api.set_default_header("Impersonate-User", impersonate)
        self._clock = clock
        self._closed = threading.Event()
        self.url: str = settings.host

    def close(self) -> None:
        """Close pooled connections and end waiting repeats."""
        self._closed.set()
        pools = self._api.rest_client.pool_manager.pools
        for key in pools.keys():  # noqa: SIM118 - a RecentlyUsedContainer refuses to be iterated
            pools[key].close()  # clearing alone leaves the sockets to the garbage collector
        self._api.close()

    def name(self, request: Request) -> str:
        """The request as errors name it: method and whole URL, without the query."""
        return f"{request.method} {self.url}{request.path}"

    def send(self, request: Request) -> bytes:
        """The body of a 2xx answer; anything else raises. Reads are repeated by the rule above."""
        return self.take(request, b"".join)

    def take(self, request: Request, make: Callable[[Iterable[bytes]], T]) -> T:
        """Passes the pieces of a 2xx answer's body to `make` as they arrive and returns its result; otherwise like
        `send`.

        Where a read is repeated `make` begins again.
        """
        if request.method != "GET":
            return self._take_once(request, make)
        broken = 0

        def again(error: Exception) -> bool:
            nonlocal broken
            broken += isinstance(error, errors.Unreachable)
            return _is_worth_repeating(error) if isinstance(error, errors.ApiError) else broken == 1

        backoff = retry.Backoff(steps=READ_ATTEMPTS, duration=0.1, factor=2.0, jitter=0.5)
        sleep = functools.partial(self._clock.wait, self._closed)
        taken: T = retry.on_retry_after_error(backoff, again, lambda: self._take_once(request, make), sleep)
        return taken

    def open(self, request: Request) -> "Stream":
        """Start a streamed answer (a watch); raises as `send` does when it is not 2xx."""
        return self._accepted(request, seconds_for_headers=HEADER_SECONDS)

    def _take_once(self, request: Request, make: Callable[[Iterable[bytes]], T]) -> T:
        deadline = self._clock.monotonic() + BODY_TIMEOUTS * request.read_seconds
        stream = self._accepted(request, seconds_for_headers=request.read_seconds)
        with contextlib.closing(stream):
            return make(self._in_time(request, stream, deadline))

    def _in_time(self, request: Request, stream: "Stream", deadline: float) -> Iterator[bytes]:
        size_bytes = 0
        for piece in stream:
            size_bytes += len(piece)
            if self._clock.monotonic() > deadline:
                raise errors.Unreachable(f"{self.name(request)}: the answer came too slowly: {size_bytes} bytes so far")
            yield piece

    def _accepted(self, request: Request, *, seconds_for_headers: float) -> "Stream":
        deadline = self._clock.monotonic() + BODY_TIMEOUTS * seconds_for_headers  # of a refusal's body
        response = self._ask(request, seconds_for_headers)
        stream = Stream(self.name(request), response)
        if 200 <= response.status < 300:
            _set_read_timeout(response, request.read_seconds)
            return stream
        body = b"".join(self._in_time(request, stream, deadline))
        raise decoding.failure(self.name(request), response.status, response.headers, body)

    def _ask(self, request: Request, seconds_for_headers: float) -> "urllib3.BaseHTTPResponse":
        try:
            prepared_request = self._api.param_serialize(
                request.method,
                request.path,
                query_params=list(request.query),
                header_params={
                    "Accept": request.accept,
                    "Accept-Encoding": "gzip" if request.compressed else "identity",
                    "Content-Type": request.content_type,
                },
                body=None if request.body is None else dict(request.body),
                auth_settings=AUTHENTICATION,
            )
            answer: rest.RESTResponse = self._sent(prepared_request, seconds_for_headers)
        except (urllib3.exceptions.HTTPError, exceptions.OpenApiException, OSError) as error:
            raise errors.Unreachable(f"{self.name(request)}: {_cause(error)}{_next_step(error)}") from error
        response: urllib3.BaseHTTPResponse = answer.response
        return response

    def _sent(self, prepared_request: tuple[Any, ...], seconds_for_headers: float) -> "rest.RESTResponse":
        """ConfigError, and not a ValueError that quotes it, for a token that cannot stand in a header."""
        try:
            return self._api.call_api(*prepared_request, _request_timeout=(CONNECT_SECONDS, seconds_for_headers))
        except urllib3.exceptions.HTTPError:
            raise
        except ValueError:
            raise errors.ConfigError(
                f"{self.url}: the credentials cannot be sent: expected a token of one line, in ASCII; check the token "
                "of the kubeconfig's user, the file it names, or what its plugin prints"
            ) from None


class Stream:
    """The bytes of an answer as they arrive. `close` may be called from another thread and wakes a blocked reader."""

    def __init__(self, name: str, response: "urllib3.BaseHTTPResponse") -> None:
        self._name = name
        self._response = response
        self._lock = threading.Lock()
        self._reading = threading.Lock()  # held while blocked on the socket
        self._done = False  # read to the end: the connection is back in the pool
        self.closed = False

    def header(self, name: str) -> str:
        """A header of the answer, "" when it was not sent."""
        return str(self._response.headers.get(name, ""))

    def __iter__(self) -> Iterator[bytes]:
        """Pieces until the end of the body.

        Unreachable when it breaks off, or when nothing comes for the read timeout.
        """
        try:
            while piece := self._read():
                yield piece
            with self._lock:
                self._done = not self.closed
        finally:
            if not self._done:
                self._response.close()

    def close(self) -> None:
        """End reading: quietly for the reader. The connection is dropped unless the body was read to its end."""
        with self._lock:
            if self.closed or self._done:
                return
            self.closed = True
        if self._reading.acquire(blocking=False):
            self._response.close()
            self._reading.release()
            return
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # already gone: nothing is blocked on it
            self._response.shutdown()  # wakes the reader blocked in recv; close() would wait for it

    def _read(self) -> bytes:
        with self._reading:
            try:
                piece = b"" if self.closed else self._response.read1(PIECE_BYTES)
            except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as error:
                if self.closed:
                    return b""
                raise errors.Unreachable(f"{self._name}: the answer broke off: {_cause(error)}") from error
            return b"" if self.closed else piece or b""


def _set_read_timeout(response: "urllib3.BaseHTTPResponse", seconds: float) -> None:
    """Headers came in their own time.

    From here on the silence between two pieces counts (a watch may be quiet longer).
    """
    sock = getattr(response.connection, "sock", None)
    if sock is None:  # "Connection: close": http.client has let go of the socket, the response still reads from it
        sock = getattr(getattr(getattr(getattr(response, "_fp", None), "fp", None), "raw", None), "_sock", None)
    if sock is not None:
        sock.settimeout(seconds)


def _is_worth_repeating(error: errors.ApiError) -> bool:
    wish = error.retry_after_seconds
    return (
        isinstance(error, errors.TooManyRequests | errors.ServerError)
        and wish is not None
        and wish <= RETRY_AFTER_LIMIT_SECONDS
    )


def _innermost(error: BaseException) -> BaseException:
    while isinstance(getattr(error, "reason", None), BaseException):
        error = error.reason  # type: ignore[attr-defined]
    return error


def _cause(error: BaseException) -> str:
    """The innermost reason in a few words: urllib3 wraps it in text about pools."""
    inner = _innermost(error)
    text = str(getattr(inner, "reason", None) or inner) or type(inner).__name__
    return _POOL.sub("", " ".join(text.split(">: ")[-1].split()))


def _next_step(error: BaseException) -> str:
    """For an address at which nothing answers."""
    if not isinstance(_innermost(error), _UNCONNECTED):
        return ""
    return "; is this the apiserver's address (--kubeconfig, --context), and does it run?"
