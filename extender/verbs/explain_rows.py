"""One node's row in an answer for people: its readings and what is wrong with them, its rules, terms and score.

`verbs.explain` makes the rows of GET /nodes, POST /explain and GET /decisions here. The numbers are those that `verbs`
and `policy` decide by; one that does not exist is null, never 0.
"""

import collections.abc
import math
from typing import Any, Final

import numpy as np

from extender.state import node_cache
from extender.state.candidates import Candidates
from extender.verbs import documents
from policy.contract import freshness
from policy.rules import filtering, scoring
from policy.schema import node_pools
from runtime import clock

Json = dict[str, Any]
Facts = collections.abc.Mapping[str, node_cache.NodeFacts]
NOTHING_MEASURED = "no valid metric in the annotation"
_INVALID = "not in the annotation"
_ROUNDING: Final = 1e-9  # of a base, 0..10, between the moment it was kept and its making again


def of(
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


def ranked(breakdown: scoring.Breakdown, at: int) -> Json:
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


def remembered(
    candidates: Candidates, breakdown: scoring.Breakdown, at: int, ranked_nodes: documents.RankedNode
) -> Json:
    """Returns the result of a stored decision that has left out nodes. Median, cap and stretch need them all: their
    values are stored, and a base under the node's own was capped, unless it was stretched.
    """
    capped = ranked_nodes.base < float(breakdown.own_base[at]) - _ROUNDING
    return {
        "base": ranked_nodes.base,
        "median_base": bool(breakdown.ranking.neutral[at]),
        "capped_base": None if candidates.in_force.weighing.stretch else capped,
        "penalty": ranked_nodes.penalty,
        "raw_score": min(max(ranked_nodes.base - ranked_nodes.penalty, 0.0), float(scoring.MAX_SCORE)),
        "score": ranked_nodes.score,
    }


def state(candidates: Candidates, facts: Facts | None, at: int) -> str:
    """`usable`, or why the reading is not; without `facts` as far as the arrays tell."""
    row = int(candidates.rows[at])
    known = facts.get(candidates.names[at]) if facts is not None else None
    if row == node_cache.UNKNOWN or (facts is not None and known is None):
        return "unknown node"
    effective = float(candidates.loads.effective_seconds[row])
    now_seconds, stale_after_seconds = candidates.now_seconds, candidates.in_force.policy.sync.stale_after_seconds
    word: str = freshness.usable(effective, now_seconds, stale_after_seconds)
    if known is not None:
        word = node_cache.state_of(known, effective, now_seconds, stale_after_seconds)
    return NOTHING_MEASURED if word == "usable" and np.isnan(candidates.values[at]).all() else word


def _row(candidates: Candidates, facts: Facts | None, at: int) -> Json:
    """The readings of one node: values that are used, and for each that is not the reason."""
    word = state(candidates, facts, at)
    known = None if facts is None else facts.get(candidates.names[at])
    hint = candidates.loads.reliefs.get(int(candidates.rows[at]))
    values, unusable = _readings(candidates, facts, at, word)
    hot_spots = candidates.in_force.policy.hot_spots
    return {
        "name": candidates.names[at],
        "pool": _pool(candidates, at),
        "usable": word == "usable",
        "state": word,
        "reason": None if word == "usable" else word,
        "age_seconds": _age_seconds(candidates, at),
        "values": values,
        "unusable": unusable,
        "hot": {spot.window: int(number) for spot, number in zip(hot_spots, candidates.counts[at], strict=True)},
        "relief_until": None if hint is None else clock.to_rfc3339(hint.until_seconds),
        "thresholds_ignored": _ignored(candidates, facts, at) or None,
        "conditions": known.conditions if known is not None else (),
    }


def _pool(candidates: Candidates, at: int) -> str | None:
    """Returns the name of the node's pool, None without one."""
    place = candidates.place(at)
    return None if place == node_pools.NO_POOL else candidates.in_force.policy.pools[place].name


def _ignored(candidates: Candidates, facts: Facts | None, at: int) -> str:
    """Returns the node's own thresholds that are not in force and why; "" when all are or it is no longer known."""
    known = None if facts is None else facts.get(candidates.names[at])
    return "" if known is None or known.own is None else known.own.ignored(candidates.in_force.metric_names)


def _age_seconds(candidates: Candidates, at: int) -> float | None:
    effective = float(candidates.loads.effective_seconds[candidates.rows[at]])
    return None if math.isnan(effective) else round(candidates.now_seconds - effective, 3)


def _readings(candidates: Candidates, facts: Facts | None, at: int, text: str) -> tuple[Json, Json]:
    values: Json = {}
    unusable: Json = {}
    known = facts.get(candidates.names[at]) if facts is not None else None
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
    return [
        documents.Rule(
            metric=rule.metric,
            limit=limits[place],
            own=_is_own(candidates, at, rule),
            pool=differs is not None and bool(differs[at, place]) and not _is_own(candidates, at, rule),
            pod_class=_is_class(candidates, rule) and not _is_own(candidates, at, rule),
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


def _is_class(candidates: Candidates, rule: filtering.Rule) -> bool:
    """True if the class of the pod has a threshold of the rule's metric."""
    pod_class = candidates.in_force.pod_class
    return pod_class is not None and rule.metric in pod_class.filter.thresholds


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
