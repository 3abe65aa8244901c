"""Kubeconfig files: for the admin, for each component, and for the users and service accounts tests ask for.

Pure rendering; `control_plane` writes the text where the README and the services read it. Certificates are embedded,
so that a kubeconfig is one file that can be copied.
"""

import base64
import re

import yaml

from runtime import certificates

CONTEXT = "evenload"


def with_certificate(api_url: str, ca_pem: str, user: str, pair: certificates.Pair) -> str:
    """A kubeconfig whose user is a client certificate."""
    return _render(
        api_url, ca_pem, user, {"client-certificate-data": _b64(pair.certificate), "client-key-data": _b64(pair.key)}
    )


def with_token(api_url: str, ca_pem: str, user: str, token: str) -> str:
    """A kubeconfig whose user is a bearer token."""
    return _render(api_url, ca_pem, user, {"token": token})


def file_name(user: str) -> str:
    """A file name for a user: `system:serviceaccount:ns:name` -> `system-serviceaccount-ns-name.kubeconfig`."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", user) + ".kubeconfig"


def _render(api_url: str, ca_pem: str, user: str, credentials: dict[str, str]) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": {"server": api_url, "certificate-authority-data": _b64(ca_pem)}}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": user}}],
        "current-context": CONTEXT,
    }
    return yaml.safe_dump(document, sort_keys=False)


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
