"""metrics-server itself on real nodes, read by Evenload: docs/how-to/without-prometheus.md, judged by the cgroups."""

import json
import pathlib
import time
from collections.abc import Iterator

import pytest

from lab.cluster import programs
from lab.real_nodes import images, node, waiting
from lab.tests.real_nodes import burners
from lab.tests.real_nodes.installation import MARKS, NAMESPACE, Installation, installed
from lab.tests.real_nodes.nodes import cpu_seconds, memory_stat
from tests import pages

pytestmark = MARKS
NODES = ("rn1", "rn2", "rn3")
LOADED = "rn2"
METRICS_SERVER = "lab.local/metrics-server:1"
MANIFEST = pathlib.Path(__file__).with_name("metrics_server.yaml")
WINDOW_SECONDS = 150.0  # docs: before that an average over five minutes has no value
LIMIT_SECONDS = 240.0
BURNER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "burner"},
    "spec": {"nodeName": LOADED, "containers": [{"name": "main", "image": images.BURNER, "args": ["300", "900"]}]},
}


@pytest.fixture(scope="module")
def world() -> Iterator[Installation]:
    """Evenload over metrics-server, by the component in the page's overlay, and a burner on a node."""
    program = programs.built(pages.ROOT / "tests" / "contract" / "metrics_server")
    with installed("rn-metrics-server", programs={METRICS_SERVER: program}) as world:
        switch(world)
        yield world


def switch(world: Installation) -> None:
    """Starts a burner and metrics-server, and lets Evenload read that."""
    world.nodes.apply(BURNER)
    world.nodes.kubectl("apply", "-f", str(MANIFEST))
    world.nodes.kubectl("rollout", "status", "deployment/metrics-server", "-n", "kube-system", "--timeout=240s")
    waiting.until(
        lambda: all(name in world.run("kubectl top nodes", code=-1) for name in NODES), "kubectl top", LIMIT_SECONDS
    )
    overlay = world.clone / "mine" / "kustomization.yaml"
    ha = "  - ../deploy/kustomize/components/ha\n"
    with_component = overlay.read_text("utf-8").replace(ha, f"{ha}  - ../deploy/kustomize/components/metrics-server\n")
    overlay.write_text(with_component, encoding="utf-8")
    relief = {"thresholds": {"memory_avg_5m": {"evictAbove": 0.4, "evictUntil": 0.3}}}
    filters = {"thresholds": {"memory_avg_5m": 0.35}}
    world.set_policy({**world.policy(), "filter": filters, "descheduler": relief})
    world.until_running()


def working_set_bytes(cgroup: pathlib.Path) -> int:
    """The working set of a cgroup, which has active file pages in it, as kubelet and metrics-server count it."""
    stat = memory_stat(cgroup)
    return stat["usage"] - stat["total_inactive_file"]


def readings(world: Installation, name: str) -> dict[str, float]:
    """The values that the annotator wrote on a node."""
    annotations = world.nodes.get("node", name)["metadata"]["annotations"]
    return dict(json.loads(annotations.get("evenload.io/load", "{}")).get("m", {}))


def test_readings_are_those_of_the_nodes_cgroups(world: Installation) -> None:
    cgroups = {name: world.nodes.memory_cgroup(name) for name in NODES}
    begun, before = time.monotonic(), {name: cpu_seconds(path) for name, path in cgroups.items()}
    waiting.until(lambda: time.monotonic() > begun + 2 * WINDOW_SECONDS, "a window to be full", 3 * WINDOW_SECONDS)
    seconds = time.monotonic() - begun
    for name, path in cgroups.items():
        values = readings(world, name)
        cpu_ratio = (cpu_seconds(path) - before[name]) / seconds
        assert values["cpu_avg_5m"] == pytest.approx(cpu_ratio, abs=0.05)
        assert values["memory_avg_5m"] == pytest.approx(working_set_bytes(path) / node.MEMORY_BYTES, abs=0.03)


def test_the_plan_weighs_a_pod_as_its_cgroup_does(world: Installation) -> None:
    uid = world.nodes.get("pod", "burner")["metadata"]["uid"]
    (cgroup,) = world.nodes.memory_cgroup(LOADED).rglob(f"pod{uid}")

    def memory_bytes() -> float:
        return sum(row["memory_bytes"] or 0.0 for row in burners.candidates(world) if row["pod"] == "burner")

    waiting.until(lambda: memory_bytes() > 0, "the burner's use in the plan", 2 * LIMIT_SECONDS)
    assert memory_bytes() == pytest.approx(working_set_bytes(cgroup), rel=0.03)


def test_doctor_finds_the_source_and_nothing_wrong(world: Installation) -> None:
    world.run("kubectl run web --image registry.k8s.io/pause:3.10")
    world.nodes.kubectl("wait", "--for=condition=PodScheduled", "pod/web", "--timeout=240s")
    answer = json.loads(world.run("evenload doctor --policy mine/policy.yaml -o json 2>/dev/null", code=-1))
    assert {check["check"]: check["seen"] for check in answer["checks"] if check["verdict"] != "ok"} == {}
    assert world.restarts() == []
    assert NAMESPACE in world.run("kubectl top pods -A")
