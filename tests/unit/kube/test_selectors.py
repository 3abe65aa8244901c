import pytest

from kube.api import selectors
from kube.api.selectors import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement, Taint, Toleration

LABELS = {"zone": "a", "cores": "16"}


@pytest.mark.parametrize(
    ("operator", "key", "values", "holds"),
    [
        ("In", "zone", ("a", "b"), True),
        ("In", "zone", ("b",), False),
        ("In", "none", ("a",), False),
        ("NotIn", "zone", ("b",), True),
        ("NotIn", "zone", ("a",), False),
        ("NotIn", "none", ("a",), True),
        ("Exists", "zone", (), True),
        ("Exists", "none", (), False),
        ("DoesNotExist", "none", (), True),
        ("DoesNotExist", "zone", (), False),
        ("Gt", "cores", ("8",), True),
        ("Gt", "cores", ("16",), False),
        ("Lt", "cores", ("17",), True),
        ("Lt", "none", ("17",), False),
        ("Gt", "zone", ("1",), False),
        ("Gt", "cores", ("1", "2"), False),
        ("Like", "zone", ("a",), False),
    ],
)
def test_requirements(operator: str, key: str, values: tuple[str, ...], holds: bool) -> None:
    assert Requirement(key, operator, values).matches(LABELS) is holds


@pytest.mark.parametrize(
    ("selector", "holds"),
    [
        (LabelSelector(), True),
        (LabelSelector({"zone": "a"}), True),
        (LabelSelector({"zone": "a", "none": "x"}), False),
        (LabelSelector({"zone": "a"}, (Requirement("cores", "In", ("8",)),)), False),
        (LabelSelector({}, (Requirement("cores", "Exists"), Requirement("zone", "NotIn", ("b",)))), True),
    ],
    ids=["an empty one matches all", "a label", "a label missing", "one expression fails", "all expressions hold"],
)
def test_label_selectors_need_every_part(selector: LabelSelector, holds: bool) -> None:
    assert selector.matches(LABELS) is holds


ZONE_A = Requirement("zone", "In", ("a",))
NAMED = Requirement("metadata.name", "In", ("node-1",))


@pytest.mark.parametrize(
    ("terms", "holds"),
    [
        ((), False),
        ((NodeSelectorTerm(),), False),
        ((NodeSelectorTerm((ZONE_A,)),), True),
        ((NodeSelectorTerm((), (NAMED,)),), True),
        ((NodeSelectorTerm((ZONE_A,), (Requirement("metadata.name", "NotIn", ("node-1",)),)),), False),
        ((NodeSelectorTerm((Requirement("zone", "In", ("b",)),)), NodeSelectorTerm((), (NAMED,))), True),
    ],
    ids=["no term", "an empty term", "by label", "by name", "both parts of a term", "any term will do"],
)
def test_node_selectors_need_one_whole_term(terms: tuple[NodeSelectorTerm, ...], holds: bool) -> None:
    assert NodeSelector(terms).matches("node-1", LABELS) is holds


@pytest.mark.parametrize(
    ("toleration", "holds"),
    [
        (Toleration("dedicated", "Equal", "gpu", "NoSchedule"), True),
        (Toleration("dedicated", "", "gpu"), True),
        (Toleration("dedicated", "Equal", "cpu"), False),
        (Toleration("dedicated", "Exists"), True),
        (Toleration("dedicated", "Exists", "", "NoExecute"), False),
        (Toleration("", "Exists"), True),
        (Toleration("other", "Exists"), False),
        (Toleration("", "Equal", "gpu"), False),
    ],
)
def test_tolerations(toleration: Toleration, holds: bool) -> None:
    assert toleration.tolerates(Taint("dedicated", "NoSchedule", "gpu")) is holds


def test_only_hard_taints_keep_a_pod_away() -> None:
    soft, hard = Taint("a", "PreferNoSchedule"), Taint("b", "NoExecute")
    assert selectors.untolerated([soft], []) is None
    assert selectors.untolerated([soft, hard], []) == hard
    assert selectors.untolerated([soft, hard], [Toleration("b", "Exists")]) is None
