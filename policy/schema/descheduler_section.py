"""The `descheduler` section of the policy file: when a node is relieved, what may leave it, how fast, and what is
protected.

`policy.schema.load_policy.LoadPolicy` holds it as `descheduler`; the descheduler service plans by it. Defaults are
cautious: it only observes, one pod per node and run, and every limit is finite.
"""

import re
from typing import Annotated, Final, Literal

import pydantic

from policy import metrics
from policy.schema import protection, sections, units

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
TimeOfDay = Annotated[str, pydantic.Field(strict=True, pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$")]
Factor = Annotated[float, pydantic.PlainValidator(units.number), pydantic.Field(ge=1)]


class OverMean(sections.Section):
    """Lines that follow the mean of the nodes. Of them and the fixed ones the lower hold."""

    evict_above_ratio: units.Ratio = pydantic.Field(
        description="Overloaded so much above the mean of the nodes; 0.2 is 20 points."
    )
    evict_until_ratio: units.Ratio = pydantic.Field(description="Relieved at so much above the mean, or less.")
    floor_ratio: units.Ratio = pydantic.Field(
        default=0.4, description="A node at or under this is not overloaded by its distance to the mean."
    )


class Band(sections.Section):
    """The two lines of one metric: above the first a node is overloaded, at or under the second it is relieved."""

    evict_above_ratio: units.Ratio = pydantic.Field(description="Overloaded above this.")
    evict_until_ratio: units.Ratio = pydantic.Field(description="Relieved at or under this.")
    over_mean: OverMean | None = pydantic.Field(
        default=None, description="Overloaded by the distance to the mean of the nodes, too."
    )


PERCENTAGE: Final = r"^([1-9][0-9]?|100)%$"  # of a workload's replicas


def _workload_limit(value: object) -> int | str:
    if isinstance(value, str) and (value == "bySize" or re.fullmatch(PERCENTAGE, value)):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1_000_000:
        return value
    raise units.wrong(f'bySize, a number of pods from 1 or "1%" to "100%" expected, got {units.quoted(value)}')


WorkloadLimit = Annotated[
    int | str,
    pydantic.PlainValidator(_workload_limit),
    pydantic.WithJsonSchema(
        {
            "anyOf": [
                {"const": "bySize"},
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": PERCENTAGE},
            ]
        }
    ),
]


class Limits(sections.Section):
    """Caps on evictions; each counts from the ledger, so a restart does not reset it."""

    per_run: units.Count = pydantic.Field(default=10, description="Evictions in one run.")
    per_node: units.Count = pydantic.Field(default=1, description="Evictions from one node in one run.")
    per_namespace: units.Count = pydantic.Field(default=3, description="From one namespace in one run.")
    per_hour: units.Count = pydantic.Field(default=60, description="Evictions in any 60 minutes.")
    per_workload: WorkloadLimit = pydantic.Field(
        default="bySize",
        description="Pods of one workload away at a time, with its unavailable ones; bySize: under 4 replicas 1, "
        "4 to 10: 2, above: 10 %; a percentage of its replicas is rounded up.",
    )
    unreplaced: units.Count = pydantic.Field(
        default=5, description="Evictions whose replacement is not Ready yet; at so many nothing more leaves."
    )
    unreplaced_per_namespace: units.Count = pydantic.Field(default=3, description="The same within one namespace.")
    max_snapshot_age_seconds: units.Duration = pydantic.Field(
        default=30.0, description="A run that began to read the cluster longer ago ends before its next eviction."
    )


class Growing(sections.Section):
    """A cool-down that grows each time its reason holds again."""

    initial_seconds: units.Duration = pydantic.Field(default=900.0, description="The first cool-down.")
    factor: Factor = pydantic.Field(default=2.0, description="Each further time multiplies it by this.")
    max_seconds: units.Duration = pydantic.Field(default=21600.0, description="It grows no longer than this.")


class Ineffective(Growing):
    """Cool-down of a node whose load does not fall when pods leave it."""

    evictions: units.Count = pydantic.Field(
        default=3, description="So many evictions together that lower it by less than half of the expected."
    )
    initial_seconds: units.Duration = pydantic.Field(default=1800.0, description="The first cool-down.")


class ReturnCooldown(Growing):
    """Cool-down of a workload whose replacement landed on the relieved node again."""

    window_seconds: units.Duration = pydantic.Field(default=86400.0, description="Returns count this long.")


class Cooldown(sections.Section):
    """How long a workload and a node are left alone after an eviction."""

    workload_seconds: units.DurationOrZero = pydantic.Field(default=600.0, description="Per workload.")
    node_seconds: units.DurationOrZero = pydantic.Field(default=300.0, description="Per node.")
    returned: ReturnCooldown = pydantic.Field(
        default_factory=ReturnCooldown, description="After a replacement came back."
    )
    ineffective: Ineffective = pydantic.Field(
        default_factory=Ineffective, description="Per node and metric, where its load does not fall."
    )


class Breaker(sections.Section):
    """Per workload: after refused or failed evictions, fewer and fewer trials."""

    failures: units.Count = pydantic.Field(default=3, description="Failures in a row that open it.")
    backoff_seconds: units.Duration = pydantic.Field(default=120.0, description="First time it stays open.")
    factor: Factor = pydantic.Field(default=2.0, description="Each failed trial multiplies that time by this.")
    jitter_ratio: units.Ratio = pydantic.Field(
        default=1.0, description="Random share added to each back-off, so that workloads do not retry together."
    )
    steps: units.Count = pydantic.Field(
        default=5, description="Trials, one per step, before it stays open until reset."
    )
    max_seconds: units.Duration = pydantic.Field(default=3600.0, description="The back-off grows no longer.")


class Surge(sections.Section):
    """Another pod first, of Deployments labelled evenload.io/surge: "true"."""

    enabled: units.Flag = pydantic.Field(default=False, description="A replica more, the eviction, a replica less.")
    at_once: units.Count = pydantic.Field(default=1, description="Deployments with a replica more at a time.")
    ready_within_seconds: units.Duration = pydantic.Field(
        default=300.0, description="Undone where the old pod could not leave by then."
    )


class Window(sections.Section):
    """When Enforce may act; outside all windows it observes. No window at all means always."""

    days: tuple[Day, ...] = pydantic.Field(default=DAYS, min_length=1, description="Days on which the window begins.")
    begins: TimeOfDay = pydantic.Field(alias="from", description='Local time it begins, "HH:MM".')
    ends: TimeOfDay = pydantic.Field(alias="to", description="Local time it ends, exclusive; before `from`: next day.")
    time_zone: units.Text = pydantic.Field(default="UTC", description="IANA name such as Europe/Berlin.")


class Match(sections.Section):
    """Which evictions a flow rule is about; conditions not given match everything."""

    namespaces: tuple[units.Text, ...] = pydantic.Field(default=(), description="The pod's namespace is one of these.")
    kinds: tuple[units.Text, ...] = pydantic.Field(default=(), description="The workload's kind is one of these.")
    label_selector: sections.LabelSelector = pydantic.Field(
        default_factory=sections.LabelSelector, description="The pod's labels match."
    )
    priority_below: units.Priority | None = pydantic.Field(
        default=None, description="The pod's priority is lower than this."
    )


class Allow(sections.Section):
    """The rate of a flow rule: everything, nothing, so many in flight, or so many per minute with a burst."""

    mode: Literal["Exempt", "Never", "InFlight", "Rate"]
    in_flight: units.Count | None = None
    per_minute: units.Count | None = None
    burst: units.Count | None = None


_ALLOWED: Final = "Exempt, Never, {inFlight: n} or {perMinute: n, burst: n}"


def _allow(value: object) -> Allow:
    if isinstance(value, Allow):
        return value
    if value in ("Exempt", "Never"):
        return Allow.model_validate({"mode": value})
    if not isinstance(value, dict) or value.keys() not in ({"inFlight"}, {"perMinute"}, {"perMinute", "burst"}):
        raise units.wrong(f"{_ALLOWED} expected, got {units.quoted(value)}")
    try:
        return Allow.model_validate({"mode": "InFlight" if "inFlight" in value else "Rate", **value})
    except pydantic.ValidationError as error:
        raise units.wrong(f"{_ALLOWED} with whole numbers from 1 expected, got {units.quoted(value)}") from error


def _allow_text(allow: Allow) -> object:
    if allow.mode in ("Exempt", "Never"):
        return allow.mode
    return allow.model_dump(by_alias=True, exclude={"mode"}, exclude_none=True)


Allowed = Annotated[
    Allow,
    pydantic.PlainValidator(_allow),
    pydantic.PlainSerializer(_allow_text, when_used="json"),
    pydantic.WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["Exempt", "Never"]},
                *(
                    {
                        "type": "object",
                        "properties": {key: {"type": "integer", "minimum": 1} for key in keys},
                        "required": [keys[0]],
                        "additionalProperties": False,
                    }
                    for keys in (("inFlight",), ("perMinute", "burst"))
                ),
            ]
        }
    ),
]


