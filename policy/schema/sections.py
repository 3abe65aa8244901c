"""Base of all sections of the policy file: frozen, strict about unknown keys, read by its YAML keys only.

`policy.schema.load_policy` and `policy.schema.descheduler_section` build their models on `Section`; `LabelSelector` and
`OptOut` are the sections both use, `FilterChange` and `ScoreChange` those of node pools and pod classes.
"""

import collections.abc
import re
from typing import Annotated, Literal

import pydantic
from pydantic import alias_generators

from policy.schema import units

Goal = Literal["spread", "pack"]
PartName = Annotated[str, pydantic.Field(strict=True, pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]


def _key(name: str) -> str:
    """The key of a field that gives no `alias`, its name without the unit: `staleAfter` of `stale_after_seconds`."""
    return alias_generators.to_camel(re.sub("_(seconds|ratio|millicores|bytes)$", "", name))


class Section(pydantic.BaseModel):
    """A mapping of the policy file: keys not given keep their defaults, keys not known are errors."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", alias_generator=_key, validate_by_alias=True, validate_by_name=False
    )


class LabelExpression(Section):
    """One row of a selector's matchExpressions."""

    key: units.Text = pydantic.Field(description="The label's name.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = pydantic.Field(description="How it is compared.")
    values: tuple[pydantic.StrictStr, ...] = pydantic.Field(default=(), description="With what, for In and NotIn.")

    def matches(self, labels: collections.abc.Mapping[str, str]) -> bool:
        """Kubernetes' reading: NotIn and DoesNotExist hold for a label that is absent."""
        value = labels.get(self.key)
        if self.operator == "In":
            return value is not None and value in self.values
        if self.operator == "NotIn":
            return value is None or value not in self.values
        return (value is not None) == (self.operator == "Exists")


class LabelSelector(Section):
    """A Kubernetes label selector; the empty one matches everything."""

    match_labels: dict[str, pydantic.StrictStr] = pydantic.Field(
        default_factory=dict, description="Labels that must be there with exactly these values."
    )
    match_expressions: tuple[LabelExpression, ...] = pydantic.Field(
        default=(), description="Further conditions, all of which must hold."
    )

    @property
    def is_empty(self) -> bool:
        """Whether it has no condition, so that it matches everything."""
        return not (self.match_labels or self.match_expressions)

    def matches(self, labels: collections.abc.Mapping[str, str]) -> bool:
        """Whether every condition holds for the labels of a pod, a namespace or a node."""
        exact = all(labels.get(key) == value for key, value in self.match_labels.items())
        return exact and all(expression.matches(labels) for expression in self.match_expressions)


class OptOut(Section):
    """Whether pods may opt out by an annotation of their own."""

    enabled: units.Flag = pydantic.Field(default=True, description="Whether such annotations count at all.")
    except_namespaces: tuple[units.Text, ...] = pydantic.Field(
        default=(), description="Namespaces whose pods may not opt out."
    )

    def allowed_in(self, namespace: str) -> bool:
        """Whether it counts what pods of the namespace say."""
        return self.enabled and namespace not in self.except_namespaces


class FilterChange(Section):
    """Thresholds of the filter that differ from the policy's for some nodes or pods."""

    thresholds: dict[str, units.Ratio] = pydantic.Field(
        default_factory=dict, description="By metric, instead of filter.thresholds; 0 = rule off."
    )


class ScoreChange(Section):
    """A ranking of nodes that differs from the policy's for some nodes or pods."""

    weights: dict[str, units.Weight] = pydantic.Field(
        default_factory=dict, description="By metric, instead of score.weights; 0 = not counted."
    )
    goal: Goal | None = pydantic.Field(default=None, description="Instead of score.goal.")
    target_ratio: units.Ratio | None = pydantic.Field(default=None, description="Instead of score.target.")

    @property
    def differs(self) -> bool:
        """True if it changes anything."""
        return bool(self.weights or self.goal or self.target_ratio)
