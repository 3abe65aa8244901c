"""The real kubectl and Helm take what pages show, and what the product prints as a next step."""

import subprocess

import pytest

from lab.cluster import binaries
from tests import command_lines
from tests.contract import helm_client

pytestmark = pytest.mark.cluster
VERBS = ("annotate", "create", "delete", "describe", "get", "label", "patch", "scale")
KINDS = frozenset(
    ("KIND", "apiservice", "clusterrolebinding", "cm", "configmap", "deployment", "deployments", "endpointslices")
) | {"events", "lease", "leases", "mutatingwebhookconfigurations", "namespace", "node", "nodes", "pdb", "pod", "pods"}
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
