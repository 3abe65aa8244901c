"""The fast path and the slow one give equal replies, decisions, counters and placements, whatever the cluster."""

import dataclasses
import io
import json
import socket
from collections.abc import Iterator
from typing import Any

import hypothesis
import msgspec
import numpy as np
import pytest
from hypothesis import strategies as st

from extender import deadline
from extender.http import app, fast_path
from extender.state import cluster_view, expected_load_table, node_cache, score_cache
from extender.state.candidates import Candidates
from extender.verbs import decision_log, explain
from kube import objects
from policy.contract import owner_usage
from policy.schema import load_policy
from tests import builders
from tests.unit.extender import test_app, worlds

NAMES = tuple(f"node-{at}" for at in range(12))
METRICS = tuple(worlds.IDLE)
OWNERS = (("ReplicaSet", "web"), ("StatefulSet", "db"), None)
SIZES: tuple[dict[str, Any], ...] = ({}, {"cpu": "6", "memory": "1Gi"}, {"cpu": "0", "memory": "30Gi"}, {"cpu": "x"})
PODS = tuple(f"b{at}" for at in range(12))
PRIORITIES: tuple[builders.Mutator | None, ...] = (
    None,
    lambda body: body["spec"].update(priority=1000, priorityClassName="c0"),
    lambda body: body["spec"].update(priority=2000, priorityClassName="c1"),
)


class Side(test_app.World):
    """An extender over a view of its own: with the fast path in front, or without."""

    def __init__(self, *, with_fast_path: bool) -> None:
        super().__init__({})
        slow = self.flask.wsgi_app
        self.declined = 0

        def passed_on(environ: Any, start_response: Any) -> Any:
            self.declined += 1
            return slow(environ, start_response)

        self.application = fast_path.FastPath(self.parts, passed_on) if with_fast_path else slow

    def reply(self, verb: str, body: bytes, content_type: str = "application/json") -> tuple[str, bytes]:
        """Status and body, after the server closed the reply."""
        status: list[str] = []
        environ = {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": f"/{verb}",
            "CONTENT_TYPE": content_type,
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
            "wsgi.url_scheme": "http",
            "SERVER_NAME": "x",
            "SERVER_PORT": "1",
        }
        reply = self.application(environ, lambda line, _headers, _info=None: status.append(line))  # type: ignore[arg-type]
        found = b"".join(reply)
        if hasattr(reply, "close"):
            reply.close()
        return status[0], found

    def counters(self) -> dict[Any, float]:
        """Every sample but the times themselves."""
        return {
            (one.name, *sorted(one.labels.items())): one.value
            for family in self.registry.collect()
            for one in family.samples
            if not one.name.endswith(("_created", "_sum", "_bucket", "slow_path_total")) and one.value
        }

    def slow_path(self) -> dict[str, float]:
        """How many requests the fast path declined, by reason."""
        samples = [one for family in self.registry.collect() for one in family.samples]
        return {
            one.labels["reason"]: one.value
            for one in samples
            if one.name == "evenload_extender_slow_path_total" and one.value
        }

    def state_of(self) -> Any:
        """What people are shown: the decisions with every factor, and the view of the nodes."""
        found = self.ring.find("", "", 1000, now_seconds=self.clock.now())
        newest = [msgspec.to_builtins(explain.decided([one], with_nodes=True)) for one in found]
        return newest, msgspec.to_builtins(explain.all_nodes(self.view, self.clock.now()))

    def decided(self) -> list[Any]:
        """The decisions with everything they were made from."""
        found = self.ring.find("", "", 1000, now_seconds=self.clock.now())
        return [(plain(one), inputs_of(one)) for one in found]


def plain(decision: decision_log.Decision) -> dict[str, Any]:
    """A decision's own fields."""
    fields = msgspec.structs.asdict(decision)
    del fields["inputs"]
    return fields


def inputs_of(decision: decision_log.Decision) -> Any:
    """What it was made from, in a form that compares; NaN is -1."""
    inputs = decision.inputs
    assert inputs is not None
    seen = inputs.candidates
    arrays = (seen.values, seen.expected, seen.counts, seen.fresh, seen.penalty)
    columns = [np.nan_to_num(np.asarray(one, dtype=np.float64), nan=-1.0).tolist() for one in arrays]
    limits = None if seen.limits is None else np.nan_to_num(seen.limits, nan=-1.0).tolist()
    rejected = list(inputs.rejected.items())
    return seen.names, columns, limits, rejected, inputs.pod, inputs.mean


