"""The three verbs of kube-scheduler: protocol in, the policy's formulas, protocol out.

`app` decodes the request and sends the `Outcome`; the decision in it goes to the ring and the metrics. `verbs.explain`
shows the same judgement with all its factors. Nothing here reads a clock or waits for anything.
"""

import collections.abc
from typing import Final, NamedTuple

import numpy as np

from extender import protocol
from extender.state import cluster_view, node_cache
from extender.verbs import decision_log, shadow_log
from kube import objects
from policy.contract import filter_opt_out, owner_usage, relief_hint
from policy.rules import filtering, scoring
from policy.schema import node_pools

ALL_REJECTED: Final = "all_rejected"  # of an answer by `coolest`: a cause for which it is degraded
SHADOW_SCORE: Final = 0  # of every node: kube-scheduler's own scores decide


class Outcome(NamedTuple):
    """The body of the reply and the decision to remember; in shadow mode the verdicts, if this is the last question."""

    body: bytes
    decision: decision_log.Decision
    shadow: shadow_log.PodVerdicts | None = None


class Judgement(NamedTuple):
    """Why a pod may not go to some of the candidates: the reason of each of them; or why it is exempt; and why this is
    degraded.
    """

    rejected: dict[str, str]
    exempt: str | None
    degraded: tuple[str, ...]


def filter_nodes(view: cluster_view.ClusterView, args: protocol.Args, now_seconds: float) -> Outcome:
    """POST /filter. A single node that passes is the winner: the scheduler ranks no single node."""
    candidates = candidates_for(view, args.pod, args.names, now_seconds)
    mean = view.mean(args.pod, now_seconds)
    if candidates.in_force.shadow:
        left, judged = judge(candidates, args.pod)
        body = protocol.encode_filter(args, args.names, {})
        verdicts = shadow_verdicts(candidates, args.pod, left.rows) if len(args.names) == 1 else None
        return Outcome(body, decision("filter", candidates, args.pod, judged, mean=mean), verdicts)
    left, judged = judge_nominated(view, candidates, args.pod)
    winner = left.names[0] if len(left.names) == 1 else ""
    view.assume(args.pod, winner, now_seconds)
    body = protocol.encode_filter(args, left.names, judged.rejected)
    return Outcome(body, decision("filter", candidates, args.pod, judged, assumed=winner, mean=mean))


def prioritize(view: cluster_view.ClusterView, args: protocol.Args, now_seconds: float) -> Outcome:
    """POST /prioritize. The best node is assumed to win, so that the next pod of a burst sees it there: by the integers
    that kube-scheduler gets, the first where they are equal.
    """
    candidates = candidates_for(view, args.pod, args.names, now_seconds)
    mean = view.mean(args.pod, now_seconds)
    if candidates.in_force.shadow:
        return _shadow_prioritize(candidates, args, mean)
    ranking = rank(candidates, args.pod, mean)
    best = ranked(candidates.names.__getitem__, ranking)
    winner = "" if ranking.neutral.all() else candidates.names[int(ranking.scores.argmax())]
    view.assume(args.pod, winner, now_seconds)
    judged = Judgement({}, None, candidates.degradations())
    body = protocol.encode_scores(args.names, ranking.scores.tolist())
    return Outcome(body, decision("prioritize", candidates, args.pod, judged, best=best, assumed=winner, mean=mean))


def _shadow_prioritize(
    candidates: cluster_view.Candidates, args: protocol.Args, mean: owner_usage.Mean | None
) -> Outcome:
    """In shadow mode the nodes that the filter rejected are asked about, too: they are left out before ranking."""
    left, _ = judge(candidates, args.pod)
    ranking = rank(left, args.pod, mean)
    best = ranked(left.names.__getitem__, ranking)
    body = protocol.encode_scores(args.names, [SHADOW_SCORE] * len(args.names))
    found = decision("prioritize", left, args.pod, Judgement({}, None, candidates.degradations()), best=best, mean=mean)
    return Outcome(body, found, shadow_verdicts(candidates, args.pod, left.rows, ranking))


