"""Not one filter fails: a Go client with kube-scheduler's transport over idle gaps, restarts and new certificates.

The extender serves neutrally here, which is all that connections need. Tests count errors; none looks at times.
"""

import collections.abc
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
from typing import IO

import click.testing
import pytest

from cli import certs
from runtime import certificates, clock
from tests import kubeconfigs, starting
from tests.e2e import services, waiting
from tests.goclient import asking

ASKED = '{"Pod": {"metadata": {"name": "p", "namespace": "d", "uid": "u"}}, "NodeNames": ["a", "b"]}'
CLIENTS = 8  # of a Go client that is not told another number
FILTERS = r'evenload_extender_request_duration_seconds_count{[^}]*verb="filter"[^}]*} (\S+)'


class Place:
    """A directory with what replicas and clients read: policy, kubeconfig, certificates, and the Service's address."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.address_file = directory / "address"
        self.authority = certificates.Authority.create(now_seconds=self.now())
        self.write("policy.yaml", "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n")
        self.write("kubeconfig", kubeconfigs.text())
        self.write("ca.pem", self.authority.pair.certificate)
        self.renew()
        self.client("scheduler", self.authority)

    def now(self) -> float:
        """Certificates begin now."""
        return clock.WallClock().now()

    def write(self, name: str, text: str) -> pathlib.Path:
        """A file that appears whole, as in a Secret volume or for a new Service endpoint."""
        whole = self.directory / f"{name}.new"
        whole.write_text(text, encoding="utf-8")
        return whole.rename(self.directory / name)

    def renew(self) -> None:
        """Another certificate for the extender: first the certificate, then its key, as a careless script would."""
        pair = self.authority.serving(["127.0.0.1"], now_seconds=self.now())
        self.write("tls.crt", pair.certificate)
        self.write("tls.key", pair.key)

    def certs(self, *arguments: str) -> None:
        """`evenload certs`, in the folder pki."""
        result = click.testing.CliRunner().invoke(certs.main, ["-d", self.path("pki"), *arguments])
        assert result.exit_code == 0, result.stderr

    def mount(self) -> None:
        """What the command made for the extender, where the extender reads; the CAs first, as they vouch for both."""
        for name, target in (("ca.crt", "ca.pem"), ("tls.key", "tls.key"), ("tls.crt", "tls.crt")):
            self.write(target, (self.directory / "pki" / "extender" / name).read_text(encoding="utf-8"))

    def bring(self, *names: str) -> list[str]:
        """Files of the folder scheduler come to the scheduler's machine; the options of a client that starts there."""
        for name in names:
            self.write(f"scheduler-{name}", (self.directory / "pki" / "scheduler" / name).read_text(encoding="utf-8"))
        files = {"-ca": "scheduler-ca.crt", "-cert": "scheduler-tls.crt", "-key": "scheduler-tls.key"}
        return ["-scheme", "https", *(word for key, name in files.items() for word in (key, self.path(name)))]

    def client(self, name: str, authority: certificates.Authority) -> None:
        """A client's certificate, as NAME.crt and NAME.key."""
        pair = authority.client(name, (), now_seconds=self.now())
        self.write(f"{name}.crt", pair.certificate)
        self.write(f"{name}.key", pair.key)

    def path(self, name: str) -> str:
        """The path of a file in here."""
        return str(self.directory / name)

    def tls_options(self, *names: str) -> list[str]:
        """The extender's options for mutual TLS."""
        files = ["--tls-cert", self.path("tls.crt"), "--tls-key", self.path("tls.key")]
        return [*files, "--client-ca", self.path("ca.pem"), *(f"--client-name={name}" for name in names)]

    def ask(self, *options: str) -> asking.Asking:
        """Start the Go client."""
        return asking.Asking(self.address_file, *options)

    def ask_securely(self, *options: str) -> asking.Asking:
        """Start the Go client as the scheduler with its certificate."""
        own = ["-cert", self.path("scheduler.crt"), "-key", self.path("scheduler.key")]
        return self.ask("-scheme", "https", "-ca", self.path("ca.pem"), *own, *options)


