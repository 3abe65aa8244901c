"""A hot node is relieved with metrics-server as the only source: no Prometheus runs, on a real control plane."""

import pathlib
import re
import threading
import urllib.error
from collections.abc import Iterator
from typing import Any, Final

import pytest

from descheduler.ledger import rows
from kube import config, errors, kinds
from kube.objects import Pod
from lab.cluster.demo import permissions
from policy.contract import load_annotation
from tests.contract import four_kubelets, metrics_server_site
from tests.contract.test_metrics_server import METRICS
from tests.e2e import bodies, policies, services, waiting

pytestmark = pytest.mark.cluster
NAMESPACE: Final = permissions.NAMESPACE
HOT: Final = "node-0"
GIB: Final = 2.0**30
REPLICAS: Final = 4
OPEN: Final = "e2e.evenload.io/open"
HEAVY: Final[bodies.PodOptions] = {
    "memory_bytes": 5 * GIB,
    "cpu_millicores": 200,
    "memory_request": "256Mi",
    "node_selector": {OPEN: "yes"},
}
LIMIT: Final = 3 * waiting.LIMIT_SECONDS  # windows of 20 s, and evictions that wait for readings


class World:
    """The cluster, its kubelets with the pods that run there, and both services."""

    def __init__(self, site: metrics_server_site.Site, directory: pathlib.Path) -> None:
        self.site, self.cluster = site, site.cluster
        self.door = config.connect(str(site.cluster.kubeconfig))
        self.policy = directory / "policy.yaml"
        self.obey("Observe")
        self.silent = ""  # the pod that metrics-server does not list
        self.annotator = self._service("annotator", "annotator", directory)
        ledger = ["--ledger", str(directory / "ledger.sqlite")]
        self.descheduler = self._service("descheduler", "tests.e2e.prompt_descheduler", directory, *ledger)
        self._stop = threading.Event()
        self._hosting = threading.Thread(target=self._host)
        self._hosting.start()

    def _service(self, name: str, module: str, directory: pathlib.Path, *more: str) -> services.Service:
        kubeconfig = permissions.kubeconfig(self.cluster, name)
        arguments = ["--policy", str(self.policy), "--kubeconfig", str(kubeconfig), "--namespace", NAMESPACE]
        return services.Service(module, [*arguments, *metrics_server_site.added_arguments(name), *more], directory)

    def obey(self, mode: str) -> None:
        """Writes the policy: readings stay fresh for as long as anything here is waited for."""
        policies.write(self.policy, metrics=METRICS, descheduler__mode=mode, sync__staleAfter="10m")

    def _host(self) -> None:
        """Lets each kubelet run the pods that are bound to its node, as kwok does not."""
        while not self._stop.wait(0.2):
            try:
                pods = self.pods()
            except errors.KubeError:
                continue
            for node, kubelet in self.site.kubelets.items():
                kubelet.host(
                    metrics_server_site.Pod(pod.namespace, pod.name, 0.2, 5 * GIB)
                    for pod in pods
                    if pod.node_name == node
                )

    def close(self) -> None:
        """Ends what runs."""
        self._stop.set()
        self._hosting.join()
        self.descheduler.kill()
        self.annotator.kill()
        self.door.close()

    def pods(self) -> list[Pod]:
        """The living pods of the workload."""
        return [pod for pod in self.door.list(kinds.PODS, namespace="default").items if not pod.deleting]

    def listed(self) -> list[str]:
        """The pods that metrics-server lists."""
        return sorted(item.name for item in self.door.list(kinds.POD_METRICS).items)

    def memory(self, node: str) -> float:
        """The annotated average; 0 without one."""
        text = self.door.get(kinds.NODES, node).annotations.get(load_annotation.KEY)
        return 0.0 if text is None else load_annotation.decode(text).values.get("memory_avg_5m", 0.0)

    def plan(self) -> dict[str, dict[str, Any]]:
        """The candidates of GET /plan by name; {} while no node is confirmed over a line, or a door does not answer."""
        try:
            plan = self.descheduler.json("/plan")
        except urllib.error.HTTPError as refused:
            refused.close()
            return {}
        return {one["pod"]: one for node in plan["nodes"] for one in node["candidates"]}

    def status(self) -> str:
        """The descheduler's own words."""
        return self.descheduler.text("/readyz?verbose")


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Four nodes of 32 GiB, of which the first has all pods and memory over the line."""
    site = four_kubelets.renewed(tmp_path_factory.mktemp("metrics"))
    metrics_server_site.grant(site.cluster, "annotator")
    made = World(site, tmp_path_factory.mktemp("services"))
    try:
        overload(made)
        yield made
    finally:
        made.close()


def overload(world: World) -> None:
    """Brings HOT to 87 % of memory, by pods that may then go anywhere."""
    opened = {"metadata": {"labels": {OPEN: "yes"}}}
    world.door.merge_patch(kinds.NODES, HOT, opened)
    body = bodies.deployment("web", REPLICAS, **HEAVY)
    world.door.create(kinds.DEPLOYMENTS, body, namespace="default")
    waiting.eventually(lambda: sum(pod.ready for pod in world.pods()) == REPLICAS, LIMIT, "ready pods", world.pods)
    for node in world.site.kubelets:
        world.door.merge_patch(kinds.NODES, node, opened)
    world.site.kubelets[HOT].load(0.1, 0.25)
    world.silent, *others = sorted(pod.name for pod in world.pods())
    world.site.kubelets[HOT].silent = frozenset({world.silent})
    waiting.eventually(lambda: world.listed() == others, LIMIT, "all pods but one in metrics.k8s.io", world.listed)
    world.annotator.start()
    waiting.eventually(lambda: world.memory(HOT) > 0.85, LIMIT, "a hot node", world.annotator.log)


def results(world: World) -> set[str]:
    """The results of all rows."""
    return {row["result"] for row in world.descheduler.rows("/evictions")}


def observing(world: World) -> None:
    """Observe tells the plan and moves nothing; a pod of which nothing is known is no part of it."""
    before = {pod.uid for pod in world.pods()}

    def planned() -> dict[str, dict[str, Any]]:
        plan = world.plan()
        return plan if "chosen" in {one["verdict"] for one in plan.values()} else {}

    plan = waiting.eventually(planned, LIMIT, "a pod that would go", world.plan)
    (chosen,) = [one for one in plan.values() if one["verdict"] == "chosen"]
    assert chosen["memory_bytes"] == pytest.approx(5 * GIB, rel=0.01)
    silent = plan[world.silent]
    assert (silent["verdict"], silent["detail"]) == ("usage_unknown", "metrics-server does not list it")
    waiting.eventually(lambda: "observed" in results(world), LIMIT, "a row", world.status)
    assert results(world) <= {"intended", "observed"}
    assert {pod.uid for pod in world.pods()} == before


def enforcing(world: World) -> None:
    """Enforce relieves the node by no more pods than it takes, and leaves the one of which nothing is known."""
    first = {pod.uid: pod for pod in world.pods()}
    world.obey("Enforce")
    waiting.eventually(lambda: 0.0 < world.memory(HOT) < 0.6, LIMIT, "relief", world.descheduler.log)
    waiting.eventually(lambda: sum(pod.ready for pod in world.pods()) == REPLICAS, LIMIT, "ready pods", world.pods)
    pods = world.pods()
    gone = first.keys() - {pod.uid for pod in pods}
    evicted = [row for row in world.descheduler.rows("/evictions") if row["result"] in rows.DONE]
    assert {row["pod_uid"] for row in evicted} == gone
    assert len(gone) == 2, "87 % less two pods of 16 % each is under 60 %; a third for the same load is too much"
    assert [row["memory_bytes"] for row in evicted] == pytest.approx([5 * GIB] * 2, rel=0.01)
    assert {pod.node_name for pod in pods if pod.uid not in first}.isdisjoint({HOT})
    assert world.silent in {pod.name for pod in pods if pod.uid in first and pod.node_name == HOT}


def without_answers(world: World) -> None:
    """A killed metrics-server ends the runs with an overload, in its own words."""
    world.site.kubelets[HOT].load(0.1, 0.9)  # hot whatever leaves it
    waiting.eventually(lambda: world.memory(HOT) > 0.9, LIMIT, "a hot node again", world.annotator.log)
    waiting.eventually(world.plan, LIMIT, "a confirmed overload", world.status)
    world.site.kill()
    waiting.eventually(lambda: "last run ok: metrics-server was not read: " in world.status(), LIMIT, "", world.status)
    failed = re.search(r'failures_total{door="metrics-server"} (\S+)', world.descheduler.text("/metrics"))
    assert failed is not None
    assert float(failed[1]) > 0


def test_a_hot_node_is_relieved_with_metrics_server_as_the_only_source(world: World) -> None:
    # Without the component's rights nothing is planned, and the descheduler says why.
    world.descheduler.start()
    words = 'configmaps "evenload-heartbeat" is forbidden'
    waiting.eventually(lambda: words in world.status(), LIMIT, "the refusal in /readyz", world.status)
    assert world.descheduler.rows("/evictions") == []
    metrics_server_site.grant(world.cluster, "descheduler")
    observing(world)
    enforcing(world)
    without_answers(world)
