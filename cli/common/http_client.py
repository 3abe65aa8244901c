"""Asks a service over HTTP: a reader of the extender's, annotator's or descheduler's base URL.

`cli.common.services` uses it where a URL is given. What keeps an answer away is `Unreachable`, with the URL and the
next step; a refusal is `Refused`, in the service's own words.
"""

import collections.abc
import dataclasses
import http.client
import ipaddress
import json
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import ClassVar, Final, NamedTuple, TypeVar

import msgspec

from console.sources import SourceError
from runtime.exit_codes import Exit

TIMEOUT_SECONDS: Final = 15.0
_WITHOUT_A_USER: Final = re.compile(r"([a-z+]+://)?[^:@/]*(:[0-9]+)?(/[^@]*)?")
_NOT_SHOWN: Final = "(not shown, it may hold a password)"
_WHICH: Final = "its address, or that of the proxy in $HTTP_PROXY, cannot be read"
_LIMIT_BYTES: Final = 256 * 2**20  # 5,000 nodes explained are some 10 MB

T = TypeVar("T")
Json = collections.abc.Mapping[str, object]


class Names(NamedTuple):
    """The names of a service: in errors ("an extender"), as an option ("--extender"), and its usual port."""

    service: str
    article: str
    port: int

    @property
    def in_cluster(self) -> str:
        """The name of its Service in Kubernetes."""
        return f"evenload-{self.service}"

    @property
    def option(self) -> str:
        """The option that gives its URL."""
        return f"--{self.service}"

    @property
    def next_step(self) -> str:
        """Returns the next step when no service answers."""
        return (
            f"is the {self.service} running and is this its URL? From outside the cluster: kubectl -n evenload-system "
            f"port-forward service/evenload-{self.service} {self.port}, and {self.option} http://127.0.0.1:{self.port}"
        )


EXTENDER: Final = Names("extender", "an", 8900)


class HttpError(SourceError):
    """Anything this reader raises."""


class BadUrl(HttpError):
    """The URL or a certificate file cannot be used."""


class Unreachable(HttpError):
    """No answer, or one of a foreign service."""

    exit_code: ClassVar = Exit.UNREACHABLE


class Foreign(Unreachable):
    """An answer that no service of Evenload gives."""


class Refused(HttpError):
    """The service read the request and said no."""


@dataclasses.dataclass(frozen=True, slots=True)
class Service:
    """Where a service listens and how to show ourselves to it; nothing is opened before `get` or `post`."""

    url: str = "http://127.0.0.1:8900"
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    names: Names = EXTENDER

    @property
    def name(self) -> str:
        """The URL."""
        return self.url

    def checked(self) -> "Service":
        """The service itself, whose URL and files can be used. Raises BadUrl."""
        base_url(self.url, self.names)
        self._opener()
        return self

    def get(self, path: str, **query: str) -> bytes:
        """The body that GET answers with 200."""
        parameters = urllib.parse.urlencode({key: value for key, value in query.items() if value})
        return self._send(f"{path}?{parameters}" if parameters else path, None)

    def post(self, path: str, body: Json) -> bytes:
        """The body that POST of JSON answers with 200."""
        return self._send(path, msgspec.json.encode(body))

    def decode(self, body: bytes, kind: type[T]) -> T:
        """An answer as a struct; a page of something else is as good as no answer."""
        try:
            return decoded(body, kind, self.url, self.names)
        except Foreign as error:
            raise Foreign(f"{error}; {self.names.next_step}") from error

    def _send(self, path: str, body: bytes | None) -> bytes:
        url = f"{base_url(self.url, self.names)}{path}"
        headers = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if body is not None else {})
        request = urllib.request.Request(url, data=body, headers=headers)  # noqa: S310 - base_url admits http(s) only
        try:
            with self._opener().open(request, timeout=TIMEOUT_SECONDS) as answer:
                return bytes(answer.read(_LIMIT_BYTES))
        except urllib.error.HTTPError as error:
            raise self._refusal(url, error) from error
        except (OSError, http.client.HTTPException) as error:
            reason = _WHICH if isinstance(error, http.client.InvalidURL) else getattr(error, "reason", None) or error
            raise Unreachable(f"{url} gives no answer: {reason}; {self.names.next_step}") from error

    def _opener(self) -> urllib.request.OpenerDirector:
        host = urllib.parse.urlsplit(self.url).hostname or ""
        # As kubectl and curl do, a proxy is never asked for this machine; elsewhere the environment says which.
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({} if is_loopback(host) else None)]
        if self.url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=self._context()))
        return urllib.request.build_opener(*handlers)

    def _context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file)
        except (OSError, ValueError) as error:
            files = ", ".join(file for file in (self.ca_file, self.cert_file, self.key_file) if file)
            raise BadUrl(f"{files}: {error}; expected PEM files: check --ca-file, --cert-file, --key-file") from error
        return context

    def _refusal(self, url: str, error: urllib.error.HTTPError) -> HttpError:
        with error:
            message = _message(error.read(_LIMIT_BYTES))
        if error.code == http.client.TOO_MANY_REQUESTS and message:
            return Unreachable(f"{url} answers 429: {message}")
        if error.code >= http.client.INTERNAL_SERVER_ERROR or not message:
            return Unreachable(f"{url} answers {error.code} {message or error.reason}; {self.names.next_step}")
        return Refused(f"{url} answers {error.code}: {message}")


def decoded(body: bytes, kind: type[T], url: str, names: Names = EXTENDER) -> T:
    """An answer of the service at a URL as a struct; Foreign where it is none of such a service."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Foreign(f"{url} answers, but not as {names.article} {names.service} of this version: {error}") from error


def base_url(text: str, names: Names = EXTENDER) -> str:
    """A service's base URL without a slash at its end; BadUrl with an example otherwise."""
    if not is_base_url(text):
        raise BadUrl(f"{names.option} {quoted(text)} is not a base URL: write such as http://127.0.0.1:{names.port}")
    return text.rstrip("/")


def is_base_url(text: str) -> bool:
    """Whether a text is a URL that paths can be appended to and messages can show: without a user, too."""
    try:
        parts = urllib.parse.urlsplit(text)
        right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return right and not any(sign in text for sign in "@?#") and not any(map(str.isspace, text))


def quoted(text: str) -> str:
    """A text that is no URL, for a message; not itself where half of it may be a password, as in http://a:b@c."""
    return repr(text) if _WITHOUT_A_USER.fullmatch(text) else _NOT_SHOWN


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _message(body: bytes) -> str:
    """Returns the `message` of a service's refusal, "" for anything else."""
    try:
        document = json.loads(body)
    except ValueError:
        return ""
    return str(document.get("message", "")) if isinstance(document, dict) else ""
