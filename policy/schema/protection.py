"""The `protect` section of the descheduler's: which pods may not be evicted, and which come last.

`policy.schema.descheduler_section` holds it as `protect`; `descheduler.planning.protections` gives the verdicts.
"""

from typing import Literal

import pydantic

from policy.schema import sections, units


class Markers(sections.Section):
    """Which annotations count by which a pod's author keeps it from other tools that evict."""

    safe_to_evict: units.Flag = pydantic.Field(
        default=True, description='Pods annotated cluster-autoscaler.kubernetes.io/safe-to-evict: "false" stay.'
    )
    do_not_disrupt: units.Flag = pydantic.Field(
        default=True,
        description='Pods annotated karpenter.sh/do-not-disrupt: "true" stay; with a duration, so long after they '
        "started.",
    )
    eviction_cost: units.Flag = pydantic.Field(
        default=True, description='Pods annotated scheduling.koordinator.sh/eviction-cost: "2147483647" stay.'
    )
    prefer_no_eviction: units.Flag = pydantic.Field(
        default=True, description="Pods annotated descheduler.alpha.kubernetes.io/prefer-no-eviction come last."
    )


class Protect(sections.Section):
    """Which pods may not be evicted; no pod annotation can override a protection."""

    opt_in: units.Flag = pydantic.Field(
        default=False, description='true: only pods annotated evenload.io/evictable: "true" may be evicted.'
    )
    min_pod_age_seconds: units.DurationOrZero = pydantic.Field(
        default=300.0, description="Younger pods stay: their usage is not known yet."
    )
    min_replicas: units.Count = pydantic.Field(default=2, description="Pods of workloads with fewer replicas stay.")
    min_ready_ratio: units.Ratio = pydantic.Field(
        default=0.5,
        alias="minReadyRatio",
        description="Ready share of the workload's replicas that must remain afterwards.",
    )
    priority_at_least: units.Priority = pydantic.Field(
        default=1_000_000_000, description="Pods of this priority or more stay."
    )
    namespaces: tuple[units.Text, ...] = pydantic.Field(default=("kube-system",), description="Pods in these stay.")
    namespace_selector: sections.LabelSelector | None = pydantic.Field(
        default=None, description="Pods in namespaces whose labels match stay, beside those in namespaces named above."
    )
    label_selector: sections.LabelSelector = pydantic.Field(
        default_factory=sections.LabelSelector,
        description="Pods that do not match stay; the empty selector matches all.",
    )
    local_storage: Literal["disk", "all", "none"] = pydantic.Field(
        default="disk", description="disk: hostPath and disk emptyDir are protected, memory emptyDir is not; all; none."
    )
    node_bound_volumes: units.Flag = pydantic.Field(
        default=True, description="Pods whose volumes exist on their node only stay."
    )
    storage_classes: tuple[units.Text, ...] = pydantic.Field(
        default=(), description="Pods with volumes of these storage classes stay."
    )
    without_budget: units.Flag = pydantic.Field(
        default=False, description="true: pods over which there is no PodDisruptionBudget stay."
    )
    jobs_without_retry: units.Flag = pydantic.Field(
        default=True,
        description="Pods of Jobs stay if an eviction takes the last retry or the time until the deadline.",
    )
    opt_out: sections.OptOut = pydantic.Field(
        default_factory=sections.OptOut, description="Pods whose own annotations ask to stay."
    )
    markers: Markers = pydantic.Field(
        default_factory=Markers, description="Annotations of other tools that are honoured."
    )
    bare: units.Flag = pydantic.Field(
        default=True, description="Pods without a controller stay: no controller would replace them."
    )
    groups: units.Flag = pydantic.Field(default=True, description="Pods of a group stay; false: all leave together.")
