"""The real kubectl, Helm and amtool take what pages show, and what the product prints as a next step."""

import pathlib
import subprocess

import pytest
import yaml

from lab.cluster import binaries, programs
from tests import command_lines, pages
from tests.contract import helm_client

pytestmark = pytest.mark.cluster
VERBS = ("annotate", "create", "delete", "describe", "get", "label", "patch", "scale")
KINDS = frozenset(
    ("KIND", "apiservice", "clusterrolebinding", "cm", "configmap", "deployment", "deployments", "endpointslices")
) | {"events", "lease", "leases", "mutatingwebhookconfigurations", "namespace", "node", "nodes", "pdb", "pod", "pods"}
KINDS |= {"capacitybuffer"}  # with the CRD
KINDS |= {"pvc", "rolebinding", "secret", "service", "validatingadmissionpolicies", "validatingwebhookconfigurations"}


@pytest.mark.parametrize("program", ["kubectl", "helm"])
def test_a_command_line_has_a_verb_and_options_that_its_program_knows(program: str) -> None:
    path = binaries.find_or_build()["kubectl"] if program == "kubectl" else helm_client.program("helm")
    shown = {one.words: one.place for one in command_lines.everywhere() if one.program == program}
    assert len(shown) > 10
    wrong = [f"{place}: {' '.join(words)}" for words, place in shown.items() if not known(str(path), words)]
    assert not wrong


def known(path: str, words: tuple[str, ...]) -> bool:
    """Whether the program takes the words, behind which it only prints its help; of a kind those are listed here."""
    value = ("X",) if words[-1].startswith("-") else ()
    answer = subprocess.run([path, *words, *value, "--help"], capture_output=True, check=False)
    plain = [one for before, one in zip(("", *words), words, strict=False) if "-" not in (one[0], before[:1])]
    kinds = plain[1].partition("/")[0].split(",") if plain[1:] and plain[0] in VERBS else ()
    return answer.returncode == 0 and set(kinds) <= KINDS


def test_alertmanager_takes_the_page_about_notifications_and_sends_each_alert_where_it_says(
    tmp_path: pathlib.Path,
) -> None:
    (file,) = (block for block in pages.blocks(pages.ROOT / "docs" / "how-to" / "notify.md") if block.file)
    (tmp_path / "alertmanager.yaml").write_text("\n".join(file.lines), encoding="utf-8")
    program = str(programs.built(pathlib.Path(__file__).with_name("amtool")))

    def amtool(*arguments: str) -> str:
        return subprocess.check_output([program, *arguments], cwd=tmp_path, stderr=subprocess.STDOUT, text=True)

    assert "SUCCESS" in amtool("check-config", "alertmanager.yaml")
    rules = yaml.safe_load((pages.ROOT / "deploy/monitoring/evenload-alerts.yaml").read_text(encoding="utf-8"))
    receivers = {"critical": "evenload", "warning": "evenload", "info": "none"}
    for alert in (alert for group in rules["groups"] for alert in group["rules"]):
        labels = f"alertname={alert['alert']}", f"severity={alert['labels']['severity']}"
        answer = amtool("config", "routes", "test", "--config.file=alertmanager.yaml", *labels)
        assert answer.strip() == receivers[alert["labels"]["severity"]], labels
    (_, receiver) = yaml.safe_load("\n".join(file.lines))["receivers"]
    (slack,), (teams,) = receiver["slack_configs"], receiver["msteamsv2_configs"]
    assert slack["text"] == teams["text"]
    shown = amtool("template", "render", "--template.glob=*.yaml", f"--template.text={slack['text']}")
    assert "What to do: " in shown