def preempt(view: cluster_view.ClusterView, args: protocol.PreemptionArgs, now_seconds: float) -> Outcome:
    """POST /preempt: nodes that filter would reject leave the map, because a dead victim does not cool a 5-minute
    average.
    """
    candidates = candidates_for(view, args.pod, tuple(args.victims), now_seconds)
    left, judged = judge(candidates, args.pod)
    passed = candidates.names if candidates.in_force.shadow else left.names
    body = protocol.encode_preemption({node: args.victims[node] for node in passed})
    return Outcome(body, decision("preempt", candidates, args.pod, judged, mean=view.mean(args.pod, now_seconds)))


def candidates_for(
    view: cluster_view.ClusterView, pod: objects.Pod, names: tuple[str, ...], now_seconds: float
) -> cluster_view.Candidates:
    """The nodes as they stand now without the pod, under the policy of its class."""
    every = view.candidates(names, now_seconds, besides=pod.uid)
    in_force = every.in_force.for_pod(pod)
    return every if in_force is every.in_force else every._replace(in_force=in_force)


def judge(candidates: cluster_view.Candidates, pod: objects.Pod) -> tuple[cluster_view.Candidates, Judgement]:
    """The candidates that a pod may go to, in the order asked, and why not to the others: exempt pods pass everywhere,
    relieved nodes refuse what left them, pods that opted out pass everywhere else, then the rules.
    """
    exempt = exemption(candidates, pod)
    if exempt is not None:
        return candidates, Judgement({}, exempt, ())
    asks_out = opted_out(candidates, pod)
    held = relieved(candidates, pod)
    rejected = dict.fromkeys(held, relief_hint.REASON)
    free = candidates.only(np.array([name not in held for name in candidates.names])) if held else candidates
    if asks_out is not None:
        return free, Judgement(rejected, asks_out, ())
    verdicts = free.verdicts()
    rejected.update([(free.names[at], reason) for at, reason in verdicts.refusals()])
    causes = candidates.degradations()
    degraded = (*causes, ALL_REJECTED) if verdicts.kept_coolest else causes
    return free.only(verdicts.allowed), Judgement(rejected, None, degraded)


def judge_nominated(
    view: cluster_view.ClusterView, candidates: cluster_view.Candidates, pod: objects.Pod
) -> tuple[cluster_view.Candidates, Judgement]:
    """`judge` for filter: a hot nominated node, which kube-scheduler asks about alone before all others, is refused
    once, unless it is among those that `coolest` would keep of all nodes.
    """
    left, judged = judge(candidates, pod)
    if candidates.names == (pod.nominated_node,) and ALL_REJECTED in judged.degraded:
        every = candidates_for(view, pod, tuple(view.nodes.loads().index), candidates.now_seconds)
        passing = every.only(every.verdicts().allowed).names
        if pod.nominated_node not in passing and view.nominated.refuse(pod.uid):
            verdicts = candidates.verdicts(each_alone=True)
            rejected = {candidates.names[at]: reason for at, reason in verdicts.refusals()}
            return candidates.only(verdicts.allowed), Judgement(rejected, None, candidates.degradations())
    elif pod.nominated_node:
        view.nominated.forget(pod.uid)
    return left, judged


def exemption(candidates: cluster_view.Candidates, pod: objects.Pod) -> str | None:
    """Why the policy lets this pod pass everywhere, or None."""
    rule = candidates.in_force.policy.filter.exempt
    return filtering.exempt(rule, is_daemon_set=pod.is_daemonset, namespace=pod.namespace, priority=pod.priority)


def opted_out(candidates: cluster_view.Candidates, pod: objects.Pod) -> str | None:
    """Why the policy leaves the thresholds out for this pod, which asks for it; or None."""
    return filter_opt_out.exempt(candidates.in_force.policy.filter.exempt.opt_out, pod.annotations, pod.namespace)


def relieved(candidates: cluster_view.Candidates, pod: objects.Pod) -> frozenset[str]:
    """The candidates that were relieved of this pod's workload a moment ago and are not yet cool."""
    owner, reliefs = pod.owner, candidates.loads.reliefs
    if owner is None or not reliefs:
        return frozenset()
    about_pod = [row for row, hint in reliefs.items() if holds(hint, owner.uid, candidates)]  # mostly none
    places = np.flatnonzero(np.isin(candidates.rows, about_pod)).tolist() if about_pod else ()
    return frozenset(candidates.names[at] for at in places if not is_cool(candidates, at))


def holds(hint: relief_hint.Relief, owner_uid: str, candidates: cluster_view.Candidates) -> bool:
    """Whether a hint is about the workload and not over; hints stay on nodes when they are."""
    return relief_hint.rejects(hint, owner_uid, candidates.now_seconds, relieved=False)


