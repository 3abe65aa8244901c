"""What stands on the nodes: as the watch shows it, overlaid with our own writes until it shows those."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from annotator.collect.last_good_values import GoodValue, LastGoodValues, NodeSet
from annotator.placements.hot_counts import Hot
from annotator.publish import node_annotations, write_plan
from kube.objects import Node
from policy.contract import load_annotation
from tests import builders
from tests.unit.annotator.test_write_plan import METRICS, NOW, POLICY, publication

NAMES = ("a", "b", "c")


def carrying(name: str, text: str | None, uid: str = "uid") -> Node:
    annotations = None if text is None else {load_annotation.KEY: text}
    return builders.node(name, annotations=annotations, metadata={"uid": uid})


def wrote(text: str, old_text: str | None) -> node_annotations.NodeAnnotationCache:
    made = node_annotations.NodeAnnotationCache()
    made.wrote("a", "uid", node_annotations.row(text, METRICS), old_text, now_seconds=NOW)
    return made


def values_of(cache: node_annotations.NodeAnnotationCache, node: Node, after_seconds: float) -> dict[str, str]:
    return cache.texts(NodeSet.of([node]), now_seconds=NOW + after_seconds)


def test_our_own_write_stands_before_the_watch_shows_it() -> None:
    made = wrote("new", "old")
    assert values_of(made, carrying("a", "old"), 1) == {"a": "new"}
    assert values_of(made, carrying("a", "theirs"), 2) == {"a": "theirs"}
    assert values_of(made, carrying("a", "old"), 3) == {"a": "old"}, "what the watch showed since is believed"


def test_a_watch_that_never_shows_our_write_is_believed_in_the_end() -> None:
    assert values_of(wrote("new", "old"), carrying("a", "old"), 31) == {"a": "old"}


def test_a_new_machine_does_not_carry_what_we_wrote_on_its_namesake() -> None:
    assert values_of(wrote("new", None), carrying("a", None, uid="another"), 1) == {}


TEXTS = st.none() | st.one_of(
    st.sampled_from(["{not json", '{"v":1,"at":"2026-11-21T03:59:00Z","m":{"cpu_avg_5m":"hi"}}']),
    st.builds(
        lambda age, values, hot: load_annotation.encode(load_annotation.Reading(NOW - age, values, {"5m": hot})),
        st.integers(-100, 600),
        st.dictionaries(st.sampled_from([*METRICS, "of_old"]), st.floats(0, 1.5)),
        st.integers(0, 1),
    ),
)
STEPS = st.lists(st.tuples(st.permutations(NAMES), st.tuples(TEXTS, TEXTS, TEXTS), st.booleans()), max_size=6)


@given(steps=STEPS, values=st.lists(st.floats(0, 1.5), max_size=6).map(tuple))
def test_what_is_kept_from_sync_to_sync_is_what_the_texts_say(
    steps: list[tuple[list[str], tuple[str | None, str | None, str | None], bool]], values: tuple[float, ...]
) -> None:
    """Nodes come, go, change places and texts, also by our own writes, which nobody decodes."""
    kept = node_annotations.NodeAnnotationCache()
    for order, texts, writes in steps:
        fleet = NodeSet.of([carrying(name, text) for name, text in zip(order, texts, strict=True)][: 2 + writes])
        carried = kept.carried(fleet, METRICS, now_seconds=NOW)
        rows = [
            node_annotations.row(carried.texts[name], METRICS) if name in carried.texts else None
            for name in fleet.names
        ]
        ratios = [(math.nan,) * len(METRICS) if row is None else row.ratios for row in rows]
        np.testing.assert_array_equal(carried.ratios, load_annotation.written(np.array(ratios)))
        np.testing.assert_array_equal(carried.at_seconds, [math.nan if row is None else row.at_seconds for row in rows])
        assert carried.comparable.tolist() == [row is not None and row.comparable for row in rows]
        if writes:
            held = {name: GoodValue(ratio, NOW - 30.5) for name, ratio in zip(METRICS, values, strict=False)}
            book = LastGoodValues.of(dict.fromkeys(fleet.names, held), METRICS)
            rules = write_plan.Rules.of(POLICY, fleet.nodes, crane=False)
            hot = Hot({"a": [NOW - 2.0, NOW - 1.0]}, POLICY.hot_spots, NOW)
            for node, uid, row, _ in write_plan.weigh(publication(fleet, book, rules, hot), carried).patches:
                kept.wrote(node, uid, row, carried.texts.get(node), now_seconds=NOW)
