"""Takes the snapshot of one run through the two doors: usage from Prometheus, everything else from the apiserver.

`service.py` looks over the nodes at the start of every run (`Reader.overview`) and reads the rest where one of them is
overloaded (`complete`), or everything at once where it is known that it will be needed (`take`). A list that fails, or
a query that fails or is answered in part, fails the run: a plan made from half the objects would spend budgets it
cannot see, and half of a node's series make it look idle. A node or pod without a trustworthy value is simply absent.
"""

import collections.abc
import contextlib
import itertools
import math
from typing import NamedTuple

from descheduler.snapshot import pod_list, scaled_owners, usage, workloads
from descheduler.snapshot.scaled_owners import Custom
from descheduler.snapshot.snapshot import Overview, Snapshot
from descheduler.snapshot.usage import NodeUsage, PodUsage, Resource
from kube import kinds
from kube.door import ScalesDoor
from kube.objects import Node, PersistentVolume, Pod
from policy.contract import load_annotation
from policy.schema.load_policy import LoadPolicy
from promql import readings
from promql.door import Answer, PrometheusDoor
from promql.queries import identity, node_queries, pod_queries

Owners = dict[str, tuple[workloads.Controller, ...]]
# What nodes show -> the names of those that pods may leave in this run.
Hot = collections.abc.Callable[[Overview], collections.abc.Collection[str]]
Begun = pod_list.Pods | pod_list.Late
# Keys of pods -> the usage of those with all figures.
Used = collections.abc.Callable[[collections.abc.Collection[str]], dict[str, PodUsage]]


class Figures(NamedTuple):
    """Prometheus' figures of pods, by key: cores and bytes used, and the Unix seconds of the data behind each."""

    cores: dict[str, float]
    sizes_bytes: dict[str, float]
    cpu_at_seconds: dict[str, float]
    memory_at_seconds: dict[str, float]

    def of(self, keys: collections.abc.Collection[str]) -> dict[str, PodUsage]:
        """The usage of those of the pods that have all figures, as old as the older of the data."""
        known = set(keys).intersection(*self)
        at_seconds = {key: min(self.cpu_at_seconds[key], self.memory_at_seconds[key]) for key in known}
        return {key: PodUsage(key, self.cores[key] * 1000.0, self.sizes_bytes[key], at_seconds[key]) for key in known}


