"""The extender's process stays within the memory that its limits promise, whatever clients send and keep.

The process is a real one and its memory is the kernel's figure. Each attack sends several times as much as may be held,
so that any buffer that outlives its connection or its answer is seen, whatever refers to it.
"""

import collections.abc
import contextlib
import http.client
import pathlib
import re
import socket
import ssl
from typing import Final, NamedTuple

import pytest

from extender.http import connection_limits
from runtime import certificates, clock
from tests import kubeconfigs, starting
from tests.e2e import waiting
from tests.unit.extender import workers

# The requests in transit, and as much again twice for the one that is answered: its body, and what is decoded of it.
ROOM_BYTES: Final = 3 * connection_limits.HELD_LIMIT_BYTES
SENT_BYTES: Final = 2 * ROOM_BYTES
PATIENCE_SECONDS: Final = 90.0
LENGTH: Final = 16_000_000
HALF: Final = bytes(15_900_000)
JSON: Final = b"Content-Type: application/json\r\n"
FORM: Final = (
    b"POST /filter HTTP/1.1\r\nHost: x\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: %d\r\n"
    + JSON
    + b"Accept-Encoding: gzip\r\n\r\n"
)
PREEMPTION: Final = b'{"Pod":{"metadata":{"name":"p"}},"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"%s"}]}}}'
GREEDY: Final = PREEMPTION % (b"0" * 15_000_000)


def post(path: bytes, body: bytes, length: int | None = None) -> bytes:
    """A request that is not in the form of kube-scheduler's."""
    announced = len(body) if length is None else length
    return b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%b\r\n%b" % (path, announced, JSON, body)


def chunked(body: bytes, end: bytes = b"") -> bytes:
    """A request in chunks of a MiB."""
    pieces = (body[at : at + 2**20] for at in range(0, len(body), 2**20))
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n%b\r\n%b%b" % (JSON, chunks, end)


HEADERS: Final = b"".join(b"X-%d: %b\r\n" % (number, b"v" * 8000) for number in range(60))
# The bytes that a client sends on each of its connections, and whether it reads an answer then.
ATTACKS: Final[dict[str, tuple[bytes, bool]]] = {
    "half bodies in the scheduler's form": (FORM % LENGTH + HALF, False),
    "half bodies": (post(b"/filter", HALF, LENGTH), False),
    "half bodies in chunks": (chunked(HALF), False),
    "bodies with a broken last chunk": (chunked(HALF, b"x\r\n"), True),
    "bodies that are no JSON": (post(b"/filter", HALF), True),
    "bodies for a route without one": (post(b"/livez", HALF), True),
    "bodies for no route": (post(b"/nothing", HALF), True),
    "half heads": (b"GET /livez HTTP/1.1\r\nHost: x\r\n" + HEADERS, False),
    "replies that are not read": (post(b"/preempt", GREEDY), False),
}


class Extender(NamedTuple):
    """A running process: its port, its worker, and the context of clients with TLS."""

    port: int
    worker: int
    context: ssl.SSLContext | None

    def connect(self) -> socket.socket:
        """A new connection, its handshake done."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS)
        return plain if self.context is None else self.context.wrap_socket(plain, server_hostname="127.0.0.1")

    def livez(self) -> int:
        """The status of a probe on a connection of its own."""
        with self.connect() as client:
            client.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            return workers.answered(client)

    def memory_bytes(self, kind: str) -> int:
        """Memory of the worker: VmRSS now, VmHWM at its highest."""
        text = pathlib.Path(f"/proc/{self.worker}/status").read_text(encoding="utf-8")
        return int(re.findall(rf"{kind}:\s+(\d+) kB", text)[0]) * 1024


class Files:
    """What the process reads, and the certificates of a CA for it and its clients."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self._now_seconds = clock.WallClock().now()
        self._authority = certificates.Authority.create(now_seconds=self._now_seconds)
        self.write("policy.yaml", "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n")
        self.write("kubeconfig", kubeconfigs.text())
        self.write("ca.crt", self._authority.pair.certificate)
        self._write_pair("server", self._authority.serving(["127.0.0.1"], now_seconds=self._now_seconds))
        self._write_pair("client", self._authority.client("system:kube-scheduler", (), now_seconds=self._now_seconds))

    def write(self, name: str, text: str) -> None:
        """A file."""
        (self.directory / name).write_text(text, encoding="utf-8")

    def path(self, name: str) -> str:
        """Its path."""
        return str(self.directory / name)

    def context(self, *, certificate: bool) -> ssl.SSLContext:
        """TLS of a client, with or without a certificate."""
        chosen = ssl.create_default_context(cafile=self.path("ca.crt"))
        if certificate:
            chosen.load_cert_chain(self.path("client.crt"), self.path("client.key"))
        return chosen

    def _write_pair(self, name: str, pair: certificates.Pair) -> None:
        self.write(f"{name}.crt", pair.certificate)
        self.write(f"{name}.key", pair.key)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("memory"))


