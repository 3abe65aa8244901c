"""HTTP request of the apiserver as a value: `kube.http.client` builds it, `kube.http.transport` sends it."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One request: path from the root of the API, query pairs, a JSON body, for how long to wait between bytes, whether
    the answer may be compressed, and its form.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Mapping[str, object] | None = None
    content_type: str = "application/json"
    read_seconds: float = 10.0
    compressed: bool = False
    accept: str = "application/json"
