"""How a query says who it is: a bearer token or a basic password read from a file each time, certificates by path.

`promql.http.client.connect` uses it. Tokens of projected service accounts rotate within the hour while the client
library fixes its headers at construction, so the file is read again for every request (a page-cache read of a few
hundred bytes). A file that cannot be read stops the query with a ConfigError that names it.
"""

from dataclasses import dataclass
from pathlib import Path

import requests.auth

from promql import errors
from runtime import files


@dataclass(frozen=True, slots=True)
class BearerFile(requests.auth.AuthBase):
    """Adds `Authorization: Bearer <content of the file>`, as it is at the moment of the request."""

    path: Path

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Called by requests once per request; raises ConfigError when the file is unreadable or empty."""
        request.headers["Authorization"] = f"Bearer {secret(self.path)}"
        return request


@dataclass(frozen=True, slots=True)
class BasicFile(requests.auth.AuthBase):
    """HTTP basic authentication whose password is read from a file at the moment of the request."""

    username: str
    path: Path

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Called by requests once per request; raises ConfigError when the file is unreadable or empty."""
        requests.auth.HTTPBasicAuth(self.username, secret(self.path))(request)
        return request


def secret(path: Path) -> str:
    """The file's stripped text; ConfigError names the file, never its content."""
    try:
        text = files.read(path).decode().strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise errors.ConfigError(f"credential file {path} for Prometheus cannot be read: {problem}") from problem
    if not text or "\n" in text:
        raise errors.ConfigError(f"credential file {path} for Prometheus must hold one line, it holds {_lines(text)}")
    return text


def readable(path: Path | None, purpose: str) -> str | None:
    """The path as text when it can be opened; ConfigError otherwise, naming the purpose ("CA file")."""
    if path is None:
        return None
    try:
        with path.open("rb"):
            return str(path)
    except OSError as problem:
        raise errors.ConfigError(f"{purpose} {path} for Prometheus cannot be read: {problem}") from problem


def _lines(text: str) -> str:
    return f"{len(text.splitlines())} lines" if text else "nothing"
