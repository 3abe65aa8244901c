"""`helm test` on a real control plane: the hook pod's command runs as a process, under the pod's own account.

No container runs on fake nodes: the test starts the Pod's command and reports its exit code, as kubelet would.
"""

import contextlib
import pathlib
import subprocess
from collections.abc import Iterator

import pytest

from lab import cluster
from lab.cluster.demo import permissions
from tests import starting
from tests.contract import helm_client, test_doctor, test_kustomize
from tests.contract.helm_client import Document, Helm
from tests.e2e import policies, stack, waiting

pytestmark = pytest.mark.cluster
NAMESPACE = permissions.NAMESPACE
POD = f"api/v1/namespaces/{NAMESPACE}/pods/evenload-doctor"
ANNOTATOR = "evenload-annotator"
BINDING = f"{permissions.PATHS['ClusterRoleBinding']}/evenload-doctor-test"


class Release:
    """The services at work in a namespace where the chart is installed."""

    def __init__(self, running: cluster.Cluster, directory: pathlib.Path) -> None:
        self.api = running.api
        self.cluster = running
        self.helm = Helm(helm_client.MAJORS[0], directory, running.kubeconfig)
        policy = policies.write(directory / "policy.yaml", descheduler__protect={"minPodAge": "5m"})  # the guard's
        self._chosen = [f"--set-file=policyFile={policy}", f"--set=prometheus.url={running.prometheus_url}"]
        self._upgrade({})
        permissions.apply(running)  # waits until the rights are in force
        self.stack = stack.Stack(running, policy, directory)

    def start(self) -> None:
        """Starts the services, waits until kube-scheduler asks the extender, and gives the chart their addresses."""
        item = self.stack
        item.start(item.annotator, item.extender, item.descheduler)
        test_doctor.scheduling(item)
        urls = [f"--extender={item.extender.url}"] * 2  # one process plays both replicas
        urls += [f"--descheduler={item.descheduler.url}"]
        self._upgrade({"test": {"extraArgs": urls}})

    def _upgrade(self, values: Document) -> None:
        options = (f"--namespace={NAMESPACE}", "--create-namespace", "--install", *self._chosen)
        self.helm.succeed("upgrade", helm_client.RELEASE, str(helm_client.CHART), *options, self.helm.values(values))

    def tested(self) -> tuple[int, str, subprocess.CompletedProcess[str]]:
        """Exit code and output of `helm test`, and how the pod's command ended."""
        return self.helm.with_hook(self.api, "doctor", self._run, "test", helm_client.RELEASE)

    def _rights(self) -> list[Document]:
        """The bindings of the test, and the roles that they bind."""
        names = {"ClusterRoleBinding": "evenload-doctor-test", "RoleBinding": "evenload-doctor-test"}
        names |= {"ClusterRole": "evenload-doctor", "Role": "evenload-doctor"}
        paths = {kind: permissions.PATHS[kind].format(namespace=NAMESPACE) for kind in names}
        return [{"kind": kind, **self.api.get(f"{paths[kind]}/{name}")} for kind, name in names.items()]

    def _run(self, pod: Document) -> subprocess.CompletedProcess[str]:
        """The container's command with its arguments and environment, as the pod's account."""
        for right in permissions.granted(self._rights()):
            permissions.await_right(self.cluster, right)
        spec = pod["spec"]
        (container,) = spec["containers"]
        (source,) = [one["configMapRef"]["name"] for one in container["envFrom"]]
        settings = self.api.get(f"api/v1/namespaces/{NAMESPACE}/configmaps/{source}")["data"]
        arguments = container["args"]
        for name, value in settings.items():
            arguments = [text.replace(f"$({name})", value) for text in arguments]
        program, *rest = container["command"]
        assert program == "evenload"
        kubeconfig = self.cluster.service_account_kubeconfig(NAMESPACE, spec["serviceAccountName"])
        environment = {"KUBECONFIG": str(kubeconfig), "NO_COLOR": "1"}
        return starting.run(starting.Command("cli", (*rest, *arguments), environment))


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """A control plane of its own, because the whole of deploy/ is in force on it."""
    with cluster.Cluster(nodes=3, node_exporter=False) as running:
        volume = "api/v1/persistentvolumes"
        running.api.create(volume, test_kustomize.disk("ledger"))
        made = Release(running, tmp_path_factory.mktemp("release"))
        try:
            made.start()
            yield made
        finally:
            made.stack.stop()
            made.stack.door.close()


def test_helm_test_passes_where_doctor_finds_nothing_and_leaves_no_right_behind(release: Release) -> None:
    item = release.stack

    def well() -> bool:
        other = f"--extender={item.extender.url}"
        return test_doctor.examine(item, other, f"--descheduler={item.descheduler.url}")[0] == 0

    waiting.eventually(well, 240, "doctor to find nothing", lambda: test_doctor.examine(item))
    code, said, ended = release.tested()
    assert (code, ended.returncode) == (0, 0), said + ended.stdout
    assert "checks: " in ended.stderr
    assert "you have the" in ended.stdout
    assert not release.api.exists(BINDING)
    assert not release.api.exists(POD)


@contextlib.contextmanager
def without_annotator(release: Release) -> Iterator[None]:
    """The annotator has ended and its binding is gone until the body ends."""
    bindings, annotator = permissions.PATHS["ClusterRoleBinding"], release.stack.annotator
    path = f"{bindings}/{ANNOTATOR}"
    body = release.api.get(path)
    right = permissions.Right(f"system:serviceaccount:{NAMESPACE}:{ANNOTATOR}", "list", "", "nodes")
    annotator.kill()
    release.api.delete(path)
    try:
        permissions.await_right(release.cluster, right, allowed=False)
        yield
    finally:
        metadata = {name: body["metadata"][name] for name in ("name", "labels", "annotations")}
        release.api.create(bindings, {**body, "metadata": metadata})
        permissions.await_right(release.cluster, right)
        annotator.start()


def test_helm_test_fails_where_doctor_names_something_to_put_right(release: Release) -> None:
    with without_annotator(release):
        code, said, ended = release.tested()
    assert (code, ended.returncode) == (1, 1), said + ended.stdout
    assert "evenload-annotator may not" in " ".join(ended.stdout.split())