class Reader:
    """The two doors, how series name nodes, the pods of the first snapshot where they were asked for before, and how
    those of the others are listed.
    """

    def __init__(
        self,
        kube: ScalesDoor,
        prometheus: PrometheusDoor,
        labels: identity.SeriesLabels,
        begun: pod_list.Pods | None = None,
        *,
        listing: type[pod_list.Pods | pod_list.Late] = pod_list.Pods,
    ) -> None:
        self._kube = kube
        self._prometheus = prometheus
        self._labels = labels
        self._begun: Begun | None = begun
        self._listing = listing
        self._directory = identity.NodeDirectory()

    def take(self, policy: LoadPolicy, *, now_seconds: float, hot: Hot | None = None) -> Snapshot:
        """The cluster as it is now; raises KubeError and PromqlError.

        Pods' usage is read of the nodes that `hot` names by what all nodes show: who does not know yet which nodes the
        run is about leaves it out, and all over a target line count.
        """
        with self._listed(now_seconds) as begun:
            seen = self.overview(policy, now_seconds=now_seconds)
            return self._beside(begun, seen, policy, hot(seen) if hot else relievable(seen.node_usage, policy))

    def overview(self, policy: LoadPolicy, *, now_seconds: float) -> Overview:
        """The nodes as they are now and what they show; raises KubeError and PromqlError."""
        nodes = self.nodes()
        return Overview(now_seconds, nodes, self.node_usage(nodes, policy))

    def complete(self, overview: Overview, policy: LoadPolicy, hot: collections.abc.Collection[str]) -> Snapshot:
        """The rest of the cluster, with the usage of pods on nodes that are `hot`; raises KubeError and PromqlError."""
        with self._listed(overview.at_seconds) as begun:
            return self._beside(begun, overview, policy, hot)

    def nodes(self) -> tuple[Node, ...]:
        """All nodes; raises KubeError."""
        return self._kube.list(kinds.NODES).items

    def pods(self, namespaces: collections.abc.Iterable[str]) -> tuple[Pod, ...]:
        """The unfinished pods of these namespaces and nothing else; raises KubeError."""
        listed = (pod_list.unfinished(self._kube, namespace=name) for name in sorted(namespaces))
        return tuple(itertools.chain.from_iterable(listed))

    @contextlib.contextmanager
    def _listed(self, now_seconds: float) -> collections.abc.Iterator[Begun]:
        """A list of pods that has begun; a run that failed leaves none behind."""
        begun, self._begun = self._begun, None
        if begun is None or not begun.usable(now_seconds):
            begun = self._listing(self._kube, begun_at_seconds=now_seconds)
        try:
            yield begun
        finally:
            begun.wait()

    def _beside(
        self, begun: Begun, overview: Overview, policy: LoadPolicy, hot: collections.abc.Collection[str]
    ) -> Snapshot:
        """Everything else, while the pods are on their way; then what only they tell to ask for."""
        controllers = self._owners()
        namespaces = {one.name: one.labels for one in self._kube.list(kinds.NAMESPACES).items}
        used = self.pod_usage(policy) if hot else None
        pods = begun.items()
        pod_usage = used([pod.key for pod in pods if pod.spec.node_name in hot]) if used is not None else {}
        volumes = self._volumes(pods)
        owned = self._custom(controllers, pods, hot)
        return Snapshot(
            at_seconds=overview.at_seconds,
            nodes=overview.nodes,
            pods=pods,
            # Last: what they still allow is not older than the pods, and an apiserver that has gone meanwhile shows.
            budgets=self._kube.list(kinds.BUDGETS).items,
            workloads=workloads.Index(controllers, owned.workloads),
            namespaces=namespaces,
            node_usage=overview.node_usage,
            pod_usage=pod_usage,
            volumes=volumes,
            attach_limits=self._attach_limits(volumes.values()),
            owner_failures=owned.failures,
        )

    def _owners(self) -> Owners:
        return {
            "ReplicaSet": self._kube.list(kinds.REPLICA_SETS).items,
            "Deployment": self._kube.list(kinds.DEPLOYMENTS).items,
            "StatefulSet": self._kube.list(kinds.STATEFUL_SETS).items,
            "ReplicationController": self._kube.list(kinds.REPLICATION_CONTROLLERS).items,
            "Job": self._kube.list(kinds.JOBS).items,
        }

    def _custom(
        self, controllers: Owners, pods: collections.abc.Iterable[Pod], nodes: collections.abc.Collection[str]
    ) -> scaled_owners.ScaledOwner:
        """Owners of other kinds, directly or above a ReplicaSet, of pods on these nodes only: each costs a request."""
        if not nodes:
            return scaled_owners.ScaledOwner({}, {})
        listed = workloads.Index(controllers)
        owned = ((pod.namespace, pod.owner) for pod in pods if pod.spec.node_name in nodes)
        above = {Custom(namespace, listed.leading(owner)) for namespace, owner in owned if owner is not None}
        return scaled_owners.workloads(self._kube, [one for one in above if scaled_owners.is_custom(one.reference)])

    def node_usage(
        self, nodes: collections.abc.Iterable[Node], policy: LoadPolicy, *, at_seconds: float | None = None
    ) -> dict[str, NodeUsage]:
        """Every node's windows, now or as they were at `at_seconds`: six to eight queries, however many nodes there
        are. Raises PromqlError.
        """
        directory, metrics = self._directory.follow(nodes), usage.metrics_read(policy, nodes)
        ratios = {}
        for metric in metrics:
            answer = self._prometheus.query(
                node_queries.of_metric(metric, selector=self._labels.node_selector), at_seconds=at_seconds
            )
            ratios[metric.name] = self._by_node(answer, directory, load_annotation.invalid_reason)
        times = self._node_times(directory, {metric.resource for metric in metrics}, at_seconds)
        return usage.of_nodes(ratios, times)

    def _node_times(
        self, directory: identity.Directory, resources: set[str], at_seconds: float | None
    ) -> collections.abc.Mapping[str, float]:
        """The older of the newest scrapes behind the resources, for nodes that have one of each."""
        found: collections.abc.Mapping[str, float] | None = None
        for resource in sorted(resources):
            text = node_queries.data_time(resource, selector=self._labels.node_selector)
            answer = self._prometheus.query(text, at_seconds=at_seconds)
            times = self._by_node(answer, directory, invalid_amount, readings.oldest)
            found = times if found is None else _older(found, times)
        return found or {}

    def pod_usage(self, policy: LoadPolicy) -> Used:
        """Of every pod: cores and bytes over the longest averaging window of each resource, and the times of both.
        Raises PromqlError.

        Asked where some pod may be relieved, before it is known which: it takes Prometheus as long as the apiserver
        takes for the pods.
        """
        windows, selector = pod_windows(policy), self._labels.pod_selector
        texts = (
            pod_queries.cpu_cores(windows[Resource.CPU], selector=selector),
            pod_queries.memory_bytes(windows[Resource.MEMORY], selector=selector),
            pod_queries.data_time("cpu", selector=selector),
            pod_queries.data_time("memory", selector=selector),
        )
        cores, sizes, *times = (
            readings.by_pod(self._prometheus.query(text), judge=invalid_amount)[0] for text in texts
        )
        return Figures(cores, sizes, times[0], times[1]).of

    def _volumes(self, pods: collections.abc.Iterable[Pod]) -> dict[str, PersistentVolume]:
        """The volumes behind the pods' claims; nothing is asked where no pod has a claim."""
        used = {f"{pod.namespace}/{volume.claim}" for pod in pods for volume in pod.spec.volumes if volume.claim}
        if not used:
            return {}
        by_name = {volume.name: volume for volume in self._kube.list(kinds.VOLUMES).items}
        claims = (claim for claim in self._kube.list(kinds.CLAIMS).items if claim.key in used)
        return {claim.key: by_name[claim.volume_name] for claim in claims if claim.volume_name in by_name}

    def _attach_limits(self, volumes: collections.abc.Iterable[PersistentVolume]) -> dict[str, dict[str, int]]:
        """By node how many volumes of each driver it can hold; nothing is asked where no claim has a CSI volume."""
        if all(volume.csi is None for volume in volumes):
            return {}
        return {one.name: one.limits for one in self._kube.list(kinds.CSI_NODES).items}

    def _by_node(
        self,
        answer: Answer,
        directory: identity.Directory,
        judge: readings.Judge,
        of_replicas: collections.abc.Callable[[collections.abc.Sequence[float]], float | None] = readings.largest,
    ) -> collections.abc.Mapping[str, float]:
        label = self._labels.node_label
        return readings.by_node(answer, directory, label=label, judge=judge, of_replicas=of_replicas).values


