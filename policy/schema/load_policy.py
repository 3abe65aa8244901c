"""The policy file as frozen models: every field with its default, unit and meaning.

docs/contract.md, policy file, has all keys with their defaults.
`policy.loading.loader` fills a `LoadPolicy` from YAML (`policy.schema.sections` makes keys of fields' names),
`policy.schema.checks` judges combinations, and docs/reference/policy.md explains each field to operators. The section
of the descheduler is in `policy.schema.descheduler_section`, that of the pools in `policy.schema.node_pools`, that of
the classes of pods in `policy.schema.pod_classes`. A map given in the file (`thresholds`, `weights`) replaces the
default map; sections and keys not given keep their defaults.
"""

import collections.abc
import functools
from typing import Annotated, Final, Literal, Self

import pydantic

from policy import metrics
from policy.metrics import Metric
from policy.schema import descheduler_section, node_pools, sections, units
from policy.schema.pod_classes import ClassifiedPod, PodClass

API_VERSION: Final = "evenload.io/v1alpha1"
KIND: Final = "LoadPolicy"
SYSTEM_NODE_CRITICAL: Final = 2_000_000_000

MetricName = Annotated[str, pydantic.Field(strict=True, pattern=r"^[a-z][a-z0-9_]{0,62}$")]
ResourceName = Annotated[str, pydantic.Field(strict=True, pattern=r"^[a-z][a-z0-9-]{0,30}$")]
Statistic = Annotated[str, pydantic.Field(strict=True, pattern=r"^[a-z][a-z0-9_]{0,30}$")]


class Sync(sections.Section):
    """How the annotator reads Prometheus and writes nodes."""

    period_seconds: units.Duration = pydantic.Field(
        default=30.0, description="How often the windows are read: one query per metric for all nodes."
    )
    stale_after_seconds: units.Duration = pydantic.Field(
        default=300.0,
        description="A reading neither read nor confirmed for this long is stale; at least twice the period.",
    )
    min_change_ratio: units.Ratio = pydantic.Field(
        default=0.02, description="Smaller moves are not written, unless a threshold is crossed."
    )


class MetricEntry(sections.Section):
    """A metric added to the six built-in ones, or replacing the one of the same name."""

    name: MetricName = pydantic.Field(description="How thresholds, weights and annotations call it.")
    resource: ResourceName = pydantic.Field(
        description="What it is a ratio of: cpu, memory, or with a query a resource of your own, such as disk."
    )
    statistic: Statistic = pydantic.Field(
        description="avg, or max or a percentile (p1 to p99.9 written p999) of the averages; free with a query."
    )
    window_seconds: units.Duration = pydantic.Field(description="How far the statistic looks back.")
    query: units.Text | None = pydantic.Field(
        default=None, description="PromQL of your own: one series per node, ratios; without it the query is built in."
    )
    pod_query: units.Text | None = pydantic.Field(
        default=None,
        description="For a resource of your own, PromQL with one series per pod: its share of its node, a ratio.",
    )

    def metric(self) -> metrics.Metric:
        """The entry as the metric it stands for; `metrics.in_force` sets the averaging window."""
        window_seconds = self.window_seconds
        return metrics.Metric(
            self.name, self.resource, self.statistic, window_seconds, window_seconds, self.query, self.pod_query
        )


class Exempt(sections.Section):
    """Pods the filter lets pass without looking at load."""

    daemon_sets: units.Flag = pydantic.Field(default=True, description="DaemonSet pods can run on their one node only.")
    namespaces: tuple[units.Text, ...] = pydantic.Field(
        default=("kube-system",), description="Namespaces whose pods are never filtered."
    )
    priority_at_least: units.Priority = pydantic.Field(
        default=SYSTEM_NODE_CRITICAL, description="Pods of this priority or more are never filtered."
    )
    opt_out: sections.OptOut = pydantic.Field(
        default_factory=sections.OptOut, description="Pods that ask not to be filtered."
    )


class Filter(sections.Section):
    """When the extender rejects a node."""

    thresholds: dict[str, units.Ratio] = pydantic.Field(
        default_factory=lambda: {
            metrics.CPU_AVG_5M: 0.65,
            metrics.CPU_MAX_1H: 0.75,
            metrics.MEMORY_AVG_5M: 0.65,
            metrics.MEMORY_MAX_1H: 0.75,
        },
        description="A node is rejected while a metric is over its threshold (strictly); 0 or absent = rule off.",
    )
    on_missing: Literal["pass", "reject"] = pydantic.Field(
        default="pass", description="What a missing, stale or invalid reading of such a metric does."
    )
    when_all_rejected: Literal["coolest", "pending"] = pydantic.Field(
        default="coolest",
        description="coolest: the coolest nodes are kept and the decision is degraded; pending: the pod waits.",
    )
    exempt: Exempt = pydantic.Field(default_factory=Exempt, description="Pods the filter lets pass.")


