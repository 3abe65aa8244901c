"""Answers for people: why a pod may or may not go to a node, how each score came about, what we believe of nodes.

`app` serves them as POST /explain, GET /decisions and GET /nodes; the numbers are those of `verbs`, with every factor
beside them. What is explained of a past decision is computed again from what it was made from, by the same pure
functions. A number that does not exist is null, never 0.
"""

import collections.abc
import math
from typing import Final

import msgspec
import numpy as np

from extender import comparing, decisions, nodes, verbs, view
from kube import objects
from policy import filtering, freshness, recent, schema, scoring
from runtime import clock

Json = dict[str, object]
Facts = collections.abc.Mapping[str, nodes.NodeFacts]
NOTHING_MEASURED = "no valid metric in the annotation"
_INVALID = "not in the annotation"
# Filter ranks nobody: what depends on the other nodes does not exist in its decisions.
_UNRANKED: Final[Json] = {"base": None, "median_base": None, "capped_base": None, "raw_score": None, "score": None}


def explain(seen: view.View, pod: objects.Pod, names: tuple[str, ...], now_seconds: float) -> Json:
    """Per node the verdict with metric, value, limit and age, and every factor of the score, as filter and prioritize
    see them.
    """
    candidates = seen.candidates(names, now_seconds, besides=pod.uid)
    judged = verbs.judge(candidates, pod)
    mean = seen.mean(pod, now_seconds)
    breakdown = verbs.score(candidates, pod, mean)
    rows = _rows(candidates, breakdown, seen.nodes.facts(), judged.rejected)
    for at, row in enumerate(rows):
        row |= _ranked(breakdown, at)
    return {
        "pod": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "policy": candidates.in_force.content_hash,
        "at": clock.to_rfc3339(now_seconds),
        "exempt": judged.exempt,
        "estimate": _estimate(candidates.estimate(pod, mean)),
        "degraded": list(judged.degraded or candidates.degradations()),
        "nodes": rows,
    }


def decided(found: collections.abc.Iterable[decisions.Decision], *, with_nodes: bool) -> list[Json]:
    """Decisions as they were made; on request the newest of each verb carries its nodes, with their factors computed
    from what it was made from.
    """
    shown, verbs_seen = [], set[str]()
    for decision in found:
        whole = with_nodes and decision.verb not in verbs_seen
        verbs_seen.add(decision.verb)
        shown.append(_decided(decision) | (_decided_nodes(decision) if whole else {}))
    return shown


def _decided(decision: decisions.Decision) -> Json:
    fields = msgspec.structs.asdict(decision)
    del fields["inputs"]
    return fields | {"at": clock.to_rfc3339(decision.at_seconds)}


def _decided_nodes(decision: decisions.Decision) -> Json:
    """The nodes with what they had then; the scores are those of prioritize, and of the best only once condensed."""
    inputs = decision.inputs
    if inputs is None:
        return {"nodes": [], "omitted": decision.candidates}
    breakdown = verbs.score(inputs.candidates, inputs.pod, inputs.mean)
    rows = _rows(inputs.candidates, breakdown, None, inputs.rejected)
    best = {ranked.node: ranked for ranked in decision.best}
    for at, row in enumerate(rows):
        if decision.verb != "prioritize":
            row |= _UNRANKED
        elif not inputs.omitted:
            row |= _ranked(breakdown, at)
        else:  # median and stretch need all nodes: what they gave is in the decision
            ranked = best.get(inputs.candidates.names[at])
            row |= _remembered(ranked, neutral=bool(breakdown.ranking.neutral[at])) if ranked else _UNRANKED
    estimate = _estimate(inputs.candidates.estimate(inputs.pod, inputs.mean))
    return {"nodes": rows, "omitted": inputs.omitted, "estimate": estimate}


def _estimate(estimate: recent.Estimate) -> Json:
    """The load expected of the pod, and by what each resource was estimated."""
    return {
        "cpu_millicores": estimate.load.cpu_millicores,
        "cpu_by": estimate.cpu_by,
        "memory_bytes": estimate.load.memory_bytes,
        "memory_by": estimate.memory_by,
    }


