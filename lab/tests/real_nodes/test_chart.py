"""docs/start/fifteen-minutes.md on real nodes: Helm installs, kube-scheduler asks, decides and evicts, by its commands.

The page's values are as they stand but for what this cluster has: Prometheus' address and the disk's StorageClass.
"""

import contextlib
import urllib.request
from collections.abc import Iterator

import pytest
import yaml

from lab.cluster import extender_stanza
from lab.real_nodes import waiting
from lab.tests.real_nodes.installation import DISK, MARKS, NAMESPACE, PROMETHEUS, SERVICES, Installation, installed
from tests.contract import helm_client
from tests.contract.test_fifteen_minutes import COMMANDS, OWN, UPGRADE
from tests.contract.test_kustomize import CRDS

pytestmark = MARKS
HERE = {
    "prometheus": {"url": PROMETHEUS},
    "descheduler": {"ledger": {"storageClassName": "ssd"}},
}
# docs: a policy is in force within two minutes and the 5 s of a reload
POLICY_SECONDS = 125.0
LIMIT_SECONDS = 240.0


@pytest.fixture(scope="module")
def reader() -> Iterator[Installation]:
    """Nodes without Evenload, with kube-prometheus-stack's kinds, a disk, and a clone with the page's values."""
    with installed("rn-chart", by_page=False) as reader:
        reader.nodes.inside("rn1", "mkdir", "-p", "/var/lib/ledger")
        reader.nodes.kubectl("apply", "--server-side", "-f", str(CRDS))
        reader.nodes.kubectl("wait", "--for=condition=Established", "--timeout=240s", "-f", str(CRDS))
        reader.nodes.apply(DISK)
        values = yaml.safe_dump(helm_client.merged(OWN, HERE))
        (reader.clone / "values.yaml").write_text(values, encoding="utf-8")
        (reader.clone / ".bin" / "helm").symlink_to(helm_client.program("helm"))
        yield reader


def typed(reader: Installation, begins: str, *, code: int = 0, more: str = "") -> str:
    """The output of the command of the page that begins so, with more behind it."""
    (text,) = [each for each in dict.fromkeys(COMMANDS) if each.startswith(begins)]
    return reader.run(text + more, code=code)


def modes(reader: Installation) -> set[tuple[str, str]]:
    """The modes of extender and descheduler that the services obey."""
    policies = [reader.configuration(pod).get("policy", {}) for pod in reader.pods()]
    return {(each.get("extender", {}).get("mode"), each.get("descheduler", {}).get("mode")) for each in policies}


def names(reader: Installation) -> set[str]:
    """The pods of the release."""
    return {pod["metadata"]["name"] for pod in reader.pods()}


def test_helm_installs_and_a_reader_looks(reader: Installation) -> None:
    typed(reader, "helm upgrade --install evenload")
    for name in ("annotator", "extender"):
        typed(reader, f"kubectl -n evenload-system rollout status deployment/evenload-{name}")
    reader.until_running()
    waiting.until(
        lambda: set(reader.doctor()) <= {"metrics", "extender asked"}, "doctor to say what the page says", LIMIT_SECONDS
    )
    assert "extender asked" in typed(reader, "evenload doctor", code=-1)  # it knows no Service of Prometheus here
    table = typed(reader, "evenload nodes")
    assert all(f"\nrn{number} " in table for number in (1, 2, 3)), table
    with console(reader) as url, urllib.request.urlopen(f"{url}/api/stream", timeout=60) as stream:
        assert any(b"rn1" in line and b"rn3" in line for line in stream)


@contextlib.contextmanager
def console(reader: Installation) -> Iterator[str]:
    """The page's console while the body runs."""
    (text,) = [each for each in COMMANDS if each.startswith("evenload console")]
    url, process = "http://127.0.0.1:8088", reader.start(text)
    try:
        waiting.until(lambda: answers(url), "the console's page", LIMIT_SECONDS)
        yield url
    finally:
        process.terminate()
        process.wait()


def answers(url: str) -> bool:
    """Whether a page is there."""
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=10) as page:
        return bool(page.status == 200)
    return False


def test_kube_scheduler_asks_in_shadow_mode(reader: Installation) -> None:
    typed(reader, "kubectl -n evenload-system get configmap")
    (stanza,) = yaml.safe_load(typed(reader, "evenload scheduler-config", more=" 2>/dev/null"))["extenders"]
    assert stanza == extender_stanza.at(stanza["urlPrefix"])
    reader.nodes.starter.ask_extender(reader.extender_url())
    typed(reader, "kubectl run web")
    waiting.until(lambda: set(reader.doctor()) <= {"metrics"}, "doctor to be green", LIMIT_SECONDS)
    assert "in shadow mode" in " ".join(typed(reader, "evenload doctor", code=-1).split())
    explained = typed(reader, "evenload explain pod", code=-1)
    assert "shadow mode: " in explained
    assert "expected to win" not in explained
    typed(reader, "kubectl delete pod web")
    assert reader.failed_questions() == []


def test_new_modes_are_in_force_within_two_minutes_and_no_pod_restarts(reader: Installation) -> None:
    before = names(reader)
    typed(reader, f"{UPGRADE} --set policy.extender.mode=Enforce")
    waiting.until(lambda: modes(reader) == {("Enforce", "Observe")}, "extenders to enforce", POLICY_SECONDS)
    typed(reader, "kubectl run web")
    waiting.until(
        lambda: "shadow mode: " not in typed(reader, "evenload explain pod", code=-1), "a decision", LIMIT_SECONDS
    )
    typed(reader, "kubectl delete pod web")
    typed(reader, f"{UPGRADE} \\\n  --set policy.descheduler.mode=Enforce")
    waiting.until(lambda: modes(reader) == {("Enforce", "Enforce")}, "the descheduler to enforce", POLICY_SECONDS)
    assert names(reader) == before
    assert reader.restarts() == []


def test_the_pod_of_helm_test_asks_as_doctor_does(reader: Installation) -> None:
    lines = reader.run("helm test evenload -n evenload-system --logs", code=-1)  # 1 while Prometheus is young
    assert "20 checks: " in lines
    assert "ok extender asked" in " ".join(lines.split())
    reader.run(f"helm uninstall evenload -n {NAMESPACE}")
    waiting.until(lambda: not any(map(reader.pods, SERVICES)), "the release's pods to be gone", LIMIT_SECONDS)
    assert "evenload" not in reader.nodes.kubectl("get", "clusterroles,clusterrolebindings", "-o", "name")
