"""The stanza for kube-scheduler: what it holds, what is refused, what is said about the weight."""

import pathlib
from typing import Any

import click.testing
import pytest
import yaml

from tests import commands

ROOT = pathlib.Path(__file__).parents[3]
POLICY = ROOT / "deploy" / "policies" / "default.yaml"
STANZA = ROOT / "deploy" / "scheduler" / "extender-stanza.yaml"
PLAIN = "http://evenload-extender.evenload-system.svc:8900"
SECURE = "https://evenload-extender.evenload-system.svc:8900"


def run(*arguments: object, url: str = PLAIN, policy: object = POLICY) -> click.testing.Result:
    """`evenload scheduler-config --policy ... --url ...`."""
    return commands.run("scheduler-config", "--policy", policy, "--url", url, *arguments)


def extender(result: click.testing.Result) -> dict[str, Any]:
    """The one extender of the printed configuration."""
    assert result.exit_code == 0, result.stderr
    (stanza,) = yaml.safe_load(result.stdout)["extenders"]
    return dict(stanza)


def test_without_options_it_is_the_stanza_we_ship() -> None:
    assert yaml.safe_load(run().stdout) == yaml.safe_load(STANZA.read_text())


def test_a_slash_at_the_end_of_the_url_is_no_part_of_the_prefix() -> None:
    assert extender(run(url=f"{PLAIN}/"))["urlPrefix"] == PLAIN


def test_tls_files_stand_in_the_stanza_and_https_is_enabled() -> None:
    files = {"--ca-file": "/pki/ca.crt", "--cert-file": "/pki/tls.crt", "--key-file": "/pki/tls.key"}
    pairs = [word for option in files.items() for word in option]
    stanza = extender(run(*pairs, "--server-name", "evenload", url=SECURE))
    assert stanza["enableHTTPS"] is True
    assert stanza["tlsConfig"] == {
        "serverName": "evenload",
        "caFile": "/pki/ca.crt",
        "certFile": "/pki/tls.crt",
        "keyFile": "/pki/tls.key",
    }


def test_insecure_is_written_only_when_it_is_asked_for_and_warned_about() -> None:
    result = run("--insecure", url=SECURE)
    assert extender(result)["tlsConfig"] == {"insecure": True}
    assert "warning: the extender's certificate is not verified (--insecure)" in result.stderr


REFUSED = {
    "https without a CA": ([], SECURE, "silently does not verify the server"),
    "a CA and insecure": (["--ca-file", "/ca.crt", "--insecure"], SECURE, "exclude each other"),
    "a certificate without its key": (["--ca-file", "/a", "--cert-file", "/b"], SECURE, "belong together"),
    "a key without its certificate": (["--ca-file", "/a", "--key-file", "/b"], SECURE, "belong together"),
    "a relative path": (["--ca-file", "ca.crt"], SECURE, "write an absolute path"),
    "a CA without https": (["--ca-file", "/ca.crt"], PLAIN, "caFile would have no effect"),
    "insecure without https": (["--insecure"], PLAIN, "insecure would have no effect"),
    "a URL without a scheme": ([], "evenload:8900", "is not a base URL"),
    "a URL of another scheme": ([], "ftp://evenload", "is not a base URL"),
    "a URL without a host": ([], "http://", "is not a base URL"),
    "a URL with a password": ([], "http://a:b@evenload", "is not a base URL"),
    "a URL with a query": ([], "http://evenload/?a=b", "is not a base URL"),
    "a URL with a wrong port": ([], "http://evenload:99999", "is not a base URL"),
    "a weight of 0": (["--weight", "0"], PLAIN, "--weight"),
    "a timeout without a unit": (["--http-timeout", "500"], PLAIN, "not a Go duration"),
    "a timeout of 0": (["--http-timeout", "0s"], PLAIN, "not more than 0s"),
    "a timeout over the scheduler's own": (["--http-timeout", "6s"], PLAIN, "at most 5s"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_refuses(name: str) -> None:
    arguments, url, message = REFUSED[name]
    result = run(*arguments, url=url)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in " ".join(result.stderr.split())


def test_all_that_is_wrong_with_tls_is_said_at_once() -> None:
    result = run("--cert-file", "tls.crt", url=SECURE)
    assert [line[:6] for line in result.stderr.splitlines()] == ["error:"] * 3


def test_a_policy_that_is_refused_or_missing_is_bad_input(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "policy.yaml"
    assert run(policy=file).exit_code == 2
    file.write_text("kind: LoadPolicy\n")
    commands.assert_refused(run(policy=file), 2, "apiVersion: is required")


@pytest.mark.parametrize(("weight", "points", "share"), [(1, 100, "6.67"), (2, 200, "12.5"), (7, 700, "33.3")])
def test_the_arithmetic_of_the_weight_is_on_stderr(weight: int, points: int, share: str) -> None:
    result = run("--weight", weight)
    assert extender(result)["weight"] == weight
    assert f"the extender's full score is 10 x {weight} x 10 = {points} points" in result.stderr
    assert f"the extender's best gives {points} of the {1400 + points} points ({share} %)" in result.stderr
    assert "NodeResourcesFit 100" in result.stderr


def test_settings_of_the_policy_that_work_against_the_stanza_are_named(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\nfilter: {onMissing: reject}\n")
    assert "filter.onMissing: reject" in run(policy=file).stderr
    assert "onMissing" not in run().stderr
