"""Nothing that is secret is told: our commands, at the highest verbosity, while everything goes wrong.

Secrets are planted where they come from: token and client key of the kubeconfig, a password in Prometheus' address, a
header, a token file, the environment, and what clients send us. The apiserver and Prometheus are scripts that answer
rightly at first and then refuse, fail, break off and talk nonsense. Then all that the processes said is searched: both
streams, every answer of their ports, the ledger's file, and what they wrote to the apiserver, Events among it.
"""

import base64
import collections.abc
import contextlib
import http.client
import itertools
import json
import pathlib
import signal
import threading
from typing import Any, Final

import pytest

from runtime import certificates, clock
from tests import builders, scripted_http, starting
from tests.e2e import services, waiting

TOKEN, PASSWORD, HEADER, FILE, ENVIRONMENT, CLIENT, QUERY = (f"pl4nt3d-{n}-s3cr3t" for n in range(7))
LOGIN = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
SECRETS: Final = (TOKEN, PASSWORD, LOGIN, HEADER, FILE, ENVIRONMENT, CLIENT, QUERY)
POLICY = """\
apiVersion: evenload.io/v1alpha1
kind: LoadPolicy
sync: {period: 1s, staleAfter: 10s}
descheduler: {interval: 1s}
"""
PLAIN = ("/livez", "/readyz?verbose", "/metrics", "/configz", "/version", "/nowhere")
OWN = {
    "annotator": (),
    "extender": ("/nodes", "/decisions", "/decisions?limit=x"),
    "descheduler": ("/plan", "/evictions", "/events", "/breaker", "/evictions?since=x"),
}
Script = collections.abc.Callable[[scripted_http.Exchange], None]
FAILURES: Final[tuple[Script, ...]] = (
    lambda exchange: exchange.status(401, "Unauthorized", "who are you"),
    lambda exchange: exchange.status(403, "Forbidden", "not for you"),
    lambda exchange: exchange.status(500, "InternalError", "etcd has gone"),
    lambda exchange: exchange.answer("<html>please log in</html>"),
    lambda exchange: exchange.raw(b'{"kind": "N', length=1000),
    lambda exchange: exchange.cut(),
)


class Server:
    """A scripted server that answers by `well` and, once told, by each of FAILURES in turn."""

    def __init__(self, well: Script) -> None:
        self._well, self._turns = well, itertools.cycle(FAILURES)
        self.fails = threading.Event()
        self.failures = itertools.count()
        self.failed = 0

    def __call__(self, exchange: scripted_http.Exchange) -> None:
        if not self.fails.is_set():
            return self._well(exchange)
        self.failed = next(self.failures) + 1
        return next(self._turns)(exchange)


class Apiserver:
    """One node and Leases, and nothing else; what is written is taken, and of it Leases are stored."""

    def __init__(self) -> None:
        self._leases: dict[str, object] = {}

    def __call__(self, exchange: scripted_http.Exchange) -> None:
        """Answers one request."""
        if exchange.method != "GET" and "/leases" in exchange.path and exchange.body:
            self._leases[exchange.body["metadata"]["name"]] = exchange.body
        lease = self._leases.get(exchange.path.rpartition("/leases/")[2])
        if exchange.method == "GET" and lease is not None:
            exchange.answer(lease)
        else:
            answer(exchange)


def answer(exchange: scripted_http.Exchange) -> None:
    """Answers anything but a GET of a Lease that is there."""
    if "watch" in exchange.query:
        exchange.stream()
        exchange.hang()
    elif exchange.method != "GET":
        exchange.answer(exchange.body or {}, 201)
    elif exchange.path.endswith("/nodes"):
        exchange.answer({"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": [builders.node_body("n")]})
    elif exchange.path.rsplit("/", 2)[-2] == "leases" or "/configmaps/" in exchange.path:
        exchange.status(404, "NotFound", "there is none")
    else:
        exchange.answer({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []})


def prometheus(exchange: scripted_http.Exchange) -> None:
    """No series."""
    exchange.answer({"status": "success", "data": {"resultType": "vector", "result": []}})


