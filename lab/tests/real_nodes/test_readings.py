"""Readings of real nodes and of pods of all shapes, beside their cgroups: by query, annotation, `nodes` and `plan`.

The measure is the mean of a cgroup over the window of a reading. Windows are a minute, so that the suite need not wait.
"""

import json
import time
from collections.abc import Iterator
from typing import Final

import pytest

from lab.real_nodes import images, waiting
from lab.real_nodes.truth import figures, recorder, scenes
from lab.tests.real_nodes import burners, installation
from lab.tests.real_nodes.nodes import Document

pytestmark = installation.MARKS
WORLD: Final = "rn-readings"
NODE: Final = "rn2"
WINDOW_SECONDS: Final = 60.0
SHORT_WINDOW: Final = "60"  # seconds, as the record names it
LONG_WINDOW: Final = "300"  # which the record has, too
WARM_SECONDS: Final = 45.0  # images, an init container of 20 s, the first look of cAdvisor
RECORD_SECONDS: Final = 45.0
# In points of a node: 10 millicores, 20.5 MiB. CPU under lxcfs was up to 2.7 off in a minute (docs/results/0.2.0.md).
NODE_POINTS: Final = {"cpu": 3.0, "memory": 1.0}
POD_POINTS: Final = {"cpu": 0.8, "memory": 0.5}
MEMORY_VOLUME: Final = "volume"
VOLUME_BYTES: Final = 50 << 20


def burner(name: str, millicores: int, mebibytes: int, **more: object) -> Document:
    return {"name": name, "image": images.BURNER, "args": [str(millicores), str(mebibytes)], **more}


def python(name: str, text: str, **more: object) -> Document:
    """A container of the image of Evenload, which has Python."""
    return {"name": name, "image": installation.IMAGE, "command": ["python", "-c", text], **more}


STEADY: Final[dict[str, Document]] = {
    "plain": {"containers": [burner("main", 30, 60)]},
    "two": {"containers": [burner("main", 20, 40), burner("other", 10, 30)]},
    "sidecar": {
        "initContainers": [burner("mesh", 20, 30, restartPolicy="Always")],
        "containers": [burner("main", 10, 20)],
    },
    "initialised": {
        "initContainers": [python("setup", "import time; space = bytearray(120 << 20); time.sleep(20)")],
        "containers": [burner("main", 10, 20)],
    },
    "network": {"hostNetwork": True, "containers": [burner("main", 10, 40)]},
    MEMORY_VOLUME: {
        "volumes": [{"name": "ram", "emptyDir": {"medium": "Memory"}}],
        "containers": [
            python(
                "main",
                f"import time; open('/ram/file', 'wb').write(bytes({VOLUME_BYTES})); time.sleep(3600)",
                volumeMounts=[{"name": "ram", "mountPath": "/ram"}],
            )
        ],
    },
}
RESTARTING: Final[dict[str, Document]] = {
    # 45 MiB for 20 s, which cAdvisor looks at, then more than its limit.
    "too-large": {
        "containers": [
            python(
                "main",
                "import time; first = bytearray(45 << 20); time.sleep(20); second = bytearray(100 << 20)",
                resources={"limits": {"memory": "60Mi"}},
            )
        ]
    },
    "exiting": {"containers": [python("main", "import time; space = bytearray(90 << 20); time.sleep(20)")]},
}
STATIC: Final = "static"


@pytest.fixture(scope="module")
def site() -> Iterator[installation.Installation]:
    """Evenload on real nodes, which observes and takes a node for overloaded by little memory."""
    with installation.installed(WORLD) as running:
        policy = scenes.shortest_policy(running.policy())
        policy["descheduler"] |= {
            "mode": "Observe",
            "thresholds": {"memory_avg_1m": {"evictAbove": 0.20, "evictUntil": 0.05}},
        }
        running.set_policy(policy)
        yield running


@pytest.fixture(scope="module")
def record(site: installation.Installation) -> Iterator[recorder.Record]:
    """A record of a node with pods of all shapes, all running for longer than a window; it goes on."""
    pods = {name: pod(name, spec) for name, spec in (STEADY | RESTARTING).items()}
    manifest = site.nodes.starter.directory / "nodes" / NODE / "manifests" / f"{STATIC}.yaml"
    with recorder.Recorder(site.nodes, [NODE]).recording() as result:
        site.nodes.apply(*pods.values())
        manifest.write_text(json.dumps(pod(STATIC, {"containers": [burner("main", 10, 40)]})), encoding="utf-8")
        site.nodes.kubectl("wait", "--for=condition=Ready", *(f"pod/{name}" for name in STEADY), "--timeout=180s")
        end_seconds = time.time() + WARM_SECONDS + WINDOW_SECONDS + RECORD_SECONDS
        waiting.until(lambda: time.time() > end_seconds, "the record", 300)
        yield result


def pod(name: str, spec: Document) -> Document:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "nodeName": NODE}}


