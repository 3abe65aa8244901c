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
class FileLogin(requests.auth.AuthBase):
    """Adds what a file holds at the moment of the request: the password of a user, or without one a bearer token."""

    path: Path
    username: str | None = None

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Called by requests once per request; raises ConfigError when the file is unreadable or empty."""
        text = secret(self.path)
        if self.username is not None:
            requests.auth.HTTPBasicAuth(self.username, text)(request)
        else:
            request.headers["Authorization"] = f"Bearer {text}"
        return request


def login(
    url_login: tuple[str, str] | None, *, token_file: Path | None, username: str | None, password_file: Path | None
) -> requests.auth.AuthBase | None:
    """The login of each request; ConfigError where more than one is given, or half of one."""
    ways = [token_file is not None, url_login is not None, username is not None or password_file is not None]
    if sum(ways) > 1:
        raise errors.ConfigError(
            "Prometheus: give one of a token file, user:password@ in the address, or user and password file"
        )
    if url_login is not None:
        return requests.auth.HTTPBasicAuth(*url_login)
    if (username is None) != (password_file is None):
        raise errors.ConfigError("Prometheus: basic authentication needs both the user name and the password file")
    path = token_file or password_file
    if path is None:
        return None
    secret(path)
    return FileLogin(path, username)


def secret(path: Path) -> str:
    """The file's stripped text; ConfigError names the file, never its content."""
    try:
        text = files.read(path).decode().strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise errors.ConfigError(f"credential file {path} for Prometheus cannot be read: {problem}") from problem
    if not text or "\n" in text:
        content = f"{len(text.splitlines())} lines" if text else "nothing"
        raise errors.ConfigError(f"credential file {path} for Prometheus must hold one line, it holds {content}")
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
