"""The annotator over metrics-server, under its own account, with the rights that the component adds."""

import pathlib
from collections.abc import Iterator
from typing import Any, Final

import pytest

from kube import config, kinds
from kube.objects import PodMetrics
from lab.cluster.demo import permissions
from policy.contract import load_annotation
from tests import commands
from tests.contract import four_kubelets, metrics_server_site
from tests.contract.four_kubelets import SERVICES
from tests.e2e import policies, services, waiting

pytestmark = pytest.mark.cluster
NAMESPACE: Final = permissions.NAMESPACE
WINDOWS_SECONDS: Final = {"avg_5m": 20 if metrics_server_site.REAL else 6, "max_1h": 120, "max_1d": 3600}
METRICS: Final = policies.metrics(WINDOWS_SECONDS)
SYNCS: Final = "evenload_annotator_syncs_total"
LIMIT: Final = 2 * waiting.LIMIT_SECONDS


class World:
    """metrics-server and an annotator that reads it."""

    def __init__(self, site: metrics_server_site.Site, directory: pathlib.Path) -> None:
        self.site = site
        self.cluster = site.cluster
        self.policy = policies.write(directory / "policy.yaml", metrics=METRICS)
        kubeconfig = permissions.kubeconfig(site.cluster, "annotator")
        arguments = ["--policy", str(self.policy), "--kubeconfig", str(kubeconfig), "--namespace", NAMESPACE]
        self.annotator = services.Service(
            "annotator", [*arguments, *metrics_server_site.added_arguments("annotator")], directory
        )

    def reading(self, node: str) -> load_annotation.Reading | None:
        """What a node carries."""
        text = self.cluster.api.get(f"api/v1/nodes/{node}")["metadata"].get("annotations", {}).get(load_annotation.KEY)
        return None if text is None else load_annotation.decode(text)

    def shows(self, node: str, metric: str, ratio: float) -> None:
        """Waits until a node carries a value, to 3 %."""

        def near() -> bool:
            reading = self.reading(node)
            return reading is not None and abs(reading.values.get(metric, -1.0) - ratio) < 0.03

        waiting.eventually(near, LIMIT, f"{metric} of {node} at {ratio}", lambda: (self.reading(node), self.status()))

    def begin(self) -> None:
        """Starts the annotator with the rights to read metrics-server."""
        for service in SERVICES:
            metrics_server_site.grant(self.cluster, service)
        self.annotator.start()

    def clear(self) -> None:
        """Ends the annotator, and takes away what it has written and the rights to read metrics-server."""
        self.annotator.kill()
        for service in SERVICES:
            metrics_server_site.withdraw(self.cluster, service)
        for node in self.site.kubelets:
            self.cluster.api.patch(f"api/v1/nodes/{node}", {"metadata": {"annotations": {load_annotation.KEY: None}}})

    def status(self) -> str:
        """The annotator's own words."""
        return self.annotator.text("/readyz?verbose")

    def examine(self, *words: str) -> dict[str, dict[str, Any]]:
        """The checks of `evenload doctor` by name."""
        options = ("--kubeconfig", str(self.cluster.kubeconfig), "--policy", str(self.policy))
        return {one["check"]: one for one in commands.document("doctor", *options, *words)["checks"]}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Four nodes of 8 cores and 32 GiB; the annotator is not started yet."""
    site = four_kubelets.renewed(tmp_path_factory.mktemp("metrics"))
    made = World(site, tmp_path_factory.mktemp("annotator"))
    try:
        yield made
    finally:
        made.annotator.kill()


@pytest.fixture
def synced(world: World) -> World:
    """The world with an annotator that has read every node."""
    if not world.annotator.running:
        world.begin()
    waiting.eventually(lambda: "all 6 metrics fresh for all 4 nodes" in world.status(), LIMIT, "values", world.status)
    return world


def test_the_door_reads_what_metrics_server_serves(world: World) -> None:
    door = config.connect(str(world.cluster.kubeconfig))
    try:
        items = door.list(kinds.NODE_METRICS).items
    finally:
        door.close()
    assert {item.name for item in items} == {"node-0", "node-1", "node-2", "node-3"}
    for item in items:
        assert item.at_seconds is not None
        assert item.window.endswith("s")
        assert item.cpu_millicores >= 0
        assert item.memory_bytes >= 0


def test_the_door_reads_pods_container_by_container(world: World) -> None:
    spec = {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]}
    world.cluster.api.create("api/v1/namespaces/default/pods", {"metadata": {"name": "web-0"}, "spec": spec})
    kubelet = world.site.kubelets["node-1"]
    kubelet.host([metrics_server_site.Pod("default", "web-0", 0.5, 2.0**30)])

    def listed() -> tuple[PodMetrics, ...]:
        door = config.connect(str(world.cluster.kubeconfig))
        try:
            return door.list(kinds.POD_METRICS).items
        finally:
            door.close()

    (item,) = waiting.eventually(listed, LIMIT, "the pod in metrics.k8s.io")
    assert (item.key, len(item.containers)) == ("default/web-0", 1)
    assert item.at_seconds is not None
    assert item.window.endswith("s")
    assert item.cpu_millicores == pytest.approx(500, rel=0.05)
    assert item.memory_bytes == pytest.approx(2.0**30, rel=0.01)
    kubelet.host([])


def test_without_the_components_right_nothing_is_read_and_the_annotator_says_why(world: World) -> None:
    world.clear()
    world.annotator.start()
    words = "nodes.metrics.k8s.io is forbidden"
    waiting.eventually(lambda: words in world.status(), LIMIT, "the refusal in /readyz", world.status)
    assert world.reading("node-0") is None
    checks = world.examine("--source", "metrics-server")
    assert checks["metrics-server"]["seen"] == (
        "the ServiceAccount evenload-annotator may not list nodes.metrics.k8s.io, "
        "the ServiceAccount evenload-descheduler may not list pods.metrics.k8s.io, "
        "the ServiceAccount evenload-descheduler may not get configmaps/evenload-heartbeat in evenload-system"
    )
    assert checks["windows"]["seen"] == "no node has windows yet"
    metrics_server_site.grant(world.cluster, "annotator")
    checks = world.examine("--source", "metrics-server")
    assert checks["metrics-server"]["seen"].startswith("the ServiceAccount evenload-descheduler may not list pods.")
    metrics_server_site.grant(world.cluster, "descheduler")


def test_nodes_carry_what_their_kubelets_say(world: World) -> None:
    world.clear()  # of the maxima of other tests
    for number, kubelet in enumerate(world.site.kubelets.values()):
        kubelet.load(0.2 + number / 5, 0.3 + number / 5)
    world.begin()
    for number, node in enumerate(world.site.kubelets):
        world.shows(node, "cpu_avg_5m", 0.2 + number / 5)
        world.shows(node, "memory_max_1d", 0.3 + number / 5)


def test_the_doctor_sees_by_the_annotations_that_load_comes_from_metrics_server(synced: World) -> None:
    checks = synced.examine()
    assert "prometheus" not in checks
    assert checks["metrics-server"]["seen"].startswith("metrics.k8s.io/v1beta1 lists 4 nodes, ")
    assert checks["nodes matched"]["seen"] == "4 of 4 nodes matched (by name)"
    assert checks["metrics"]["seen"].startswith("6 of 6 metrics, by the annotator's own windows; not to be had: ")
    assert "4 of 4 nodes observed, the last one since " in checks["windows"]["seen"]
    assert "until they are full, " in checks["windows"]["seen"]
    names = ("metrics-server", "metrics", "nodes matched", "windows", "annotator")
    assert {checks[name]["verdict"] for name in names} == {"ok"}


def test_a_killed_metrics_server_takes_nothing_away_and_is_read_again(synced: World) -> None:
    synced.site.kill()
    waiting.eventually(lambda: "metrics-server was not read: " in synced.status(), LIMIT, "the outage", synced.status)
    values = {node: synced.reading(node) for node in synced.site.kubelets}
    assert all(reading is not None and len(reading.values) == 6 for reading in values.values())
    syncs = synced.annotator.metric(SYNCS)
    waiting.eventually(lambda: synced.annotator.metric(SYNCS) > syncs + 2, LIMIT, "more syncs", synced.status)
    assert synced.examine()["metrics-server"]["verdict"] == "fail"
    assert {node: synced.reading(node) for node in synced.site.kubelets} == values
    synced.site.start()
    waiting.eventually(lambda: "metrics-server was not read" not in synced.status(), LIMIT, "its end", synced.status)


def test_a_killed_annotator_goes_on_with_the_peaks_that_nodes_carry(synced: World) -> None:
    kubelet = synced.site.kubelets["node-0"]
    kubelet.load(0.9, 0.9)
    synced.shows("node-0", "memory_avg_5m", 0.9)
    kubelet.load(0.1, 0.1)
    synced.shows("node-0", "memory_avg_5m", 0.1)
    before = synced.reading("node-0")
    assert before is not None
    assert before.windows is not None
    synced.annotator.kill()
    synced.annotator.start()
    waiting.eventually(lambda: synced.annotator.metric(SYNCS) > 2, LIMIT, "syncs", synced.annotator.log)
    after = synced.reading("node-0")
    assert after is not None
    assert after.windows is not None
    assert after.values["memory_max_1d"] > 0.85
    assert after.windows.since_seconds == before.windows.since_seconds
    assert after.windows.peaks["memory_max_1d"] == before.windows.peaks["memory_max_1d"]