class World:
    """Both servers, the files that processes read, and all that they said."""

    def __init__(self, directory: pathlib.Path, kube: scripted_http.ScriptedServer, prom: str) -> None:
        self.directory, self.kube, self.prometheus = directory, kube, prom
        now_seconds = clock.WallClock().now()
        pair = certificates.Authority.create(now_seconds=now_seconds).client("me", (), now_seconds=now_seconds)
        self.key = pair.key
        coded = {
            name: base64.b64encode(text.encode()).decode()
            for name, text in (("client-certificate-data", pair.certificate), ("client-key-data", pair.key))
        }
        user = {"token": TOKEN, **coded}
        scripted_http.kubeconfig(directory, kube.url, user=user)
        self.write("policy.yaml", POLICY)
        self.write("token", FILE)

    def write(self, name: str, text: str) -> str:
        """A file in here."""
        (self.directory / name).write_text(text, encoding="utf-8")
        return self.path(name)

    def path(self, name: str) -> str:
        """The path of a file in here."""
        return str(self.directory / name)

    def start(self, name: str, module: str, *arguments: str) -> starting.Process:
        """Runs a command of ours; both streams go to NAME.log."""
        environment = {"API_TOKEN": ENVIRONMENT, "AWS_SECRET_ACCESS_KEY": ENVIRONMENT, "COLUMNS": "500"}
        with (self.directory / f"{name}.log").open("ab") as log:
            return starting.Process(starting.Command(module, arguments, environment), log, log)

    def service(self, name: str, *more: str) -> list[str]:
        """The command of a service, at its highest verbosity."""
        files = ["--policy", self.path("policy.yaml"), "--kubeconfig", self.path("kubeconfig")]
        ledger = ["--ledger", self.path("ledger.sqlite")] if name == "descheduler" else []
        return [name, *files, "-vv", *ledger, *more]

    def asks(self) -> list[str]:
        """How a process is told of Prometheus."""
        there = self.prometheus.replace("://", f"://me:{PASSWORD}@")
        return ["--prometheus", there, "--prometheus-header", f"X-Scope: {HEADER}"]

    def outputs(self) -> dict[str, bytes]:
        """Everything on disk but what a process was given, and what was written to the apiserver."""
        given = {"kubeconfig", "policy.yaml", "token", "elsewhere", "broken"}
        found = {path.name: path.read_bytes() for path in self.directory.iterdir() if path.name not in given}
        bodies = [exchange.body for exchange in self.kube.seen if exchange.body]
        return found | {"written to the apiserver": json.dumps(bodies).encode()}


@pytest.fixture
def world(tmp_path: pathlib.Path) -> collections.abc.Iterator[tuple[World, Server, Server]]:
    kube_script, prometheus_script = Server(Apiserver()), Server(prometheus)
    with scripted_http.serving(kube_script) as kube, scripted_http.serving(prometheus_script) as prom:
        made = World(tmp_path, kube, prom.url)
        yield made, kube_script, prometheus_script
        assert f"Bearer {TOKEN}" in sent(kube, "Authorization")  # or nothing was planted
        assert {f"Basic {LOGIN}", f"Bearer {FILE}"} & sent(prom, "Authorization")
        assert HEADER in sent(prom, "X-Scope")


def sent(server: scripted_http.ScriptedServer, header: str) -> set[str | None]:
    """The values of a header that a server got."""
    return {exchange.headers.get(header) for exchange in server.seen}


def assert_untold(texts: collections.abc.Mapping[str, bytes], *more: str) -> None:
    """No secret, nor a line of a key, in anything."""
    for where, content in texts.items():
        for secret in (*SECRETS, *more):
            at = content.find(secret.encode())
            assert at < 0, f"{where}: …{content[max(0, at - 300) : at + 60].decode(errors='replace')}"


def answers(port: int, paths: collections.abc.Iterable[str]) -> dict[str, bytes]:
    """What a port answers to somebody who tells secrets himself, in every place that a request has."""
    found = {}
    headers = {"Authorization": f"Bearer {CLIENT}", "Cookie": f"session={CLIENT}", "X-Api-Key": CLIENT}
    for path, method in itertools.product(paths, ("GET", "POST")):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=90)) as connection:
            body = json.dumps({"Pod": {}, "token": QUERY}) if method == "POST" else None
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            found[f"{method} {path} {answer.status}"] = answer.read()
    return found


@contextlib.contextmanager
def running(world: World, name: str, *more: str) -> collections.abc.Iterator[int]:
    """A service until the body ends; its port. It must have stopped by itself."""
    port = services.free_port()
    process = world.start(name, *world.service(name, "--listen", f"127.0.0.1:{port}", *more))
    try:
        waiting.eventually(lambda: alive(port), waiting.START_SECONDS, f"{name} to answer", lambda: log(world, name))
        yield port
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=waiting.LIMIT_SECONDS)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def alive(port: int) -> bool:
    """Whether a port answers."""
    try:
        return any(" 200" in name for name in answers(port, ("/livez",)))
    except (OSError, http.client.HTTPException):
        return False


