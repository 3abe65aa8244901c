"""The text of a kubeconfig for a server that asks for no certificate: mostly an address without a server."""

import json
from collections.abc import Mapping

NOBODY = "http://127.0.0.1:1"
TOKEN = "planted-secret"  # no message of ours may show it


def text(server: str = NOBODY, *, user: Mapping[str, object] | None = None, **cluster: object) -> str:
    """One context, one cluster at `server` with more about it, one user with `TOKEN` unless it is given."""
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "it", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "me", "user": {"token": TOKEN} if user is None else dict(user)}],
        "contexts": [{"name": "main", "context": {"cluster": "it", "user": "me"}}],
    }
    return json.dumps(body)
