"""An admission webhook for evictions or another write, over TLS as the apiserver asks for it; a test says how it
answers.
"""

import base64
import contextlib
import http.server
import json
import pathlib
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from lab import cluster

NAME = "evictions.example.com"
CONFIGURATIONS = "apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
Answer = Callable[[str], dict[str, object] | None]  # an object's name -> the Status of a denial, None to allow


class Write(NamedTuple):
    """A kind of write, by the operation and the resource of a webhook's rule."""

    operation: str
    resource: str


EVICTIONS: Final = Write("CREATE", "pods/eviction")
NODE_UPDATES: Final = Write("UPDATE", "nodes")


class Webhook:
    """Answers reviews by `answer`; `asked` are the names of the objects that it was asked about."""

    def __init__(self) -> None:
        self.answer: Answer = lambda _: None
        self.asked: list[str] = []

    def review(self, body: dict[str, Any]) -> dict[str, object]:
        """The answer to an AdmissionReview."""
        name = str(body["request"]["name"])
        self.asked.append(name)
        denial = self.answer(name)
        response = {"uid": body["request"]["uid"], "allowed": denial is None}
        return {**body, "response": response if denial is None else {**response, "status": denial}}


class _Handler(http.server.BaseHTTPRequestHandler):
    webhook: Webhook

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        content = json.dumps(self.webhook.review(body)).encode()
        with contextlib.suppress(OSError):  # the apiserver did not wait for it
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def registered(running: cluster.Cluster, about: Write = EVICTIONS) -> Iterator[Webhook]:
    """A webhook that is asked about every such write."""
    webhook, pki = Webhook(), running.directory / "pki"
    handler = type("Handler", (_Handler,), {"webhook": webhook})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki / "server.crt", pki / "server.key")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        running.api.create(CONFIGURATIONS, _configuration(server.server_port, pki / "ca.crt", about))
        try:
            yield webhook
        finally:
            running.api.delete(f"{CONFIGURATIONS}/{NAME}")
            server.shutdown()
            thread.join()


def _configuration(port: int, authority: pathlib.Path, about: Write) -> dict[str, object]:
    """Such writes wait for it as long as they may; without an answer they fail."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": [about.operation], "resources": [about.resource]}
    hook = {
        "name": NAME,
        "clientConfig": {
            "url": f"https://127.0.0.1:{port}/",
            "caBundle": base64.b64encode(authority.read_bytes()).decode(),
        },
        "rules": [rule],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 30,
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": NAME}, "webhooks": [hook]}
