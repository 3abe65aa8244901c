"""The figures of a run as pure functions: errors of readings and of predicted relief, delays. Times are Unix seconds.

Of a reading with a window the truth is the mean of the cgroup over the same seconds. Errors are in points, hundredths
of a node: 10 millicores, 20.5 MiB.
"""

import bisect
import datetime
import itertools
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lab.real_nodes import node
from lab.real_nodes.truth import recorder
from lab.real_nodes.truth.measuring import Run, Scene

PHASES = ("at rest", "after the step", "under load", "after evictions")
BEFORE_SECONDS = 15.0  # over which a node is measured before and after an eviction
BYTES_PER_POINT, CORES_PER_POINT = node.MEMORY_BYTES / 100, 0.01


class Errors(NamedTuple):
    """Errors of readings in points: the mean of their sizes, and the largest."""

    mean: float
    worst: float


class Relief(NamedTuple):
    """The share of a node in points that an eviction was to free, and what its cgroup had less afterwards."""

    pod: str
    predicted: float
    measured: float


class History:
    """The samples of one cgroup as means over spans."""

    def __init__(self, samples: Sequence[recorder.Sample], subject: str) -> None:
        rows = [(sample.at_seconds, sample.uses[subject]) for sample in samples if subject in sample.uses]
        self._times = [at_seconds for at_seconds, _ in rows]
        self._cpu = [use.cpu_seconds for _, use in rows]
        self._memory = [use.memory_bytes for _, use in rows]

    def mean(self, resource: str, begin_seconds: float, end_seconds: float) -> float | None:
        """Points used in the mean of a span; None where the samples do not cover it."""
        if (
            len(self._times) < 2
            or begin_seconds < self._times[0]
            or end_seconds > self._times[-1] + 2 * recorder.SECONDS
        ):
            return None
        if resource == "cpu":
            used_seconds = self._cpu_at(end_seconds) - self._cpu_at(begin_seconds)
            return used_seconds / (end_seconds - begin_seconds) / CORES_PER_POINT
        spans = itertools.pairwise(zip(self._times, self._memory, strict=True))
        parts = [
            (min(end, end_seconds) - max(begin, begin_seconds), used_bytes)
            for (begin, used_bytes), (end, _) in spans
            if begin < end_seconds and end > begin_seconds
        ]
        covered_seconds = sum(seconds for seconds, _ in parts)
        return sum(seconds * used_bytes for seconds, used_bytes in parts) / covered_seconds / BYTES_PER_POINT

    def end_seconds(self) -> float:
        """When its last sample was; 0 without any."""
        return self._times[-1] if self._times else 0.0

    def _cpu_at(self, at_seconds: float) -> float:
        after = min(max(bisect.bisect_left(self._times, at_seconds), 1), len(self._times) - 1)
        (begin, end), (low, high) = self._times[after - 1 : after + 1], self._cpu[after - 1 : after + 1]
        return low + (high - low) * (at_seconds - begin) / (end - begin)


def errors_of(run: Run, scene: Scene, source: str, *, of_pods: bool) -> dict[str, Errors]:
    """The errors of the readings of a source about the case's node, or about its pods, by phase."""
    case, record = scene.case, run.record
    subjects = {uid for uid, pod in record.pods.items() if pod.node == case.node} if of_pods else {case.node}
    histories = {subject: History(record.samples, subject) for subject in subjects}
    sizes: dict[str, list[float]] = {}
    for reading in record.readings:
        phase = phase_at(run, scene, reading.at_seconds)
        if phase and reading.source == source and reading.resource == case.resource and reading.subject in subjects:
            begin_seconds = reading.at_seconds - case.window_seconds
            truth = histories[reading.subject].mean(case.resource, begin_seconds, reading.at_seconds)
            if truth is not None:
                unit = (CORES_PER_POINT if case.resource == "cpu" else BYTES_PER_POINT) if of_pods else 0.01
                sizes.setdefault(phase, []).append(abs(reading.value / unit - truth))
    return {phase: Errors(statistics.fmean(each), max(each)) for phase, each in sizes.items()}


def phase_at(run: Run, scene: Scene, at_seconds: float) -> str:
    """The phase of the scene to which a window that ends then belongs; "" for none."""
    step_seconds, window_seconds = scene.step_at_seconds, scene.case.window_seconds
    relief_seconds = min((pod.leaving_at_seconds for pod in evicted(run, scene)), default=scene.end_at_seconds)
    if scene.rest_at_seconds + window_seconds <= at_seconds <= step_seconds:
        return PHASES[0]
    if step_seconds < at_seconds <= min(step_seconds + window_seconds, relief_seconds):
        return PHASES[1]
    if step_seconds < at_seconds <= relief_seconds:
        return PHASES[2]
    return PHASES[3] if relief_seconds < at_seconds <= scene.end_at_seconds else ""


