"""The text of a kubeconfig for a server that asks for no certificate: mostly one where nobody listens.

Tests of command lines and connections write it to a file; where a real apiserver answers, `cluster` writes its own.
"""

NOBODY = "http://127.0.0.1:1"
TOKEN = "planted-secret"  # no message of ours may show it


def text(server: str = NOBODY) -> str:
    """One context, one cluster at `server`, one user with `TOKEN`."""
    return f"""\
apiVersion: v1
kind: Config
current-context: it
contexts: [{{name: it, context: {{cluster: it, user: me}}}}]
clusters: [{{name: it, cluster: {{server: "{server}"}}}}]
users: [{{name: me, user: {{token: {TOKEN}}}}}]
"""
