"""What owners' replicas use, read from Prometheus and published in the `evenload-usage` ConfigMap, seldom.

`annotator.cycle` calls `OwnerUsage.sync` after the heartbeat, so that nothing here delays a node's reading. Every
second sync it asks two queries for all pods; it writes when some mean moved by a fifth or an owner came or went, and
else once in a while so that the means do not turn stale. The larger the ConfigMap, the longer it waits, as every write
goes to etcd and to each extender as a whole. What fails leaves the last means standing; the extender stops using them
in time. So does an answer without a single pod while measured ones still run: a Prometheus restarted empty, or a scrape
that all kubelets missed, gives it with a good conscience (`annotator.collecting.doubted` has the same of nodes).
"""

import math
from collections.abc import Callable, Mapping
from typing import Final

from annotator import complaints, owners
from annotator.metrics import Telemetry
from kube import errors as kube_errors
from kube import kinds
from kube.door import KubeDoor
from kube.lean_pods import Pod
from policy import metrics as load_metrics
from policy import owner_usage
from policy.schema import LoadPolicy
from promql import errors, pod_queries, readings
from promql.door import PrometheusDoor

PERIODS: Final = 2.0  # syncs between two looks
BYTES_PER_SECOND: Final = 4096.0  # at most so much is written on average: 768 KiB every 3 minutes
LABELS: Final = {"app.kubernetes.io/name": "evenload", "app.kubernetes.io/component": "annotator"}


class OwnerUsage:
    """What was published last, and when pods were last asked about. `sync` belongs to one thread."""

    def __init__(
        self, prometheus: PrometheusDoor, kube: KubeDoor, namespace: str, telemetry: Telemetry, now: Callable[[], float]
    ) -> None:
        self._prometheus = prometheus
        self._kube = kube
        self._namespace = namespace
        self._telemetry = telemetry
        self._now = now
        self._complaints = complaints.Complaints()
        self._replicas = owners.Replicas()
        self._published = owner_usage.NOTHING
        self._looked_seconds = -math.inf
        self.problem = ""
        self.read: owners.PodUsage | None = None  # what every pod uses, if the last sync asked

    def sync(self, pods: Mapping[str, Pod], policy: LoadPolicy) -> bool:
        """Look and publish when it is time; whether it was. `problem` says what went wrong the last time."""
        now_seconds = self._now()
        self.read = None
        if not (policy.recent_pods.enabled and policy.recent_pods.owner_usage):
            self.problem = ""
            return False
        if 0 <= now_seconds - self._looked_seconds < PERIODS * policy.sync.period_seconds:  # negative: it was set back
            return False
        self._looked_seconds = now_seconds
        self.problem = self._look(pods, policy, now_seconds)
        self._complaints.update("owners' usage not published", self.problem)
        return True

    def _look(self, pods: Mapping[str, Pod], policy: LoadPolicy, now_seconds: float) -> str:
        self._replicas.follow(pods)
        try:
            usage = self._read(policy)
        except errors.PromqlError as error:
            return str(error)
        if isinstance(usage, str):
            return usage
        self.read = usage
        found = owners.means(self._replicas, usage, now_seconds=now_seconds)
        kept = owner_usage.fitting(found, self._replicas.placed_lately(now_seconds=now_seconds))
        self._telemetry.owners.labels("published").set(len(kept))
        self._telemetry.owners.labels("left_out").set(len(found) - len(kept))
        if not self._worth_writing(kept, policy, now_seconds):
            return ""
        return self._write(owner_usage.encode(now_seconds, kept), owner_usage.Published(now_seconds, kept))

    def _read(self, policy: LoadPolicy) -> owners.PodUsage | str:
        """What pods use, or why the answers are not to be used: a mean over some replicas only is another number."""
        windows = _windows_seconds(policy)
        texts = {
            load_metrics.CPU: pod_queries.cpu_cores(windows[load_metrics.CPU]),
            load_metrics.MEMORY: pod_queries.memory_bytes(windows[load_metrics.MEMORY]),
        }
        amounts: dict[str, Mapping[str, float]] = {}
        for resource, text in texts.items():
            with self._telemetry.query_seconds.labels(f"pods_{resource}").time():
                answer = self._prometheus.query(text)
            if answer.partial:
                return f"Prometheus calls its answer about pods partial: {answer.warnings[0]}"
            if not answer.samples and self._is_measured(resource):
                return (
                    f"{resource} of pods was answered without a single pod, although measured ones run; "
                    "check whether Prometheus lost its data, and whether it scrapes the kubelets"
                )
            judge = _cores_reason if resource == load_metrics.CPU else _bytes_reason
            amounts[resource], refused = readings.by_pod(answer, judge=judge)
            for reason in refused.values():
                self._telemetry.invalid_samples.labels(reason).inc()
        millicores = {pod: cores * 1000.0 for pod, cores in amounts[load_metrics.CPU].items()}
        return owners.PodUsage(millicores, amounts[load_metrics.MEMORY], max(windows.values()))

    def _is_measured(self, resource: str) -> bool:
        """Whether pods run whose owner has a published mean of the resource."""
        running = self._replicas.running()
        means = [mean for owner, mean in self._published.means.items() if owner in running]
        amounts = (mean.cpu_millicores if resource == load_metrics.CPU else mean.memory_bytes for mean in means)
        return any(amount is not None for amount in amounts)

    def _worth_writing(self, kept: owner_usage.Means, policy: LoadPolicy, now_seconds: float) -> bool:
        before = self._published
        age_seconds = now_seconds - before.at_seconds
        if before is owner_usage.NOTHING:
            return bool(kept)
        if age_seconds < 0:  # the clock was set back, and extenders use nothing from the future
            return True
        if age_seconds < owner_usage.size_bytes(kept) / BYTES_PER_SECOND:
            return False
        return owner_usage.moved(before.means, kept) or age_seconds >= owner_usage.renew_after_seconds(policy.sync)

    def _write(self, data: dict[str, str], published: owner_usage.Published) -> str:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": owner_usage.CONFIG_MAP, "labels": LABELS},
            "data": data,
        }
        try:
            try:
                self._kube.replace(kinds.CONFIG_MAPS, owner_usage.CONFIG_MAP, body, namespace=self._namespace)
            except kube_errors.NotFound:
                self._kube.create(kinds.CONFIG_MAPS, body, namespace=self._namespace)
        except kube_errors.KubeError as error:
            self._telemetry.usage_writes.labels("failed").inc()
            return str(error)
        self._telemetry.usage_writes.labels("written").inc()
        self._published = published
        return ""


def _windows_seconds(policy: LoadPolicy) -> dict[str, float]:
    """Over how long a pod's use is averaged: as long as the average that shows it on its node."""
    found: dict[str, float] = {}
    for metric in policy.metrics_in_force:
        found.setdefault(metric.resource, metric.averaging_seconds)
    return found


def _cores_reason(cores: float) -> str | None:
    return owner_usage.invalid_reason(cores * 1000.0, owner_usage.MOST_CPU_MILLICORES)


def _bytes_reason(size_bytes: float) -> str | None:
    return owner_usage.invalid_reason(size_bytes, owner_usage.MOST_MEMORY_BYTES)