@pytest.mark.parametrize("resource", ["cpu", "memory"])
@pytest.mark.parametrize("name", [*STEADY, f"{STATIC}-{NODE}"])
def test_a_pod_reads_as_its_cgroup(record: recorder.Record, name: str, resource: str) -> None:
    unit = figures.CORES_PER_POINT if resource == "cpu" else figures.BYTES_PER_POINT
    pairs = list(pairs_of(record, uid_of(record, name), resource, unit))
    assert len(pairs) > 3
    assert all(abs(value - truth) < POD_POINTS[resource] for value, truth in pairs), pairs


@pytest.mark.parametrize("name", RESTARTING)
def test_containers_that_ended_count_no_more(record: recorder.Record, name: str) -> None:
    """Each life had some 60 or 90 MiB; what is read of a window with several is never their sum."""
    uid = uid_of(record, name)
    lives = [sample.uses[uid].memory_bytes for sample in record.samples if uid in sample.uses]
    wanted = (LONG_WINDOW, uid, "memory")
    values = [each.value for each in record.readings if (each.source, each.subject, each.resource) == wanted]
    assert max(lives) > 40 << 20
    assert all(value < 1.05 * max(lives) for value in values), values


def test_a_pod_in_back_off_has_no_reading(site: installation.Installation, record: recorder.Record) -> None:
    """It is absent, and no pod of 0 bytes."""
    uid = uid_of(record, "too-large")

    def is_absent() -> bool:
        moment = max(each.at_seconds for each in record.readings)
        lately = (each for each in record.readings if each.at_seconds > moment - 12)
        return (SHORT_WINDOW, uid) not in {(each.source, each.subject) for each in lately}

    waiting.until(is_absent, "the reading of a container in back-off to end", 180)
    (candidate,) = [each for each in burners.candidates(site) if each["pod"] == "too-large"]
    assert (candidate["memory_bytes"], candidate["cpu_millicores"]) == (None, None)
    assert candidate["verdict"] != "chosen"


@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_a_node_reads_as_its_cgroup_by_query_annotation_and_command(
    site: installation.Installation, record: recorder.Record, resource: str
) -> None:
    lxcfs_points = VOLUME_BYTES / figures.BYTES_PER_POINT if resource == "memory" else 0  # it takes that for files
    pairs = list(pairs_of(record, NODE, resource, 0.01))
    assert len(pairs) > 3
    assert all(abs(value - (truth - lxcfs_points)) < NODE_POINTS[resource] for value, truth in pairs), pairs
    annotations = [
        each.value
        for each in latest(record, f"{recorder.ANNOTATION} avg_1m")
        if (each.subject, each.resource) == (NODE, resource)
    ]
    # Up to 2 points are not written (`sync.minChange`).
    assert annotations
    assert all(abs(100 * value - pairs[-1][0]) < NODE_POINTS[resource] + 2 for value in annotations), (
        annotations,
        pairs,
    )
    answer = json.loads(site.run("evenload nodes -o json 2> err.txt"))
    values = {each["name"]: each["values"][f"{resource}_avg_1m"] for each in answer["nodes"]}
    assert values[NODE] == pytest.approx(annotations[-1], abs=0.02)


def test_the_plan_counts_pods_as_their_cgroups(site: installation.Installation, record: recorder.Record) -> None:
    uses = {each["pod"]: each for each in burners.candidates(site)}
    moment = record.samples[-1].at_seconds
    for name in (*STEADY, f"{STATIC}-{NODE}"):
        history = figures.History(record.samples, uid_of(record, name))
        cpu, memory = (history.mean(each, moment - WINDOW_SECONDS, moment) for each in ("cpu", "memory"))
        assert uses[name]["cpu_millicores"] / 10 == pytest.approx(cpu, abs=POD_POINTS["cpu"]), name
        points = uses[name]["memory_bytes"] / figures.BYTES_PER_POINT
        assert points == pytest.approx(memory, abs=POD_POINTS["memory"]), name


def uid_of(record: recorder.Record, name: str) -> str:
    """The uid of a pod by its name."""
    (uid,) = [uid for uid, each in record.pods.items() if each.name == name]
    return uid


def latest(record: recorder.Record, source: str = f"{WINDOW_SECONDS:.0f}") -> list[recorder.Reading]:
    """The readings of the last seconds, whose windows have no start of a pod in them."""
    until_seconds = record.readings[-1].at_seconds
    return [
        each
        for each in record.readings
        if each.source == source and each.at_seconds > until_seconds - RECORD_SECONDS + 10
    ]


def pairs_of(record: recorder.Record, subject: str, resource: str, unit: float) -> Iterator[tuple[float, float]]:
    """The latest readings of a node or pod, in points, with the means of its cgroup over their windows.

    Until a window after its first reading the first look of cAdvisor may lie within one.
    """
    history = figures.History(record.samples, subject)
    first_seconds = min(each.at_seconds for each in record.readings if each.subject == subject)
    for each in latest(record):
        if (each.subject, each.resource) == (subject, resource) and each.at_seconds > first_seconds + WINDOW_SECONDS:
            truth = history.mean(resource, each.at_seconds - WINDOW_SECONDS, each.at_seconds)
            if truth is not None:
                yield each.value / unit, truth