class Score(sections.Section):
    """How the extender ranks the nodes it did not reject. No key changes another's default."""

    weights: dict[str, units.Weight] = pydantic.Field(
        default_factory=lambda: {
            metrics.CPU_AVG_5M: 0.6,
            metrics.CPU_MAX_1H: 0.3,
            metrics.CPU_MAX_1D: 0.1,
            metrics.MEMORY_AVG_5M: 0.6,
            metrics.MEMORY_MAX_1H: 0.3,
            metrics.MEMORY_MAX_1D: 0.1,
        },
        description="Weight of each metric in the mean; 0 or absent = not counted.",
    )
    combine: Literal["mean", "worst"] = pydantic.Field(
        default="worst",
        description="worst: the worse resource's weighted mean; mean: one weighted mean of all metrics.",
    )
    incoming_pod: units.Flag = pydantic.Field(
        default=True, description="Add the incoming pod's own expected load (score, never filter)."
    )
    spread: Literal["none", "stretch"] = pydantic.Field(
        default="stretch",
        description="stretch: the best candidate's base becomes 10, that of one 3 or more behind 0; none: as it is.",
    )
    goal: sections.Goal = pydantic.Field(
        default="spread", description="spread: the emptier a node the better; pack: fill nodes up to target first."
    )
    target_ratio: units.Ratio = pydantic.Field(
        default=0.5, description="With goal pack: up to this load a fuller node is better."
    )


class HotSpot(sections.Section):
    """Penalty points for placements crowding on one node."""

    window: units.DurationText = pydantic.Field(description="How long a placement counts; also its key in `hot`.")
    pods: units.Count = pydantic.Field(description="For every so many placements inside the window ...")
    penalty: units.Number = pydantic.Field(description="... so many points are taken off, on the 0..10 scale.")

    @functools.cached_property
    def window_seconds(self) -> float:
        """The window in seconds."""
        return units.duration_seconds(self.window)


class PerResource(sections.Section):
    """One ratio for each resource."""

    cpu: units.LargeRatio = pydantic.Field(default=0.7, description="Used CPU per requested CPU.")
    memory: units.LargeRatio = pydantic.Field(default=0.7, description="Used memory per requested memory.")


class DefaultLoad(sections.Section):
    """The expected load of a pod without requests."""

    cpu_millicores: units.Millicores = pydantic.Field(default=250.0, description="Expected CPU, a quantity.")
    memory_bytes: units.Bytes = pydantic.Field(default=float(200 * 2**20), description="Expected memory, a quantity.")


class RecentPods(sections.Section):
    """Expected load of pods that the windows cannot show yet; it decays as each window fills."""

    enabled: units.Flag = pydantic.Field(default=True, description="Whether recent pods count at all.")
    owner_usage: units.Flag = pydantic.Field(
        default=True,
        description=(
            "Estimate a pod by the mean use of its owner's running replicas, and by at least half of its request, "
            "where 3 replicas are measured or 1 that has been Ready for an hour."
        ),
    )
    usage_per_request: PerResource = pydantic.Field(
        default_factory=PerResource, description="Expected use of what a pod requests."
    )
    default: DefaultLoad = pydantic.Field(
        default_factory=DefaultLoad, description="Expected use of a resource a pod does not request."
    )


class Extender(sections.Section):
    """Whether the extender's decisions reach kube-scheduler."""

    mode: Literal["Shadow", "Enforce"] = pydantic.Field(
        default="Enforce",
        description="Shadow: decide and record, answer that every node passes and scores the same; Enforce: answer so.",
    )


def _default_hot_spots() -> tuple[HotSpot, ...]:
    rows = (("1m", 2), ("5m", 5), ("30m", 20))
    return tuple(HotSpot.model_validate({"window": window, "pods": pods, "penalty": 1.0}) for window, pods in rows)


