import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from runtime import options, version


@pytest.fixture
def policy(tmp_path: Path) -> str:
    path = tmp_path / "policy.yaml"
    path.write_text("")
    return str(path)


def run(*arguments: str) -> tuple[Any, dict[str, Any]]:
    seen: dict[str, Any] = {}

    @click.command()
    @options.service_options(8901)
    @click.option("--own", default="x")
    def main(*, options: options.ServiceOptions, own: str) -> None:
        seen.update(options=options, own=own)

    return CliRunner().invoke(main, arguments), seen


def test_shared_options_arrive_as_one_value_beside_a_commands_own(policy: str) -> None:
    result, seen = run("--policy", policy, "--prometheus", "http://p:9090", "--once", "-vv", "--own", "y")
    assert result.exit_code == 0, result.output
    assert seen["own"] == "y"
    assert seen["options"] == options.ServiceOptions(
        policy=Path(policy), prometheus="http://p:9090", once=True, verbosity=2, listen=":8901"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--policy"),
        (["--policy", "/nowhere/policy.yaml"], "/nowhere/policy.yaml"),
        (["--listen", "host:port"], "'port' is not 0 to 65535"),
        (["--logging-format", "xml"], "xml"),
    ],
    ids=["no policy", "no such policy", "a port that is none", "a format that is none"],
)
def test_bad_options_exit_2_and_name_what_is_wrong(policy: str, arguments: list[str], message: str) -> None:
    given = arguments if not arguments or "--policy" in arguments else ["--policy", policy, *arguments]
    result, seen = run(*given)
    assert (result.exit_code, seen) == (2, {})
    assert message in result.output


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9", ("127.0.0.1", 9)),
        (":9", ("", 9)),
        ("localhost", ("localhost", 7)),
        ("[::1]:9", ("::1", 9)),
        ("[::1]", ("::1", 7)),
        ("h:0", ("h", 0)),
    ],
)
def test_listen_addresses(text: str, address: tuple[str, int]) -> None:
    assert options.listen_address(text, 7) == address


@pytest.mark.parametrize("text", ["h:", "h:x", "h:-1", "h:65536", "h:٣", "::1:80"])
def test_listen_addresses_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="listen address"):
        options.listen_address(text, 7)


def test_the_namespace_is_the_pods_own_or_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POD_NAMESPACE", raising=False)
    file = tmp_path / "namespace"
    assert options.own_namespace(file) == "evenload-system"
    file.write_text("kube-system\n")
    assert options.own_namespace(file) == "kube-system"


def test_the_version_is_told_and_is_the_wheels(policy: str) -> None:
    result, _seen = run("--version")
    assert version.VERSION in result.output
    root = Path(__file__).parents[3]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert root / project["tool"]["hatch"]["version"]["path"] == Path(version.__file__)