class Pair:
    """Two extenders that are told the same."""

    def __init__(self) -> None:
        self.fast, self.slow = self.both = Side(with_fast_path=True), Side(with_fast_path=False)
        self.nodes: dict[str, objects.Node] = {}
        self.pods: dict[str, objects.Pod] = {}
        self.asked = 0

    def now(self) -> float:
        """The time on both sides."""
        return self.fast.clock.now()

    def node(
        self,
        name: str,
        load: dict[str, float] | None,
        age_seconds: int = 0,
        relief: str | None = None,
        own: dict[str, float] | None = None,
        labels: dict[str, str] | None = None,
    ) -> None:
        """The Node watch; `own` are its own thresholds."""
        text = None if load is None else worlds.load_text(load, self.now() - age_seconds)
        thresholds = None if own is None else json.dumps(own)
        node = worlds.node(name, text, relief=relief, thresholds=thresholds, labels=labels)
        for side in self.both:
            side.view.nodes.node_changed(self.nodes.get(name), node)
        self.nodes[name] = node

    def node_gone(self, name: str) -> None:
        """A node leaves."""
        gone = self.nodes.pop(name, None)
        for side in self.both:
            side.view.nodes.node_changed(gone, None)

    def bind(self, pod: str, node: str, age_seconds: int) -> None:
        """The Pod watch: bound, or moved."""
        new = worlds.bound(pod, node, self.now() - age_seconds, cpu="500m", owner=OWNERS[int(pod[1:]) % len(OWNERS)])
        for side in self.both:
            side.view.pod_changed(self.pods.get(pod), new, self.now())
            side.shadow.pod_changed(self.pods.get(pod), new, self.now())
        self.pods[pod] = new

    def wait(self, pod: str, **fields: Any) -> None:
        """The Pod watch: it waits for a node, if it is new there."""
        if pod not in self.pods:
            self.pods[pod] = builders.pod(pod, **fields)
            for side in self.both:
                side.view.pod_changed(None, self.pods[pod], self.now())

    def pod_gone(self, pod: str) -> None:
        """A pod is deleted."""
        gone = self.pods.pop(pod, None)
        for side in self.both:
            side.view.pod_changed(gone, None, self.now())

    def usage(self, means: dict[str, owner_usage.Mean] | None, age_seconds: int) -> None:
        """The ConfigMap of owners' means changes, or goes."""
        data = None if means is None else owner_usage.encode(self.now() - age_seconds, means)
        for side in self.both:
            side.view.usage_changed(data, self.now())

    def policy(self, document: load_policy.LoadPolicy) -> None:
        """Another policy comes into force."""
        for side in self.both:
            side.view.use_policy(document, "1", self.pods.values, self.now())

    def ask(self, verb: str, body: bytes) -> Any:
        """Both are asked and must say the same."""
        self.asked += 1
        fast, slow = (side.reply(verb, body) for side in self.both)
        assert fast == slow
        return json.loads(fast[1])

    def compare(self) -> None:
        """Everything that stays of the answers."""
        assert self.fast.decided() == self.slow.decided()
        assert self.fast.state_of() == self.slow.state_of()
        assert self.fast.counters() == self.slow.counters()
        assert len(self.fast.shadow) == len(self.slow.shadow)
        assert worlds.bindings(self.fast.view.placements, self.now()) == worlds.bindings(
            self.slow.view.placements, self.now()
        )


