"""The `podClasses` section of the policy file: groups of pods, by priority and namespace, with values of their own.

`policy.schema.load_policy.LoadPolicy` holds it as `pod_classes`. A pod is of the first class that matches it; a pod
that no class matches has the policy's own values. A class's maps replace the policy's values key by key, and those of
the node's pool (`policy.schema.node_pools`), too: a class says how its pods are judged wherever they go.
"""

import collections.abc
import functools
import itertools
import re
from typing import Annotated, Final, NamedTuple, Protocol

import pydantic

from policy.schema import node_pools, sections, units

NO_CLASS: Final = -1  # the place of the class of a pod that no class matches
MOST_CLASSES: Final = 8
_MOST_NAMES: Final = 100
_OTHER: Final = "\0"  # in no name of Kubernetes

NamespacePattern = Annotated[
    str, pydantic.Field(strict=True, pattern=r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?|[a-z0-9][-a-z0-9]{0,61}\*)$")
]


class ClassifiedPod(Protocol):
    """The fields of a pod that its class depends on; `kube.objects.Pod` has them."""

    @property
    def namespace(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def priority_class(self) -> str: ...


class PodExample(NamedTuple):
    """A pod with nothing but what its class depends on."""

    namespace: str
    priority: int
    priority_class: str


class PriorityRange(sections.Section):
    """Priorities (`spec.priority`, 0 where a pod has none), both ends included."""

    least: units.Priority | None = pydantic.Field(default=None, alias="min", description="This priority or more.")
    most: units.Priority | None = pydantic.Field(default=None, alias="max", description="This priority or less.")

    def includes(self, priority: int) -> bool:
        """True if the priority is in the range."""
        return (self.least is None or priority >= self.least) and (self.most is None or priority <= self.most)


class PodMatch(sections.Section):
    """The pods of a class; every condition must hold, and one that is left out holds for all pods."""

    priority: PriorityRange = pydantic.Field(
        default_factory=PriorityRange, description="The pod's priority is in this range."
    )
    priority_class_names: Annotated[tuple[units.Text, ...], pydantic.Field(max_length=_MOST_NAMES)] = pydantic.Field(
        default=(), description="The pod's PriorityClass is one of these."
    )
    namespaces: Annotated[tuple[NamespacePattern, ...], pydantic.Field(max_length=_MOST_NAMES)] = pydantic.Field(
        default=(), description="The pod's namespace is one of these; a * at the end stands for any rest."
    )

    @property
    def is_empty(self) -> bool:
        """True if it has no condition, so that it matches every pod."""
        return self == PodMatch()

    @functools.cached_property
    def _namespace(self) -> re.Pattern[str]:
        return re.compile("|".join(name.replace("*", ".*") for name in self.namespaces), re.DOTALL)

    def matches(self, pod: ClassifiedPod) -> bool:
        """True if every condition holds for the pod."""
        if self.priority_class_names and pod.priority_class not in self.priority_class_names:
            return False
        if self.namespaces and not self._namespace.fullmatch(pod.namespace):
            return False
        return self.priority.includes(pod.priority)

    def examples(self, before: "collections.abc.Iterable[PodMatch]") -> collections.abc.Iterator[PodExample]:
        """Pods that it matches, of which one escapes `before` if any pod does: with names that are in no other match
        where it leaves them open, and with the least priority, or the one after a range of `before`.
        """
        least = -(2**31) if self.priority.least is None else self.priority.least
        after = [other.priority.most + 1 for other in before if other.priority.most is not None]
        priorities = [one for one in (least, *after) if one >= least and self.priority.includes(one)]
        names = self.priority_class_names or (_OTHER,)
        namespaces = [name.replace("*", _OTHER) for name in self.namespaces] or [_OTHER]
        for namespace, name, priority in itertools.product(namespaces, names, priorities):
            yield PodExample(namespace, priority, name)


class PodClass(sections.Section):
    """Pods of one kind, and the values in which they differ from the policy's."""

    name: sections.PartName = pydantic.Field(description="How answers, tables and errors call it.")
    match: PodMatch = pydantic.Field(description="Its pods; the first class that matches a pod has it.")
    filter: sections.FilterChange = pydantic.Field(
        default_factory=sections.FilterChange, description="When a node is rejected for a pod of the class."
    )
    score: sections.ScoreChange = pydantic.Field(
        default_factory=sections.ScoreChange, description="How nodes are ranked for it."
    )

    def without(self, names: collections.abc.Container[str]) -> "PodClass":
        """Returns the class without thresholds of these metrics, for which a node's own hold."""
        thresholds = _without(self.filter.thresholds, names)
        return self.model_copy(update={"filter": self.filter.model_copy(update={"thresholds": thresholds})})

    def outranked(self, pool: node_pools.Pool) -> node_pools.Pool:
        """Returns a pool without the values that the class has, too: for its pods those of the class hold."""
        thresholds = _without(pool.filter.thresholds, self.filter.thresholds)
        score = {
            "weights": _without(pool.score.weights, self.score.weights),
            "goal": None if self.score.goal else pool.score.goal,
            "target_ratio": None if self.score.target_ratio else pool.score.target_ratio,
        }
        return pool.model_copy(
            update={
                "filter": pool.filter.model_copy(update={"thresholds": thresholds}),
                "score": pool.score.model_copy(update=score),
            }
        )


def _without(values: dict[str, float], names: collections.abc.Container[str]) -> dict[str, float]:
    return {name: value for name, value in values.items() if name not in names}


def place(classes: collections.abc.Sequence[PodClass], pod: ClassifiedPod) -> int:
    """Returns the place in `classes` of the class of a pod, `NO_CLASS` for none."""
    return next((at for at, one in enumerate(classes) if one.match.matches(pod)), NO_CLASS)


def has_pods(classes: collections.abc.Sequence[PodClass], at: int) -> bool:
    """True if some pod could be of the class at this place, as those before it leave one over."""
    before = [one.match for one in classes[:at]]
    return any(place(classes, pod) == at for pod in classes[at].match.examples(before))
