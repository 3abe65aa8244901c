"""`evenload certs`: files with their modes, Secrets, exit codes, and what it refuses."""

import base64
import contextlib
import pathlib
import shutil
import ssl
import stat
from collections.abc import Callable
from typing import Any

import click.testing
import pytest
import yaml

from cli import certs
from extender.http import tls
from runtime import certificates, clock
from tests import commands

ROOT = pathlib.Path(__file__).parents[3]
MTLS = ROOT / "deploy" / "kustomize" / "components" / "mtls" / "kustomization.yaml"


@pytest.fixture
def pki(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "pki"


def run(directory: pathlib.Path, *arguments: str, code: int | None = None) -> click.testing.Result:
    """`evenload certs -d DIRECTORY …`."""
    return commands.run("certs", "-d", directory, *arguments, code=code)


def texts(directory: pathlib.Path) -> dict[str, str]:
    """Every file by path."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_text() for path in files}


def secrets(result: click.testing.Result) -> dict[str, dict[str, Any]]:
    """The printed Secrets by name."""
    assert result.exit_code == 0, result.stderr
    printed = yaml.safe_load(result.stdout)
    assert printed["kind"] == "List"
    return {item["metadata"]["name"]: item for item in printed["items"]}


def test_keys_are_for_their_owner_alone_and_a_second_run_changes_nothing(pki: pathlib.Path) -> None:
    run(pki, code=0)
    modes = {str(path.relative_to(pki)): stat.S_IMODE(path.stat().st_mode) for path in pki.rglob("*")}
    assert {name: mode for name, mode in modes.items() if name.endswith(".key")} == dict.fromkeys(
        ("ca.key", "extender/tls.key", "scheduler/tls.key"), 0o600
    )
    assert modes["extender"] == modes["scheduler"] == stat.S_IMODE(pki.stat().st_mode) == 0o700
    before = texts(pki)
    again = run(pki)
    assert (again.exit_code, again.stdout.count("kept"), again.stderr) == (0, 3, "")
    assert texts(pki) == before


def test_the_extender_and_openssl_take_what_it_made(pki: pathlib.Path) -> None:
    run(pki, "--host", "10.1.2.3")
    mine = pki / "extender"
    made = tls.context(tls.Files(mine / "tls.crt", mine / "tls.key", mine / "ca.crt"))
    assert made.verify_mode == ssl.CERT_OPTIONAL
    ssl.create_default_context(cafile=pki / "scheduler" / "ca.crt").load_cert_chain(
        pki / "scheduler" / "tls.crt", pki / "scheduler" / "tls.key"
    )
    hosts = certificates.read((mine / "tls.crt").read_text()).hosts
    assert {"evenload-extender.evenload-system.svc", "localhost", "127.0.0.1", "10.1.2.3"} <= set(hosts)


def test_the_names_are_those_that_the_mtls_component_allows_and_mounts(pki: pathlib.Path) -> None:
    (component,) = yaml.safe_load_all(MTLS.read_text())
    added = [op["value"] for patch in component["patches"] for op in yaml.safe_load(patch["patch"])]
    (secret,) = secrets(run(pki, "-o", "yaml")).values()
    volume = next(value for value in added if isinstance(value, dict) and "secret" in value)
    assert volume["secret"]["secretName"] == secret["metadata"]["name"] == certs.SECRET
    mounted = {
        value.rpartition("/")[2] for value in added if str(value).startswith("--") and "/etc/evenload-tls" in value
    }
    assert mounted == set(secret["data"])
    name = certificates.read((pki / "scheduler" / "tls.crt").read_text()).common_name
    assert f"--client-name={name}" in added


def test_a_secret_holds_the_extenders_files_and_nothing_of_the_cas_key(pki: pathlib.Path) -> None:
    result = run(pki, "-o", "yaml", "-n", "elsewhere")
    assert f"next: evenload certs -n elsewhere -d {pki} -o yaml | kubectl apply" in result.stderr
    (secret,) = secrets(result).values()
    assert (secret["metadata"]["namespace"], secret["type"]) == ("elsewhere", "kubernetes.io/tls")
    held = {name: base64.b64decode(text).decode() for name, text in secret["data"].items()}
    assert held == {name: (pki / "extender" / name).read_text() for name in ("tls.crt", "tls.key", "ca.crt")}
    assert base64.b64encode((pki / "ca.key").read_bytes()).decode() not in result.stdout
    assert "evenload-extender.elsewhere.svc" in certificates.read(held["tls.crt"]).hosts


def test_clients_have_secrets_where_they_are_asked_for(pki: pathlib.Path) -> None:
    found = secrets(run(pki, "-o", "json", "--client-secrets", "--client", "jane"))
    assert list(found) == ["evenload-extender-tls", "evenload-scheduler-tls", "evenload-jane-tls"]


def test_a_person_is_not_forgotten_by_the_next_run(pki: pathlib.Path) -> None:
    run(pki, "--client", "jane")
    before = texts(pki)["jane/tls.crt"]
    assert "jane/tls.crt" in run(pki, "--renew").stdout
    assert texts(pki)["jane/tls.crt"] != before


def test_a_dry_run_writes_nothing_and_says_by_its_code_whether_something_is_due(pki: pathlib.Path) -> None:
    first = run(pki, "--dry-run")
    assert (first.exit_code, first.stdout.count("made")) == (1, 3)
    assert not pki.exists()
    run(pki)
    before = texts(pki)
    run(pki, "--dry-run", code=0)
    run(pki, "--dry-run", "--renew", code=1)
    assert texts(pki) == before


def test_a_ca_is_replaced_only_when_that_is_said(pki: pathlib.Path) -> None:
    run(pki)
    (pki / "ca.key").unlink()
    before = texts(pki)
    commands.assert_refused(run(pki), 2, "error: ca.crt is there and ca.key is not: put it back, or say --replace-ca")
    assert texts(pki) == before
    run(pki, "--replace-ca", code=0)
    assert (pki / "ca.crt").read_text().endswith(before["ca.crt"])


def test_a_ca_that_runs_out_soon_is_a_finding(pki: pathlib.Path) -> None:
    run(pki)
    young = certificates.Authority.create("evenload-ca", now_seconds=clock.WallClock().now(), days=60)
    (pki / "ca.crt").write_text(young.pair.certificate)
    (pki / "ca.key").write_text(young.pair.key)
    for folder in ("extender", "scheduler"):
        (pki / folder / "tls.crt").unlink()
    result = run(pki, code=1)
    assert "warning: ca.crt runs out in 59 days" in result.stderr or "in 60 days" in result.stderr


def test_a_key_that_others_may_read_is_told(pki: pathlib.Path) -> None:
    run(pki)
    (pki / "ca.key").chmod(0o640)
    assert f"warning: others may read {pki / 'ca.key'}" in run(pki).stderr


REFUSED = {
    "no directory": ([], "--directory"),
    "Secrets of a dry run": (["--dry-run", "-o", "yaml"], "--dry-run prints the table"),
    "a person with the name of a folder of ours": (["--client", "scheduler"], "a folder of the CA already"),
    "a person with a path for a name": (["--client", "../x"], "small letters"),
    "a host with a space": (["--host", "a b"], "not a DNS name or address"),
    "no day": (["--days", "0"], "--days"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_refuses(name: str, tmp_path: pathlib.Path) -> None:
    arguments, message = REFUSED[name]
    given = arguments if name == "no directory" else ["-d", str(tmp_path / "pki"), *arguments]
    assert message in " ".join(commands.run("certs", *given, code=2).stderr.split())
    assert not (tmp_path / "pki").exists()


def test_a_directory_that_cannot_be_written_is_bad_input(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    commands.assert_refused(run(tmp_path / "file" / "pki"), 2, "error:")


def test_the_page_of_the_command_line_names_every_option() -> None:
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    section = page.split("## evenload certs\n")[1].split("\n## ")[0]
    options = [name for option in certs.main.params for name in option.opts]
    assert [name for name in options if f"`{name}" not in section and f"`, `{name}" not in section] == []


CLIENTS = {"scheduler": "system:kube-scheduler", "jane": "jane"}
PARTS = ("tls.crt", "tls.key", "ca.crt")


class Handover:
    """A change of the CA: `pki` has what is made, `places` what each replica and each client holds."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.pki, self.places = directory / "pki", directory / "places"
        run(self.pki, "--client", "jane", code=0)
        for place in ("early", "late", *CLIENTS):
            self.copy(place, *PARTS)
        self.replicas = [self._replica("early"), self._replica("late")]
        run(self.pki, "--client", "jane", "--replace-ca", code=0)

    def _replica(self, place: str) -> tls.Security:
        certificate, key, authority = (self.places / place / part for part in PARTS)
        security = tls.Security(tls.Files(certificate, key, authority))
        security.load()
        return security

    def copy(self, place: str, *parts: str) -> None:
        """Bring files of `pki` to a replica or a client."""
        (self.places / place).mkdir(parents=True, exist_ok=True)
        for part in parts:
            shutil.copy(self.pki / (place if place in CLIENTS else "extender") / part, self.places / place / part)

    def apply(self, place: str) -> None:
        """The whole Secret reaches a replica, which polls."""
        self.copy(place, *PARTS)
        for replica in self.replicas:
            replica.poll()
            replica.poll()

    def names(self) -> list[str | None]:
        """The client that each replica recognizes in a new connection of each; ssl.SSLError for a refusal."""
        return [self._shaken(replica, name) for replica in self.replicas for name in CLIENTS]

    def _shaken(self, replica: tls.Security, name: str) -> str | None:
        own = self.places / name
        context = ssl.create_default_context(cafile=own / "ca.crt")
        context.load_cert_chain(own / "tls.crt", own / "tls.key")
        sent, received = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(received, sent, server_hostname="evenload-extender.evenload-system.svc")
        server = replica.context.wrap_bio(sent, received, server_side=True)
        for end in (client, server, client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
        return tls.common_name(server.getpeercert())


def test_a_change_of_the_ca_in_the_order_of_the_page_refuses_no_client(tmp_path: pathlib.Path) -> None:
    handover, everybody = Handover(tmp_path), [*CLIENTS.values()] * 2
    steps: list[tuple[str, Callable[[], None]]] = [
        ("the scheduler's bundle", lambda: handover.copy("scheduler", "ca.crt")),
        ("Jane's bundle", lambda: handover.copy("jane", "ca.crt")),
        ("one replica", lambda: handover.apply("early")),
        ("the other replica", lambda: handover.apply("late")),
        ("the scheduler's certificate", lambda: handover.copy("scheduler", "tls.crt", "tls.key")),
        ("Jane's certificate", lambda: handover.copy("jane", "tls.crt", "tls.key")),
        ("the old CA out", lambda: drop_the_old_ca(handover)),
    ]
    assert handover.names() == everybody
    for step, take in steps:
        take()
        assert handover.names() == everybody, step


def drop_the_old_ca(handover: Handover) -> None:
    """Delete the last block of every ca.crt, and let the replicas poll."""
    for bundle in handover.places.glob("*/ca.crt"):
        first, *others = bundle.read_text().split("-----END CERTIFICATE-----\n")
        assert "".join(others).strip(), "it held two"
        bundle.write_text(f"{first}-----END CERTIFICATE-----\n")
    for replica in handover.replicas:
        assert not replica.poll()
        assert replica.poll()


@pytest.mark.parametrize("early", ["the Secret before a client's bundle", "a client's certificate before the Secret"])
def test_a_change_of_the_ca_in_another_order_refuses_clients(early: str, tmp_path: pathlib.Path) -> None:
    handover = Handover(tmp_path)
    handover.copy("scheduler", "ca.crt")
    if early.startswith("the Secret"):
        handover.apply("early")  # Jane does not trust the new CA yet
    else:
        handover.copy("scheduler", "tls.crt", "tls.key")
    with pytest.raises(ssl.SSLError):
        handover.names()
