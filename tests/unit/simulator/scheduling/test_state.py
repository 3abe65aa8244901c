import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from kube import objects
from simulator.scheduling.state import State
from tests import builders
from tests.unit.simulator.scheduling import cases
from tests.unit.simulator.scheduling.cases import ZONE

NODES = [builders.node(f"n{number}", labels={ZONE: "ab"[number % 2]}) for number in range(4)]


def pod(number: int, node: str, *, leaving: bool) -> objects.Pod:
    def write(body: builders.Body) -> None:
        if number % 3 == 0:
            cases.near("web", anti=True, weight=number % 2)(body)
        if number % 4 == 1:
            body["spec"]["containers"][0]["ports"] = [{"hostPort": 80 + number}]
        if leaving:
            body["metadata"]["deletionTimestamp"] = builders.CREATED

    labels = {"app": ("web", "db")[number % 2]}
    return builders.pod(f"p{number}", node=node, cpu=f"{number + 1}00m", labels=labels, owner=None, mutate=write)


CHANGES = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from(["n0", "n1", "n3", "unknown", ""]), st.booleans()), max_size=30
)


def followed(changes: list[tuple[int, str, bool]]) -> tuple[State, dict[int, objects.Pod]]:
    """The state after pods came, began to leave, went and came elsewhere; and the pods there are."""
    state, known = State(), dict[int, objects.Pod]()
    for node in NODES:
        state.node_changed(None, node)
    assert state.columns.names
    for number, name, leaving in changes:
        old = known.pop(number, None)
        new = pod(number, old.node_name if old is not None else name, leaving=leaving) if name else None
        if old is not None or new is not None:
            state.pod_changed(old, new)
        if new is not None:
            known[number] = new
    return state, known


def state_fields(state: State) -> dict[str, object]:
    """All that a decision reads."""
    columns = state.columns
    asked = builders.pod("asks", labels={"app": "web"})
    web = state.groups.meant("default", (objects.LabelSelector({"app": "web"}),))
    terms = [(one.weight, one.sign, sorted(one.places.items())) for one in state.terms.about(asked, state.namespaces)]
    return {
        "names": columns.names,
        "requested": columns.requested.tolist(),
        "scored": columns.scored.tolist(),
        "ports": {row: sorted(+taken) for row, taken in columns.ports.items() if +taken},
        "web": [(dict(crowd.places), dict(crowd.staying)) for crowd in web],
        "terms": sorted(terms),
        "on": {name: sorted(one.name for one in state.pods_on(name)) for name in columns.names},
    }


@example([(0, "n0", True), (6, "n1", False), (0, "n0", True), (3, "n0", False)])
@given(CHANGES)
def test_following_changes_comes_to_the_same_as_being_told_what_is_there(changes: list[tuple[int, str, bool]]) -> None:
    state, known = followed(changes)
    fresh = State()
    for node in NODES:
        fresh.node_changed(None, node)
    for one in known.values():
        fresh.pod_changed(None, one)
    assert state_fields(state) == state_fields(fresh)


@given(CHANGES, st.integers(0, 3))
def test_what_is_taken_away_and_put_back_leaves_no_trace(changes: list[tuple[int, str, bool]], row: int) -> None:
    state, _ = followed(changes)
    before = state_fields(state)
    there = state.pods_on(f"n{row}")
    with state.with_pods([pod(9, "", leaving=False)], "n1"):
        for one in there:
            state.take_away(one)
        for one in there:
            state.put(one)
    assert state_fields(state) == before


def test_an_annotation_does_not_make_the_columns_anew_and_a_label_does() -> None:
    state, _ = followed([(1, "n1", False)])
    first = state.columns
    state.node_changed(NODES[1], builders.node("n1", labels={ZONE: "b"}, annotations={"load": "much"}))
    assert state.columns is first
    state.node_changed(NODES[1], builders.node("n1", labels={ZONE: "a"}))
    assert state.columns is not first
    assert state.columns.names == ("n0", "n3", "n2", "n1")
    assert np.array_equal(state.columns.requested[0], [0, 0, 0, 200])


def test_pods_of_a_node_that_goes_and_comes_back_count_again() -> None:
    state, _ = followed([(1, "n1", False)])
    state.node_changed(NODES[1], None)
    assert "n1" not in state.columns.names
    state.node_changed(None, NODES[1])
    assert state.columns.requested[0, state.columns.rows["n1"]] == 200


def test_a_nomination_lasts_until_the_pod_has_a_node_or_is_gone() -> None:
    state, _ = followed([])
    waits = cases.pending()
    state.nominate(waits, "n1")
    state.pod_changed(waits, cases.pending(annotations={"seen": "yes"}))
    assert list(state.nominated) == ["n1"]
    state.pod_changed(waits, cases.bound("new", "n2"))
    assert not state.nominated
