"""Use of owners' replicas, read from Prometheus and published in the `evenload-usage` ConfigMap, seldom.

`annotator.node_sync` calls `OwnerUsage.sync` after the heartbeat, so that nothing here delays a node's reading. Every
second sync two queries are asked for all pods (`ask`); it writes when some mean moved by a fifth or an owner came or
went, and else once in a while so that the means do not turn stale. The larger the ConfigMap, the longer it waits, as
every write goes to etcd and to each extender as a whole. What fails leaves the last means standing; the extender stops
using them in time. So does an answer without a single pod while measured ones still run, or some have been at work for
the whole window: a Prometheus restarted empty, a scrape that all kubelets missed, or a cAdvisor that does not know the
container runtime gives it with a good conscience (`annotator.collect.collector.doubted` has the same of nodes).
"""

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from annotator import change_logger
from annotator.metrics import Telemetry
from annotator.placements import pod_index
from annotator.placements.pod_index import PodIndex, PodUsage
from kube import errors as kube_errors
from kube import kinds
from kube.door import KubeWriter
from kube.objects import Node
from kube.pods.pod_view import PodView
from policy import metrics as load_metrics
from policy.contract import load_annotation, owner_usage
from policy.schema.load_policy import LoadPolicy
from promql import errors, readings
from promql.door import Answer
from promql.queries import pod_queries

PERIODS: Final = 2.0  # syncs between two looks
BYTES_PER_SECOND: Final = 4096.0  # at most so much is written on average: 768 KiB every 3 minutes
RECENT_SECONDS: Final = 3600.0  # an owner that had a pod placed so lately is kept first when not all fit
LABELS: Final = {"app.kubernetes.io/name": "evenload", "app.kubernetes.io/component": "annotator"}


class UsageAnswer(NamedTuple):
    """Use of a resource by pods ("namespace/name"): cores or bytes. `empty` says that it is of no pod at all, `refused`
    whose was not believed and why.
    """

    amounts: Mapping[str, float]
    empty: bool
    refused: Mapping[str, str] = {}


Ask = Callable[[str, float], UsageAnswer]  # of a resource over a window (seconds); raises PromqlError
Write = Callable[[owner_usage.PublishedUsage], None]  # raises KubeError


def ask(query: Callable[[str], Answer], resource: str, window_seconds: float, *, selector: str = "") -> UsageAnswer:
    """Query Prometheus for pods' use; `selector` is further matchers."""
    text = pod_queries.cpu_cores if resource == load_metrics.CPU else pod_queries.memory_bytes
    answer = query(text(window_seconds, selector=selector))
    amounts, refused = readings.by_pod(answer, judge=functools.partial(invalid_reason, resource))
    return UsageAnswer(amounts, not answer.labels, refused)


def within_nodes(answer: UsageAnswer, resource: str, pods: Mapping[str, PodView], nodes: Iterable[Node]) -> UsageAnswer:
    """Refuses the use of more than a pod's node can have, as after a jump of a counter."""
    sizes = ((node.name, node.capacity) for node in nodes)
    is_cpu, ratio = resource == load_metrics.CPU, load_annotation.MAX_RATIO
    most = {name: ratio * (one.cpu_millicores / 1000.0 if is_cpu else one.memory_bytes) for name, one in sizes}
    used = ((pods[name].node_name, name, amount) for name, amount in answer.amounts.items() if name in pods)
    over = {name: "over_range" for node, name, amount in used if amount > (most.get(node) or math.inf)}
    if not over:
        return answer
    good = {name: amount for name, amount in answer.amounts.items() if name not in over}
    return answer._replace(amounts=good, refused={**answer.refused, **over})


def invalid_reason(resource: str, amount: float) -> str | None:
    """Why a pod cannot use so much (cores or bytes); None where it can."""
    if resource == load_metrics.CPU:
        return owner_usage.invalid_reason(amount * 1000.0, owner_usage.MOST_CPU_MILLICORES)
    return owner_usage.invalid_reason(amount, owner_usage.MOST_MEMORY_BYTES)