class Replica(services.Service):
    """One extender process on a port that it keeps."""

    def __init__(self, place: Place, *options: str, keepalive: int | None = None) -> None:
        self._files = (place.path("policy.yaml"), place.path("kubeconfig"))
        listening = ("--policy", self._files[0], "--kubeconfig", self._files[1], *options)
        super().__init__("extender", listening, place.directory)
        self.place = place
        self.secure = "--tls-cert" in options
        self.address = f"127.0.0.1:{self.port}"
        self.log_path = place.directory / f"{self.port}.log"
        self._keepalive = keepalive

    def spawn(self, log: IO[bytes]) -> starting.Process | subprocess.Popen[bytes]:
        """Starts the process, with a keep-alive of the test's where it has one."""
        if self._keepalive is None:
            return super().spawn(log)
        arguments = (self.address, str(self._keepalive), *self._files)
        return starting.Process(starting.Command("tests.goclient.replica", arguments), log, log)

    def answers(self) -> bool:
        """Whether it serves; without an apiserver it is never ready."""
        return self.status("GET", "/livez")[0] == 200

    def __enter__(self) -> "Replica":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def take_new_connections(self) -> None:
        """What a Service does when this endpoint becomes the only one."""
        self.place.write("address", self.address)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        os.kill(self.pid, number)

    def await_filters(self, count: int) -> None:
        """Waits until it has answered so many filters since it started, so that clients are surely at work."""
        waiting.until(lambda: self._filters() >= count, f"{count} filters", self._filters)

    def _filters(self) -> float:
        return sum(float(count) for count in re.findall(FILTERS, self.status("GET", "/metrics")[1]))

    def peak_bytes(self) -> int:
        """The most memory that its worker ever had."""
        children = pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        status = pathlib.Path(f"/proc/{children.split()[0]}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024

    def connect(self, client: str = "") -> http.client.HTTPConnection:
        """A connection, with NAME's client certificate if one is given."""
        if not self.secure:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)
        context = ssl.create_default_context(cafile=self.place.path("ca.pem"))
        if client:
            context.load_cert_chain(self.place.path(f"{client}.crt"), self.place.path(f"{client}.key"))
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=90, context=context)

    def status(self, method: str, path: str, client: str = "") -> tuple[int, str]:
        """Status and body of one request on a connection of its own."""
        connection = self.connect(client)
        try:
            body = ASKED if method == "POST" else None
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@pytest.fixture
def place(tmp_path: pathlib.Path) -> Place:
    return Place(tmp_path)


def until(client: asking.Asking, reached: collections.abc.Callable[[asking.Report], bool], what: str) -> None:
    """Wait until the client has counted so much, and not only the server for it."""
    waiting.eventually(lambda: reached(client.so_far()), waiting.START_SECONDS, what, client.so_far)


def failed(run: asking.Report) -> dict[str, int]:
    """The errors by kind, without those of a client that waited longer than a stopping extender serves on."""
    return {kind: count for kind, count in run.errors.items() if kind != "late"}


def gaps_around_one_second(
    place: Place, keepalive: int, enough: collections.abc.Callable[[asking.Report], bool]
) -> asking.Report:
    """Hundreds of schedulers whose pauses lie around a keep-alive of one second, until they have seen enough."""
    with Replica(place, keepalive=keepalive) as replica:
        replica.take_new_connections()
        with place.ask("-clients", "300", "-min-gap", "970ms", "-max-gap", "1070ms") as client:
            until(client, enough, "enough idle gaps")
            return client.finish()


def test_idle_gaps_lose_no_request_with_our_keepalive(place: Place) -> None:
    view = gaps_around_one_second(place, 120, lambda now: now.requests >= 2000 and sum(now.connections.values()) >= 300)
    assert view.errors == {}, view
    assert sum(view.connections.values()) == 300, view


