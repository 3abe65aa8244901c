"""Usage of nodes and pods without Prometheus (`--source metrics-server`): node annotations, and samples of pods.

The annotator keeps the windows of nodes and writes them on these, so only the readings of the last minutes are kept
here, for moments gone by; this process keeps windows of pods, of those only that a plan may be about. `sample` runs on
a thread of its own, as often as the annotator syncs: it reads the nodes, and while a node is over a line (`follow`) it
lists metrics.k8s.io once for all pods. A list that fails, as a query of Prometheus does, fails the runs until the next
one; and a run without one fresh node fails.
"""

import collections
import contextlib
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Final

from descheduler.snapshot import usage
from descheduler.snapshot.cluster_watch import ClusterView
from descheduler.snapshot.usage import NodeUsage, PodUsage
from descheduler.sources.pod_windows import PodWindows
from kube import errors, kinds
from kube.door import KubeReader
from kube.errors import MetricsServerError
from kube.objects import Node, Pod
from policy.contract import heartbeat, load_annotation
from policy.contract.load_annotation import Reading
from policy.schema.load_policy import LoadPolicy
from runtime import logs
from runtime.clock import Clock

log = logs.get(__name__)

API: Final = kinds.POD_METRICS.api_version
IDLE: Final = "no node is over a line, no pod is observed"
KEPT_SECONDS: Final = 600.0  # a run asks for moments since the run before it, and after a gap for `overloadedFor`
APART_SECONDS: Final = 10.0  # as far as metrics-server's samples: what is read sooner says the same
NEXT_STEP: Final = "`kubectl get apiservice v1beta1.metrics.k8s.io` and metrics-server's log say more"


class NodeAnnotations:
    """The readings of all nodes, now and in the last minutes, each as old as it or a heartbeat says. Used by one thread
    at a time.
    """

    def __init__(self) -> None:
        self._times = heartbeat.EffectiveTimes()
        self._decoded: dict[str, tuple[str, Reading | None]] = {}  # by node: of which text
        self._past: collections.deque[tuple[float, Mapping[str, NodeUsage]]] = collections.deque()

    def read(
        self, nodes: Collection[Node], beat: Mapping[str, str] | None, policy: LoadPolicy, *, now_seconds: float
    ) -> dict[str, NodeUsage]:
        """The readings of these nodes; `beat` is the heartbeat ConfigMap's data, None where there is none."""
        self._take(nodes)
        if beat is not None:
            try:
                self._times.accept(heartbeat.decode(beat), now_seconds)
            except heartbeat.HeartbeatError as error:
                log.warning("heartbeat not used, readings age", error=str(error))
        self._times.settle()
        names = {metric.name for metric in usage.metrics_read(policy, nodes)}
        usages: dict[str, NodeUsage] = {}
        for node, (_, reading) in self._decoded.items():
            ratios = {name: reading.values[name] for name in names if name in reading.values} if reading else {}
            if reading is not None and ratios:
                usages[node] = NodeUsage(node, ratios, self._times.effective_seconds(node, reading.at_seconds))
        self._remember(now_seconds, usages)
        return usages

    def at(self, moment_seconds: float) -> dict[str, NodeUsage]:
        """The newest reading of each node that was no younger than that; of moments long gone by there is none."""
        usages: dict[str, NodeUsage] = {}
        for _, earlier in reversed(self._past):
            for node, reading in earlier.items():
                if node not in usages and reading.at_seconds <= moment_seconds:
                    usages[node] = reading
        return usages

    def known_until_seconds(self) -> float:
        """When the newest of all readings was (Unix seconds); 0 before the first."""
        newest = self._past[-1][1].values() if self._past else ()
        return max((reading.at_seconds for reading in newest), default=0.0)

    def _take(self, nodes: Collection[Node]) -> None:
        """Decodes the texts that have changed."""
        texts = {node.name: node.annotations.get(load_annotation.KEY) for node in nodes}
        for gone in self._decoded.keys() - texts.keys():
            texts[gone] = None
        for node, text in texts.items():
            self._times.put(node, text)
            if text is None:
                self._decoded.pop(node, None)
            elif node not in self._decoded or self._decoded[node][0] != text:
                self._decoded[node] = text, _reading(text, node)

    def _remember(self, now_seconds: float, usages: Mapping[str, NodeUsage]) -> None:
        past = self._past
        while past and not 0 <= now_seconds - past[0][0] <= KEPT_SECONDS:
            past.popleft()
        if len(past) > 1 and now_seconds - past[-2][0] < APART_SECONDS:
            past.pop()
        past.append((now_seconds, usages))


