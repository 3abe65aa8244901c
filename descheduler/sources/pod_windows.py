"""Use of pods over the last minutes, out of metrics-server's samples: the averages that a plan subtracts from nodes.

`sources.metrics_server` adds a list of pods at each sample; pure. The averages are those of
`policy.rules.sample_windows`: a pod without samples of half of a window has none, and `absence` says why. An item names
its pod and has no uid, so the samples belong to the uid that the cluster had at the time of the list.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from descheduler.snapshot import usage
from descheduler.snapshot.usage import PodUsage
from kube.objects import Pod, PodMetrics
from policy import metrics
from policy.rules import sample_windows
from policy.rules.sample_windows import Samples, SampleWindows
from policy.schema.load_policy import LoadPolicy

SLOTS: Final = 16  # the samples of 5 min are 10, one in every sync
NOT_LISTED: Final = "metrics-server does not list it"


class PodWindows:
    """The samples of the pods that are followed. Used by one thread at a time."""

    def __init__(self) -> None:
        self._samples = SampleWindows(len(metrics.RESOURCES), SLOTS)
        self._rows: dict[str, int] = {}  # by uid
        self._refused: dict[str, str] = {}  # by uid: why the last list had no sample of it

    def follow(self, pods: Collection[Pod], policy: LoadPolicy) -> None:
        """These are the pods now; a new one begins with nothing."""
        uids = [pod.uid for pod in pods]
        if uids != list(self._rows):
            self._samples.follow(uids)
            self._rows = {uid: row for row, uid in enumerate(uids)}
        self._samples.keep(_longest_seconds(policy))

    def add(self, items: Iterable[PodMetrics], pods: Collection[Pod], *, now_seconds: float) -> None:
        """Takes the samples of a list; of pods that are not followed it has more."""
        by_key = {item.key: item for item in items}
        columns = np.full((len(self._rows), 2 + len(metrics.RESOURCES)), math.nan)
        self._refused = {}
        for pod in pods:
            try:
                columns[self._rows[pod.uid]] = _sample(by_key.get(pod.key), pod, now_seconds)
            except sample_windows.Refusal as refusal:
                self._refused[pod.uid] = str(refusal)
        self._samples.add(Samples(columns[:, 0], columns[:, 1], columns[:, 2:]), now_seconds=now_seconds)

    def usage(self, pods: Collection[Pod], policy: LoadPolicy, *, now_seconds: float) -> dict[str, PodUsage]:
        """The averages of these pods by key, each as old as its newest sample; without those that lack one."""
        windows = usage.pod_windows(policy)
        cpu, memory = (
            self._samples.average(column, windows[resource], now_seconds).tolist()
            for column, resource in enumerate(metrics.RESOURCES)
        )
        newest_seconds = self._samples.newest_seconds().tolist()
        usages: dict[str, PodUsage] = {}
        for pod in pods:
            row = self._rows.get(pod.uid)
            if row is None or not now_seconds - newest_seconds[row] <= sample_windows.STALE_SECONDS:
                continue
            if not (math.isnan(cpu[row]) or math.isnan(memory[row])):
                usages[pod.key] = PodUsage(pod.key, cpu[row], memory[row], newest_seconds[row])
        return usages

    def absence(self, pod: Pod, policy: LoadPolicy, *, now_seconds: float) -> str:
        """Why a pod has no average."""
        if pod.uid in self._refused:
            return self._refused[pod.uid]
        row, seconds = self._rows.get(pod.uid), _longest_seconds(policy)
        observed_seconds = 0.0 if row is None else self._samples.observed_seconds(row, seconds, now_seconds)
        least_seconds = sample_windows.ENOUGH_RATIO * seconds
        return f"it was observed through metrics-server for {observed_seconds:.0f} s, expected {least_seconds:.0f} s"


def _longest_seconds(policy: LoadPolicy) -> float:
    windows: Mapping[str, float] = usage.pod_windows(policy)
    return max(windows[resource] for resource in metrics.RESOURCES)


def _sample(item: PodMetrics | None, pod: Pod, now_seconds: float) -> Sequence[float]:
    """The end of a sample, its length, millicores and bytes. Raises Refusal."""
    if item is None:
        raise sample_windows.Refusal(NOT_LISTED)
    running = (*pod.spec.containers, *(one for one in pod.spec.init_containers if one.is_sidecar)) if pod.ready else ()
    if missing := sorted({one.name for one in running}.difference(one.name for one in item.containers)):
        raise sample_windows.Refusal(f"metrics-server's figures of it are refused: container {missing[0]} is missing")
    try:
        at_seconds, span_seconds = sample_windows.checked_seconds(item.at_seconds, item.window, now_seconds)
        amounts = item.cpu_millicores, item.memory_bytes
    except (sample_windows.Refusal, ValueError) as error:
        raise sample_windows.Refusal(f"metrics-server's figures of it are refused: {error}") from error
    if min(amounts) < 0:
        raise sample_windows.Refusal("metrics-server's figures of it are refused: negative")
    if not amounts[1]:  # no process runs in no memory
        raise sample_windows.Refusal("metrics-server's figures of it are refused: zero")
    return at_seconds, span_seconds, *amounts