RATIOS = st.floats(0.0, 1.2).map(lambda value: round(value, 4))
WHOLE = st.fixed_dictionaries(dict.fromkeys(METRICS, RATIOS))
LOADS = WHOLE | st.none() | st.dictionaries(st.sampled_from(METRICS), RATIOS, min_size=1)
CLUSTERS = st.sampled_from([WHOLE, LOADS]).flatmap(lambda of: st.lists(of, min_size=len(NAMES), max_size=len(NAMES)))
OPTED_OUT = {"evenload.io/filter": "off"}
RELIEF = '{"v":1,"until":"2026-11-21T05:00:00Z","workloads":["uid-web"]}'
POLICIES = st.builds(
    worlds.policy,
    sync=st.sampled_from([{}, {"staleAfter": "1m"}]),
    filter=st.fixed_dictionaries(
        {
            "thresholds": st.dictionaries(st.sampled_from(METRICS), st.sampled_from([0.3, 0.65, 0.75]), max_size=3),
            "onMissing": st.sampled_from(["pass", "reject"]),
            "whenAllRejected": st.sampled_from(["pending", "coolest"]),
            "exempt": st.fixed_dictionaries({"optOut": st.fixed_dictionaries({"enabled": st.booleans()})}),
        }
    ),
    score=st.fixed_dictionaries(
        {
            "combine": st.sampled_from(["mean", "worst"]),
            "spread": st.sampled_from(["none", "none", "stretch"]),
            "incomingPod": st.booleans(),
        }
    ),
    hotSpots=st.sampled_from(
        [[], *2 * ([{"window": "1m", "pods": 1, "penalty": 1}, {"window": "5m", "pods": 2, "penalty": 2}],)]
    ),
    recentPods=st.fixed_dictionaries({"enabled": st.sampled_from([True, True, False]), "ownerUsage": st.booleans()}),
    extender=st.sampled_from([{}, {"mode": "Shadow"}]),
    pools=st.lists(
        st.fixed_dictionaries(
            {
                "name": st.just("a"),
                "nodeSelector": st.sampled_from([{"matchLabels": {"kind": kind}} for kind in ("x", "y")]),
                "filter": st.fixed_dictionaries(
                    {"thresholds": st.dictionaries(st.sampled_from(METRICS), st.sampled_from([0.0, 0.1, 0.8]))}
                ),
                "score": st.fixed_dictionaries(
                    {"weights": st.dictionaries(st.sampled_from(METRICS), st.sampled_from([0.0, 0.5, 3.0]))}
                ),
            }
        ),
        max_size=2,
    ),
)
CLASSES = st.lists(
    st.fixed_dictionaries(
        {
            "match": st.sampled_from(
                [{}, {"priority": {"min": 1000}}, {"priority": {"max": 0}}, {"priorityClassNames": ["c1"]}]
            ),
            "filter": st.fixed_dictionaries(
                {"thresholds": st.dictionaries(st.sampled_from(METRICS), st.sampled_from([0.0, 0.2, 0.9]))}
            ),
            "score": st.fixed_dictionaries(
                {"weights": st.dictionaries(st.sampled_from(METRICS), st.sampled_from([0.0, 0.5, 3.0]))},
                optional={"goal": st.sampled_from(["pack", "spread"])},
            ),
        }
    ),
    max_size=3,
).map(lambda classes: [{"name": f"class-{at}", **one} for at, one in enumerate(classes)])
CLASSIFIED = st.builds(
    lambda policy, classes: load_policy.LoadPolicy.of({**policy.as_file(), "podClasses": classes}), POLICIES, CLASSES
)
LABELS = st.sampled_from([{}, {"kind": "x"}, {"kind": "y"}])
OWN = st.none() | st.dictionaries(st.sampled_from(METRICS), st.sampled_from([0.0, 0.05, 0.333, 0.9]), max_size=3)
MEANS = st.dictionaries(
    st.sampled_from(["default/ReplicaSet/web", "default/StatefulSet/db"]),
    st.builds(owner_usage.Mean, st.sampled_from([None, 50.0, 4000.0]), st.sampled_from([None, 2.0**33]), st.just(3)),
)
BINDINGS = st.tuples(st.sampled_from([*PODS, "p0", "p1"]), st.sampled_from(NAMES), st.integers(0, 400))
STEPS = st.one_of(
    st.tuples(st.just("node"), st.sampled_from(NAMES), LOADS, st.sampled_from([0, 30, 400]), st.none(), OWN, LABELS),
    st.tuples(st.just("node"), st.sampled_from(NAMES), LOADS, st.just(0), st.sampled_from([None, RELIEF]), OWN, LABELS),
    st.tuples(st.just("node_gone"), st.sampled_from(NAMES)),
    BINDINGS.map(lambda binding: ("bind", *binding)),
    st.tuples(st.just("pod_gone"), st.sampled_from([*PODS, "p0", "p1"])),
    st.tuples(st.just("wait"), st.sampled_from([f"p{at}" for at in range(6)])),
    st.tuples(st.just("usage"), st.none() | MEANS, st.sampled_from([0, 0, 4000])),
    st.tuples(st.just("tick"), st.floats(0.1, 90.0)),
    st.tuples(st.just("policy"), CLASSIFIED),
    st.tuples(
        st.just("ask"), st.permutations(NAMES), st.integers(1, 12), st.integers(0, 5), st.booleans(), st.booleans()
    ),
)