def all_nodes(seen: view.View, now_seconds: float) -> Json:
    """The view that answers are made from: every node as a pod without a load of its own would find it, and the
    heartbeat.
    """
    beat = _heartbeat(seen, now_seconds)  # before the rows: where it matches, it has renewed them
    candidates = seen.all_nodes(now_seconds)
    breakdown = verbs.score(candidates, None)
    reasons = candidates.verdicts().reasons
    rejected = {name: reason for name, reason in zip(candidates.names, reasons, strict=True) if reason}
    rows = _rows(candidates, breakdown, seen.nodes.facts(), rejected)
    for at, row in enumerate(rows):
        row |= _ranked(breakdown, at)
    return {
        "at": clock.to_rfc3339(now_seconds),
        "policy": candidates.in_force.content_hash,
        "heartbeat": beat,
        "view": comparing.digests(seen, now_seconds)._asdict(),
        "owner_usage": _owner_usage(seen, now_seconds),
        "assumed_placements": seen.placements.assumed(now_seconds),
        "nodes": rows,
    }


def states(seen: view.View, now_seconds: float) -> dict[str, int]:
    """How many nodes are in each state of their reading: usable, stale, future, missing."""
    counted = dict.fromkeys(("usable", "stale", "future", "missing"), 0)
    candidates = seen.all_nodes(now_seconds)
    facts = seen.nodes.facts()
    for at in range(len(candidates.names)):
        state = _state(candidates, facts, at)
        counted[state if state in counted else "missing"] += 1
    return counted


def thresholds(seen: view.View) -> dict[str, int]:
    """How many nodes have thresholds of their own (`own`), and on how many some are not in force (`ignored`)."""
    in_force = seen.in_force.metric_names
    given = [facts.own for facts in seen.nodes.facts().values() if facts.own is not None]
    effective = sum(len(own.limits) > len(own.unknown(in_force)) for own in given)
    return {"own": effective, "ignored": sum(bool(own.ignored(in_force)) for own in given)}


def _rows(
    candidates: view.Candidates,
    breakdown: scoring.Breakdown,
    facts: Facts | None,
    rejected: collections.abc.Mapping[str, str],
) -> list[Json]:
    """Per node everything that does not depend on the other nodes; without `facts` as far as the arrays tell."""
    verdicts = candidates.verdicts()
    rows = []
    for at, name in enumerate(candidates.names):
        row = _row(candidates, facts, at) | _factors(candidates, breakdown, at)
        row |= {"allowed": name not in rejected, "rejected": rejected.get(name)}
        rows.append(row | {"rules": _rules(candidates, verdicts, at), "rules_off": _rules_off(verdicts, at)})
    return rows


def _row(candidates: view.Candidates, facts: Facts | None, at: int) -> Json:
    """The readings of one node: values that are used, and for each that is not the reason."""
    state = _state(candidates, facts, at)
    hint = candidates.loads.reliefs.get(int(candidates.rows[at]))
    values, unusable = _readings(candidates, facts, at, state)
    return {
        "name": candidates.names[at],
        "usable": state == "usable",
        "state": state,
        "reason": None if state == "usable" else state,
        "age_seconds": _age_seconds(candidates, at),
        "values": values,
        "unusable": unusable,
        "hot": {spot.window: int(n) for spot, n in zip(_hot_spots(candidates), candidates.counts[at], strict=True)},
        "relief_until": None if hint is None else clock.to_rfc3339(hint.until_seconds),
        "thresholds_ignored": _ignored(candidates, facts, at) or None,
    }


def _ignored(candidates: view.Candidates, facts: Facts | None, at: int) -> str:
    """What of the node's own thresholds is not in force and why; "" when all is, or when it is not known any more."""
    known = None if facts is None else facts.get(candidates.names[at])
    return "" if known is None or known.own is None else known.own.ignored(candidates.in_force.metric_names)


def _age_seconds(candidates: view.Candidates, at: int) -> float | None:
    effective = float(candidates.loads.effective_seconds[candidates.rows[at]])
    return None if math.isnan(effective) else round(candidates.now_seconds - effective, 3)


def _hot_spots(candidates: view.Candidates) -> tuple[schema.HotSpot, ...]:
    return candidates.in_force.policy.hot_spots


def _readings(candidates: view.Candidates, facts: Facts | None, at: int, state: str) -> tuple[Json, Json]:
    values: Json = {}
    unusable: Json = {}
    known = facts.get(candidates.names[at]) if facts is not None else None
    invalid = known.reading.invalid if known is not None and known.reading is not None else {}
    for name, value in zip(candidates.in_force.metric_names, candidates.values[at].tolist(), strict=True):
        if not math.isnan(value):
            values[name] = value
        else:
            unusable[name] = invalid.get(name, _INVALID) if state == "usable" else state
    return values, unusable


