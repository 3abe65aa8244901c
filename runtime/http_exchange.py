"""One HTTP exchange on a connection: gunicorn's parser reads the request, a WSGI application answers it.

`ops_server` serves annotator and descheduler with `answer`; the extender's gunicorn takes `LIMITS` and `readable` from
here, so that all ports read the same requests and refuse the same ones. What might be understood in two ways is refused
and the connection ended, as RFC 9112 asks: two lengths, a length beside chunks, folded lines, bare line feeds. This is
the only module beside the extender's serving ones that knows gunicorn.
"""

import collections.abc
import http
import io
import json
import socket
from typing import Any, Final
from wsgiref import types as wsgi

from gunicorn import config
from gunicorn import http as parsing
from gunicorn import util as closing
from gunicorn.http import errors
from gunicorn.http import wsgi as writing

from runtime import logs

log = logs.get(__name__)

# No proxy in front is trusted: `X-Forwarded-*` and the like are anybody's, from this machine, too.
LIMITS: Final[dict[str, object]] = {
    "limit_request_line": 4094,
    "limit_request_fields": 64,
    "limit_request_field_size": 8190,
    "forwarded_allow_ips": "",
    "http_parser": "python",  # the same reader everywhere, whatever else is installed
}
_STATUSES: Final[dict[type[Exception], int]] = {
    errors.LimitRequestLine: 414,
    errors.LimitRequestHeaders: 431,
    errors.ExpectationFailed: 417,
    errors.UnsupportedTransferCoding: 501,
}
LINGER_SECONDS: Final = 2.0


class Unreadable(ValueError):
    """A body that breaks HTTP's own rules; Flask answers a ValueError from reading with 400."""


class Body:
    """A request's body, as Werkzeug reads it, whose broken chunks are `Unreadable` and not gunicorn's errors."""

    def __init__(self, body: Any) -> None:
        self._body = body

    def read(self, size: int | None = None) -> bytes:
        """So many bytes, or those until the end."""
        try:
            content: bytes = self._body.read(size)
        except errors.ParseException as error:
            raise Unreadable(str(error)) from error
        return content


def settings() -> Any:
    """gunicorn's configuration with LIMITS, for `answer`."""
    configuration = config.Config()
    for name, value in LIMITS.items():
        configuration.set(name, value)
    return configuration


def readable(application: wsgi.WSGIApplication) -> wsgi.WSGIApplication:
    """The application, for which a body in broken chunks or shorter than its length fails where it is read.

    A body goes with its answer: the traceback of a refused request (a 404, a 405) refers to the request itself, which
    stays until the garbage is collected.
    """

    def answer(environ: wsgi.WSGIEnvironment, start_response: wsgi.StartResponse) -> collections.abc.Iterable[bytes]:
        if "CONTENT_LENGTH" in environ:
            environ.pop("wsgi.input_terminated", None)  # else Werkzeug takes half a body for a whole one
        elif "HTTP_TRANSFER_ENCODING" in environ:
            environ["wsgi.input"] = Body(environ["wsgi.input"])
        try:
            return application(environ, start_response)
        finally:
            environ["wsgi.input"] = io.BytesIO()

    return answer


def answer(connection: socket.socket, client: tuple[Any, ...], application: wsgi.WSGIApplication, chosen: Any) -> None:
    """Read one request, answer it and say that the connection ends: what follows it is never read as another one.

    `chosen` is made by `settings`. Nothing is answered to a client that goes away in the middle. Errors: OSError of
    the socket.
    """
    try:
        request = next(parsing.get_parser(chosen, connection, client))
    except (StopIteration, errors.NoMoreData):
        return
    except errors.ParseException as error:
        connection.sendall(refusal(client, error) or b"")
        return
    request.force_close()
    response, environ = writing.create(request, connection, client, connection.getsockname(), chosen)
    environ["wsgi.multithread"] = True
    result = readable(application)(environ, response.start_response)
    try:
        for piece in result:
            response.write(piece)
        response.close()
    finally:
        close: collections.abc.Callable[[], None] | None = getattr(result, "close", None)
        if close is not None:
            close()


def end(connection: socket.socket) -> None:
    """Close a connection so that the last answer arrives, though the client may still be sending."""
    closing.close_graceful(connection, timeout=LINGER_SECONDS)


def refusal(client: tuple[Any, ...], error: BaseException) -> bytes | None:
    """The answer to a request that cannot be read, after which the connection must end; None for any other error.

    The log names the kind of mistake only: the text of it may be half of a client's Authorization.
    """
    if not isinstance(error, errors.ParseException):
        return None
    log.debug("request refused", client=client[0], reason=type(error).__name__)
    status = http.HTTPStatus(next((code for kind, code in _STATUSES.items() if isinstance(error, kind)), 400))
    body = json.dumps({"code": status.value, "error": status.phrase, "message": str(error)}).encode() + b"\n"
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nConnection: close\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
