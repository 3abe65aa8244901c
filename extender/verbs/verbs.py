"""The three verbs of kube-scheduler: protocol in, the policy's formulas, protocol out.

`app` decodes the request and sends the `Outcome` of `answer`; the decision in it goes to the ring and the metrics.
`verbs.explain` shows the same judgement with all its factors. Nothing here reads a clock or waits for anything.
"""

from typing import Final, NamedTuple

import numpy as np

from extender import deadline, protocol
from extender.state.candidates import AnyCandidates, Candidates
from extender.state.cluster_view import ClusterView
from extender.verbs import decided_pod, decision_log, documents, shadow_log
from kube import objects
from policy.contract import filter_opt_out, relief_hint
from policy.contract.owner_usage import Mean
from policy.rules import filtering, scoring
from policy.schema import node_pools

ALL_REJECTED: Final = "all_rejected"  # of an answer by `coolest`: a cause for which it is degraded
NEUTRAL_SCORE: Final = int(scoring.NEUTRAL_BASE)  # of every node in a late answer
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


def answer(verb: str, view: ClusterView, args: protocol.AnyArgs, now_seconds: float) -> Outcome:
    """Answer filter, prioritize or preempt. In shadow mode the reply prefers and rejects no node, and none is assumed;
    the decision is the one that enforcing would make, which asks prioritize about what filter passed.
    """
    candidates, mean = view.candidates(args.names, now_seconds, args.pod), view.mean(args.pod, now_seconds)
    if candidates.in_force.shadow:
        passed, judged = judge(candidates, args.pod)
        ranking = None
        if verb == "prioritize":
            judged, ranking = Judgement({}, None, candidates.degradations()), passed.ranking(args.pod, mean)
        record = in_shadow(verb, args.pod, mean, candidates, passed=passed, judged=judged, ranking=ranking)
        return Outcome(protocol.encode_neutral(verb, args, SHADOW_SCORE), *record)
    if isinstance(args, protocol.PreemptionArgs):
        return _preempt(args, candidates, mean)
    return (_filter if verb == "filter" else _prioritize)(view, args, candidates, mean)


def _filter(view: ClusterView, args: protocol.Args, candidates: Candidates, mean: Mean | None) -> Outcome:
    """A single node that passes is the winner: the scheduler ranks no single node."""
    left, judged = judge_nominated(view, candidates, args.pod)
    body = protocol.encode_filter(args, left.names, judged.rejected)
    winner = left.names[0] if len(left.names) == 1 else ""
    view.assume(args.pod, winner, candidates.now_seconds)
    return Outcome(body, decision("filter", candidates, args.pod, judged, assumed=winner, mean=mean))


def _prioritize(view: ClusterView, args: protocol.Args, candidates: Candidates, mean: Mean | None) -> Outcome:
    """The best node is assumed to win, so that the next pod of a burst sees it there: by the integers that
    kube-scheduler gets, the first where they are equal.
    """
    ranking = candidates.ranking(args.pod, mean)
    body = protocol.encode_scores(args.names, ranking.scores.tolist())
    winner = "" if ranking.neutral.all() else candidates.names[int(ranking.scores.argmax())]
    view.assume(args.pod, winner, candidates.now_seconds)
    judged = Judgement({}, None, candidates.degradations())
    noted = decision("prioritize", candidates, args.pod, judged, ranking=ranking, assumed=winner, mean=mean)
    return Outcome(body, noted)


def _preempt(args: protocol.PreemptionArgs, candidates: Candidates, mean: Mean | None) -> Outcome:
    """Nodes that filter would reject leave the map, because a dead victim does not cool a 5-minute average."""
    left, judged = judge(candidates, args.pod)
    body = protocol.encode_preemption({node: args.victims[node] for node in left.names})
    return Outcome(body, decision("preempt", candidates, args.pod, judged, mean=mean))


def neutral(verb: str, args: protocol.AnyArgs, policy_hash: str, now_seconds: float) -> Outcome:
    """Answer as a scheduler without the extender would decide, when the time for a request is over (`deadline`): by the
    request alone, without a view to wait for.
    """
    late = decision_log.Decision(
        verb=verb,
        at_seconds=now_seconds,
        namespace=args.pod.namespace,
        pod=args.pod.name,
        uid=args.pod.uid,
        candidates=len(args.names),
        passed=len(args.names),
        policy_hash=policy_hash,
        degraded=(deadline.CAUSE,),
    )
    return Outcome(protocol.encode_neutral(verb, args, NEUTRAL_SCORE), late)


def judge(candidates: Candidates, pod: objects.Pod) -> tuple[Candidates, Judgement]:
    """The candidates that a pod may go to, in the order asked, and why not to the others: exempt pods pass everywhere,
    relieved nodes refuse what left them, pods that opted out pass everywhere else, then the rules.
    """
    exempt = exemption(candidates, pod)
    if exempt is not None:
        return candidates, Judgement({}, exempt, ())
    asks_out = opted_out(candidates, pod)
    off_limits = relieved(candidates, pod)
    rejected = dict.fromkeys(off_limits, relief_hint.REASON)
    free = (
        candidates.only(np.array([name not in off_limits for name in candidates.names])) if off_limits else candidates
    )
    if asks_out is not None:
        return free, Judgement(rejected, asks_out, ())
    verdicts = free.verdicts()
    rejected.update([(free.names[at], reason) for at, reason in verdicts.refusals()])
    causes = candidates.degradations()
    degraded = (*causes, ALL_REJECTED) if verdicts.kept_coolest else causes
    return free.only(verdicts.allowed), Judgement(rejected, None, degraded)