def is_cool(candidates: cluster_view.Candidates, at: int) -> bool:
    """Whether one candidate is at or under every target line of its own."""
    policy, place = candidates.in_force.policy, candidates.place(at)
    policy = policy if place == node_pools.NO_POOL else policy.of_pools[place]
    section = policy.descheduler
    return relief_hint.is_relieved(usable_values(candidates, at), section.thresholds)


def usable_values(candidates: cluster_view.Candidates, at: int) -> dict[str, float]:
    """The usable readings of one candidate by metric name."""
    values = zip(candidates.in_force.metric_names, candidates.values[at].tolist(), strict=True)
    return {name: value for name, value in values if value == value}


def score(
    candidates: cluster_view.Candidates, pod: objects.Pod | None, mean: owner_usage.Mean | None = None
) -> scoring.Breakdown:
    """Every factor of the candidates' scores for a pod; without one, as any pod would find them.

    `mean` is what the replicas of its owner are known to use.
    """
    incoming = None if pod is None else candidates.incoming(pod, mean)
    return scoring.scores(
        candidates.values,
        candidates.expected,
        candidates.penalty,
        candidates.in_force.weighing,
        incoming=incoming,
        places=candidates.score_places,
    )


def rank(
    candidates: cluster_view.Candidates, pod: objects.Pod, mean: owner_usage.Mean | None = None
) -> scoring.Ranking:
    """The ranking of `score` without the factors behind it."""
    return scoring.ranking(
        candidates.values,
        candidates.expected,
        candidates.penalty,
        candidates.in_force.weighing,
        incoming=candidates.incoming(pod, mean),
        places=candidates.score_places,
    )


def ranked(
    name_of: collections.abc.Callable[[int], str], ranking: scoring.Ranking
) -> tuple[decision_log.RankedNode, ...]:
    """The best candidates, first by their score before rounding, then in the order asked."""
    raw = ranking.raw
    best = np.arange(len(raw))
    if len(raw) > decision_log.BEST_KEPT:  # sorting thousands for the sake of five costs more than judging them
        best = np.flatnonzero(raw >= np.partition(raw, -decision_log.BEST_KEPT)[-decision_log.BEST_KEPT])
    order = best[np.argsort(-raw[best], kind="stable")][: decision_log.BEST_KEPT].tolist()
    return tuple(
        decision_log.RankedNode(
            name_of(at), int(ranking.scores[at]), float(ranking.base[at]), float(ranking.penalty[at])
        )
        for at in order
    )


def shadow_verdicts(
    rows: cluster_view.Candidates | cluster_view.CandidateRows,
    pod: objects.Pod,
    passed: node_cache.Rows,
    ranking: scoring.Ranking | None = None,
) -> shadow_log.PodVerdicts:
    """Returns the verdicts on all candidates, of which the rows `passed` were not rejected."""
    every = rows if isinstance(rows, cluster_view.Candidates) else rows.standing
    return shadow_log.PodVerdicts.of(pod.uid, every.now_seconds, every.loads, rows.rows, passed=passed, ranking=ranking)


def decision(
    verb: str,
    rows: cluster_view.Candidates | cluster_view.CandidateRows,
    pod: objects.Pod,
    judged: Judgement,
    *,
    best: tuple[decision_log.RankedNode, ...] = (),
    assumed: str = "",
    mean: owner_usage.Mean | None = None,
) -> decision_log.Decision:
    """Returns the stored part of an answer."""
    every = rows if isinstance(rows, cluster_view.Candidates) else rows.standing
    return decision_log.Decision(
        verb=verb,
        at_seconds=every.now_seconds,
        namespace=pod.namespace,
        pod=pod.name,
        uid=pod.uid,
        candidates=len(rows.rows),
        passed=len(rows.rows) - len(judged.rejected),
        policy_hash=every.in_force.content_hash,
        exempt=judged.exempt,
        rejected=decision_log.histogram(judged.rejected.values()) if judged.rejected else {},
        degraded=judged.degraded,
        best=best,
        assumed=assumed,
        shadow=every.in_force.shadow,
        pod_class=every.in_force.class_name,
        inputs=decision_log.Inputs.of(rows, pod, judged.rejected, mean),
    )