def write(kube: KubeWriter, namespace: str, published: owner_usage.PublishedUsage) -> None:
    """Bring means to the extenders: replace the ConfigMap, or create it the first time."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": owner_usage.CONFIG_MAP, "labels": LABELS},
        "data": owner_usage.encode(published.at_seconds, published.means),
    }
    try:
        kube.replace(kinds.CONFIG_MAPS, owner_usage.CONFIG_MAP, body, namespace=namespace)
    except kube_errors.NotFound:
        kube.create(kinds.CONFIG_MAPS, body, namespace=namespace)


class OwnerUsage:
    """The last published means, and when pods were last queried. `sync` belongs to one thread."""

    def __init__(self, ask: Ask, write: Write, telemetry: Telemetry, now: Callable[[], float]) -> None:
        self._ask = ask
        self._write = write
        self._telemetry = telemetry
        self._now = now
        self._complaints = change_logger.ChangeLogger()
        self._published = owner_usage.NOTHING
        self._looked_seconds = -math.inf
        self.problem = ""
        self.read: PodUsage | None = None  # what every pod uses, if the last sync asked

    def sync(self, pods: PodIndex, policy: LoadPolicy) -> bool:
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

    def _look(self, pods: PodIndex, policy: LoadPolicy, now_seconds: float) -> str:
        try:
            usage = self._read(pods, policy, now_seconds)
        except errors.PromqlError as error:
            return str(error)
        if isinstance(usage, str):
            return usage
        self.read = usage
        means = pod_index.means(pods, usage, now_seconds=now_seconds)
        fitting = owner_usage.fitting(means, pods.owners_placed_since(now_seconds - RECENT_SECONDS))
        self._telemetry.owners.labels("published").set(len(fitting))
        self._telemetry.owners.labels("left_out").set(len(means) - len(fitting))
        if not self._worth_writing(fitting, policy, now_seconds):
            return ""
        return self._publish(owner_usage.PublishedUsage(now_seconds, fitting))

    def _read(self, pods: PodIndex, policy: LoadPolicy, now_seconds: float) -> PodUsage | str:
        """Return pods' use, or why the answers do not count. Raises PromqlError, also for a partial answer: a mean
        over some replicas only is another number.
        """
        # As long as the average that shows a pod's use on its node.
        windows = {metric.resource: metric.averaging_seconds for metric in reversed(policy.metrics_in_force)}
        answers: list[Mapping[str, float]] = []
        for resource in load_metrics.RESOURCES:
            amounts, empty, refused = self._ask(resource, windows[resource])
            at_work = len(pods.at_work_since(now_seconds - windows[resource])) if empty else 0
            if at_work or (empty and self._is_measured(pods, resource)):
                return (
                    f"{resource} of pods was answered without a single pod, although {at_work} have been Ready for "
                    f"{windows[resource]:g} s; check whether Prometheus lost its data, and whether it scrapes the "
                    "kubelets' series with a label `container` (evenload doctor: pod series)"
                )
            for reason in refused.values():
                self._telemetry.invalid_samples.labels(reason).inc()
            answers.append(amounts)
        cpu_cores, memory_bytes = answers
        return PodUsage(cpu_cores, memory_bytes, max(windows.values()))

    def _is_measured(self, pods: PodIndex, resource: str) -> bool:
        """Whether pods run whose owner has a published mean of the resource."""
        running = pods.running_owners()
        means = [mean for owner, mean in self._published.means.items() if owner in running]
        amounts = (mean.cpu_millicores if resource == load_metrics.CPU else mean.memory_bytes for mean in means)
        return any(amount is not None for amount in amounts)

    def _worth_writing(self, published: owner_usage.Means, policy: LoadPolicy, now_seconds: float) -> bool:
        before = self._published
        age_seconds = now_seconds - before.at_seconds
        if before is owner_usage.NOTHING:
            return bool(published)
        if age_seconds < 0:  # the clock was set back, and extenders use nothing from the future
            return True
        if age_seconds < owner_usage.size_bytes(published) / BYTES_PER_SECOND:
            return False
        return owner_usage.moved(before.means, published) or age_seconds >= owner_usage.renew_after_seconds(policy.sync)

    def _publish(self, published: owner_usage.PublishedUsage) -> str:
        try:
            self._write(published)
        except kube_errors.KubeError as error:
            self._telemetry.usage_writes.labels("failed").inc()
            return str(error)
        self._telemetry.usage_writes.labels("written").inc()
        self._published = published
        return ""