class LoadPolicy(sections.Section):
    """The whole policy file."""

    api_version: Literal["evenload.io/v1alpha1"] = pydantic.Field(description="The version of this format.")
    kind: Literal["LoadPolicy"] = pydantic.Field(description="What the file holds.")
    sync: Sync = pydantic.Field(default_factory=Sync, description="Reading windows and writing nodes.")
    metrics: tuple[MetricEntry, ...] = pydantic.Field(
        default=(), description="Extra metrics, or built-in ones overridden."
    )
    filter: Filter = pydantic.Field(default_factory=Filter, description="When a node is rejected.")
    score: Score = pydantic.Field(default_factory=Score, description="How nodes are ranked.")
    hot_spots: tuple[HotSpot, ...] = pydantic.Field(
        default_factory=_default_hot_spots, description="Penalties for crowding placements."
    )
    recent_pods: RecentPods = pydantic.Field(
        default_factory=RecentPods, description="Load of pods the windows cannot show yet."
    )
    extender: Extender = pydantic.Field(
        default_factory=Extender, description="Whether the extender's decisions reach kube-scheduler."
    )
    descheduler: descheduler_section.Descheduler = pydantic.Field(
        default_factory=descheduler_section.Descheduler, description="Relief of nodes that are overloaded all the same."
    )
    pools: tuple[node_pools.Pool, ...] = pydantic.Field(
        default=(), description="Groups of nodes with values of their own; the first that matches a node has it."
    )
    pod_classes: tuple[PodClass, ...] = pydantic.Field(
        default=(), description="Groups of pods with values of their own; the first that matches a pod has it."
    )

    @functools.cached_property
    def metrics_in_force(self) -> tuple[Metric, ...]:
        """The metrics that are read, written and judged: the columns of every load array."""
        return metrics.in_force([entry.metric() for entry in self.metrics])

    @functools.cached_property
    def of_pools(self) -> "tuple[LoadPolicy, ...]":
        """The policy as it is on the nodes of each pool, in the order of `pools`; it has no pools itself."""
        return tuple(self._of(pool) for pool in self.pools)

    @functools.cached_property
    def of_classes(self) -> "tuple[LoadPolicy, ...]":
        """The policy as it is for the pods of each class, in the order of `pod_classes`; it has no classes itself. With
        `on_node` it does not matter which is first.
        """
        return tuple(self._for(one) for one in self.pod_classes)

    @property
    def evicts(self) -> bool:
        """Whether the descheduler's mode is Enforce on some node."""
        return any(one.descheduler.mode == "Enforce" for one in (self, *self.of_pools))

    def pool_of(self, labels: collections.abc.Mapping[str, str]) -> node_pools.Pool | None:
        """Returns the pool of a node with these labels, None where no pool matches."""
        return next((pool for pool in self.pools if pool.node_selector.matches(labels)), None)

    def on_node(self, labels: collections.abc.Mapping[str, str]) -> "LoadPolicy":
        """Returns the policy as it is on a node with these labels: that of its pool, or this one without a pool."""
        at = node_pools.place(self.pools, labels)
        return self if at == node_pools.NO_POOL else self.of_pools[at]

    def class_of(self, pod: ClassifiedPod) -> PodClass | None:
        """Returns the class of a pod, None where no class matches."""
        return next((one for one in self.pod_classes if one.match.matches(pod)), None)

    def _of(self, pool: node_pools.Pool) -> "LoadPolicy":
        own, theirs = self.descheduler, pool.descheduler
        limits = own.limits.model_copy(update={"per_node": theirs.limits.per_node or own.limits.per_node})
        thresholds = {**own.thresholds, **theirs.thresholds}
        relief = {"thresholds": thresholds, "limits": limits, "mode": theirs.mode or own.mode}
        changed = {**self._changed(pool), "descheduler": own.model_copy(update=relief)}
        return self.model_copy(update={"pools": (), **changed})

    def _for(self, pod_class: PodClass) -> "LoadPolicy":
        pools = tuple(map(pod_class.outranked, self.pools))
        return self.model_copy(update={"pod_classes": (), "pools": pools, **self._changed(pod_class)})

    def _changed(self, part: node_pools.Pool | PodClass) -> dict[str, object]:
        """The filter and the score with the values of a pool or a class."""
        score = {
            "weights": {**self.score.weights, **part.score.weights},
            "goal": part.score.goal or self.score.goal,
            "target_ratio": part.score.target_ratio or self.score.target_ratio,
        }
        thresholds = {**self.filter.thresholds, **part.filter.thresholds}
        return {
            "filter": self.filter.model_copy(update={"thresholds": thresholds}),
            "score": self.score.model_copy(update=score),
        }

    def model_copy(self, *, update: collections.abc.Mapping[str, object] | None = None, deep: bool = False) -> Self:
        """A copy with other values. Pydantic would copy along what was made of the values before."""
        copied = super().model_copy(update=update, deep=deep)
        for name in ("of_pools", "of_classes"):
            copied.__dict__.pop(name, None)
        return copied

    def crossings(self, own: collections.abc.Mapping[str, float] | None = None) -> dict[str, tuple[float, ...]]:
        """By metric name the ratios whose crossing is written at once: thresholds of the filter, for pods of any class,
        and of the descheduler.

        `own` are a node's own filter thresholds, which replace the policy's metric by metric.
        """
        limits: dict[str, set[float]] = {}
        for policy in (self, *self.of_classes):
            for name, limit in {**policy.filter.thresholds, **(own or {})}.items():
                limits.setdefault(name, set()).update({limit} - {0.0})
        for name, band in self.descheduler.thresholds.items():
            limits.setdefault(name, set()).update({band.evict_above_ratio, band.evict_until_ratio})
        return {name: tuple(sorted(ratios)) for name, ratios in limits.items()}

    def as_file(self) -> dict[str, object]:
        """The policy in force in the shape of the file (YAML keys, durations and quantities as text): for /configz."""
        return self.model_dump(mode="json", by_alias=True)

    @classmethod
    def of(cls, sections_given: collections.abc.Mapping[str, object] | None = None) -> Self:
        """A policy from sections in the shape of the file, for tests and simulations; combinations are not checked."""
        return cls.model_validate({"apiVersion": API_VERSION, "kind": KIND, **(sections_given or {})})


def defaults() -> LoadPolicy:
    """The policy of a file that gives nothing but apiVersion and kind."""
    return LoadPolicy.of()