def test_the_same_gaps_lose_requests_when_the_server_closes_first(place: Place) -> None:
    view = gaps_around_one_second(place, 1, lambda now: bool(failed(now)))
    assert set(view.errors) <= {"closed", "reset", "late"}, view


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "mutual TLS"])
def test_a_rolling_restart_under_load_fails_no_filter(place: Place, secure: bool) -> None:
    options = place.tls_options("scheduler") if secure else []
    one, two = Replica(place, *options), Replica(place, *options)
    ask = place.ask_securely if secure else place.ask
    with one, two:
        one.take_new_connections()
        with ask("-max-gap", "50ms") as client:
            connected(client, one, CLIENTS)
            roll(one, two)
            connected(client, two, CLIENTS)
            with one:  # again, on its port
                roll(two, one)
                connected(client, one, 2 * CLIENTS)
                view = client.finish()
    assert failed(view) == {}, view


def connected(client: asking.Asking, replica: Replica, times: int) -> None:
    """Waits until a replica had so many connections: each client needs one to each that was the only one."""
    until(client, lambda now: now.connections.get(replica.address, 0) >= times, f"{times} connections")


def roll(old: Replica, new: Replica) -> None:
    """Abandon some connections to the old one, send new ones to the new one, and stop the old one at once."""
    old.await_filters(100)
    for _ in range(50):
        socket.create_connection(("127.0.0.1", old.port)).close()
    answered_before = old.status("GET", "/livez")[0]
    new.take_new_connections()
    assert (answered_before, old.stop()) == (200, 0)


def test_a_stop_ends_by_itself_though_new_connections_keep_coming(place: Place) -> None:
    with Replica(place) as replica:
        replica.take_new_connections()
        with place.ask("-per-connection", "1", "-max-gap", "5ms") as client:
            replica.await_filters(100)
            code = replica.stop()
            view = client.finish()
    assert code == 0
    assert "Worker exiting" in replica.log()
    assert set(view.errors) <= {"refused", "reset", "closed", "late"}, view


def test_a_reload_by_sighup_fails_no_filter(place: Place) -> None:
    with Replica(place) as replica:
        replica.take_new_connections()
        with place.ask("-max-gap", "50ms", "-per-connection", "10") as client:
            for boots in (2, 3):
                asked_more(client)
                replica.signal(signal.SIGHUP)
                waiting.until(lambda n=boots: replica.log().count("Booting worker") >= n, "a new worker")  # type: ignore[misc]
                waiting.until(lambda n=boots - 1: replica.log().count("Worker exiting") >= n, "the drain")  # type: ignore[misc]
            asked_more(client)
            view = client.finish()
    assert failed(view) == {}, view


def asked_more(client: asking.Asking) -> None:
    """Wait until the clients have asked so often that some have changed connections meanwhile."""
    enough = client.so_far().requests + 200
    until(client, lambda now: now.requests >= enough, f"{enough} requests")


BUSY = ("-max-gap", "50ms", "-per-connection", "10")
SCHEDULER_FILES = ("ca.crt", "tls.crt", "tls.key")


def test_a_new_certificate_is_served_without_a_failed_filter(place: Place) -> None:
    place.certs()
    place.mount()
    with Replica(place, *place.tls_options("system:kube-scheduler")) as replica:
        replica.take_new_connections()
        with place.ask(*place.bring(*SCHEDULER_FILES), *BUSY) as client:
            until(client, lambda now: len(now.serials) == 1, "a certificate seen")
            for count in (2, 3):
                asked_more(client)
                place.certs("--renew")
                place.mount()
                until(client, lambda now, n=count: len(now.serials) == n, f"{count} certificates seen")  # type: ignore[misc]
            asked_more(client)
            view = client.finish()
    assert failed(view) == {}, view


