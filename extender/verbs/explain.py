"""Answers for people: why a pod may or may not go to a node, how each score came about, the state of nodes.

`app` serves them as POST /explain, GET /decisions and GET /nodes; the numbers are those by which `verbs` and `policy`
decide, with every factor beside them. What is explained of a past decision is computed again from what it was made
from, by the same pure functions. A number that does not exist is null, never 0.
"""

import collections.abc
import math
from typing import Any, Final

import msgspec
import numpy as np

from extender.state import cluster_view, compiled_policy, digests, node_cache
from extender.state.candidates import Candidates
from extender.verbs import decision_log, documents, verbs
from kube import objects
from kube.pods import pod_view
from policy.contract import freshness
from policy.rules import expected_load, filtering, scoring
from policy.schema import node_pools
from runtime import clock

Json = dict[str, Any]
Facts = collections.abc.Mapping[str, node_cache.NodeFacts]
NOTHING_MEASURED: Final = "no valid metric in the annotation"
_INVALID: Final = "not in the annotation"


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
    decisions: collections.abc.Iterable[decision_log.Decision],
    *,
    with_nodes: bool,
    bound: collections.abc.Callable[[decision_log.Decision], Json] = lambda _decision: {},
) -> list[documents.PastDecision]:
    """Decisions as they were made, with what `bound` adds; on request the newest of each verb carries its nodes, with
    their factors computed from what it was made from.
    """
    past, verbs_seen = [], set[str]()
    for decision in decisions:
        whole = with_nodes and decision.verb not in verbs_seen
        verbs_seen.add(decision.verb)
        fields = msgspec.structs.asdict(decision) | (_decided_nodes(decision) if whole else {}) | bound(decision)
        del fields["inputs"], fields["tied"]
        past.append(documents.PastDecision(**fields, at=clock.to_rfc3339(decision.at_seconds), ties=decision.ties))
    return past


def bound_to(
    decision: decision_log.Decision, pod: pod_view.PodView | None, index: collections.abc.Mapping[str, int]
) -> Json:
    """Where the pod is that is watched under the name of the decision's, if it is that one; `index` has the rows."""
    node = pod.node_name if pod is not None and pod.uid == decision.uid else None
    return {"bound_to": node, "bound_to_best": decision.was_best(index.get(node or ""))}


def _decided_nodes(decision: decision_log.Decision) -> Json:
    """The nodes with what they had then; the scores are those of prioritize."""
    inputs = decision.inputs
    if inputs is None:
        return {"nodes": [], "omitted": decision.candidates}
    breakdown = inputs.candidates.score(inputs.pod, inputs.mean)
    rows = _fields(inputs.candidates, breakdown, None, inputs.rejected)
    if decision.verb == "prioritize":
        rows = [row | _result(breakdown, at) for at, row in enumerate(rows)]
    estimate = _estimate(inputs.candidates.estimate(inputs.pod, inputs.mean))
    nodes, means = [documents.NodeRow(**row) for row in rows], _means(inputs.candidates.in_force)
    return {"nodes": nodes, "omitted": 0, "estimate": estimate, "means": means}


def _estimate(estimate: expected_load.Estimate) -> documents.Estimate:
    (cpu_millicores, memory_bytes), words, ignored = estimate.load, estimate.words, estimate.ignored or None
    return documents.Estimate(cpu_millicores, words(estimate.cpu_by), memory_bytes, words(estimate.memory_by), ignored)


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
    rejected = {candidates.names[at]: reason for at, reason in candidates.verdicts().refusals()}
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
    rows = _fields(candidates, breakdown, view.nodes.facts(), rejected)
    return [documents.NodeRow(**row, **_result(breakdown, at)) for at, row in enumerate(rows)]


def states(view: cluster_view.ClusterView, now_seconds: float) -> dict[str, int]:
    """How many nodes are in each state of their reading: usable, stale, future, missing."""
    counted = dict.fromkeys(("usable", "stale", "future", "missing"), 0)
    candidates = view.all_nodes(now_seconds)
    facts = view.nodes.facts()
    for at in range(len(candidates.names)):
        state = _state(candidates, facts, at)
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


def _fields(
    candidates: Candidates,
    breakdown: scoring.Breakdown,
    facts: Facts | None,
    rejected: collections.abc.Mapping[str, str],
) -> list[Json]:
    """The fields of each `documents.NodeRow` that do not depend on the other nodes; without `facts` as far as the
    arrays tell.
    """
    verdicts = candidates.verdicts()
    rows = []
    for at, name in enumerate(candidates.names):
        row = _row(candidates, facts, at) | _factors(candidates, breakdown, at)
        row |= {"allowed": name not in rejected, "rejected": rejected.get(name)}
        rows.append(row | {"rules": _rules(candidates, verdicts, at)} | _rules_off(candidates, verdicts, at))
    return rows


def _result(breakdown: scoring.Breakdown, at: int) -> Json:
    """Returns the node's result among the others: base after median and stretch, and the score before and after
    rounding.
    """
    ranking = breakdown.ranking
    return {
        "base": float(ranking.base[at]),
        "median_base": bool(ranking.neutral[at]),
        "capped_base": bool(ranking.capped[at]),
        "raw_score": float(ranking.raw[at]),
        "score": int(ranking.scores[at]),
    }


def _state(candidates: Candidates, facts: Facts | None, at: int) -> str:
    """`usable`, or why the reading is not; without `facts` as far as the arrays tell."""
    row = int(candidates.rows[at])
    known = facts.get(candidates.names[at]) if facts is not None else None
    if row == node_cache.UNKNOWN or (facts is not None and known is None):
        return "unknown node"
    effective = float(candidates.loads.effective_seconds[row])
    now_seconds, stale_after_seconds = candidates.now_seconds, candidates.in_force.policy.sync.stale_after_seconds
    word: str = freshness.usable(effective, now_seconds, stale_after_seconds)
    if known is not None and known.reading is None:
        return known.problem
    return NOTHING_MEASURED if word == "usable" and np.isnan(candidates.values[at]).all() else word