def _older(times: collections.abc.Mapping[str, float], other: collections.abc.Mapping[str, float]) -> dict[str, float]:
    """The earlier of both times where both are known; written out, since it is asked of every node in every run."""
    return {node: at if at < other[node] else other[node] for node, at in times.items() if node in other}


def relievable(node_usages: collections.abc.Mapping[str, NodeUsage], policy: LoadPolicy) -> frozenset[str]:
    """The nodes over some target line: only these can be confirmed as overloaded in this run."""
    bands = policy.descheduler.thresholds.items()
    return frozenset(
        name
        for name, one in node_usages.items()
        if any(usage.over(one.ratios.get(metric, 0.0), band.evict_until_ratio) for metric, band in bands)
    )


def pod_windows(policy: LoadPolicy) -> dict[Resource, float]:
    """Over how long a pod's usage is averaged: as long as the averages that its node is judged by."""
    resources = usage.resources_of(policy)
    found = {Resource.CPU: 0.0, Resource.MEMORY: 0.0}
    for name in policy.descheduler.thresholds:
        found[resources[name]] = max(found[resources[name]], usage.window_of(policy, name))
    longest = max(found.values())
    return {resource: seconds or longest for resource, seconds in found.items()}


def invalid_amount(value: float) -> str | None:
    """Why a number of cores, bytes or seconds is none, None where it is one."""
    if 0.0 <= value < math.inf:
        return None
    if math.isnan(value):
        return "nan"
    return "infinite" if math.isinf(value) else "negative"