def _state(candidates: view.Candidates, facts: Facts | None, at: int) -> str:
    row = int(candidates.rows[at])
    known = facts.get(candidates.names[at]) if facts is not None else None
    if row == nodes.UNKNOWN or (facts is not None and known is None):
        return "unknown node"
    effective = float(candidates.loads.effective_seconds[row])
    now_seconds, stale_after_seconds = candidates.now_seconds, candidates.in_force.policy.sync.stale_after_seconds
    state: str = freshness.usable(effective, now_seconds, stale_after_seconds)
    if known is not None:
        state = nodes.state_of(known, effective, now_seconds, stale_after_seconds)
    return NOTHING_MEASURED if state == "usable" and np.isnan(candidates.values[at]).all() else state


def _factors(candidates: view.Candidates, breakdown: scoring.Breakdown, at: int) -> Json:
    """What the node's own numbers give: expected load, the terms and their sum, the penalty."""
    names = candidates.in_force.metric_names
    return {
        "expected": _numbers(names, breakdown.expected[at].tolist()),
        "predicted": _numbers(names, breakdown.predicted[at].tolist()),
        "terms": _numbers(names, breakdown.terms[at].tolist()),
        "own_base": _number(float(breakdown.own_base[at])),
        "penalty": float(breakdown.ranking.penalty[at]),
    }


def _ranked(breakdown: scoring.Breakdown, at: int) -> Json:
    """What came of it among the others: base after median and stretch, and the score before and after rounding."""
    ranking = breakdown.ranking
    return {
        "base": float(ranking.base[at]),
        "median_base": bool(ranking.neutral[at]),
        "capped_base": bool(ranking.capped[at]),
        "raw_score": float(ranking.raw[at]),
        "score": int(ranking.scores[at]),
    }


def _remembered(ranked: decisions.Ranked, *, neutral: bool) -> Json:
    raw = min(max(ranked.base - ranked.penalty, 0.0), float(scoring.MAX_SCORE))
    return {
        "base": ranked.base,
        "median_base": neutral,
        "capped_base": None,  # the node that capped it may be among those left out
        "penalty": ranked.penalty,
        "raw_score": raw,
        "score": ranked.score,
    }


def _rules(candidates: view.Candidates, verdicts: filtering.Verdicts, at: int) -> list[Json]:
    """Every filter rule as it stands for one node: its limit, what was compared with it, how old that is, the outcome.

    `value` is the reading and the expected load together, `own` marks a threshold of the node's own.
    """
    values, expected = candidates.values[at].tolist(), candidates.expected[at].tolist()
    limits = verdicts.limits[at].tolist()
    age_seconds = _age_seconds(candidates, at)
    return [
        {
            "metric": rule.metric,
            "limit": limits[place],
            "own": verdicts.own is not None and bool(verdicts.own[at, place]),
            "value": _number(values[rule.column] + expected[rule.column]),
            "reading": _number(values[rule.column]),
            "expected": expected[rule.column],
            "age_seconds": age_seconds,
            "broken": bool(verdicts.broken[at, place]),
        }
        for place, rule in enumerate(verdicts.rules)
        if not math.isnan(limits[place])
    ]


def _rules_off(verdicts: filtering.Verdicts, at: int) -> list[str]:
    """The metrics with a threshold in the policy that the node's own annotation sets to 0."""
    limits = verdicts.limits[at].tolist()
    return [
        rule.metric for rule, limit in zip(verdicts.rules, limits, strict=True) if rule.limit_ratio and limit != limit
    ]


def _heartbeat(seen: view.View, now_seconds: float) -> Json:
    state = seen.nodes.heartbeat_state()
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


def _owner_usage(seen: view.View, now_seconds: float) -> Json:
    """How many owners pods are estimated by, and since when; 0 of them means that requests are what is known."""
    known, problem = seen.placements.estimates, seen.usage_problem
    at_seconds = known.published.at_seconds if known.published.at_seconds else None
    return {
        "at": None if at_seconds is None else clock.to_rfc3339(at_seconds),
        "age_seconds": None if at_seconds is None else round(now_seconds - at_seconds, 3),
        "owners": known.owners(now_seconds),
        "problem": problem or None,
    }


def _numbers(names: tuple[str, ...], values: list[float]) -> Json:
    return {name: _number(value) for name, value in zip(names, values, strict=True)}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
