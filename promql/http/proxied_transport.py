"""Queries through a function that fetches paths, such as the apiserver's proxy, instead of a connection.

`evenload doctor` reaches a Prometheus inside a cluster from outside it through the apiserver, which knows the way and
checks the caller's rights; `promql.http.client.connect` takes a `Fetch` for it and mounts `Adapter` in the HTTP
library, so that everything above (encoding, decoding, errors) is the same code. This package knows no Kubernetes: the
caller says how to fetch.
"""

import urllib.parse
from collections.abc import Callable, Mapping
from typing import NamedTuple

import requests
from requests import adapters


class ProxyResponse(NamedTuple):
    """A response: an HTTP status and the body, or the beginning of it when the status is not 200."""

    status: int
    body: bytes


# GET of a path with query pairs. OSError when nothing answers.
Fetch = Callable[[str, tuple[tuple[str, str], ...]], ProxyResponse]


class Adapter(adapters.BaseAdapter):
    """Answers the HTTP library's requests by fetching their path and query elsewhere."""

    def __init__(self, fetch: Fetch) -> None:
        super().__init__()
        self._fetch = fetch

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: float | tuple[float, float] | tuple[float, None] | None = None,
        verify: bool | str = True,
        cert: bytes | str | tuple[bytes | str, bytes | str] | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """One request; TLS, proxies and the time limit are the fetcher's own affair."""
        parts = urllib.parse.urlsplit(request.url or "")
        try:
            fetched = self._fetch(parts.path, tuple(urllib.parse.parse_qsl(parts.query)))
        except OSError as problem:
            raise requests.ConnectionError(problem) from problem
        response = requests.Response()
        response.status_code, response.url, response.request = fetched.status, request.url or "", request
        response._content = fetched.body  # the way of requests' own test transports: there is no setter
        return response

    def close(self) -> None:
        """Nothing is kept open."""
