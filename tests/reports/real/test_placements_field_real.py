"""Placements from public reports, on a real control plane."""

import collections.abc
import json
import subprocess

import click.testing
import pytest
import yaml

import cli.__main__
from lab import cluster
from lab.cluster import binaries
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
