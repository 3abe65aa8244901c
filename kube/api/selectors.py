"""Does it match? Label selectors, node selector terms, taints and tolerations, as pure predicates on decoded structs.

`kube.objects` holds these structs inside Pod, Node and DisruptionBudget; the descheduler's destination check and the
protections call them. The meaning is kube-scheduler's (component-helpers nodeaffinity, apimachinery labels), cited
where it surprises.
"""

from collections.abc import Iterable, Mapping

import msgspec


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One expression: key operator values. Operators: In, NotIn, Exists, DoesNotExist; on nodes also Gt and Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet it. NotIn holds for an absent key; an unknown operator matches nothing."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return _compares(self.operator, value, self.values)
        return False


class LabelSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """matchLabels and matchExpressions, all of which must hold; an empty selector matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet every part. (A selector that is absent, None, matches nothing: the caller's case.)"""
        if any(labels.get(key) != value for key, value in self.match_labels.items()):
            return False
        return all(requirement.matches(labels) for requirement in self.match_expressions)


class NodeSelectorTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Expressions on a node's labels and fields, all of which must hold."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()  # only metadata.name exists

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the node of this name and labels meets it; an empty term matches no node (as in kube-scheduler)."""
        if not self.match_expressions and not self.match_fields:
            return False
        fields = {"metadata.name": name}
        return all(one.matches(labels) for one in self.match_expressions) and all(
            one.matches(fields) for one in self.match_fields
        )


class NodeSelector(msgspec.Struct, frozen=True, gc=False):
    """Terms of which one must hold."""

    terms: tuple[NodeSelectorTerm, ...] = msgspec.field(name="nodeSelectorTerms", default=())

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether any term holds for the node."""
        return any(term.matches(name, labels) for term in self.terms)


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A node's taint."""

    key: str
    effect: str
    value: str = ""


class Toleration(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A pod's toleration; empty key with Exists tolerates everything, an empty effect every effect."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Whether the taint is tolerated (for however long)."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.operator in ("", "Equal") and self.value == taint.value


HARD_EFFECTS = ("NoSchedule", "NoExecute")


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint that keeps a new pod away (NoSchedule, NoExecute), or None.

    PreferNoSchedule keeps no pod away.
    """
    accepted = tuple(tolerations)
    for taint in taints:
        if taint.effect in HARD_EFFECTS and not any(one.tolerates(taint) for one in accepted):
            return taint
    return None


def _compares(operator: str, value: str | None, values: tuple[str, ...]) -> bool:
    """Gt and Lt compare integers; anything that is not one, or not exactly one bound, matches nothing."""
    if value is None or len(values) != 1:
        return False
    try:
        number, bound = int(value), int(values[0])
    except ValueError:
        return False
    return number > bound if operator == "Gt" else number < bound
