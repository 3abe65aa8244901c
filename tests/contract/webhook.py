"""An admission webhook over TLS, for evictions or another write; a test says how it answers."""

import base64
import contextlib
import ssl
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from lab import cluster
from tests import scripted_http

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

    def review(self, exchange: scripted_http.Exchange) -> None:
        """Answers an AdmissionReview; the next comes on a connection of its own, as it may be another webhook's."""
        name = str(exchange.body["request"]["name"])
        self.asked.append(name)
        denial = self.answer(name)
        response = {"uid": exchange.body["request"]["uid"], "allowed": denial is None}
        answer = {**exchange.body, "response": response if denial is None else {**response, "status": denial}}
        exchange.answer(answer, headers={"Content-Type": "application/json", "Connection": "close"})


@contextlib.contextmanager
def registered(running: cluster.Cluster, about: Write = EVICTIONS) -> Iterator[Webhook]:
    """A webhook that is asked about every such write."""
    webhook, pki = Webhook(), running.directory / "pki"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": [about.operation], "resources": [about.resource]}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki / "server.crt", pki / "server.key")
    with scripted_http.serving(webhook.review, tls=context) as server:
        hook = {
            "name": NAME,
            "clientConfig": {
                "url": f"https://127.0.0.1:{server.server_port}/",
                "caBundle": base64.b64encode((pki / "ca.crt").read_bytes()).decode(),
            },
            "rules": [rule],
            "failurePolicy": "Fail",  # such writes wait for it as long as they may; without an answer they fail
            "sideEffects": "None",
            "timeoutSeconds": 30,
            "admissionReviewVersions": ["v1"],
        }
        running.api.create(CONFIGURATIONS, {"metadata": {"name": NAME}, "webhooks": [hook]})
        try:
            yield webhook
        finally:
            running.api.delete(f"{CONFIGURATIONS}/{NAME}")