def test_a_ca_replaced_in_the_order_of_the_docs_fails_no_filter(place: Place) -> None:
    place.certs()
    place.mount()
    with Replica(place, *place.tls_options("system:kube-scheduler")) as replica:
        replica.take_new_connections()
        with place.ask(*place.bring(*SCHEDULER_FILES), *BUSY) as before:
            asked_more(before)
            place.certs("--replace-ca")
            view = [before.finish()]
        with place.ask(*place.bring("ca.crt"), *BUSY) as between:  # restarted, with its old certificate
            until(between, lambda now: len(now.serials) == 1, "the old certificate seen")
            place.mount()
            until(between, lambda now: len(now.serials) == 2, "the new certificate seen")
            view.append(between.finish())
        with place.ask(*place.bring(*SCHEDULER_FILES), *BUSY) as after:  # and again, with its new one
            asked_more(after)
            view.append(after.finish())
    assert [failed(one) for one in view] == [{}, {}, {}], view


def test_files_that_make_no_certificate_change_nothing_and_are_reported(place: Place) -> None:
    with Replica(place, *place.tls_options()) as replica:
        place.write("tls.key", certificates.key_pem(certificates.new_key()))
        refusal = "the files as they are now are refused"
        waiting.until(lambda: refusal in replica.status("GET", "/readyz?verbose")[1], "the refusal")
        assert "certificate_last_reload_successful 0.0" in replica.status("GET", "/metrics")[1]
        assert replica.status("POST", "/filter", "scheduler")[0] == 200
        place.renew()
        waiting.until(lambda: "certificate reloaded" in replica.log(), "the certificate to be reloaded")
        assert "certificate_last_reload_successful 1.0" in replica.status("GET", "/metrics")[1]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[Replica]:
    """An extender that answers only the client `scheduler` of its CA."""
    place = Place(tmp_path_factory.mktemp("guarded"))
    place.client("somebody", place.authority)
    place.client("foreign", certificates.Authority.create(now_seconds=place.now()))
    with Replica(place, *place.tls_options("scheduler", "other-scheduler")) as replica:
        yield replica


GUARDED = [
    ("POST", "/filter"),
    ("POST", "/prioritize"),
    ("POST", "/preempt"),
    ("POST", "/explain"),
    ("GET", "/decisions"),
    ("GET", "/nodes"),
    ("GET", "/configz"),
    ("POST", "//filter"),
    ("POST", "/livez/../filter"),
]


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_the_verbs_refuse_a_client_without_a_certificate(guarded: Replica, method: str, path: str) -> None:
    status, body = guarded.status(method, path)
    assert status == 403
    assert "client certificate is needed" in json.loads(body)["message"]


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/version"])
def test_probes_and_metrics_need_no_certificate(guarded: Replica, path: str) -> None:
    assert guarded.status("GET", path)[0] in (200, 503)  # not ready, as no apiserver answers


def test_the_named_client_is_answered(guarded: Replica) -> None:
    status, body = guarded.status("POST", "/filter", "scheduler")
    assert (status, json.loads(body)["NodeNames"]) == (200, ["a", "b"])


def test_another_client_of_the_ca_is_refused_by_name(guarded: Replica) -> None:
    status, body = guarded.status("POST", "/filter", "somebody")
    assert status == 403
    assert "'somebody'" in json.loads(body)["message"]


def test_a_client_of_another_ca_is_refused_in_the_handshake(guarded: Replica) -> None:
    with pytest.raises(OSError, match=r"unknown ca|reset|EOF|closed|[Bb]roken pipe"):  # whichever side is quicker
        guarded.status("POST", "/filter", "foreign")


def test_plain_http_on_the_tls_port_gets_no_answer(guarded: Replica) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", guarded.port, timeout=90)
    connection.request("GET", "/livez")
    with pytest.raises((OSError, http.client.HTTPException)):
        connection.getresponse()
    connection.close()