def judge_nominated(view: ClusterView, candidates: Candidates, pod: objects.Pod) -> tuple[Candidates, Judgement]:
    """`judge` for filter: a hot nominated node, which kube-scheduler asks about alone before all others, is refused
    once, unless it is among those that `coolest` would keep of all nodes.
    """
    left, judged = judge(candidates, pod)
    if candidates.names == (pod.nominated_node,) and ALL_REJECTED in judged.degraded:
        every = view.candidates(tuple(view.nodes.loads().index), candidates.now_seconds, pod)
        passing = every.only(every.verdicts().allowed).names
        if pod.nominated_node not in passing and view.nominated.refuse(pod.uid):
            verdicts = candidates.verdicts(each_alone=True)
            rejected = {candidates.names[at]: reason for at, reason in verdicts.refusals()}
            return candidates.only(verdicts.allowed), Judgement(rejected, None, candidates.degradations())
    elif pod.nominated_node:
        view.nominated.forget(pod.uid)
    return left, judged


def exemption(candidates: Candidates, pod: objects.Pod) -> str | None:
    """Why the policy lets this pod pass everywhere, or None."""
    rule = candidates.in_force.policy.filter.exempt
    return filtering.exempt(rule, is_daemon_set=pod.is_daemonset, namespace=pod.namespace, priority=pod.priority)


def opted_out(candidates: Candidates, pod: objects.Pod) -> str | None:
    """Why the policy leaves the thresholds out for this pod, which asks for it; or None."""
    return filter_opt_out.exempt(candidates.in_force.policy.filter.exempt.opt_out, pod.annotations, pod.namespace)


def relieved(candidates: Candidates, pod: objects.Pod) -> frozenset[str]:
    """The candidates that were relieved of this pod's workload a moment ago and are not yet cool."""
    owner, reliefs = pod.owner, candidates.loads.reliefs
    if owner is None or not reliefs:
        return frozenset()
    # Mostly none: hints stay on nodes when they are over.
    about_pod = [row for row, hint in reliefs.items() if hint.holds(owner.uid, candidates.now_seconds)]
    places = np.flatnonzero(np.isin(candidates.rows, about_pod)).tolist() if about_pod else ()
    return frozenset(candidates.names[at] for at in places if not is_cool(candidates, at))


def is_cool(candidates: Candidates, at: int) -> bool:
    """Whether one candidate is at or under every target line of its own."""
    policy, place = candidates.in_force.policy, candidates.place(at)
    policy = policy if place == node_pools.NO_POOL else policy.of_pools[place]
    values = zip(candidates.in_force.metric_names, candidates.values[at].tolist(), strict=True)
    usable = {name: value for name, value in values if value == value}
    return relief_hint.is_relieved(usable, policy.descheduler.thresholds)


def ranked(candidates: AnyCandidates, ranking: scoring.Ranking) -> tuple[documents.RankedNode, ...]:
    """The best candidates, first by their score before rounding, then in the order asked."""
    raw = ranking.raw
    best = np.arange(len(raw))
    if len(raw) > decision_log.BEST_KEPT:  # sorting thousands for the sake of five costs more than judging them
        best = np.flatnonzero(raw >= np.partition(raw, -decision_log.BEST_KEPT)[-decision_log.BEST_KEPT])
    order = best[np.argsort(-raw[best], kind="stable")][: decision_log.BEST_KEPT].tolist()
    return tuple(
        documents.RankedNode(
            candidates.name(at), int(ranking.scores[at]), float(ranking.base[at]), float(ranking.penalty[at])
        )
        for at in order
    )


def _tied(candidates: AnyCandidates, ranking: scoring.Ranking) -> bytes:
    """Returns a bit for each row of the cluster's nodes: set where the score is the best."""
    marks = np.zeros(len(candidates.every.loads.names), dtype=np.bool_)
    marks[candidates.rows[ranking.scores == ranking.scores.max(initial=0)]] = True
    return np.packbits(marks).tobytes()


def in_shadow(
    verb: str,
    pod: objects.Pod,
    mean: Mean | None,
    candidates: AnyCandidates,
    *,
    passed: AnyCandidates,
    judged: Judgement,
    ranking: scoring.Ranking | None,
) -> tuple[decision_log.Decision, shadow_log.PodVerdicts | None]:
    """Returns the decision of shadow mode, and the verdicts on all candidates if this is the last question about the
    pod: about `ranking`, or about one node. The nodes that are ranked are those that `passed`.
    """
    noted = decision(verb, candidates if ranking is None else passed, pod, judged, ranking=ranking, mean=mean)
    if ranking is None and (verb != "filter" or len(candidates.rows) != 1):
        return noted, None
    every, rows = candidates.every, candidates.rows
    verdicts = shadow_log.PodVerdicts.of(
        pod.uid, every.now_seconds, every.loads, rows, passed=passed.rows, ranking=ranking
    )
    return noted, verdicts


def decision(
    verb: str,
    rows: AnyCandidates,
    pod: objects.Pod,
    judged: Judgement,
    *,
    ranking: scoring.Ranking | None = None,
    assumed: str = "",
    mean: Mean | None = None,
) -> decision_log.Decision:
    """Returns the stored part of an answer."""
    every = rows.every
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
        best=() if ranking is None else ranked(rows, ranking),
        assumed=assumed,
        shadow=every.in_force.shadow,
        pod_class=every.in_force.class_name,
        inputs=decision_log.Inputs(rows, decided_pod.slim(pod), judged.rejected, mean=mean),
        tied=b"" if ranking is None else _tied(rows, ranking),
    )
