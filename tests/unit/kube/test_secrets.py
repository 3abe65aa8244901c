"""No message about a kubeconfig, a proxy or a token that cannot be used shows what is secret in it."""

import contextlib
import logging
import traceback
from pathlib import Path

import pytest

from kube import config, errors, kinds
from tests import kubeconfigs

SECRET = "s3cr3t"
NOBODY = kubeconfigs.NOBODY


def kubeconfig(directory: Path, *, server: str = NOBODY, proxy: str | None = None, **user: object) -> str:
    """A kubeconfig file, as JSON."""
    path = directory / "config"
    path.write_text(kubeconfigs.text(server, user=user, **({} if proxy is None else {"proxy-url": proxy})))
    return str(path)


def error_text(path: str, expected: type[errors.KubeError] = errors.KubeError, match: str | None = None) -> str:
    """All that is told of a use of a kubeconfig, with the traceback that an unexpected error would leave."""
    with pytest.raises(expected, match=match) as refused, contextlib.closing(config.connect(path)) as connected:
        connected.list(kinds.NODES)
    shown = traceback.format_exception(refused.value)
    return "".join(line for line in shown if not line.lstrip().startswith("File "))


@pytest.mark.parametrize(
    "server", [f"http://me:{SECRET}@127.0.0.1:1", f"me:{SECRET}@127.0.0.1:1"], ids=["a URL", "no URL"]
)
def test_a_server_with_a_user_is_refused_without_it(tmp_path: Path, server: str) -> None:
    shown = error_text(kubeconfig(tmp_path, server=server))
    assert SECRET not in shown
    assert "127.0.0.1:1" in shown


@pytest.mark.parametrize("token", [f"{SECRET}\n", f"{SECRET}\nmore", f"{SECRET}\u201d"])
def test_a_token_that_cannot_stand_in_a_header_is_a_mistake_of_the_configuration(tmp_path: Path, token: str) -> None:
    path = kubeconfig(tmp_path, token=token)
    assert SECRET not in error_text(path, errors.ConfigError, "expected a token of one line")


@pytest.mark.parametrize("proxy", [f"me:{SECRET}@127.0.0.1:1", f"http://me:{SECRET}"])
def test_a_proxy_that_is_none_is_a_mistake_of_the_configuration(tmp_path: Path, proxy: str) -> None:
    path = kubeconfig(tmp_path, proxy=proxy, server="https://127.0.0.1:2")
    assert SECRET not in error_text(path, errors.ConfigError, "proxy-url")


def test_a_proxy_that_does_not_answer_is_named_without_its_user(tmp_path: Path) -> None:
    assert SECRET not in error_text(kubeconfig(tmp_path, proxy=f"http://me:{SECRET}@127.0.0.1:1", server="http://h:2"))


@pytest.mark.parametrize("value", [f"*{SECRET}", f"!{SECRET} x", f"{{{SECRET}", f"[{SECRET}: :"])
def test_a_file_that_is_no_yaml_is_refused_with_the_place_and_not_the_text(tmp_path: Path, value: str) -> None:
    path = tmp_path / "config"
    path.write_text(f"users:\n- name: me\n  user:\n    token: {value}\n", encoding="utf-8")
    with pytest.raises(errors.ConfigError, match=r"no YAML at line [45], column") as refused:
        config.connect(path)
    assert SECRET not in str(refused.value)


def test_what_a_failing_credential_plugin_prints_is_nobodys(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    script = f"echo {SECRET}; echo {SECRET} >&2; exit 1"
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script]}
    with caplog.at_level(logging.DEBUG):
        assert SECRET not in error_text(kubeconfig(tmp_path, exec=plugin))
    assert "the credential plugin failed" in caplog.text
    assert SECRET not in caplog.text + "".join(capfd.readouterr())
