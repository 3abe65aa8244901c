"""The descheduler's filter of destinations gives the extender's own verdicts and reasons, whatever the policy says."""

import json
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies as st

from descheduler.placement.load_filter import LoadFilter
from extender.verbs import verbs
from kube import objects
from policy.schema import load_policy
from tests import builders
from tests.unit.descheduler.test_protections import set_spec
from tests.unit.extender import worlds

METRICS = tuple(worlds.IDLE)
RATIOS = st.sampled_from([0.0, 0.1, 0.333, 0.5, 0.9])
THRESHOLDS = st.dictionaries(st.sampled_from(METRICS), RATIOS, max_size=3)
LABELS = {"kind": "x"}
LOADS = st.dictionaries(st.sampled_from(METRICS), st.floats(0.0, 1.0).map(lambda ratio: round(ratio, 4)), min_size=1)
NODES = st.lists(st.tuples(LOADS, st.none() | THRESHOLDS, st.booleans()), min_size=1, max_size=6)
PODS = (
    builders.pod("plain"),
    builders.pod("urgent", mutate=set_spec(priority=1000)),
    builders.pod("jobs", namespace="jobs-1"),
    builders.pod("system", namespace="kube-system"),
    builders.pod("asks", annotations={"evenload.io/filter": "off"}),
)


def part(name: str, thresholds: dict[str, float], **selected: object) -> dict[str, object]:
    """A pool or a class of pods."""
    return {"name": name, "filter": {"thresholds": thresholds}, **selected}


def node(at: int, own: dict[str, float] | None, in_pool: bool, load: dict[str, float]) -> objects.Node:
    """A node with a reading, in the pool or not, with thresholds of its own or not."""
    thresholds = None if own is None else json.dumps(own)
    return worlds.node(f"node-{at}", load, thresholds=thresholds, labels=LABELS if in_pool else {})


@hypothesis.given(
    whole=THRESHOLDS, pool=THRESHOLDS, urgent=THRESHOLDS, jobs=THRESHOLDS, nodes=NODES, on_missing=st.booleans()
)
@hypothesis.example({}, {METRICS[0]: 0.9}, {}, {}, [({METRICS[0]: 0.5}, {METRICS[0]: 0.1}, True)], False)
def test_a_destination_is_one_that_the_extender_would_let_the_pod_pass_to(
    whole: Any, pool: Any, urgent: Any, jobs: Any, nodes: list[Any], on_missing: bool
) -> None:
    rules = {"thresholds": whole, "whenAllRejected": "pending", "onMissing": "reject" if on_missing else "pass"}
    classes = [
        part("urgent", urgent, match={"priority": {"min": 1}}),
        part("jobs", jobs, match={"namespaces": ["jobs-*"]}),
    ]
    policy = load_policy.LoadPolicy.of(
        {"filter": rules, "pools": [part("x", pool, nodeSelector={"matchLabels": LABELS})], "podClasses": classes}
    )
    world = worlds.view_of({}, policy)
    every = [node(at, own, in_pool, load) for at, (load, own, in_pool) in enumerate(nodes)]
    for one in every:
        world.nodes.node_changed(None, one)
    valid = {one.name: load for one, (load, _, _) in zip(every, nodes, strict=True)}
    load_filter = LoadFilter(every, np.zeros((len(every), len(METRICS))), valid, policy)
    for pod in PODS:
        _, judged = verbs.judge(world.candidates(tuple(valid), worlds.NOW, pod), pod)
        reasons = {name: load_filter.why_not(name, pod).removeprefix("filter: ") for name in valid}
        assert {name: reason for name, reason in reasons.items() if reason} == judged.rejected
