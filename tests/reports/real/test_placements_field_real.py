"""Placements from public reports, on a real control plane."""

import collections.abc
import json
import pathlib
import subprocess

import click.testing
import pytest
import yaml

import cli.__main__
from lab import cluster
from lab.cluster import binaries
from tests import commands
from tests.contract import capacity_buffers, helm_client
from tests.e2e import waiting
from tests.reports.register import Before, behaviour, reported, situation

pytestmark = pytest.mark.cluster
NAMESPACE = "default"
DEPLOYMENT = f"apis/apps/v1/namespaces/{NAMESPACE}/deployments/placeholder"
ROOM, NUMBER = 3, 5  # of 300 millicores on a node of one core


@pytest.fixture(scope="module")
def running() -> collections.abc.Iterator[cluster.Cluster]:
    """One small node, full of placeholders, of which two wait."""
    shape = cluster.NodeShape("small", cpu="1")
    with cluster.Cluster(nodes=[shape], prometheus=False, exporter=False, node_exporter=False) as started:
        command = ["placeholder", "render", "-n", NAMESPACE, "--replicas", str(NUMBER)]
        documents = yaml.safe_load_all(click.testing.CliRunner().invoke(cli.__main__.main, command).stdout)
        paths = {
            "PriorityClass": "apis/scheduling.k8s.io/v1/priorityclasses",
            "Deployment": DEPLOYMENT.rsplit("/", 1)[0],
        }
        for one in documents:
            started.api.create(paths[one["kind"]], one)
        started.start_scheduler()
        await_status(started, availableReplicas=ROOM, updatedReplicas=NUMBER)
        yield started


def await_status(running: cluster.Cluster, **numbers: int) -> None:
    """Waits for these numbers in the Deployment's status, of its present template."""

    def holds() -> bool:
        found = running.api.get(DEPLOYMENT)
        wanted = {"observedGeneration": found["metadata"]["generation"], **numbers}
        return {name: found["status"].get(name) for name in wanted} == wanted

    waiting.eventually(holds, waiting.LIMIT_SECONDS, str(numbers), lambda: running.api.get(DEPLOYMENT)["status"])


def kubectl(running: cluster.Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    (program,) = binaries.find_or_build([tool for tool in binaries.TOOLS if tool.name == "kubectl"]).values()
    command = [str(program), f"--kubeconfig={running.kubeconfig}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=waiting.LIMIT_SECONDS)


@reported("placements", "devantler-tech/platform#2086", before=Before.WRONG)
@situation("a release waits for a Deployment of placeholders, some Pending by design")
@behaviour("condition Available is True with none running; the page says what each tool waits for")
def test_placeholders_that_wait_leave_their_deployment_available(running: cluster.Cluster) -> None:
    everywhere = ("-n", NAMESPACE, "deployment/placeholder")
    assert kubectl(running, "wait", "--for=condition=Available", "--timeout=5s", *everywhere).returncode == 0
    waited = kubectl(running, "rollout", "status", "--timeout=1s", *everywhere)
    assert waited.returncode == 1, "as the page says: it waits for all of them"


@reported("placements", "devantler-tech/platform#2086", before=Before.WRONG)
@situation("the template of placeholders changes while over a quarter of them wait for room")
@behaviour("the new ones take the old ones' room; maxUnavailable of 25 % waits for ever")
def test_a_rollout_of_placeholders_ends_although_some_wait(running: cluster.Cluster) -> None:
    change = {"spec": {"template": {"metadata": {"labels": {"colour": "blue"}}}}}
    assert (
        kubectl(running, "patch", "-n", NAMESPACE, "deployment/placeholder", "-p", json.dumps(change)).returncode == 0
    )
    await_status(running, replicas=NUMBER, updatedReplicas=NUMBER, availableReplicas=ROOM)


@pytest.fixture(scope="module")
def refused(running: cluster.Cluster) -> list[click.testing.Result]:
    """What the commands say of a buffer while the apiserver knows none."""
    options = ("-n", NAMESPACE, "--kubeconfig", running.kubeconfig)
    words = (("size", "--buffer", "room", "--replicas", "3"), ("status", "--as", "buffers"))
    return [commands.run("placeholder", *command, *options) for command in words]


@pytest.fixture(scope="module")
def served(running: cluster.Cluster, refused: object, tmp_path_factory: pytest.TempPathFactory) -> cluster.Cluster:
    """The cluster with the CRD, after it was asked without."""
    crd = capacity_buffers.unpacked(tmp_path_factory.mktemp("crd"))
    assert kubectl(running, "apply", "-f", str(crd)).returncode == 0
    waiting.until(lambda: kubectl(running, "explain", "capacitybuffers.spec").returncode == 0, "the CRD to be served")
    return running


@reported("placements", "devantler-tech/platform#2102", before=Before.RIGHT)
@situation("buffers are asked for before the autoscaler's release has brought their API")
@behaviour("the error names the missing API and what to do; nothing is written")
def test_a_cluster_that_serves_no_buffers_is_named(refused: list[click.testing.Result]) -> None:
    for result in refused:
        commands.assert_refused(result, 2, "does not serve CapacityBuffer of autoscaling.x-k8s.io/v1beta1", "--as pods")


@reported("placements", "devantler-tech/platform#2087", before=Before.WRONG)
@situation("a release holds room on a full cluster and waits until all of it is ready")
@behaviour("Helm 4 waits for pods in vain, Helm 3 for none of them; for a buffer neither waits")
@pytest.mark.parametrize(("major", "wait"), [("helm", "--wait"), ("helm", "--wait=legacy"), ("helm3", "--wait")])
@pytest.mark.parametrize("form", ["pods", "buffers"])
def test_a_release_of_buffers_waits_for_nothing(
    served: cluster.Cluster, tmp_path: pathlib.Path, form: str, major: str, wait: str
) -> None:
    release = f"{form}-{major}"
    options = ("--as", form, "-n", NAMESPACE, "--name", release)
    existing = ("--existing-priority-class", "--priority-class", "evenload-placeholder")
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("{apiVersion: v2, name: room, version: 0.1.0}")
    (tmp_path / "templates" / "room.yaml").write_text(commands.output("placeholder", "render", *options, *existing))
    helm = helm_client.Helm(major, tmp_path, served.kubeconfig)
    answer = helm.run("install", release, str(tmp_path), f"--namespace={NAMESPACE}", wait, "--timeout=8s")
    assert (answer.returncode != 0) == ((form, major, wait) == ("pods", "helm", "--wait")), answer.stderr
    helm.succeed("uninstall", release, f"--namespace={NAMESPACE}")
