"""TLS on the extender's port: its certificate, renewed while it serves, and who may ask the verbs.

`__main__` makes a `Security` from the options, `http.gunicorn_server` gives its context to gunicorn for every new
connection and puts its `guard` around the application, and `service` polls the files. Rotation restarts nothing:
connections keep the certificate they began with, new ones get the new. The client's certificate is asked for but not
required in the handshake, because probes share the port and have none; the path decides.
"""

import collections.abc
import json
import pathlib
import ssl
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from wsgiref import types as wsgi

import prometheus_client

from extender.http import nonblocking_sockets
from runtime import files, hosts, logs, reloading

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

log = logs.get(__name__)

RECORD_BYTES: Final = 2**14  # of TLS
Refusal = collections.abc.Callable[[str | None], str | None]  # of a client by its certificate's name; None: admitted
CLIENT_NAME: Final = "evenload.client_name"  # in an environ that is not gunicorn's; no header becomes this key


class TlsError(ValueError):
    """Options that do not fit together, or files that make no server certificate."""


class Files(NamedTuple):
    """PEM files: the certificate with its chain, its key, and the CA of the clients (None: any client)."""

    certificate: pathlib.Path
    key: pathlib.Path
    client_ca: pathlib.Path | None = None


class Socket(nonblocking_sockets.Sending, ssl.SSLSocket):
    """A connection with TLS, with the client's common name once it has shown a certificate of the client CA."""

    client_name: str | None = None  # None: no certificate; "": one without a common name

    def shake(self) -> bool:
        """Go on with the handshake by what has come, without waiting; True when it is done. Errors: OSError."""
        try:
            self.do_handshake()
        except nonblocking_sockets.FULL:
            return False
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:  # a port scan, a TCP probe
            log.debug("TLS handshake abandoned", error=str(error))
            raise
        except ssl.SSLError as error:
            log.warning("TLS handshake failed", error=str(error))
            raise
        self.client_name = common_name(self.getpeercert() or None)
        return True

    def sendall(self, data: "ReadableBuffer", flags: int = 0) -> None:
        """Send as `Sending`, records together: of a long reply whose records left one by one, Linux sent the last ones
        8 ms late in one answer of thirty. Errors: OSError.
        """
        long = memoryview(data).nbytes > RECORD_BYTES
        if long:
            nonblocking_sockets.cork(self, True)
        super().sendall(data, flags)
        if long:
            nonblocking_sockets.cork(self, False)


def wrapped(plain: nonblocking_sockets.Plain, context: ssl.SSLContext) -> Socket:
    """Returns the connection with TLS, before its handshake; `plain` is detached. Errors: OSError."""
    secured = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
    assert isinstance(secured, Socket)  # noqa: S101 - the class that its context names
    return secured