def evicted(run: Run, scene: Scene) -> list[recorder.Pod]:
    """The pods that left the case's node after its step, the first one first."""
    span = (scene.step_at_seconds, scene.end_at_seconds)
    pods = [
        pod
        for pod in run.record.pods.values()
        if pod.node == scene.case.node and pod.owner and span[0] < pod.leaving_at_seconds < span[1]
    ]
    return sorted(pods, key=lambda pod: pod.leaving_at_seconds)


def reliefs(run: Run, scene: Scene) -> Iterator[Relief]:
    """Each eviction of the scene: the pod's use in the ledger, and the node's cgroup before and after."""
    history, resource = History(run.record.samples, scene.case.node), scene.case.resource
    rows = {row["pod_uid"]: row for row in run.evictions if row["result"] == "evicted"}
    for pod in evicted(run, scene):
        gone_seconds = History(run.record.samples, pod.uid).end_seconds() + 2 * recorder.SECONDS
        before = history.mean(resource, pod.leaving_at_seconds - BEFORE_SECONDS, pod.leaving_at_seconds)
        after = history.mean(resource, gone_seconds, gone_seconds + BEFORE_SECONDS)
        if before is not None and after is not None and pod.uid in rows:
            row = rows[pod.uid]
            cpu = row["cpu_millicores"] / 1000 / CORES_PER_POINT
            predicted = cpu if resource == "cpu" else row["memory_bytes"] / BYTES_PER_POINT
            yield Relief(pod.name, predicted, before - after)


def delays_seconds(run: Run, scene: Scene) -> dict[str, float | None]:
    """The steps from load to relief, in seconds since the load began; None for what was not recorded."""
    case, record = scene.case, run.record
    began_seconds = load_began_seconds(run, scene)
    left = evicted(run, scene)
    first = left[0] if left else None
    rows = [row for row in run.evictions if first is not None and row["pod_uid"] == first.uid]
    fresh = [
        pod.ready_at_seconds
        for pod in record.pods.values()
        if first is not None and pod.owner == first.owner and pod.created_at_seconds >= first.leaving_at_seconds
    ]
    moments = {
        "the cgroup's mean of the window is over the line": _truth_over(run, scene),
        "the query's answer is": _over(run, scene, f"{case.window_seconds:.0f}"),
        "the node's annotation is": _over(run, scene, f"{recorder.ANNOTATION} {case.metric.partition('_')[2]}"),
        "the descheduler decides": unix(rows[0]["intended_at"]) if rows else None,
        "the pod is evicted": first.leaving_at_seconds if first else None,
        "its containers have ended": History(record.samples, first.uid).end_seconds() if first else None,
        "its replacement is Ready": min(filter(None, fresh), default=None),
    }
    return {name: None if at is None else at - began_seconds for name, at in moments.items()}


def load_began_seconds(run: Run, scene: Scene) -> float:
    """When the step's pod had a half of its memory, or used a half of its CPU; StopIteration if never."""
    step = scene.case.step
    uids = [
        uid
        for uid, pod in run.record.pods.items()
        if pod.name == step.name and pod.created_at_seconds >= scene.step_at_seconds - recorder.SECONDS
    ]
    history = History(run.record.samples, uids[0])
    half = step.millicores / 20 if scene.case.resource == "cpu" else step.mebibytes * (1 << 19) / BYTES_PER_POINT
    times = [sample.at_seconds for sample in run.record.samples if uids[0] in sample.uses]
    return next(
        begin
        for begin, end in itertools.pairwise(times)
        if (history.mean(scene.case.resource, begin, end) or 0.0) > half
    )


def unix(text: str) -> float:
    """A time of the ledger as Unix seconds."""
    return datetime.datetime.fromisoformat(text).timestamp()


def _over(run: Run, scene: Scene, source: str) -> float | None:
    """When a reading of a source about the case's node was first over the line after the step."""
    wanted = (source, scene.case.node, scene.case.resource)
    times = (
        reading.at_seconds
        for reading in run.record.readings
        if (reading.source, reading.subject, reading.resource) == wanted
        and reading.at_seconds > scene.step_at_seconds
        and reading.value > scene.case.line_ratio
    )
    return next(times, None)


def _truth_over(run: Run, scene: Scene) -> float | None:
    """When the mean of the window of the node's cgroup was first over the line after the step."""
    history = History(run.record.samples, scene.case.node)
    for sample in run.record.samples:
        if sample.at_seconds > scene.step_at_seconds:
            begin_seconds = sample.at_seconds - scene.case.window_seconds
            mean = history.mean(scene.case.resource, begin_seconds, sample.at_seconds)
            if mean is not None and mean > 100 * scene.case.line_ratio:
                return sample.at_seconds
    return None
