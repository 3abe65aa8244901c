"""Credentials on the real apiserver: certificates, service account tokens, in-cluster configuration, and refusals.

36.0.0 of the official client sent no token in-cluster; that a token reaches the apiserver is asked of the apiserver
itself: an anonymous request is Unauthorized or Forbidden as system:anonymous, a known one Forbidden by its own name.
"""

import base64
import contextlib
from pathlib import Path
from urllib import parse

import pytest
import yaml

from kube import config, errors, kinds
from kube.http import client
from lab.cluster import Cluster

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def _no_file_of_this_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "DEFAULT_FILE", "/nowhere/config")


@pytest.fixture
def service_account(control_plane: Cluster) -> Path:
    """A kubeconfig with the token of default/default, which may do nothing."""
    return control_plane.service_account_kubeconfig("default", "default")


def test_a_client_certificate_is_known_by_its_name(control_plane: Cluster) -> None:
    with pytest.raises(errors.Forbidden, match='"jane" cannot list resource "nodes"'):
        list_nodes(config.connect(control_plane.kubeconfig_for("jane")))


def test_a_token_in_a_kubeconfig_reaches_the_apiserver(service_account: Path) -> None:
    with pytest.raises(errors.Forbidden, match="system:serviceaccount:default:default"):
        list_nodes(config.connect(service_account))


def test_a_pod_is_known_by_its_mounted_token(service_account: Path, tmp_path: Path) -> None:
    with pytest.raises(errors.Forbidden, match="system:serviceaccount:default:default"):
        list_nodes(in_cluster(service_account, tmp_path, token=None))


def test_an_unknown_token_is_unauthorized(service_account: Path, tmp_path: Path) -> None:
    with pytest.raises(errors.Unauthorized) as caught:
        list_nodes(in_cluster(service_account, tmp_path, token="nobody"))
    assert "nobody" not in str(caught.value)


def test_a_server_of_another_authority_is_unreachable_not_trusted(control_plane: Cluster, tmp_path: Path) -> None:
    loaded = yaml.safe_load(control_plane.kubeconfig.read_text())
    for entry in loaded["clusters"]:
        for key in ("certificate-authority", "certificate-authority-data"):
            entry["cluster"].pop(key, None)
    untrusting = tmp_path / "kubeconfig"
    untrusting.write_text(yaml.safe_dump(loaded))
    with pytest.raises(errors.Unreachable, match="certificate"):
        list_nodes(config.connect(untrusting))


def list_nodes(door: client.Client) -> None:
    """One request, on a connection that is closed however it ends."""
    with contextlib.closing(door):
        door.list(kinds.NODES)


def in_cluster(kubeconfig: Path, directory: Path, *, token: str | None) -> client.Client:
    """Connect as a pod does, with the files and variables a kubelet would give."""
    loaded = yaml.safe_load(kubeconfig.read_text())
    entry, user = loaded["clusters"][0]["cluster"], loaded["users"][0]["user"]
    authority = entry.get("certificate-authority")
    (directory / "ca.crt").write_bytes(
        Path(kubeconfig.parent, authority).read_bytes()
        if authority
        else base64.b64decode(entry["certificate-authority-data"])
    )
    (directory / "token").write_text(token or user.get("token") or Path(user["tokenFile"]).read_text())
    url = parse.urlsplit(entry["server"])
    variables = {"KUBERNETES_SERVICE_HOST": url.hostname or "", "KUBERNETES_SERVICE_PORT": str(url.port)}
    return config.connect(environment=variables, service_account=directory)
