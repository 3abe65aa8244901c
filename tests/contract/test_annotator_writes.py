"""The annotator as a process under its own rights, between the real Prometheus and the real apiserver."""

import pathlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import pytest

from lab import cluster
from lab.cluster.demo import permissions
from policy.contract import heartbeat, load_annotation, owner_usage
from tests.e2e import bodies, lent, policies, services, waiting

pytestmark = pytest.mark.cluster
NAMESPACE = permissions.NAMESPACE
PODS = "api/v1/namespaces/default/pods"
CONFIG_MAPS = f"api/v1/namespaces/{NAMESPACE}/configmaps"
LEASE = f"apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/evenload-annotator"
NODES = ("node-0", "node-1", "node-2")
# Full for ten minutes: a node whose values are gone within a test's limit has not lost them by waiting. It remembers
# what other tests' pods used.
LONG = {"name": "cpu_max_long", "resource": "cpu", "statistic": "max", "window": "10m"}
METRICS = [*policies.METRICS, LONG]
NAMES = [str(metric["name"]) for metric in METRICS]
# One that runs out within a test, and one that no pause of any process makes run out.
SHORT_SECONDS = 10
HOT_SPOTS = [{"window": f"{SHORT_SECONDS}s", "pods": 2, "penalty": 1}, {"window": "5m", "pods": 5, "penalty": 1}]
STEADY = {"cpu_ratio": 0.3, "memory_ratio": 0.4}
MIN_CHANGE_RATIO = 0.05
# A value less than minChange off may stand for ever, and what it is compared with is exact but for rounding: both sides
# of a CPU ratio come from the same scrapes, so late ones move it only while the load itself has just changed.
NEAR_RATIO = MIN_CHANGE_RATIO + 0.001
FAILED_QUERIES, SYNCS = "evenload_prometheus_query_failures_total", "evenload_annotator_syncs_total"
COUNTED, LEFT_OUT = "evenload_total_schedule_count", "evenload_schedule_results_left_out"


class Site:
    """The cluster, the arguments of an annotator on it, and one that runs."""

    def __init__(self, running: cluster.Cluster, directory: pathlib.Path) -> None:
        self.cluster = running
        self.directory = directory
        kubeconfig = permissions.kubeconfig(running, "annotator")
        policy = policies.write(
            directory / "policy.yaml", sync__minChange=MIN_CHANGE_RATIO, metrics=METRICS, hotSpots=HOT_SPOTS
        )
        self.arguments = ["--policy", str(policy), "--kubeconfig", str(kubeconfig), "--namespace", NAMESPACE]
        self.arguments += ["--prometheus", running.prometheus_url, "--prometheus-timeout", "3"]
        self.annotator = services.Service("annotator", self.arguments, directory)

    def set_load(self, node: str, **values: object) -> None:
        """What the exporter plays for a node's own system."""
        services.set_load(self.cluster, node, **values)

    def place_on_node_2(self, name: str) -> None:
        """Create a pod that fits on node-2 alone."""
        spec = {"nodeSelector": {"kubernetes.io/hostname": "node-2"}, "containers": [{"name": "a", "image": "pause"}]}
        self.cluster.api.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})

    def texts(self) -> dict[str, str]:
        """The raw annotation by node, as the apiserver has it."""
        return lent.texts(self.cluster.api)

    def values(self, node: str) -> Mapping[str, float]:
        """A node's annotated values; none for a node without the annotation."""
        text = self.texts().get(node)
        return load_annotation.decode(text).values if text else {}

    def heartbeat(self) -> heartbeat.Heartbeat:
        """The heartbeat as the apiserver has it."""
        path = f"api/v1/namespaces/{NAMESPACE}/configmaps/{heartbeat.CONFIG_MAP}"
        return heartbeat.decode(self.cluster.api.get(path)["data"])

    def owners(self) -> owner_usage.Means:
        """What owners use, as the apiserver has it; nothing before it was written first."""
        found = {item["metadata"]["name"]: item for item in self.cluster.api.items(CONFIG_MAPS)}
        data = found.get(owner_usage.CONFIG_MAP, {}).get("data")
        return owner_usage.decode(data).means if data else {}

    def lease(self) -> Mapping[str, Any]:
        """The spec of the annotator's Lease."""
        spec: Mapping[str, Any] = self.cluster.api.get(LEASE)["spec"]
        return spec

    def steady(self) -> None:
        """All nodes alike and their windows full of it."""
        for node in NODES:
            self.set_load(node, **STEADY, hidden=False)
        waiting.until(lambda: not self._unsteady(), "all windows to be full of the same load", self._unsteady)

    def _unsteady(self) -> list[str]:
        """What differs from the load played by more than may stay unwritten: it is still to be written, or missing.

        Nor is a process steady that has only found on the nodes what another one wrote before it.
        """
        read = self.annotator.metric("evenload_annotator_nodes")
        if read != len(NODES):
            return [f"this annotator has read {read:g} of {len(NODES)} nodes"]
        every = {name: self.values(name) for name in NODES}
        missing = [f"{name} has only {list(values)}" for name, values in every.items() if list(values) != NAMES]
        return missing + [
            f"{name} {metric} {value}"
            for name, values in every.items()
            for metric, value in values.items()
            if not _near(metric, value)
        ]