def log(world: World, name: str) -> str:
    """What a process said."""
    return (world.directory / f"{name}.log").read_text(encoding="utf-8", errors="replace")


def test_services_tell_no_secret_while_everything_fails(world: tuple[World, Server, Server]) -> None:
    made, kube, prom = world
    with contextlib.ExitStack() as stack:
        ports = {
            "annotator": stack.enter_context(running(made, "annotator", *made.asks())),
            "descheduler": stack.enter_context(running(made, "descheduler", *made.asks(), "--logging-format", "json")),
            "extender": stack.enter_context(running(made, "extender")),
        }
        found: dict[str, bytes] = {}
        for step in ("well", "failing"):
            for name, port in ports.items():
                told = answers(port, (*PLAIN, *OWN[name]))
                found |= {f"{step}: {name}: {path}": body for path, body in told.items()}
            if step == "well":
                made.write("policy.yaml", f"{POLICY}mistake: 1\n")
                waiting.eventually(lambda: events(made) >= len(ports), waiting.START_SECONDS, "each to write an Event")
                kube.fails.set()
                prom.fails.set()
                enough = lambda: min(kube.failed, prom.failed) >= len(FAILURES)  # noqa: E731
                waiting.eventually(enough, waiting.START_SECONDS, "every failure", lambda: (kube.failed, prom.failed))
    assert_untold({**found, **made.outputs()}, *key_lines(made))
    assert b"Unauthorized" in made.outputs()["annotator.log"] + made.outputs()["descheduler.log"]


def events(world: World) -> int:
    """How many Events were written."""
    return sum(exchange.path.endswith("/events") for exchange in world.kube.seen if exchange.method == "POST")


def key_lines(world: World) -> list[str]:
    """The lines of the client's key, as PEM has them."""
    return [line for line in world.key.splitlines() if not line.startswith("-")]


def test_commands_that_end_tell_no_secret(world: tuple[World, Server, Server]) -> None:
    """Wrong TLS, wrong files, refusals: each ends with its code and a line, and not with what it was given."""
    made, _kube, prom = world
    kubeconfig = json.loads(pathlib.Path(made.path("kubeconfig")).read_text(encoding="utf-8"))
    elsewhere = made.write("elsewhere", changed(kubeconfig, server=made.kube.url.replace("http:", "https:")))
    broken = made.write("broken", changed(kubeconfig, server=made.kube.url).replace(TOKEN, f"{TOKEN}\\n"))
    prom.fails.set()
    token = ["--prometheus", made.prometheus, "--prometheus-token-file", made.path("token")]
    token += ["--prometheus-header", f"X-Scope: {HEADER}"]
    no_certificate = ["--tls-cert", made.path("token"), "--tls-key", made.path("token")]
    runs = {
        "annotator once": made.service("annotator", "--once", *made.asks()),
        "descheduler once": made.service("descheduler", "--once", *token),
        "annotator, wrong TLS": made.service("annotator", "--once", *token, "--kubeconfig", elsewhere),
        "descheduler, wrong token": made.service("descheduler", "--once", *made.asks(), "--kubeconfig", broken),
        "extender, wrong token": made.service("extender", "--once", "--kubeconfig", broken),
        "extender, no certificate": made.service("extender", *no_certificate),
        "doctor": ["cli", "doctor", "--kubeconfig", made.path("kubeconfig"), *made.asks()],
        "doctor, wrong TLS": ["cli", "doctor", "--kubeconfig", elsewhere, *token],
        "effectiveness": ["cli", "effectiveness", *token],
    }
    processes = {name: made.start(name, *command) for name, command in runs.items()}
    codes = {name: process.wait(timeout=waiting.START_SECONDS) for name, process in processes.items()}
    assert 0 not in codes.values(), codes
    assert not [name for name in runs if "Traceback" in log(made, name)]
    assert_untold(made.outputs(), *key_lines(made))


def changed(kubeconfig: dict[str, Any], *, server: str) -> str:
    """The kubeconfig for another server."""
    return json.dumps({**kubeconfig, "clusters": [{"name": "it", "cluster": {"server": server}}]})
