"""Every way a configuration can be unusable gives a ConfigError that names the file and the next step."""

import contextlib
import os
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_httpserver

from kube import config, errors, kinds
from kube.http import client
from runtime import certificates, clock
from tests import builders, scripted_http

Pod = tuple[pytest_httpserver.HTTPServer, client.Client, Path]


@pytest.fixture(autouse=True)
def _no_file_of_this_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "DEFAULT_FILE", "/nowhere/config")


def refused(*arguments: Any, **options: Any) -> str:
    with pytest.raises(errors.ConfigError) as caught:
        config.connect(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{a: ",
        "contexts: 5",
        "apiVersion: v1",
        "\x00\x01",
        "just text",
        "current-context: x\ncontexts: [{name: y}]",
    ],
)
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    told = refused(path)
    assert repr(str(path)) in told
    assert "kubectl config view" in told


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    assert "No such file or directory" in refused(tmp_path / "none")
    assert "Is a directory" in refused(tmp_path)
    assert "--kubeconfig" in refused("")


def test_a_missing_context_is_named(tmp_path: Path) -> None:
    path = scripted_http.kubeconfig(tmp_path, "http://127.0.0.1:1")
    assert "(context 'staging'): 'staging' is none of its contexts, main; " in refused(path, "staging")


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    user = {"client-certificate": "/nowhere/client.crt", "client-key": "/nowhere/client.key"}
    assert "/nowhere/client.crt" in refused(scripted_http.kubeconfig(tmp_path, "https://127.0.0.1:1", user=user))


@pytest.mark.parametrize("url", ["127.0.0.1:6443", "ftp://cluster", ""])
def test_a_server_that_is_no_url_is_named(tmp_path: Path, url: str) -> None:
    assert f"server {url!r}: expected a URL" in refused(scripted_http.kubeconfig(tmp_path, url))


def test_files_of_the_environment_that_are_not_there_are_named_in_a_pod_too() -> None:
    variables = {"KUBECONFIG": "/nowhere:/gone", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert "$KUBECONFIG is '/nowhere:/gone': no such file" in refused(environment=variables)


def test_no_configuration_anywhere_says_what_was_looked_for() -> None:
    told = refused(environment={})
    assert "--kubeconfig" in told
    assert "KUBERNETES_SERVICE_HOST" in told


def test_a_pod_without_a_mounted_token_is_told(tmp_path: Path) -> None:
    variables = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    told = refused(environment=variables, service_account=tmp_path)
    assert "automountServiceAccountToken" in told
    assert str(tmp_path) in told


@pytest.fixture
def in_pod(tmp_path: Path) -> Iterator[Pod]:
    """An apiserver, a client as a pod has it, and the token that the kubelet mounts there."""
    authority = certificates.Authority.create(now_seconds=clock.WallClock().now())
    serving = authority.serving(["127.0.0.1"], now_seconds=clock.WallClock().now())
    for name, text in (("ca.crt", authority.pair.certificate), ("tls.crt", serving.certificate), ("k", serving.key)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "token").write_text("first", encoding="utf-8")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "k")
    with pytest_httpserver.HTTPServer(host="127.0.0.1", ssl_context=context) as server:
        server.expect_request("/api/v1/nodes/node-1").respond_with_json(builders.node_body("node-1"))
        variables = {"KUBERNETES_SERVICE_HOST": "127.0.0.1"}
        port = {"KUBERNETES_SERVICE_PORT": str(server.port)}
        with contextlib.closing(config.connect(environment=variables | port, service_account=tmp_path)) as door:
            yield server, door, tmp_path / "token"


def test_a_pods_token_is_used_as_it_stands_at_every_request(in_pod: Pod) -> None:
    server, door, token = in_pod
    for text in ("first", "second\n"):
        token.write_text(text, encoding="utf-8")
        assert door.get(kinds.NODES, "node-1").name == "node-1"
    assert [request.headers["Authorization"] for request, _ in server.log] == ["Bearer first", "Bearer second"]


def test_a_pods_token_that_cannot_be_used_is_an_error_of_the_door(in_pod: Pod) -> None:
    server, door, token = in_pod
    token.write_text("\n", encoding="utf-8")
    with pytest.raises(errors.ConfigError, match=r"token is empty: expected the token of the pod's service account"):
        door.get(kinds.NODES, "node-1")
    token.write_bytes(b"\xff\xfe")
    with pytest.raises(errors.ConfigError, match="the credentials cannot be sent"):
        door.get(kinds.NODES, "node-1")
    token.unlink()
    with pytest.raises(errors.Unreachable, match="No such file"):
        door.get(kinds.NODES, "node-1")
    assert server.log == []


def test_a_context_without_a_kubeconfig_is_refused() -> None:
    variables = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert "'staging'" in refused(None, "staging", environment=variables)


def plugin(directory: Path, body: str) -> dict[str, Any]:
    script = directory / "plugin"
    script.write_text(f"#!{sys.executable}\n{body}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {
        "exec": {"command": str(script), "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}
    }


def authorization(directory: Path, user: dict[str, Any]) -> str | None:
    """As whom a user of a kubeconfig asks."""
    with scripted_http.serving(node) as server:
        path = scripted_http.kubeconfig(directory, server.url, user=user)
        with contextlib.closing(config.connect(path)) as door:
            door.get(kinds.NODES, "node-1")
        return server.seen[-1].headers["Authorization"]


def node(exchange: scripted_http.Exchange) -> None:
    exchange.answer(builders.node_body("node-1"))


def test_a_credential_plugin_gives_the_token(tmp_path: Path) -> None:
    body = (
        'print(\'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", '
        '"status": {"token": "from-plugin"}}\')'
    )
    assert authorization(tmp_path, plugin(tmp_path, body)) == "Bearer from-plugin"


def test_a_credential_plugin_that_fails_is_named_instead_of_going_on_anonymously(tmp_path: Path) -> None:
    user = plugin(tmp_path, "import sys; sys.exit('not logged in')")
    told = refused(scripted_http.kubeconfig(tmp_path, "http://127.0.0.1:1", user=user))
    assert str(tmp_path / "plugin") in told
    assert "run it by hand" in told


@pytest.mark.parametrize(
    ("user", "sent"),
    [({"token": "plain"}, "Bearer plain"), ({"username": "jane", "password": "pw"}, "Basic amFuZTpwdw=="), ({}, None)],
    ids=["a token", "a name and a password", "nobody"],
)
def test_users_are_who_the_kubeconfig_says(tmp_path: Path, user: dict[str, str], sent: str | None) -> None:
    assert authorization(tmp_path, user) == sent


def test_a_token_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file")
    assert authorization(tmp_path, {"tokenFile": str(tmp_path / "token")}) == "Bearer from-file"


def test_the_default_files_are_merged_and_missing_ones_passed_over(tmp_path: Path) -> None:
    with scripted_http.serving(node) as server:
        path = scripted_http.kubeconfig(tmp_path, server.url)
        listed = os.pathsep.join(["/nowhere", str(path)])
        with contextlib.closing(config.connect(environment={"KUBECONFIG": listed})) as door:
            assert door.url == server.url


def test_the_heavy_library_waits_until_a_connection_is_made() -> None:
    modules = "kube.config, kube.http.client, kube.cache.reflector, kube.lease"
    code = f"import sys, {modules}; print('kubernetes' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