class Quiet:
    """Five seconds of heartbeats since the last patch, which a late scrape on a busy machine may cause."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._texts: Mapping[str, str] = {}
        self._since_seconds = 0.0

    def for_five_seconds(self) -> bool:
        """One look at the fleet and its heartbeat: True once the fleet has stood still for that long."""
        texts, at_seconds = self._site.texts(), self._site.heartbeat().at_seconds
        if texts != self._texts:
            self._texts, self._since_seconds = texts, at_seconds
        return at_seconds >= self._since_seconds + 5

    def wait(self) -> None:
        """Return when nothing is being patched, and nothing is about to be."""
        waiting.until(self.for_five_seconds, "five seconds of heartbeats without a patch", self._site.texts)


def _near(metric: str, value: float) -> bool:
    """Near what is played; the long maximum may also be over it, for what pods of an earlier test used."""
    played = STEADY["cpu_ratio"] if metric.startswith("cpu") else STEADY["memory_ratio"]
    return abs(value - played) < NEAR_RATIO or (metric == LONG["name"] and value > played)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with cluster.Cluster(nodes=3) as running:
        running.api.create("api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        permissions.apply(running)
        made = Site(running, tmp_path_factory.mktemp("annotator"))
        made.annotator.start()
        try:
            yield made
        finally:
            made.annotator.stop()


def test_every_node_carries_every_window_and_the_heartbeat_vouches_for_them(site: Site) -> None:
    site.steady()

    def vouched_for() -> bool:
        beat = site.heartbeat()
        return beat.nodes == len(NODES) and beat.digest == heartbeat.digest(site.texts())

    waiting.until(vouched_for, "a heartbeat over what is stored on all nodes", site.heartbeat)
    assert list(site.values("node-1")) == NAMES
    assert "Forbidden" not in site.annotator.log()


def test_a_quiet_fleet_is_renewed_without_a_single_patch(site: Site) -> None:
    site.steady()
    Quiet(site).wait()


@pytest.mark.parametrize("garbage", ["nan", "negative", "over", "infinite", "twice"])
def test_values_that_cannot_be_are_absent_and_counted(site: Site, garbage: str) -> None:
    site.steady()
    before = site.annotator.metric("evenload_annotator_invalid_samples_total")
    site.set_load("node-0", garbage=garbage)
    try:
        waiting.until(
            lambda: not any(name.startswith("memory") for name in site.values("node-0")),
            "the memory values of node-0 to go",
        )
        assert site.annotator.metric("evenload_annotator_invalid_samples_total") > before
        assert list(site.values("node-1")) == NAMES
    finally:
        site.set_load("node-0", garbage=None)


def test_an_annotator_killed_and_restarted_rewrites_nothing(site: Site) -> None:
    site.steady()
    Quiet(site).wait()  # or a patch could be on its way
    lease = site.lease()
    site.annotator.kill()
    texts, killed_at = site.texts(), site.heartbeat().at_seconds
    site.annotator.start()
    waiting.until(lambda: site.heartbeat().at_seconds > killed_at + 1, "the heartbeat to go on")
    assert site.texts() == texts
    assert held(site.lease())[1] == held(lease)[1] + 1, "another process of this host took the Lease for its own"


def test_placements_are_counted_and_judged(site: Site) -> None:
    site.steady()

    def counts() -> list[float]:
        return [site.annotator.metric(name) for name in (COUNTED, LEFT_OUT)]

    counted, left_out = counts()
    names = [f"placed-{index}" for index in range(3)]
    for name in names:
        site.place_on_node_2(name)
    waiting.until(lambda: counts() == [counted + 3, left_out], "all counted", counts)
    aged_at_seconds = time.monotonic() + SHORT_SECONDS + 1  # a pod says in whole seconds when it was placed
    assert 0.2 < site.annotator.metric("evenload_cpu_utilization_total_avg") < 0.6
    site.set_load("node-2", memory_ratio=0.6)  # they go along with the next value that moves
    await_hot(site, lambda write_counts: write_counts["5m"] == 3, "all three placements on node-2")
    waiting.until(
        lambda: site.values("node-2")["memory_avg_5m"] > 0.5, "the load of node-2 to show: its end must move it"
    )
    waiting.until(lambda: time.monotonic() > aged_at_seconds, "the shorter window to run out")
    site.set_load("node-2", memory_ratio=0.4)
    await_hot(
        site, lambda write_counts: write_counts == {"10s": 0, "5m": 3}, "the placements to leave the shorter window"
    )
    waiting.until(
        lambda: site.values("node-2")["memory_avg_5m"] < 0.5, "the load's end to show: its return must move it"
    )
    for name in names:
        site.cluster.api.delete(f"{PODS}/{name}")
    site.set_load("node-2", memory_ratio=0.6)
    await_hot(site, lambda write_counts: write_counts == {"10s": 0, "5m": 0}, "placements to end with their pods")


def test_a_pod_that_comes_and_goes_at_a_constant_load_causes_no_patch(site: Site) -> None:
    site.steady()
    Quiet(site).wait()

    def came_and_went_unwritten() -> bool:
        """A late scrape on a busy machine may cause a patch of its own; the next pod then finds none."""
        texts = site.texts()
        site.place_on_node_2("short")
        site.annotator.grows(SYNCS)
        site.annotator.grows(SYNCS)  # began after the pod was placed
        site.cluster.api.delete(f"{PODS}/short")
        site.annotator.grows(SYNCS)
        site.annotator.grows(SYNCS)
        return site.texts() == texts

    waiting.until(came_and_went_unwritten, "a pod to come and go without a patch", site.texts)


def await_hot(site: Site, due: Callable[[Mapping[str, int]], bool], what: str) -> None:
    """Wait for the annotated placement counts of node-2."""

    def write_counts() -> Mapping[str, int]:
        return load_annotation.decode(site.texts()["node-2"]).hot

    waiting.until(lambda: due(write_counts()), what, write_counts)


def test_of_two_replicas_one_writes_and_the_other_takes_over(site: Site) -> None:
    site.steady()
    second = services.Service("annotator", site.arguments, site.directory)
    both = {site.annotator, second}
    second.start()
    try:
        # usually the first; but on a machine too busy to renew the Lease in time the second may have taken it already
        (leader,) = waiting.until(lambda: leading(both), "one of the two to lead")
        (follower,) = both - {leader}
        holder = held(site.lease())[0]
        assert leader.stop() == 0
        assert held(site.lease())[0] != holder, "it kept the Lease to itself"
        waiting.until(lambda: leading({follower}), "the other to lead")
        taken_over = site.heartbeat().at_seconds
        waiting.until(lambda: site.heartbeat().at_seconds > taken_over, "the other to write")
    finally:
        second.stop()
        if not site.annotator.running:
            site.annotator.start()


def leading(replicas: Collection[services.Service]) -> list[services.Service]:
    """The one of them that leads; nothing while none does, or while the Lease changes hands between two looks."""
    found = [one for one in replicas if one.metric("evenload_annotator_leader") == 1]
    return found if len(found) == 1 else []


def test_what_owners_use_is_published_and_goes_with_them(site: Site) -> None:
    site.steady()
    apps = "apis/apps/v1/namespaces/default/deployments"
    options = bodies.PodOptions(cpu_request="50m", cpu_millicores=100, memory_bytes=64 * 2**20)
    site.cluster.api.create(apps, bodies.deployment("web", 3, **options))
    try:
        waiting.until(lambda: near_100m_64mi(site.owners()), "the mean of web", site.owners)
    finally:
        site.cluster.api.delete(f"{apps}/web")
    waiting.until(lambda: not site.owners(), "the mean to go with its owner", site.owners)
    waiting.until(  # it counts a write once it has read the answer
        lambda: site.annotator.metric("evenload_annotator_usage_writes_total") >= 2, "two writes to be counted"
    )
    assert "Forbidden" not in site.annotator.log()


def near_100m_64mi(means: owner_usage.Means) -> bool:
    """Whether the one owner uses what the exporter plays for each of its replicas."""
    cpu_millicores, memory_bytes, replicas = means.get("default/ReplicaSet/web", owner_usage.Mean(0.0, 0.0, 0))
    cpu_near = 75 < (cpu_millicores or 0.0) < 125
    return cpu_near and 60 * 2**20 < (memory_bytes or 0.0) < 68 * 2**20 and 1 <= replicas <= 3


def held(lease: Mapping[str, Any]) -> tuple[str, int]:
    """Who holds a Lease, "" for nobody, and how often it has changed hands."""
    return lease["holderIdentity"] or "", lease["leaseTransitions"]
