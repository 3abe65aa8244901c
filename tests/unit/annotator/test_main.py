"""The command line: what is refused before anything is sent."""

import pathlib

import pytest
from click.testing import CliRunner

from annotator import __main__ as entry
from tests import kubeconfigs

POLICY = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"
ONCE = ("--once", "--prometheus", "http://p")


@pytest.fixture
def files(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    (tmp_path / "kubeconfig").write_text(kubeconfigs.text(), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--once"], "give --prometheus URL", id="no Prometheus"),
        pytest.param(["--once", "--source", "heapster"], "'prometheus', 'metrics-server'", id="a source that is none"),
        pytest.param(["--once", "--prometheus", "prometheus:9090"], "expected http(s)://", id="no scheme"),
        pytest.param([*ONCE, "--prometheus-token-file", "nowhere"], "nowhere", id="a token file not there"),
        pytest.param([*ONCE, "--prometheus-header", "nonsense"], "'NAME: VALUE'", id="a header without colon"),
        pytest.param([*ONCE, "--prometheus-user", "me"], "password file", id="half a login"),
        pytest.param([*ONCE[1:], "--dry-run"], "together with --once", id="a dry run without an end"),
        pytest.param([*ONCE[1:], "-o", "json"], "together with --once", id="an output without an end"),
    ],
)
def test_settings_that_cannot_work_are_bad_input(files: pathlib.Path, arguments: list[str], message: str) -> None:
    common = ["--policy", str(files / "policy.yaml"), "--kubeconfig", str(files / "kubeconfig")]
    run = CliRunner().invoke(entry.main, [*common, *arguments])
    assert run.exit_code == 2
    assert message in run.stderr


def test_every_option_stands_in_the_docs() -> None:
    root = pathlib.Path(__file__).parents[3] / "docs" / "reference"
    docs = (root / "annotator.md").read_text(encoding="utf-8") + (root / "promql.md").read_text(encoding="utf-8")
    shared = {"--version", "--kubeconfig", "--context", "--listen", "--namespace", "--pod-name", "--pod-uid"}
    shared |= {"--logging-format", "-v", "--help"}
    own = {option for parameter in entry.main.params for option in parameter.opts} - shared
    assert {option for option in own if option not in docs} == set()