@hypothesis.settings(deadline=None, max_examples=100, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(
    policy=CLASSIFIED,
    loads=CLUSTERS,
    own=st.lists(OWN, min_size=len(NAMES), max_size=len(NAMES)) | st.just([None] * len(NAMES)),
    bound=st.lists(BINDINGS, max_size=len(PODS)),
    steps=st.lists(STEPS, min_size=4, max_size=25),
    means=MEANS,
    opts_out=st.booleans(),
)
def test_both_paths_say_and_remember_the_same(
    policy: load_policy.LoadPolicy,
    loads: list[Any],
    own: list[Any],
    bound: list[Any],
    steps: list[Any],
    means: Any,
    opts_out: bool,
) -> None:
    pair = Pair()
    pair.policy(policy)
    for at, (name, load, limits) in enumerate(zip(NAMES, loads, own, strict=True)):
        pair.node(name, load, own=limits, labels={"kind": "xyz"[at % 3]})
    for binding in bound:
        pair.bind(*binding)
    for step in steps:
        kind, *values = step
        if kind == "tick":
            for side in pair.both:
                side.clock.advance(values[0])
        elif kind == "ask":
            ask_as_the_scheduler_does(pair, *values)
        else:
            getattr(pair, kind)(*values)
    ask_as_the_scheduler_does(pair, NAMES, len(NAMES), 6, known_only=True, opts_out=opts_out)
    ask_as_the_scheduler_does(pair, NAMES, len(NAMES), 9, known_only=True)
    pair.usage(means, 0)  # after a score table of the same second
    ask_as_the_scheduler_does(pair, NAMES, len(NAMES), 10, known_only=True)
    for at, node in enumerate(NAMES):
        pair.bind(f"p{at}", node, 0)
    pair.compare()


def ask_as_the_scheduler_does(
    pair: Pair, order: tuple[str, ...], count: int, pod: int, known_only: bool, opts_out: bool = False
) -> None:
    """Filter, then prioritize over those that passed, as Go writes it."""
    names = [name for name in order[:count] if not known_only or name in pair.nodes]
    own = {"evenload.io/expected-usage": ("cpu=6", "", "memory=12Gi,cpu=90m", "cpu=9", "x")[pod % 5]}
    fields = {"owner": OWNERS[pod % len(OWNERS)], "annotations": own | (OPTED_OUT if opts_out else {})}
    fields |= SIZES[pod % len(SIZES)] | {"mutate": PRIORITIES[pod % len(PRIORITIES)]}
    if pod != 5:  # of which the watch hears later, or never
        pair.wait(f"p{pod}", **fields)
    passed = pair.ask("filter", go_body(names, f"p{pod}", **fields))["NodeNames"]
    if len(passed) > 1:
        pair.ask("prioritize", go_body(passed, f"p{pod}", **fields))


def go_body(names: list[str], pod: str, **fields: Any) -> bytes:
    """The request's bytes as kube-scheduler's json.Marshal makes them."""
    document = {"Pod": builders.pod_body(pod, **fields), "Nodes": None, "NodeNames": names}
    return json.dumps(document, separators=(",", ":")).encode()


@pytest.fixture
def apart() -> Pair:
    """Two extenders over hot and idle nodes, not all of which is asked of both."""
    made = Pair()
    for at, name in enumerate(NAMES):
        made.node(name, worlds.HOT if at % 4 == 0 else {**worlds.IDLE, "cpu_max_1d": at / 20})
    return made


@pytest.fixture
def pair(apart: Pair) -> Iterator[Pair]:
    """The same two; everything that stays of their answers is compared after the test."""
    yield apart
    apart.compare()


def test_the_usual_questions_never_reach_flask(pair: Pair) -> None:
    for at in range(5):
        ask_as_the_scheduler_does(pair, NAMES[at:], 12, at, True)
        for side in pair.both:
            side.clock.advance(0.4)
    assert (pair.asked, pair.fast.declined) == (10, 0)


@pytest.mark.parametrize("combine", ["mean", "worst"])
def test_the_pods_own_load_is_added_without_flask(pair: Pair, combine: str) -> None:
    pair.policy(worlds.policy(score={"combine": combine, "incomingPod": True, "spread": "none"}))
    pair.usage({"default/ReplicaSet/web": owner_usage.Mean(3000.0, None, 3)}, 0)
    pair.node("node-1", {**worlds.IDLE, "memory_max_1d": 0.9})
    for at in range(4):
        ask_as_the_scheduler_does(pair, NAMES, 12, at, True)
    small, large, measured = (scores(pair, at) for at in (4, 1, 3))
    assert large["node-2"] < small["node-2"]
    assert measured["node-2"] < small["node-2"], "the mean of its owner's replicas"
    pair.node("node-1", {"cpu_avg_5m": 0.2})
    pair.policy(worlds.policy(score={"combine": combine, "incomingPod": True, "spread": "stretch"}))
    ask_as_the_scheduler_does(pair, NAMES, 12, 5, True)
    assert pair.fast.declined == 0


@pytest.mark.parametrize("mode", ["Enforce", "Shadow"])
def test_both_paths_note_the_same_in_both_modes(pair: Pair, mode: str) -> None:
    pair.policy(worlds.policy(extender={"mode": mode}))
    pods: tuple[dict[str, Any], ...] = (
        {},
        {"annotations": OPTED_OUT},
        {"namespace": "kube-system"},
        {"mutate": lambda body: body["status"].update(nominatedNodeName="node-4")},
    )
    for hint in (None, RELIEF):
        pair.node("node-1", worlds.IDLE, relief=hint)
        for at, fields in enumerate(pods):
            for names in (list(NAMES), ["node-4"], ["node-1"], ["node-4", "node-8"]):
                pair.wait(f"p{at}", owner=OWNERS[0], **fields)
                for verb in ("filter", "prioritize"):
                    pair.ask(verb, go_body(names, f"p{at}", owner=OWNERS[0], **fields))
                pair.bind(f"p{at}", names[-1], 0)
                pair.pod_gone(f"p{at}")
    assert 0 < pair.fast.declined < pair.asked / 2
    counted = {name: count for (name, *_), count in pair.fast.counters().items() if name.endswith("placements_total")}
    assert any(counted.values()) == (mode == "Shadow")


def scores(pair: Pair, at: int) -> dict[str, int]:
    """What prioritize says of all nodes about the pod of a size and an owner."""
    body = go_body(list(NAMES), f"s{at}", owner=OWNERS[at % len(OWNERS)], **SIZES[at % len(SIZES)])
    return {row["Host"]: row["Score"] for row in pair.ask("prioritize", body)}


def test_a_pod_that_is_asked_about_again_is_judged_as_if_it_stood_nowhere_without_flask(pair: Pair) -> None:
    pair.wait("p")
    pair.bind("b1", "node-1", 5)
    for _ in range(3):
        answer = pair.ask("filter", go_body(list(NAMES), "p", cpu="4"))
        pair.ask("prioritize", go_body(answer["NodeNames"], "p", cpu="4"))
        pair.ask("prioritize", go_body(answer["NodeNames"][::-1], "p", cpu="4"))
    again = go_body(list(NAMES), "b1", cpu="500m", owner=OWNERS[1])
    pair.ask("filter", again)
    assert pair.fast.view.placements.knows(pair.pods["p"].uid)
    assert pair.fast.declined == 0


@pytest.mark.parametrize("rejected", ["coolest", "pending"])
def test_where_all_nodes_are_hot_flask_is_not_asked(pair: Pair, rejected: str) -> None:
    pair.policy(worlds.policy(filter={"whenAllRejected": rejected}))
    for at, name in enumerate(NAMES):
        pair.node(name, {**worlds.HOT, "cpu_avg_5m": 0.9 + at / 1000})
    answer = pair.ask("filter", go_body(list(NAMES), "p"))
    assert len(answer["NodeNames"]) == (2 if rejected == "coolest" else 0)
    assert pair.fast.declined == 0


CROWDED_BY_ITSELF = {
    "the filter": {"filter": {"thresholds": {"cpu_avg_5m": 0.3}}},
    "the reason": {"filter": {"thresholds": {"cpu_avg_5m": 0.3, "memory_avg_5m": 0.05}, "whenAllRejected": "pending"}},
    "the penalty": {"hotSpots": [{"window": "1m", "pods": 1, "penalty": 3}]},
    "the expected load": {"score": {"incomingPod": False}},
    "the load that it brings": {"score": {"incomingPod": True}},
}


@pytest.mark.parametrize("policy", CROWDED_BY_ITSELF.values(), ids=CROWDED_BY_ITSELF)
def test_a_large_pod_does_not_stand_in_its_own_way(pair: Pair, policy: dict[str, Any]) -> None:
    pair.policy(worlds.policy(**policy))
    large = worlds.bound("large", "node-1", pair.now(), cpu="6")
    before = [pair.ask(verb, go_body(list(NAMES), "other", cpu="6")) for verb in ("filter", "prioritize")]
    for side in pair.both:
        side.view.pod_changed(None, large, pair.now())
    during = [pair.ask(verb, go_body(list(NAMES), "other", cpu="6")) for verb in ("filter", "prioritize")]
    again = [pair.ask(verb, go_body(list(NAMES), "large", cpu="6")) for verb in ("filter", "prioritize")]
    assert again == before
    assert during != before, "the pod makes no difference under this policy: the test proves nothing"
    assert pair.fast.declined == 0


def test_prioritize_knows_the_list_that_filter_passed(apart: Pair) -> None:
    passed = apart.ask("filter", go_body(list(NAMES), "p"))["NodeNames"]
    scores = apart.ask("prioritize", go_body(passed, "p"))
    assert [row["Host"] for row in scores] == passed


def test_a_list_seen_before_is_read_anew_when_rows_changed_hands(pair: Pair) -> None:
    names = list(NAMES)
    pair.ask("filter", go_body(names, "p"))
    pair.node_gone("node-1")
    pair.node("another", worlds.HOT)
    pair.node("node-1", worlds.HOT)
    assert "node-1" not in pair.ask("filter", go_body(names, "q"))["NodeNames"]


ODD = {
    "an unknown name": go_body([*NAMES, "nobody"], "p"),
    "a name twice": go_body([*NAMES, NAMES[1]], "p"),
    "no names": go_body([], "p"),
    "an exempt pod": go_body(list(NAMES), "p", namespace="kube-system"),
    "a pod that opted out": go_body(list(NAMES), "p", annotations=OPTED_OUT),
    "a DaemonSet's pod": go_body(list(NAMES), "p", owner=("DaemonSet", "agent")),
    "spaces": json.dumps({"Pod": builders.pod_body("p"), "Nodes": None, "NodeNames": list(NAMES)}).encode(),
    "lower-case keys": json.dumps({"pod": builders.pod_body("p"), "nodenames": list(NAMES)}).encode(),
    "escapes": go_body(list(NAMES), "p").replace(b"node-3", b"node\\u002d3"),
    "keys in another order": json.dumps({"NodeNames": list(NAMES), "Pod": builders.pod_body("p")}).encode(),
    "whole nodes": json.dumps(
        {"Pod": builders.pod_body("p"), "Nodes": {"items": [builders.node_body(NAMES[1])]}}
    ).encode(),
    "names inside the pod": b'{"Pod":{"metadata":{"name":"p"},"Nodes":null,"NodeNames":["node-1"]}}',
    "no pod": b'{"Pod":null,"Nodes":null,"NodeNames":["node-1"]}',
    "a pod that is a number": b'{"Pod":7,"Nodes":null,"NodeNames":["node-1"]}',
    "a name that is empty": go_body([*NAMES, ""], "p"),
    "more after the end": go_body(list(NAMES), "p") + b"]}",
    "cut off": go_body(list(NAMES), "p")[:-2],
    "a quote in a name": b'{"Pod":{},"Nodes":null,"NodeNames":["node-1","node-2\\","]}',
    "a number among the names": b'{"Pod":{},"Nodes":null,"NodeNames":["node-1",7,"node-2"]}',
    "nothing": b"",
    "not text": b"\xff\xfe",
}


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
@pytest.mark.parametrize("body", ODD.values(), ids=ODD)
def test_odd_requests_get_the_slow_path_s_answer(pair: Pair, verb: str, body: bytes) -> None:
    pair.ask(verb, body)


def test_another_media_type_and_a_length_that_is_none_are_for_flask_to_refuse(apart: Pair) -> None:
    assert apart.fast.reply("filter", go_body(list(NAMES), "p"), "text/plain")[0].startswith("415")
    assert apart.fast.slow_path() == {"form": 1}


def test_a_hint_makes_the_slow_path_answer(pair: Pair) -> None:
    pair.node("node-1", worlds.HOT, 0, RELIEF)
    pair.ask("filter", go_body(list(NAMES), "p"))
    assert pair.fast.slow_path() == {"relief_hint": 1}


def test_a_pod_that_opted_out_makes_the_slow_path_answer(pair: Pair) -> None:
    pair.ask("filter", go_body(list(NAMES), "p", annotations=OPTED_OUT))
    assert pair.fast.slow_path() == {"exempt": 1}


def test_a_hot_nominated_node_that_is_asked_about_alone_makes_the_slow_path_answer(pair: Pair) -> None:
    pair.node("node-1", worlds.HOT)
    nominated = {"mutate": lambda body: body["status"].update(nominatedNodeName="node-1")}
    for _ in range(2):
        assert [pair.ask("filter", go_body(["node-1"], "p", **nominated))["NodeNames"] for _ in range(2)] == [
            [],
            ["node-1"],
        ]
        assert pair.ask("filter", go_body(["node-1"], "p", **nominated))["NodeNames"] == []
        assert "node-1" not in pair.ask("filter", go_body(list(NAMES), "p", **nominated))["NodeNames"]
    assert pair.fast.slow_path() == {"nominated": 6}


@pytest.mark.parametrize(
    ("odd", "reason"),
    [("an unknown name", "unknown_node"), ("spaces", "body"), ("whole nodes", "body"), ("no pod", "body")],
)
def test_why_the_slow_path_answered_is_counted(apart: Pair, odd: str, reason: str) -> None:
    apart.ask("prioritize", ODD[odd])
    assert apart.fast.slow_path() == {reason: 1}


def test_a_request_about_nodes_that_change_while_it_is_read_is_for_the_slow_path(
    apart: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart.wait("p")
    apart.ask("prioritize", go_body(list(NAMES), "p"))
    monkeypatch.setattr(apart.fast.view, "besides", lambda _standing, _uid: None)
    apart.ask("prioritize", go_body(list(NAMES), "p"))
    assert apart.fast.slow_path() == {"nodes_changed": 1}


def test_a_node_is_held_to_its_own_thresholds_without_flask(pair: Pair) -> None:
    pair.node("node-1", worlds.IDLE, own={"cpu_avg_5m": 0.05})
    pair.node("node-4", worlds.HOT, own={"cpu_avg_5m": 0.95})
    answer = pair.ask("filter", go_body(list(NAMES), "p"))
    assert answer["FailedAndUnresolvableNodes"]["node-1"] == "cpu_avg_5m over 0.05"
    assert "node-4" in answer["NodeNames"]
    pair.node("node-1", worlds.IDLE, own={"cpu_avg_5m": 0.02})
    assert pair.ask("filter", go_body(list(NAMES), "q"))["FailedAndUnresolvableNodes"]["node-1"].endswith("0.02")
    pair.node("node-1", worlds.IDLE)
    assert "node-1" in pair.ask("filter", go_body(list(NAMES), "r"))["NodeNames"]
    assert pair.fast.declined == 0


def test_owners_means_reach_the_score_table_in_the_second_they_come(pair: Pair) -> None:
    pair.bind("b0", "node-1", 0)
    assert "node-1" in pair.ask("filter", go_body(list(NAMES), "p"))["NodeNames"]
    pair.usage({"default/ReplicaSet/web": owner_usage.Mean(7000.0, None, 3)}, 0)
    assert "node-1" not in pair.ask("filter", go_body(list(NAMES), "q"))["NodeNames"]
    assert pair.fast.declined == 0


class Interrupted(cluster_view.ClusterView):
    """A view that loses the reader's patience after it told which rows changed."""

    impatient = False

    def standing(
        self, before: Candidates | None, now_seconds: float, rows: node_cache.Rows | None = None
    ) -> Candidates:
        """As asked, or Overrun."""
        found = super().standing(before, now_seconds, rows)
        if self.impatient:
            raise deadline.Overrun
        return found


def test_a_score_table_whose_making_took_too_long_loses_no_change() -> None:
    seen = Interrupted(worlds.policy(), "0", worlds.NOW)
    seen.nodes.node_changed(None, worlds.node("n", worlds.IDLE))
    tables = score_cache.ScoreCache(seen)
    (before,) = tables.current(worlds.NOW).numbers.base[1:2]
    seen.pod_changed(None, worlds.watch_sees("p", "n", cpu="8"), worlds.NOW)
    seen.impatient = True
    with pytest.raises(deadline.Overrun):
        tables.current(worlds.NOW)
    seen.impatient = False
    assert tables.current(worlds.NOW).numbers.base[1] < before


def test_rows_that_nobody_asks_for_wait_until_somebody_does() -> None:
    seen = worlds.view_of(dict.fromkeys(NAMES, worlds.IDLE))
    tables = score_cache.ScoreCache(seen)
    before, (first, second) = tables.current(worlds.NOW), seen.nodes.loads().rows(NAMES[:2])
    worlds.bind(seen, NAMES[0], "p1", cpu="8")
    assert tables.current(worlds.NOW, np.array([second])) is before
    repaired = tables.current(worlds.NOW, np.array([second, first]))
    assert repaired.numbers.base[first] < before.numbers.base[first]
    for at in range(expected_load_table.PUT_OFF):
        worlds.bind(seen, NAMES[2 + at], f"q{at}", cpu="8")
    assert tables.current(worlds.NOW, np.array([second])) is not repaired, "too many to wait for"


def test_the_head_of_a_reply_waits_for_its_body_and_nothing_waits_afterwards(apart: Pair) -> None:
    body = go_body(list(NAMES), "p")
    environ: dict[str, Any] = {"REQUEST_METHOD": "POST", "PATH_INFO": "/filter", "CONTENT_LENGTH": str(len(body))}
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as connection:
        environ |= {"wsgi.input": io.BytesIO(body), "gunicorn.socket": connection}
        reply: Any = apart.fast.application(environ, lambda *_: None)  # type: ignore[arg-type]
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CORK)
        reply.close()
        assert not connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CORK)