class MetricsServerUsage:
    """A `usage.UsageSource` through the Kubernetes door; `namespace` is the annotator's. Any thread may call it."""

    windows_end_at_readings = True

    def __init__(
        self,
        view: Callable[[], ClusterView],
        kube: KubeReader,
        policy: Callable[[], LoadPolicy],
        *,
        namespace: str,
        clock: Clock,
    ) -> None:
        self._view, self._kube, self._policy = view, kube, policy
        self._namespace, self._clock = namespace, clock
        self._lock = threading.Lock()
        self._annotations = NodeAnnotations()
        self._windows = PodWindows()
        self._nodes: frozenset[str] = frozenset()
        self._until_seconds = 0.0  # monotonic
        self._failure = ""  # of the last list of pods
        self.line = IDLE

    def node_usage(
        self, nodes: Collection[Node], policy: LoadPolicy, *, at_seconds: float | None = None
    ) -> Mapping[str, NodeUsage]:
        """See UsageSource. Of now it is what the watch has, whatever `nodes` are like. Raises MetricsServerError where
        no node has a fresh reading.
        """
        if at_seconds is not None:
            with self._lock:
                return self._annotations.at(at_seconds)
        usages = self._read_nodes(policy)
        _reject_stale(usages, nodes, policy, self._clock.now())
        return usages

    def _read_nodes(self, policy: LoadPolicy) -> dict[str, NodeUsage]:
        """The heartbeat is read before the nodes: a node's text may be newer than it, which costs no freshness."""
        beat: Mapping[str, str] | None = None
        with contextlib.suppress(errors.NotFound):
            beat = self._kube.get(kinds.CONFIG_MAPS, heartbeat.CONFIG_MAP, namespace=self._namespace).data
        with self._lock:
            return self._annotations.read(self._view().nodes, beat, policy, now_seconds=self._clock.now())

    def known_until_seconds(self, now_seconds: float) -> float:
        """The time of the newest reading: what happened since then shows later."""
        with self._lock:
            return min(now_seconds, self._annotations.known_until_seconds())

    def pod_usage(self, policy: LoadPolicy, pods: Collection[Pod], *, of_all: int) -> dict[str, PodUsage]:
        """See UsageSource. Raises MetricsServerError where the last list failed."""
        del of_all
        with self._lock:
            if pods and self._failure:
                raise MetricsServerError(self._failure)
            return self._windows.usage(pods, policy, now_seconds=self._clock.now())

    def absence(self, pod: Pod) -> str:
        """See UsageSource."""
        with self._lock:
            return self._windows.absence(pod, self._policy(), now_seconds=self._clock.now())

    def follow(self, nodes: frozenset[str], *, until_seconds: float) -> None:
        """See UsageSource."""
        with self._lock:
            self._nodes, self._until_seconds = nodes, until_seconds

    def sample(self) -> None:
        """Reads the nodes, and lists the use of the pods on those that are followed."""
        policy = self._policy()
        try:
            self._read_nodes(policy)
            pods = self._followed(self._view().pods)
        except errors.KubeError as error:
            log.debug("nodes not read", error=str(error))
            return
        try:
            items = self._kube.list(kinds.POD_METRICS).items if pods else ()
            if pods and not items:
                raise MetricsServerError(f"{API} lists no pods")
        except errors.KubeError as error:
            self._failure = self.line = f"metrics-server was not read: {error}; {NEXT_STEP}"
            log.warning("use of pods not read", error=str(error))
            return
        now_seconds = self._clock.now()
        with self._lock:
            self._failure = ""
            self._windows.follow(pods, policy)
            self._windows.add(items, pods, now_seconds=now_seconds)
            observed = len(self._windows.usage(pods, policy, now_seconds=now_seconds))
        line = f"{observed} of {len(pods)} pods on nodes over a line were observed for long enough"
        self.line = line if pods else IDLE

    def _followed(self, pods: Collection[Pod]) -> list[Pod]:
        with self._lock:
            nodes = self._nodes if self._clock.monotonic() < self._until_seconds else frozenset[str]()
        return [pod for pod in pods if pod.spec.node_name in nodes] if nodes else []


def _reject_stale(
    usages: Mapping[str, NodeUsage], nodes: Collection[Node], policy: LoadPolicy, now_seconds: float
) -> None:
    """Raises MetricsServerError where no node has a reading that may be acted on: not all of them fall silent."""
    limit_seconds = policy.sync.stale_after_seconds
    if not nodes or any(usage.fresh(one.at_seconds, now_seconds, limit_seconds) for one in usages.values()):
        return
    newest_seconds = max((one.at_seconds for one in usages.values()), default=None)
    age = "none has one" if newest_seconds is None else f"the newest is {now_seconds - newest_seconds:.0f} s old"
    raise MetricsServerError(
        f"no node has a load annotation to act on: {age}, expected under {limit_seconds:.0f} s (sync.staleAfter); the "
        "annotator writes them from metrics-server, and its /readyz?verbose says why"
    )


def _reading(text: str, node: str) -> Reading | None:
    try:
        return load_annotation.decode(text)
    except load_annotation.AnnotationError as error:
        log.warning("load annotation not used", node=node, error=str(error))
        return None
