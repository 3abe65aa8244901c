"""The memory of decisions: bounded in age and in bytes, whole for the newest, condensed before it forgets."""

import gc
import json
import tracemalloc
from typing import Any

import pytest

from extender import protocol
from extender.state import cluster_view
from extender.state.candidates import CandidateRows, Candidates
from extender.verbs import decided_pod, decision_log, documents, verbs
from tests import builders
from tests.unit.extender import worlds

NOW = worlds.NOW


def plain(pod: str, at_seconds: float = NOW) -> decision_log.Decision:
    return decision_log.Decision("filter", at_seconds, "default", pod, "uid", 1, 1, "0123456789ab")


def over(world: cluster_view.ClusterView, count: int, pod: str = "p", at_seconds: float = NOW) -> decision_log.Decision:
    """A decision over so many nodes, of names of its own as each request brings them, half of them rejected."""
    args = worlds.args([f"node-{at:05}" for at in range(count)], pod)
    candidates = world.candidates(args.names, at_seconds)
    rejected = dict.fromkeys(args.names[::2], "cpu_avg_5m over 0.65")
    inputs = decision_log.Inputs(candidates, decided_pod.slim(args.pod), rejected)
    best = tuple(documents.RankedNode(name, 9, 9.0, 0.0) for name in args.names[1:10:2])
    return decision_log.Decision("filter", at_seconds, "default", pod, "u", count, 1, "h", best=best, inputs=inputs)


def nodes(count: int) -> cluster_view.ClusterView:
    return worlds.view_of({f"node-{at:05}": worlds.IDLE for at in range(count)})


def pods(ring: decision_log.DecisionLog, now_seconds: float = NOW) -> list[str]:
    return [decision.pod for decision in ring.find("", "", 10_000, now_seconds=now_seconds)]


def test_they_are_found_newest_first_up_to_a_limit() -> None:
    ring = decision_log.DecisionLog()
    for at in range(5):
        ring.add(plain(f"p{at}"))
    found = ring.find("default", "", 3, now_seconds=NOW)
    assert [decision.pod for decision in found] == ["p4", "p3", "p2"]
    assert ring.find("other", "", 3, now_seconds=NOW) == []


def test_after_an_hour_a_decision_is_forgotten_when_the_next_one_comes_or_somebody_asks() -> None:
    ring = decision_log.DecisionLog()
    ring.add(plain("old"))
    size = ring.size_bytes
    ring.add(plain("new", NOW + decision_log.KEPT_SECONDS))
    assert ring.size_bytes == size
    assert pods(ring, NOW + 3600) == ["new"]
    assert pods(ring, NOW + 7200) == []
    assert ring.size_bytes == 0


def test_the_bytes_never_pass_the_limit_and_the_newest_stay() -> None:
    limit_bytes = 100 * plain("p299").size_bytes()
    ring = decision_log.DecisionLog(limit_bytes=limit_bytes, whole_bytes=0)
    for at in range(300):
        ring.add(plain(f"p{at}"))
        assert ring.size_bytes <= limit_bytes
    assert pods(ring) == [f"p{at}" for at in reversed(range(200, 300))]


def test_older_decisions_are_condensed_and_the_newest_keep_all_nodes() -> None:
    world, ring = nodes(500), decision_log.DecisionLog(whole_bytes=400_000)
    for at in range(10):
        ring.add(over(world, 500, f"p{at}"))
    newest, *_, oldest = ring.find("", "", 10, now_seconds=NOW)
    assert newest.inputs is not None
    assert len(newest.inputs.candidates.names) == 500
    assert (oldest.inputs, oldest.best) == (None, newest.best)


def test_what_is_noted_are_the_requests_own_arrays() -> None:
    decision, ring = over(nodes(50), 50), decision_log.DecisionLog()
    ring.add(decision)
    (found,) = ring.find("", "", 1, now_seconds=NOW)
    assert found.inputs is decision.inputs


def test_the_count_of_bytes_is_near_what_python_really_takes() -> None:
    """Readings that change before each request are the worst case: every decision then holds a copy of all nodes'."""
    world = nodes(1000)
    decisions_over = 40
    ring = decision_log.DecisionLog(limit_bytes=64 * 2**20, whole_bytes=4 * 2**20)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for at in range(decisions_over):
        changed = worlds.load_text(dict.fromkeys(worlds.IDLE, at / 100))
        world.nodes.node_changed(None, worlds.node("node-00000", changed))
        ring.add(over(world, 500, f"p{at}"))
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(pods(ring)) == decisions_over
    assert 0.5 * ring.size_bytes < taken < 1.5 * ring.size_bytes


def hostile(at: int, part: str) -> bytes:
    """A request of some 200 kB, all of them in one part of it."""
    names, much = ["node-00000", "node-00001"], [f"{part}-{at}-{one:>01000}" for one in range(200)]

    def grow(body: dict[str, Any]) -> None:
        body["metadata"]["uid"] = f"u{at}"
        if part in ("annotations", "labels"):
            body["metadata"][part] = {text: text for text in much[:100]}
        elif part == "containers":
            body["spec"][part] = [{"name": text} for text in much]
        elif part in ("name", "namespace"):
            body["metadata"][part] = "".join(much)

    if part == "names":
        names += much
    pod = builders.pod_body(f"p{at}", mutate=grow)
    return json.dumps({"Pod": pod, "NodeNames": names}).encode()


@pytest.mark.parametrize("in_time", [True, False], ids=["in time", "too late"])
@pytest.mark.parametrize("part", ["annotations", "labels", "containers", "name", "namespace", "names"])
def test_whatever_requests_carry_the_memory_holds_about_what_it_counts(part: str, in_time: bool) -> None:
    def answered(args: protocol.Args) -> verbs.Outcome:
        return verbs.answer("filter", world, args, NOW) if in_time else verbs.neutral("filter", args, "h", NOW)

    world, ring = nodes(2), decision_log.DecisionLog(limit_bytes=2**20, whole_bytes=2**19)
    bodies = [hostile(at, part) for at in range(60)]  # before each allocation costs time
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for body in bodies:  # no node wins, so no placement is assumed
        ring.add(answered(protocol.decode_args(body)).decision)
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert pods(ring)
    assert taken < 3 * 2**20


def test_the_histogram_of_reasons_is_bounded() -> None:
    found = decision_log.histogram([f"r{at % 40}" for at in range(1000)] + ["most"] * 100)
    assert len(found) == decision_log.REASONS_KEPT
    assert next(iter(found)) == "most"


def decision_of(standing: Candidates, pod: str) -> decision_log.Decision:
    """A decision of the fast path over every node: rows of what stood for all."""
    seen = CandidateRows(standing, standing.rows[1:])
    inputs = decision_log.Inputs(seen, decided_pod.slim(worlds.args([]).pod), {})
    best = (documents.RankedNode("node-00002", 9, 9.0, 0.0),)
    return decision_log.Decision("prioritize", NOW, "default", pod, "u", 500, 500, "h", best=best, inputs=inputs)


def test_what_stood_for_all_nodes_is_counted_once_per_moment() -> None:
    world, ring = nodes(500), decision_log.DecisionLog()
    standing = world.standing(None, NOW)
    ring.add(decision_of(standing, "p"))
    first = ring.size_bytes
    ring.add(decision_of(standing, "q"))
    assert ring.size_bytes - first < first / 2
    before = ring.size_bytes
    ring.add(decision_of(world.standing(None, NOW + 1), "r"))
    assert ring.size_bytes - before > first / 2
