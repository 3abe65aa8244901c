"""Judge of the descheduler: the outcome of earlier evictions holds no relief of hot nodes back.

`gathering` asks with `ask`; any replica answers GET /plan, since they share the ledger.
"""

from collections.abc import Sequence

from cli import plan
from cli.common import http_client
from cli.common.services import DESCHEDULER, Service, behind
from cli.doctor import findings
from cli.doctor.facts import BlockedRelief, Facts, Means, Relief
from cli.doctor.findings import Finding
from descheduler.planning.verdicts import Cause
from kube import errors


def ask(means: Means, namespace: str) -> Relief | Finding:
    """Asks the descheduler for the relief it holds back at this moment; the Finding says why it could not be asked."""
    try:
        replicas: Sequence[Service] = means.deschedulers or behind(means.kube, DESCHEDULER, namespace)
    except errors.KubeError as error:
        return findings.unknown(f"the descheduler could not be looked for: {error}", "--descheduler URL")
    unanswered = ""
    for one in replicas:
        try:
            answer = http_client.decoded(one.get("/plan"), plan.Plan, one.name, DESCHEDULER)
        except http_client.BadUrl:
            raise
        except http_client.HttpError as error:
            unanswered = f"{one.name} gives no plan: {error}"
            continue
        return Relief(one.name, answer.summary, _held_back(answer))
    if unanswered:
        return findings.unknown(unanswered, "evenload plan says more; its /readyz?verbose names the cause")
    return Relief("", f"no descheduler behind Service {namespace}/{DESCHEDULER.in_cluster}: nothing is evicted")


def _held_back(answer: plan.Plan) -> tuple[BlockedRelief, ...]:
    """By node the first verdict that says what earlier evictions came to; nothing where the run evicts all the same."""
    causes = {str(Cause.LOAD_NOT_FALLING)} | (set() if answer.evictions else {str(Cause.UNREPLACED)})
    firsts = ((node, next((one for one in node.candidates if one.verdict in causes), None)) for node in answer.nodes)
    return tuple(BlockedRelief(node.node, one.verdict, one.detail) for node, one in firsts if one is not None)


def effective(facts: Facts) -> Finding:
    """Evictions lower the load of nodes, and evicted pods are replaced."""
    if isinstance(facts.relief, Finding):
        return facts.relief
    resting = [one for one in facts.relief.held_back if one.verdict == Cause.LOAD_NOT_FALLING]
    waiting = [one for one in facts.relief.held_back if one.verdict == Cause.UNREPLACED]
    problems = []
    if resting:
        text = findings.few(f"{one.node}: {one.detail}" for one in resting)
        fix = f"what else runs on it? kubectl debug node/{resting[0].node}, steal time, the kernel; not its pods"
        problems.append(findings.warn(text, fix))
    if waiting:
        fix = "why are they not Ready? evenload evictions --since 1d; docs/runbooks/EvenloadEvictionsUnreplaced.md"
        problems.append(findings.warn(f"nothing leaves {waiting[0].node}: {waiting[0].detail}", fix))
    text = f"{facts.relief.name}: {facts.relief.summary}" if facts.relief.name else facts.relief.summary
    return findings.worst(problems or [findings.ok(text)])
