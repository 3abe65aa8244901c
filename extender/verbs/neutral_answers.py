"""Answers that say nothing about any node: as a scheduler without the extender would decide.

`app` gives them when the time for a request is over (`deadline`). They need the request alone: no view, no lock, no
placement is assumed. The decision says why it is degraded.
"""

from typing import Final

from extender import deadline, protocol
from extender.verbs import decision_log, verbs
from policy.rules import scoring

SCORE: Final = int(scoring.NEUTRAL_BASE)


def answer(verb: str, args: protocol.AnyArgs, policy_hash: str, now_seconds: float) -> verbs.Outcome:
    """All nodes pass, score the same, and keep their victims."""
    decision = decision_log.Decision(
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
    return verbs.Outcome(protocol.encode_neutral(verb, args, SCORE), decision)