class FlowRule(sections.Section):
    """One admission rule for evictions; of the rules that match, the last one decides."""

    match: Match = pydantic.Field(default_factory=Match, description="Which evictions it is about.")
    allow: Allowed = pydantic.Field(description=f"What is admitted: {_ALLOWED}.")


class Descheduler(sections.Section):
    """Relief of nodes that are overloaded all the same."""

    mode: Literal["Observe", "DryRun", "Enforce"] = pydantic.Field(
        default="Observe", description="Observe: plan only; DryRun: ask the apiserver with dryRun=All; Enforce: evict."
    )
    paused: units.Flag = pydantic.Field(default=False, description="Stops all runs, whatever the mode.")
    interval_seconds: units.Duration = pydantic.Field(default=120.0, description="Time between two runs.")
    thresholds: dict[str, Band] = pydantic.Field(
        default_factory=lambda: {
            name: Band.model_validate({"evictAbove": 0.80, "evictUntil": 0.60})
            for name in (metrics.MEMORY_AVG_5M, metrics.CPU_AVG_5M)
        },
        description="Bands by metric; the metric listed first is relieved first.",
    )
    overloaded_for_seconds: units.DurationOrZero = pydantic.Field(
        default=180.0, description="Above the line this long, by fresh readings only, before acting."
    )
    cool_nodes: Annotated[int, pydantic.Field(strict=True, ge=0, le=1_000_000)] = pydantic.Field(
        default=1, description="Act only while so many schedulable nodes are under evictUntil."
    )
    grace_period_seconds: units.Duration | None = pydantic.Field(
        default=None, description="Time that an evicted pod has to end, in place of its own grace period."
    )
    limits: Limits = pydantic.Field(default_factory=Limits, description="Caps on evictions.")
    protect: protection.Protect = pydantic.Field(
        default_factory=protection.Protect, description="Pods that may not be evicted."
    )
    cooldown: Cooldown = pydantic.Field(default_factory=Cooldown, description="Rest after an eviction.")
    breaker: Breaker = pydantic.Field(default_factory=Breaker, description="Rest after failures.")
    surge: Surge = pydantic.Field(default_factory=Surge, description="Another pod first, where too few replicas serve.")
    windows: tuple[Window, ...] = pydantic.Field(default=(), description="When Enforce may act; none = always.")
    flow: tuple[FlowRule, ...] = pydantic.Field(
        default=(), description="Admission rules for evictions; last match wins."
    )
