"""The few REST calls the cluster itself makes: create its nodes, wait for them, ask for a token.

Tests may use it for arrangements; the services have kube/ for that, with everything a long-running client needs. One
object per user; it may be used from several threads (each gets its own connection pool).
"""

import collections.abc
import json
import pathlib
import threading
import typing

import requests

from lab.cluster import errors

TIMEOUT_SECONDS = 30.0
TOKEN_SECONDS = 24 * 3600
Json = dict[str, typing.Any]


class ApiError(errors.ClusterError):
    """The apiserver refused or could not be reached; `status` is 0 when there was no answer."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """JSON in, JSON out, over REST paths of the apiserver (`api/v1/nodes`, `apis/apps/v1/namespaces/x/deployments`)."""

    def __init__(self, url: str, *, ca: pathlib.Path, certificate: pathlib.Path, key: pathlib.Path) -> None:
        self.url = url
        self._ca = ca
        self._certificate = (str(certificate), str(key))
        self._sessions: list[requests.Session] = []
        self._of_thread = threading.local()

    def get(self, path: str, **query: str) -> Json:
        """One object or one list."""
        return self._call("GET", path, params=query)

    def items(self, path: str, **query: str) -> list[Json]:
        """The items of a list."""
        return list(self.get(path, **query).get("items", []))

    def watch(self, path: str, *, resource_version: str, seconds: float) -> collections.abc.Iterator[Json]:
        """Yields the events since that version for so long; ends early when the connection does."""
        query = {"watch": "1", "resourceVersion": resource_version, "timeoutSeconds": f"{seconds:.0f}"}
        url = f"{self.url}/{path.lstrip('/')}"
        try:
            with self._session().get(url, params=query, stream=True, timeout=TIMEOUT_SECONDS) as answer:
                yield from (json.loads(line) for line in answer.iter_lines(chunk_size=None) if line)
        except (requests.RequestException, ValueError) as error:  # half a line, where the apiserver was killed
            raise ApiError(f"GET {url}: {error}", 0) from error

    def create(self, path: str, body: collections.abc.Mapping[str, object]) -> Json:
        """POST; the object as stored."""
        return self._call("POST", path, json=body)

    def token(self, namespace: str, name: str) -> str:
        """A token of an existing ServiceAccount, good for a day."""
        spec = {"expirationSeconds": TOKEN_SECONDS}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        token: str = self.create(f"api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", body)["status"]["token"]
        return token

    def replace(self, path: str, body: collections.abc.Mapping[str, object]) -> Json:
        """PUT; the object as stored."""
        return self._call("PUT", path, json=body)

    def patch(self, path: str, body: collections.abc.Mapping[str, object]) -> Json:
        """Merge-patch; the object as stored."""
        return self._call("PATCH", path, json=body, headers={"Content-Type": "application/merge-patch+json"})

    def delete(self, path: str, body: collections.abc.Mapping[str, object] | None = None) -> Json:
        """DELETE with options."""
        return self._call("DELETE", path, json=body)

    def exists(self, path: str) -> bool:
        """Whether a GET of the path finds something."""
        try:
            self.get(path)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def is_ready(self) -> bool:
        """Whether /readyz says ok."""
        try:
            return self._session().get(f"{self.url}/readyz", timeout=10).status_code == 200
        except requests.RequestException:
            return False

    def close(self) -> None:
        """Closes every thread's connections."""
        for session in self._sessions:
            session.close()

    def _call(self, method: str, path: str, **options: typing.Any) -> Json:
        url = f"{self.url}/{path.lstrip('/')}"
        try:
            answer = self._session().request(method, url, timeout=TIMEOUT_SECONDS, **options)
        except requests.RequestException as error:
            raise ApiError(
                f"{method} {url}: {error}. Is the cluster up? `python -m lab.cluster status` says.", 0
            ) from error
        if answer.status_code >= 400:
            raise ApiError(f"{method} {url}: {answer.status_code} {answer.text.strip()[:600]}", answer.status_code)
        body: Json = answer.json()
        return body

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._of_thread, "session", None)
        if session is None:
            session = requests.Session()
            session.trust_env = False  # a proxy of the environment has no business on loopback
            session.verify = str(self._ca)
            session.cert = self._certificate
            self._of_thread.session = session
            self._sessions.append(session)
        return session