def test_what_follows_an_answer_is_done_when_the_reply_is_closed(apart: Pair) -> None:
    side = apart.fast
    apart.wait("p")
    body = go_body(list(NAMES), "p")
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/prioritize", "CONTENT_LENGTH": str(len(body))}
    reply: Any = side.application({**environ, "wsgi.input": io.BytesIO(body)}, lambda *_: None)  # type: ignore[arg-type]
    assert worlds.bindings(side.view.placements, side.clock.now()) == ()
    reply.close()
    (assumed,) = worlds.bindings(side.view.placements, side.clock.now())
    assert assumed.uid == builders.pod("p").uid
    assert dataclasses.is_dataclass(side.ring.find("", "", 1, now_seconds=side.clock.now())[0].inputs)


@pytest.mark.parametrize(
    "hint",
    [
        '{"v":1,"until":"2020-01-01T00:00:00Z","workloads":["uid-web"]}',
        '{"v":1,"until":"2099-01-01T00:00:00Z","workloads":["uid-other"]}',
    ],
    ids=["over", "about another workload"],
)
def test_a_hint_that_concerns_nobody_now_costs_nothing(pair: Pair, hint: str) -> None:
    pair.node("node-1", worlds.HOT, 0, hint)
    pair.ask("filter", go_body(list(NAMES), "p", owner=OWNERS[0]))
    assert pair.fast.declined == 0


