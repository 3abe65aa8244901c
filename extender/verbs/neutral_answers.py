"""Answers that say nothing about any node: as a scheduler without the extender would decide.

`app` gives them when the time for a request is over (`deadline`). They need the request alone: no view, no lock, no
placement is assumed. The decision says why it is degraded.
"""

from typing import Final

from extender import deadline, protocol
from extender.verbs import decision_log, verbs
from kube import objects
from policy.rules import scoring

SCORE: Final = int(scoring.NEUTRAL_BASE)


def filter_nodes(args: protocol.Args, policy_hash: str, now_seconds: float) -> verbs.Outcome:
    """All names pass."""
    body = protocol.encode_filter(args, args.names, {})
    return verbs.Outcome(body, _decision("filter", args.pod, len(args.names), policy_hash, now_seconds=now_seconds))


def prioritize(args: protocol.Args, policy_hash: str, now_seconds: float) -> verbs.Outcome:
    """All names score the same."""
    body = protocol.encode_scores(args.names, [SCORE] * len(args.names))
    return verbs.Outcome(body, _decision("prioritize", args.pod, len(args.names), policy_hash, now_seconds=now_seconds))


def preempt(args: protocol.PreemptionArgs, policy_hash: str, now_seconds: float) -> verbs.Outcome:
    """The victims as they came."""
    body = protocol.encode_preemption(args.victims)
    return verbs.Outcome(body, _decision("preempt", args.pod, len(args.victims), policy_hash, now_seconds=now_seconds))


def _decision(
    verb: str, pod: objects.Pod, candidates: int, policy_hash: str, *, now_seconds: float
) -> decision_log.Decision:
    return decision_log.Decision(
        verb=verb,
        at_seconds=now_seconds,
        namespace=pod.namespace,
        pod=pod.name,
        uid=pod.uid,
        candidates=candidates,
        passed=candidates,
        policy_hash=policy_hash,
        degraded=(deadline.CAUSE,),
    )