@contextlib.contextmanager
def running(files: Files, context: ssl.SSLContext | None = None) -> collections.abc.Iterator[Extender]:
    """A process of its own, with mutual TLS if its clients have a context."""
    options = ["--policy", files.path("policy.yaml"), "--kubeconfig", files.path("kubeconfig")]
    if context is not None:
        options += ["--tls-cert", files.path("server.crt"), "--tls-key", files.path("server.key")]
        options += ["--client-ca", files.path("ca.crt")]
    log = files.directory / "log"
    with log.open("wb") as out:
        process = starting.Process(starting.Command("extender", (*options, "--listen", "127.0.0.1:0")), out, out)
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        found = waiting.eventually(
            lambda: re.search(r"Listening at: https?://127.0.0.1:(\d+)", log.read_text(encoding="utf-8")),
            waiting.START_SECONDS, "the extender to listen", log.read_text,
        )  # fmt: skip
        worker = waiting.eventually(lambda: children.read_text().split(), waiting.START_SECONDS, "its worker")
        begun = Extender(int(found[1]), int(worker[0]), context)
        assert begun.livez() == 200
        yield begun
        assert (children.read_text().split(), process.poll()) == (worker, None), "the worker was replaced"
    finally:
        process.kill()
        process.wait()


def growth_bytes(extender: Extender, sent: bytes, *, answered: bool) -> int:
    """How much the process had more at its highest while connections came that sent this, and that stay open."""
    before_bytes = extender.memory_bytes("VmRSS")
    with contextlib.ExitStack() as stack:
        for _ in range(SENT_BYTES // len(sent) + 1):
            client = stack.enter_context(extender.connect())
            with contextlib.suppress(OSError, http.client.HTTPException):  # it was dropped, as it may be
                client.sendall(sent)
                if answered:
                    workers.answered(client)
        assert extender.livez() == 200
    return extender.memory_bytes("VmHWM") - before_bytes


@pytest.mark.parametrize(("sent", "answered"), ATTACKS.values(), ids=ATTACKS)
def test_no_client_makes_the_process_grow_beyond_its_limits(files: Files, sent: bytes, answered: bool) -> None:
    with running(files) as extender:
        assert growth_bytes(extender, sent, answered=answered) < ROOM_BYTES


@pytest.mark.parametrize("certificate", [False, True], ids=["without a certificate", "with one"])
def test_with_tls_the_limits_are_the_same(files: Files, certificate: bool) -> None:
    with running(files, files.context(certificate=certificate)) as extender:
        assert growth_bytes(extender, post(b"/filter", HALF, LENGTH), answered=False) < ROOM_BYTES


BODILESS: Final = {
    "in the scheduler's form": (FORM % LENGTH, 403),
    "in another form": (post(b"/filter", b"", LENGTH), 403),
    "in chunks": (chunked(b""), 403),
    "over every limit": (post(b"/filter", b"", 10**12), 403),
    "that waits for a go-ahead": (post(b"/filter", b"", LENGTH).replace(JSON, JSON + b"Expect: 100-continue\r\n"), 403),
    "for a probe": (post(b"/livez", b"", LENGTH).replace(b"POST", b"GET"), 200),
}


def test_a_client_without_a_certificate_is_answered_before_its_body(files: Files) -> None:
    """Whatever follows the head is never read: the connection ends."""
    with running(files, files.context(certificate=False)) as extender:
        for name, (head, expected) in BODILESS.items():
            with extender.connect() as client:
                client.sendall(head)
                assert (name, workers.answered(client), client.recv(1)) == (name, expected, b"")


def test_a_client_with_a_certificate_is_answered_after_its_body(files: Files) -> None:
    known = files.context(certificate=True)
    head = post(b"/nothing", b"", 2)
    with running(files, known) as extender, extender.connect() as client, extender.connect() as waiting_for_body:
        waiting_for_body.sendall(head)
        client.sendall(head + b"{}")
        assert workers.answered(client) == 404
        waiting_for_body.setblocking(False)
        with pytest.raises(ssl.SSLWantReadError):
            waiting_for_body.recv(1)