def test_a_reply_that_is_sent_late_counts_nobody_who_left_a_window_meanwhile(apart: Pair) -> None:
    spots = [{"window": "1m", "pods": 1, "penalty": 3}]
    apart.policy(worlds.policy(hotSpots=spots))
    for at in range(4):
        apart.bind(f"b{at}", "node-1", 58)
    apart.wait("new")
    reply: Any = begun(apart.fast, "filter", go_body(["node-1"], "new"))
    apart.fast.clock.advance(3)
    apart.bind("b5", "node-5", 0)  # the Pod watch brings the table up to this moment
    reply.close()
    assert apart.fast.view.candidates(("node-1",), apart.now()).counts.tolist() == [[1]]


def test_what_fails_after_an_answer_costs_only_itself(apart: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug in what follows")

    monkeypatch.setattr(app, "note", broken)
    begun(apart.fast, "filter", go_body(list(NAMES), "p")).close()
    monkeypatch.undo()
    assert apart.fast.reply("filter", go_body(list(NAMES), "p"))[0].startswith("200")


def test_what_fails_in_here_is_answered_by_flask(apart: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_path, "_check_judged_by_load", lambda *_: 1 / 0)
    apart.ask("filter", go_body(list(NAMES), "p"))
    assert apart.fast.declined == 1
    failures = "evenload_extender_fast_path_failures_total"
    assert apart.fast.registry.get_sample_value(failures, {"exception": "ZeroDivisionError"}) == 1
    assert apart.fast.slow_path() == {"bug": 1}


def test_a_list_longer_than_that_of_all_nodes_is_not_even_split(apart: Pair) -> None:
    body = go_body(["node-1"] * 1000, "p")
    apart.ask("filter", body)
    assert apart.fast.declined == 1


def begun(side: Side, verb: str, body: bytes) -> Any:
    """A reply that is not closed yet."""
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": f"/{verb}", "CONTENT_LENGTH": str(len(body))}
    return side.application({**environ, "wsgi.input": io.BytesIO(body)}, lambda *_: None)  # type: ignore[arg-type]


@pytest.mark.parametrize("later_seconds", [1, 59, 60, 299, 300, 301, 3600], ids=lambda seconds: f"{seconds} s later")
def test_a_score_table_that_only_grew_older_is_the_one_that_would_be_made_anew(later_seconds: int) -> None:
    seen = worlds.view_of({"busy": worlds.IDLE, "quiet": worlds.IDLE, "hot": worlds.HOT, "unread": None})
    worlds.bind(seen, "busy", "first", "second")
    worlds.bind(seen, "hot", "third", at_seconds=worlds.NOW - 30)
    tables = score_cache.ScoreCache(seen)
    before = tables.current(worlds.NOW)
    older, anew = (one.current(worlds.NOW + later_seconds) for one in (tables, score_cache.ScoreCache(seen)))
    assert older is not before
    worlds.assert_equal_tables(older, anew)
