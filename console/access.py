"""Admits requests to the console, and limits what a browser may do with the answers.

Without a token it answers a browser on the same machine only by the names of that machine, so that a web page that
points a name of its own at 127.0.0.1 (DNS rebinding) is refused. With one, a person signs in once; the cookie is
HttpOnly and of this site alone. Every answer carries a Content-Security-Policy without inline script or style.
"""

import hashlib
import hmac
from typing import Final
from urllib import parse

import flask
from werkzeug import exceptions
from werkzeug.wrappers import response

from runtime import hosts

COOKIE: Final = "evenload-console"
OPEN: Final = frozenset({"/livez", "/readyz", "/healthz", "/sign-in"})
LINKED: Final = frozenset({"/", "/sign-in"})  # another site may link here
FOREIGN: Final = frozenset({"cross-site", "same-site"})  # another port of this machine is the same site
OPEN_FOLDER: Final = "/static/"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Access:
    """The rules of one console: `token` "" for none; `local` where it listens on this machine's loopback only."""

    def __init__(self, token: str, *, local: bool) -> None:
        self._token, self._local = token, local
        # A cookie that is no token: who reads it cannot sign in elsewhere with it.
        self._session = hmac.new(token.encode(), b"evenload console session", hashlib.sha256).hexdigest()

    @property
    def has_token(self) -> bool:
        """Whether people have to sign in."""
        return bool(self._token)

    def check(self) -> response.Response | None:
        """Refuse the request at hand, send its browser to the sign-in page, or let it pass (None)."""
        request = flask.request
        if self._local and not self._token and not hosts.is_ours(request.host):
            raise exceptions.Forbidden(
                f"the console was asked as {request.host!r}; expected localhost or an address: it has no token, and a "
                "web page could reach it by a name of its own. Start it with --token-file to use other names"
            )
        origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
        if origin is not None and parse.urlsplit(origin).netloc != request.host:
            raise exceptions.Forbidden(f"a page of {origin} may not ask this console")
        if request.path not in LINKED and site in FOREIGN:
            raise exceptions.Forbidden(f"a page of another site may not ask this console (Sec-Fetch-Site: {site})")
        if not self._token or request.path in OPEN or request.path.startswith(OPEN_FOLDER) or self._known():
            return None
        if request.method == "GET" and request.path == "/":
            return flask.redirect(f"{request.root_path}/sign-in")
        raise exceptions.Unauthorized("sign in first, or send Authorization: Bearer with the console's token")

    def own(self) -> bool:
        """Returns whether a request that passed `check` is of a person before this console's page: a browser that sends
        no Sec-Fetch-Site may be on another site.
        """
        return self.has_token or flask.request.headers.get("Sec-Fetch-Site") == "same-origin"

    def sign_in(self, token: str) -> response.Response:
        """The page with a cookie for who has the token; 401 for others."""
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            raise exceptions.Unauthorized("this is not the console's token; it is in the file named by --token-file")
        reply = flask.redirect(f"{flask.request.root_path}/")
        reply.set_cookie(
            COOKIE, self._session, httponly=True, samesite="Strict", path=f"{flask.request.root_path}/",
            secure=flask.request.is_secure,
        )  # fmt: skip
        return reply

    def _known(self) -> bool:
        kind, _, token = flask.request.headers.get("Authorization", "").partition(" ")
        bearer = kind == "Bearer" and hmac.compare_digest(token.encode(), self._token.encode())
        cookie = flask.request.cookies.get(COOKIE, "")
        return bearer or hmac.compare_digest(cookie.encode(), self._session.encode())


def protected(answer: flask.Response) -> flask.Response:
    """The answer with the headers that limit what a browser does with it."""
    answer.headers.update(HEADERS)
    answer.headers.setdefault("Cache-Control", "no-store")
    return answer