class Security:
    """The files in force: the last good `context`, and why newer files are refused (`error`)."""

    context: ssl.SSLContext  # exists after load()

    def __init__(self, files: Files, client_names: collections.abc.Collection[str] = ()) -> None:
        self.files = files
        self.client_names = frozenset(client_names)
        self.content_hash = ""
        self.error: str | None = None
        self._seen_hash = ""
        self._readings = reloading.TwoReadings()

    def load(self) -> None:
        """The first load: TlsError names the files that cannot be used, OSError one that cannot be read."""
        found_hash = self._hash()
        self.context = context(self.files)
        self.content_hash = self._seen_hash = found_hash

    def poll(self, *, at_start: bool = False) -> bool:
        """True when changed files are in force, once two polls in a row have read them: the beginning of a bundle that
        is written in place is a bundle, too, and refuses the clients of the CAs behind it. Files in the middle of a
        longer exchange (a new certificate beside the old key) are refused like any others and taken at a later poll.

        `at_start`: see `reloading.Reloading.poll`.
        """
        found_hash = ""
        try:
            found_hash = self._hash()
            agree = self._readings.agree(found_hash) or at_start
            if found_hash == self._seen_hash or not agree:
                return False
            fresh = context(self.files)
        except OSError as error:  # gone or unreadable for now, whatever its content
            return self._refuse(str(error), "")
        except TlsError as error:
            return self._refuse(str(error), found_hash)
        self.context, self._seen_hash = fresh, found_hash
        self.content_hash, self.error = found_hash, None
        log.info("certificate reloaded", path=str(self.files.certificate), hash=found_hash)
        return True

    def guard(self, application: wsgi.WSGIApplication) -> wsgi.WSGIApplication:
        """Answer 403 to all but the plain paths unless the connection's client is admitted.

        The plain paths are listed and all others guarded, so that a new route is closed until it is opened here.
        """

        def answer(
            environ: wsgi.WSGIEnvironment, start_response: wsgi.StartResponse
        ) -> collections.abc.Iterable[bytes]:
            path = environ["PATH_INFO"]
            client_name = environ.get(CLIENT_NAME, getattr(environ.get("gunicorn.socket"), "client_name", None))
            why = None if path in hosts.PLAIN_PATHS else self.refusal(client_name)
            if why is None:
                return application(environ, start_response)
            log.warning("client refused", path=path, reason=why)
            body = json.dumps({"code": 403, "error": "Forbidden", "path": path, "message": why}).encode()
            start_response("403 Forbidden", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
            return [body]

        return answer if self.files.client_ca else application

    def refusal(self, client_name: str | None) -> str | None:
        """Why a client may ask for the plain paths only, or None; never where no CA was named."""
        if self.files.client_ca is None:
            return None
        if client_name is None:
            return "a client certificate is needed here: give certFile and keyFile in the extender's tlsConfig"
        if self.client_names and client_name not in self.client_names:
            return f"the client certificate's common name is {client_name!r}, which is none of --client-name"
        return None

    def line(self) -> str:
        """Returns the hash of the files in force, and why newer ones are not: for /readyz?verbose."""
        refused = f"; the files as they are now are refused: {self.error}" if self.error else ""
        return self.content_hash + refused

    def export(self, into: prometheus_client.CollectorRegistry) -> None:
        """Add a gauge that is read when scraped; 0 means that an older certificate is served, which runs out."""
        name, text = "evenload_extender_certificate_last_reload_successful", "0: changed TLS files were refused."
        prometheus_client.Gauge(name, text, registry=into).set_function(lambda: float(self.error is None))

    def _hash(self) -> str:
        """Of the contents, not the times: a Secret volume changes by swapping a symlink."""
        return reloading.content_hash(b"\0".join(files.read(path) for path in self.files if path is not None))

    def _refuse(self, reason: str, found_hash: str) -> Literal[False]:
        if reason != self.error:
            log.warning("changed certificate refused, the last good one stays", error=reason)
        self.error, self._seen_hash = reason, found_hash
        return False


def chosen(
    certificate: pathlib.Path | None,
    key: pathlib.Path | None,
    client_ca: pathlib.Path | None,
    client_names: collections.abc.Collection[str],
) -> Security | None:
    """The security of a combination of options, None for plain HTTP; TlsError says what is missing.

    Half a combination is refused rather than served with less protection than was asked for.
    """
    if client_names and client_ca is None:
        raise TlsError("--client-name needs --client-ca: a name means nothing unless a CA vouches for it")
    if "" in client_names:
        raise TlsError("--client-name '': expected a certificate's common name, as system:kube-scheduler")
    if certificate is None and key is None:
        if client_ca is not None:
            raise TlsError("--client-ca needs --tls-cert and --tls-key: without TLS no client shows a certificate")
        return None
    if certificate is None or key is None:
        raise TlsError("--tls-cert and --tls-key need each other: give both files, or neither for plain HTTP")
    return Security(Files(certificate, key, client_ca), client_names)


def context(files: Files) -> ssl.SSLContext:
    """A server's context from the files as they are now; TlsError names them.

    A new one for each change: a live context could take another certificate, but not forget a CA, and tickets of the
    old one must not resume under the new.
    """
    fresh = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    fresh.minimum_version = ssl.TLSVersion.TLSv1_2
    fresh.sslsocket_class = Socket
    try:
        fresh.load_cert_chain(files.certificate, files.key, password=_no_password)
    except ssl.SSLError as error:
        what = f"{files.certificate} and {files.key}: expected a PEM certificate and its unencrypted key"
        raise TlsError(f"{what}: {error.reason or error}") from error
    if files.client_ca is not None:
        try:
            fresh.load_verify_locations(files.client_ca)
        except ssl.SSLError as error:
            raise TlsError(f"{files.client_ca}: expected PEM certificates of a CA: {error.reason or error}") from error
        fresh.verify_mode = ssl.CERT_OPTIONAL
        fresh.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN  # an intermediate CA may stand alone, as in Go
    return fresh


def _no_password() -> str:
    raise TlsError(
        "--tls-key: the key is encrypted; expected an unencrypted PEM key, a service cannot ask for a password"
    )


def common_name(peer: collections.abc.Mapping[str, object] | None) -> str | None:
    """The subject's (last) common name in what `getpeercert` gives; "" without one, None for no certificate."""
    if not peer:
        return None
    subject = peer.get("subject", ())
    assert isinstance(subject, tuple)  # noqa: S101 - the shape of the standard library
    return next((value for part in reversed(subject) for key, value in part if key == "commonName"), "")
