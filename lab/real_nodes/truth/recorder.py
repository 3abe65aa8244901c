"""Records a run: the cgroups of nodes and pods each second, beside what Evenload reads and writes meanwhile.

The cgroups are the truth. The readings are the product's own queries at the moment when they are asked (cAdvisor's
samples are late, so an answer for the same moment would be another one afterwards) and the annotations of the nodes.
"""

import contextlib
import json
import pathlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from lab.cluster import api
from lab.tests.real_nodes import nodes
from policy.contract import load_annotation
from promql.queries import node_queries, pod_queries

SECONDS = 1.0
QUERY_SECONDS = 5.0
WINDOWS_SECONDS = (60.0, 300.0)
ADDRESSES = {f"10.77.0.{10 + number}:9100": f"rn{number}" for number in range(1, 10)}
ANNOTATION = "annotation"
STATIC_UID = "kubernetes.io/config.hash"  # kubelet's uid of a static pod; that of its mirror is another
AVERAGES = ("avg_1m", "avg_5m")


class Use(NamedTuple):
    """The use of a cgroup: processor time since its start, and memory now that cannot be had back."""

    cpu_seconds: float
    memory_bytes: float


class Sample(NamedTuple):
    """The cgroups of nodes by name and of pods by uid at one moment."""

    at_seconds: float
    uses: Mapping[str, Use]


class Reading(NamedTuple):
    """A reading of a node or pod by Evenload: cores or bytes, of a node ratios. The source is a window in seconds as
    text, or `annotation`.
    """

    at_seconds: float
    source: str
    subject: str
    resource: str
    value: float


class Pod(NamedTuple):
    """A pod's life as the apiserver had it, by the clock of this machine; 0 for what has not happened."""

    uid: str
    name: str
    node: str
    owner: str
    created_at_seconds: float = 0.0
    ready_at_seconds: float = 0.0
    leaving_at_seconds: float = 0.0


class Record(NamedTuple):
    """All of a run, in the order of time."""

    samples: list[Sample]
    readings: list[Reading]
    pods: dict[str, Pod]


class Recorder:
    """Samples in a thread between `start` and `stop`; the caller is in the nodes' network."""

    def __init__(self, site: nodes.Nodes, names: Iterable[str]) -> None:
        self.record = Record([], [], {})
        self._site = site
        self._cgroups = {name: site.memory_cgroup(name) for name in names}
        pki = site.starter.directory / "plane" / "pki"
        files = {"ca": pki / "ca.crt", "certificate": pki / "admin.crt", "key": pki / "admin.key"}
        self._api = api.Api(site.starter.addresses()[1], **files)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    @contextlib.contextmanager
    def recording(self) -> Iterator[Record]:
        """Records while the body runs; an error of the thread is raised at the end."""
        self._thread.start()
        try:
            yield self.record
        finally:
            self._stopping.set()
            self._thread.join(60)

    def pods(self) -> list[Pod]:
        """The pods so far; RuntimeError once the thread has ended by an error."""
        if not self._thread.is_alive():
            raise RuntimeError("the recorder's thread ended; its traceback is on stderr")
        return list(self.record.pods.values())

    def _run(self) -> None:
        query_due_seconds = time.time()
        while not self._stopping.wait(SECONDS):
            self.record.samples.append(Sample(time.time(), dict(self._uses())))
            self._follow_pods()
            self._follow_annotations()
            if time.time() >= query_due_seconds:
                self._query()
                query_due_seconds = time.time() + QUERY_SECONDS

    def _uses(self) -> Iterator[tuple[str, Use]]:
        for name, cgroup in self._cgroups.items():
            yield name, use_of(cgroup)
            for path in pods_of(cgroup):
                with contextlib.suppress(OSError):  # it ended meanwhile
                    yield path.name.removeprefix("pod"), use_of(path)

    def _follow_pods(self) -> None:
        items = self._api.items("api/v1/namespaces/default/pods")
        self.record.pods.update(followed(self.record.pods, items, time.time()))

    def _follow_annotations(self) -> None:
        now_seconds = time.time()
        for item in self._api.items("api/v1/nodes"):
            text = item["metadata"].get("annotations", {}).get(load_annotation.KEY)
            if text is not None:
                for metric, value in json.loads(text)["m"].items():
                    if metric.partition("_")[2] in AVERAGES:
                        source = f"{ANNOTATION} {metric.partition('_')[2]}"
                        self._add(now_seconds, source, item["metadata"]["name"], metric.partition("_")[0], value)

    def _query(self) -> None:
        uids = {each.name: each.uid for each in self.record.pods.values()}
        for window_seconds in WINDOWS_SECONDS:
            source = f"{window_seconds:.0f}"
            for resource in ("cpu", "memory"):
                window = node_queries.Window(resource, "avg", window_seconds, window_seconds)
                series = self._site.series(node_queries.expression(window))
                for labels, value in series.items():
                    self._add(time.time(), source, ADDRESSES[json.loads(labels)["instance"]], resource, value)
            for resource, expression in (
                ("cpu", pod_queries.cpu_cores(window_seconds)),
                ("memory", pod_queries.memory_bytes(window_seconds)),
            ):
                for labels, value in self._site.series(expression).items():
                    uid = uids.get(json.loads(labels)["pod"])
                    if uid is not None:
                        self._add(time.time(), source, uid, resource, value)

    def _add(self, at_seconds: float, source: str, subject: str, resource: str, value: float) -> None:
        self.record.readings.append(Reading(at_seconds, source, subject, resource, value))


def followed(before: Mapping[str, Pod], items: Iterable[nodes.Document], now_seconds: float) -> dict[str, Pod]:
    """The pods by uid after those of the apiserver at this moment. A pod that is there no more leaves by now: one that
    ends within a second of its deletion may be in no list with a `deletionTimestamp`.
    """
    pods: dict[str, Pod] = {}
    for item in items:
        metadata, node = item["metadata"], item["spec"].get("nodeName", "")
        owners = metadata.get("ownerReferences", [])
        uid = metadata.get("annotations", {}).get(STATIC_UID, metadata["uid"])
        known = before.get(uid) or Pod(uid, "", "", "", now_seconds)
        conditions = item["status"].get("conditions", [])
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        pods[uid] = known._replace(
            name=metadata["name"],
            node=node,
            owner=owners[0]["name"].rpartition("-")[0] if owners else "",
            ready_at_seconds=known.ready_at_seconds or (now_seconds if ready else 0.0),
            leaving_at_seconds=known.leaving_at_seconds or (now_seconds if "deletionTimestamp" in metadata else 0.0),
        )
    gone = [pod for uid, pod in before.items() if uid not in pods and not pod.leaving_at_seconds]
    return {**before, **pods, **{pod.uid: pod._replace(leaving_at_seconds=now_seconds) for pod in gone}}


def pods_of(cgroup: pathlib.Path) -> Iterator[pathlib.Path]:
    """The memory cgroups of a node's pods."""
    for pattern in ("kubepods/pod*", "kubepods/*/pod*"):
        yield from cgroup.glob(pattern)


def use_of(cgroup: pathlib.Path) -> Use:
    """Reads the use of the cgroup of a node or pod. File pages can be had back."""
    stat = nodes.memory_stat(cgroup)
    files_bytes = stat["total_inactive_file"] + stat["total_active_file"]
    return Use(nodes.cpu_seconds(cgroup), stat["usage"] - files_bytes)
