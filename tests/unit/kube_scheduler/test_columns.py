"""Rules about labels and taints over columns: the same rows as asking node by node."""

from typing import Any

import hypothesis
from hypothesis import strategies as st

from kube.api import selectors
from kube_scheduler.columns import Columns
from tests import builders

KEYS = st.sampled_from(("disk", "generation", "metadata.name"))
VALUES = st.sampled_from(("ssd", "hdd", "3", "7", "n1", ""))
TAINTS = st.fixed_dictionaries(
    {"key": KEYS, "effect": st.sampled_from(("NoSchedule", "NoExecute", "PreferNoSchedule"))}
)
NODES = st.lists(
    st.tuples(st.dictionaries(KEYS, VALUES, max_size=2), st.lists(TAINTS, max_size=2), st.booleans()), max_size=5
)
EXPRESSIONS = st.lists(
    st.fixed_dictionaries(
        {
            "key": KEYS,
            "operator": st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "unknown")),
            "values": st.lists(VALUES, max_size=2),
        }
    ),
    max_size=2,
)
TERMS = st.lists(st.fixed_dictionaries({"matchExpressions": EXPRESSIONS, "matchFields": EXPRESSIONS}), max_size=2)
TOLERATIONS = st.lists(
    st.fixed_dictionaries({"key": st.sampled_from(("disk", "")), "operator": st.sampled_from(("Exists", "Equal"))}),
    max_size=1,
)


@hypothesis.given(NODES, st.dictionaries(KEYS, VALUES, max_size=1), st.none() | TERMS, TOLERATIONS)
def test_the_rows_barred_are_the_nodes_that_the_pod_does_not_select_or_tolerate(
    shapes: list[tuple[dict[str, str], list[dict[str, str]], bool]],
    selector: dict[str, str],
    terms: list[dict[str, Any]] | None,
    tolerations: list[dict[str, str]],
) -> None:
    nodes = [
        builders.node(f"n{number}", labels=labels, spec={"taints": taints, "unschedulable": cordoned})
        for number, (labels, taints, cordoned) in enumerate(shapes)
    ]
    spec: dict[str, Any] = {"nodeSelector": selector, "tolerations": tolerations}
    if terms is not None:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    pod = builders.pod("p", spec=spec)
    columns = Columns(nodes)
    cordoned, tainted, unselected = (rows if rows is not None else columns.none() for rows in columns.barred(pod))
    exempt = any(
        one.tolerates(selectors.Taint("node.kubernetes.io/unschedulable", "NoSchedule")) for one in pod.tolerations
    )
    assert cordoned.tolist() == [node.unschedulable and not exempt for node in nodes]
    assert tainted.tolist() == [selectors.untolerated(node.taints, pod.tolerations) is not None for node in nodes]
    assert unselected.tolist() == [not pod.selects(node.name, node.labels) for node in nodes]
