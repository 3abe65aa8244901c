"""Answers for people: why a pod may or may not go to a node, how each score came about, the state of nodes.

`app` serves them as POST /explain, GET /decisions and GET /nodes; the numbers are those of `verbs`, with every factor
beside them. What is explained of a past decision is computed again from what it was made from, by the same pure
functions. A number that does not exist is null, never 0.
"""

import collections.abc

import msgspec

from extender.state import cluster_view, compiled_policy, digests
from extender.state.candidates import Candidates
from extender.verbs import decision_log, documents, explain_rows, verbs
from extender.verbs.explain_rows import Json
from kube import objects
from policy.rules import expected_load, scoring
from runtime import clock


def explain(
    view: cluster_view.ClusterView, pod: objects.Pod, names: tuple[str, ...], now_seconds: float
) -> documents.Explanation:
    """Per node the verdict with metric, value, limit and age, and every factor of the score, as filter and prioritize
    see them.
    """
    candidates = view.candidates(names, now_seconds, pod)
    _, judged = verbs.judge(candidates, pod)
    mean = view.mean(pod, now_seconds)
    breakdown = candidates.score(pod, mean)
    return documents.Explanation(
        pod={"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        policy=candidates.in_force.content_hash,
        at=clock.to_rfc3339(now_seconds),
        shadow=candidates.in_force.shadow,
        pod_class=candidates.in_force.class_name,
        exempt=judged.exempt,
        estimate=_estimate(candidates.estimate(pod, mean)),
        means=_means(candidates.in_force),
        degraded=tuple(judged.degraded or candidates.degradations()),
        nodes=_ranked(candidates, breakdown, view, judged.rejected),
    )


def decided(
    decisions: collections.abc.Iterable[decision_log.Decision], *, with_nodes: bool
) -> list[documents.PastDecision]:
    """Decisions as they were made; on request the newest of each verb carries its nodes, with their factors computed
    from what it was made from.
    """
    past, verbs_seen = [], set[str]()
    for decision in decisions:
        whole = with_nodes and decision.verb not in verbs_seen
        verbs_seen.add(decision.verb)
        fields = msgspec.structs.asdict(decision) | (_decided_nodes(decision) if whole else {})
        del fields["inputs"]
        past.append(documents.PastDecision(**fields, at=clock.to_rfc3339(decision.at_seconds)))
    return past


def _decided_nodes(decision: decision_log.Decision) -> Json:
    """The nodes with what they had then; the scores are those of prioritize, and of the best only once condensed."""
    inputs = decision.inputs
    if inputs is None:
        return {"nodes": [], "omitted": decision.candidates}
    breakdown = inputs.candidates.score(inputs.pod, inputs.mean)
    rows = explain_rows.of(inputs.candidates, breakdown, None, inputs.rejected)
    best = {ranked.node: ranked for ranked in decision.best}
    for at, row in enumerate(rows):
        remembered = best.get(inputs.candidates.names[at])
        if decision.verb == "prioritize" and not inputs.omitted:
            row |= explain_rows.ranked(breakdown, at)
        elif decision.verb == "prioritize" and remembered is not None:
            row |= explain_rows.remembered(inputs.candidates, breakdown, at, remembered)
    estimate = _estimate(inputs.candidates.estimate(inputs.pod, inputs.mean))
    nodes, means = [documents.NodeRow(**row) for row in rows], _means(inputs.candidates.in_force)
    return {"nodes": nodes, "omitted": inputs.omitted, "estimate": estimate, "means": means}


def _estimate(estimate: expected_load.Estimate) -> documents.Estimate:
    (cpu_millicores, memory_bytes), words = estimate.load, estimate.words
    return documents.Estimate(cpu_millicores, words(estimate.cpu_by), memory_bytes, words(estimate.memory_by))


def _means(in_force: compiled_policy.CompiledPolicy) -> list[list[str]]:
    """The metrics by the mean that their terms add up to; the lowest of these is a node's base."""
    weighing = in_force.weighing
    every = (weighing, *weighing.of_pools)
    weighted = [group for group in weighing.groups if any(one.weights[list(group)].any() for one in every)]
    return [[in_force.metric_names[column] for column in group] for group in weighted]


def all_nodes(view: cluster_view.ClusterView, now_seconds: float) -> Json:
    """The view that answers are made from: every node as a pod without a load of its own would find it, and the
    heartbeat.
    """
    beat = _heartbeat(view, now_seconds)  # before the rows: where it matches, it has renewed them
    candidates = view.all_nodes(now_seconds)
    breakdown = candidates.score(None)
    reasons = candidates.verdicts().reasons
    rejected = {name: reason for name, reason in zip(candidates.names, reasons, strict=True) if reason}
    return {
        "at": clock.to_rfc3339(now_seconds),
        "policy": candidates.in_force.content_hash,
        "heartbeat": beat,
        "view": digests.digests(view, now_seconds)._asdict(),
        "owner_usage": _owner_usage(view, now_seconds),
        "assumed_placements": view.placements.assumed(now_seconds),
        "nodes": _ranked(candidates, breakdown, view, rejected),
    }


def _ranked(
    candidates: Candidates,
    breakdown: scoring.Breakdown,
    view: cluster_view.ClusterView,
    rejected: collections.abc.Mapping[str, str],
) -> list[documents.NodeRow]:
    """The rows of nodes as they stand now, with their places among each other."""
    rows = explain_rows.of(candidates, breakdown, view.nodes.facts(), rejected)
    return [documents.NodeRow(**row, **explain_rows.ranked(breakdown, at)) for at, row in enumerate(rows)]


def states(view: cluster_view.ClusterView, now_seconds: float) -> dict[str, int]:
    """How many nodes are in each state of their reading: usable, stale, future, missing."""
    counted = dict.fromkeys(("usable", "stale", "future", "missing"), 0)
    candidates = view.all_nodes(now_seconds)
    facts = view.nodes.facts()
    for at in range(len(candidates.names)):
        state = explain_rows.state(candidates, facts, at)
        counted[state if state in counted else "missing"] += 1
    return counted


def thresholds(view: cluster_view.ClusterView) -> dict[str, int]:
    """How many nodes have thresholds of their own (`own`), and on how many some are not in force (`ignored`)."""
    in_force = view.in_force.metric_names
    annotations = [facts.own for facts in view.nodes.facts().values() if facts.own is not None]
    effective = sum(len(own.limits) > len(own.unknown(in_force)) for own in annotations)
    return {"own": effective, "ignored": sum(bool(own.ignored(in_force)) for own in annotations)}


def _heartbeat(view: cluster_view.ClusterView, now_seconds: float) -> Json:
    state = view.nodes.heartbeat_state()
    at_seconds = state.at_seconds
    return {
        "at": None if at_seconds is None else clock.to_rfc3339(at_seconds),
        "age_seconds": None if at_seconds is None else round(now_seconds - at_seconds, 3),
        "policy": state.policy_hash or None,
        "digest": state.digest or None,
        "matches": state.matches,
        "differing": list(state.differing),
        "problem": state.problem or None,
    }


def _owner_usage(view: cluster_view.ClusterView, now_seconds: float) -> Json:
    """How many owners pods are estimated by, and since when; 0 of them means that requests are what is known."""
    known, problem = view.placements.estimates, view.usage_problem
    at_seconds = known.published.at_seconds if known.published.at_seconds else None
    return {
        "at": None if at_seconds is None else clock.to_rfc3339(at_seconds),
        "age_seconds": None if at_seconds is None else round(now_seconds - at_seconds, 3),
        "owners": known.owners(now_seconds),
        "problem": problem or None,
    }