def _row(candidates: Candidates, facts: Facts | None, at: int) -> Json:
    """The readings of one node: values that are used, and for each that is not the reason."""
    word = _state(candidates, facts, at)
    known = None if facts is None else facts.get(candidates.names[at])
    own = None if known is None else known.own
    hint = candidates.loads.reliefs.get(int(candidates.rows[at]))
    values, unusable = _readings(candidates, known, at, word)
    policy = candidates.in_force.policy
    place = candidates.place(at)
    return {
        "name": candidates.names[at],
        "pool": None if place == node_pools.NO_POOL else policy.pools[place].name,
        "usable": word == "usable",
        "state": word,
        "reason": None if word == "usable" else word,
        "age_seconds": _age_seconds(candidates, at),
        "values": values,
        "unusable": unusable,
        "hot": {spot.window: int(pods) for spot, pods in zip(policy.hot_spots, candidates.counts[at], strict=True)},
        "relief_until": None if hint is None else clock.to_rfc3339(hint.until_seconds),
        "thresholds_ignored": None if own is None else own.ignored(candidates.in_force.metric_names) or None,
        "conditions": () if known is None else known.conditions,
    }


def _age_seconds(candidates: Candidates, at: int) -> float | None:
    effective = float(candidates.loads.effective_seconds[candidates.rows[at]])
    return None if math.isnan(effective) else round(candidates.now_seconds - effective, 3)


def _readings(
    candidates: Candidates, known: node_cache.NodeFacts | None, at: int, text: str
) -> tuple[dict[str, float], dict[str, str]]:
    values: dict[str, float] = {}
    unusable: dict[str, str] = {}
    invalid = known.reading.invalid if known is not None and known.reading is not None else {}
    for name, value in zip(candidates.in_force.metric_names, candidates.values[at].tolist(), strict=True):
        if not math.isnan(value):
            values[name] = value
        else:
            unusable[name] = invalid.get(name, _INVALID) if text == "usable" else text
    return values, unusable


def _factors(candidates: Candidates, breakdown: scoring.Breakdown, at: int) -> Json:
    """Returns the factors of the node's own numbers: expected load, the pod's own, the terms and their sum, the
    penalty.
    """
    names = candidates.in_force.metric_names
    return {
        "expected": _numbers(names, breakdown.expected[at].tolist()),
        "incoming": _numbers(names, breakdown.incoming[at].tolist()),
        "predicted": _numbers(names, breakdown.predicted[at].tolist()),
        "terms": _numbers(names, breakdown.terms[at].tolist()),
        "packing": _packing(candidates, breakdown, at),
        "own_base": _number(float(breakdown.own_base[at])),
        "penalty": float(breakdown.ranking.penalty[at]),
    }


def _packing(candidates: Candidates, breakdown: scoring.Breakdown, at: int) -> documents.Packing | None:
    """Returns None where nodes are spread."""
    weighing, place = candidates.in_force.weighing, candidates.place(at)
    own = weighing.of_pools[place] if weighing.of_pools and place != node_pools.NO_POOL else weighing
    base = float(breakdown.spread_base[at])
    if own.target_ratio is None or math.isnan(base):
        return None
    return documents.Packing(own.target_ratio, 1.0 - base / scoring.MAX_SCORE, float(breakdown.own_base[at]))


def _rules(candidates: Candidates, verdicts: filtering.Verdicts, at: int) -> list[documents.Rule]:
    """Every filter rule as it stands for one node."""
    values, expected = candidates.values[at].tolist(), candidates.expected[at].tolist()
    limits, differs = verdicts.limits[at].tolist(), verdicts.own  # from the policy's
    age_seconds = _age_seconds(candidates, at)
    pod_class = candidates.in_force.pod_class
    of_class = {} if pod_class is None else pod_class.filter.thresholds
    return [
        documents.Rule(
            metric=rule.metric,
            limit=limits[place],
            own=_is_own(candidates, at, rule),
            pool=differs is not None and bool(differs[at, place]) and not _is_own(candidates, at, rule),
            pod_class=rule.metric in of_class and not _is_own(candidates, at, rule),
            value=_number(values[rule.column] + expected[rule.column]),
            reading=_number(values[rule.column]),
            expected=expected[rule.column],
            age_seconds=age_seconds,
            broken=bool(verdicts.broken[at, place]),
        )
        for place, rule in enumerate(verdicts.rules)
        if not math.isnan(limits[place])
    ]


def _is_own(candidates: Candidates, at: int, rule: filtering.Rule) -> bool:
    """Whether the node's annotation has a threshold of the rule's metric."""
    own = candidates.loads.own_limits
    return own is not None and not math.isnan(own[candidates.rows[at], rule.column])


def _rules_off(candidates: Candidates, verdicts: filtering.Verdicts, at: int) -> Json:
    """The metrics with a threshold in the policy that the node's own annotation sets to 0, and those that its pool
    does.
    """
    limits = verdicts.limits[at].tolist()
    off = [rule for rule, limit in zip(verdicts.rules, limits, strict=True) if rule.limit_ratio and limit != limit]
    own = [rule.metric for rule in off if _is_own(candidates, at, rule)]
    return {"rules_off": own, "pool_rules_off": [rule.metric for rule in off if rule.metric not in own]}


def _numbers(names: tuple[str, ...], values: list[float]) -> Json:
    return {name: _number(value) for name, value in zip(names, values, strict=True)}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
