"""The `pools` section of the policy file: groups of nodes, by label, with values of their own.

`policy.schema.load_policy.LoadPolicy` holds it as `pools`. A node belongs to the first pool whose `nodeSelector`
matches its labels; a node that no pool matches has the policy's own values. A pool's maps replace the policy's values
key by key: what a pool does not name stays as it is in the policy.
"""

import collections.abc
from typing import Final, Literal

import pydantic

from policy.schema import descheduler_section, sections, units

NO_POOL: Final = -1  # the place of the pool of a node that no pool matches


class PoolLimits(sections.Section):
    """Caps on evictions from nodes of the pool."""

    per_run: units.Count | None = pydantic.Field(
        default=None, description="From all nodes of the pool in one run, beside limits.perRun."
    )
    per_hour: units.Count | None = pydantic.Field(
        default=None, description="From them in any 60 minutes, beside limits.perHour."
    )
    per_node: units.Count | None = pydantic.Field(
        default=None, description="From one node of the pool in one run, instead of limits.perNode."
    )


class PoolDescheduler(sections.Section):
    """Relief of the pool's nodes."""

    mode: Literal["Observe", "DryRun", "Enforce"] | None = pydantic.Field(
        default=None, description="Instead of descheduler.mode."
    )
    thresholds: dict[str, descheduler_section.Band] = pydantic.Field(
        default_factory=dict, description="Bands by metric, instead of those in descheduler.thresholds."
    )
    limits: PoolLimits = pydantic.Field(default_factory=PoolLimits, description="Caps on evictions.")


class Pool(sections.Section):
    """Nodes with the same labels, and the values in which they differ from the policy's."""

    name: sections.PartName = pydantic.Field(description="How answers, tables and errors call it.")
    node_selector: sections.LabelSelector = pydantic.Field(
        description="Its nodes, by label; the first pool that matches a node has it."
    )
    filter: sections.FilterChange = pydantic.Field(
        default_factory=sections.FilterChange, description="When a node is rejected."
    )
    score: sections.ScoreChange = pydantic.Field(
        default_factory=sections.ScoreChange, description="How a node is ranked."
    )
    descheduler: PoolDescheduler = pydantic.Field(
        default_factory=PoolDescheduler, description="Relief of nodes that are overloaded all the same."
    )


def place(pools: collections.abc.Sequence[Pool], labels: collections.abc.Mapping[str, str]) -> int:
    """Returns the place in `pools` of the pool that a node with these labels belongs to, `NO_POOL` for none."""
    return next((at for at, pool in enumerate(pools) if pool.node_selector.matches(labels)), NO_POOL)
