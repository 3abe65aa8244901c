"""Plans and breakers on demand: what a run would do at this moment, without doing or recording it.

`http.app` asks for GET /plan and GET /breaker, in any thread; `service.py` decides as it does in a run.
"""

import dataclasses
import threading

from descheduler.ledger.rows import Query, Run
from descheduler.planning import limits, protections
from descheduler.planning.limits import BreakerState
from descheduler.planning.plans import ConsideredPod, EvictionPlan, NodePlan
from descheduler.planning.verdicts import Cause, Verdict
from descheduler.run_journal import Report
from descheduler.service import RunInput, Service
from descheduler.snapshot import usage
from kube.objects import Node, Pod
from promql.errors import Partial

REPEAT_SECONDS = 2.0  # the same plan for all who ask within this time
Planned = tuple[Report, RunInput | None]  # None: Prometheus answered in part


class Previews:
    """The plans that a service would carry out, and the breakers that it would obey."""

    def __init__(self, service: Service) -> None:
        self._service, self._parts = service, service.parts
        self._lock = threading.Lock()
        self._last: tuple[float, str, Planned] | None = None  # when asked (monotonic), policy, answer

    def plan(self) -> Report:
        """Plans a run at this moment. Raises the errors of the doors."""
        return self._planned()[0]

    def pod(self, namespace: str, name: str) -> Report:
        """Plans as `plan`, with one pod and its node alone; where that is not overloaded or is left alone, the pod's
        protections are judged. No node is in it where no node has such a pod, or Prometheus answers in part.
        """
        report, inputs = self._planned()
        pods, nodes = ((), ()) if inputs is None else (inputs.taken.pods, inputs.taken.nodes)
        pod = next((one for one in pods if (one.namespace, one.name) == (namespace, name)), None)
        node = next((one for one in nodes if pod is not None and one.name == pod.node_name), None)
        if inputs is None or pod is None or node is None:
            return _with(report)
        known = ((part, one) for part in report.parts for one in part.plan.nodes if one.node is node)
        part, planned = next(known, (report, _calm(inputs, node)))
        judged = next((one for one in planned.candidates if one.pod is pod), None) or _protected(inputs, pod)
        return _with(part, dataclasses.replace(planned, candidates=(judged,)))

    def _planned(self) -> Planned:
        """A plan costs queries, so those who ask at the same time, or again within moments, get the same one."""
        parts = self._parts
        with self._lock:
            asked_at, name = parts.clock.monotonic(), parts.policy.content_hash
            if self._last is None or self._last[1] != name or asked_at - self._last[0] >= REPEAT_SECONDS:
                self._last = (asked_at, name, self._plan())
            return self._last[2]

    def _plan(self) -> Planned:
        """The plan; where Prometheus answers in part, one that does nothing and says so."""
        service, rules, now_seconds = self._service, self._service.rules(), self._parts.clock.now()
        try:
            inputs = service.run_input(rules, self._parts.reader.view(), now_seconds)
            bare = dataclasses.replace(inputs.taken)  # without what is cached of it: an answer may stay for long
            return service.decided(inputs), inputs._replace(taken=bare)
        except Partial as problem:
            permissions = service.permissions(rules.policy, now_seconds)
            mode = permissions.strongest
            plan = EvictionPlan(now_seconds, blocked=f"the data is not whole: {problem}")
            run = Run("", now_seconds, mode, rules.name)
            return Report(run, permissions.why(mode), plan, partial=True, permissions=permissions), None

    def breakers(self) -> tuple[BreakerState, ...]:
        """The workloads whose evictions failed in the mode of this moment, the strongest of all pools. Raises
        LedgerError.
        """
        parts, policy, now_seconds = self._parts, self._parts.policy.current, self._parts.clock.now()
        mode = self._service.permissions(policy, now_seconds).strongest
        history = parts.ledger.history(mode, now_seconds=now_seconds, window_seconds=0.0)
        return limits.breakers(history.failures, self._named, policy.descheduler, now_seconds=now_seconds)

    def _named(self, workload_uid: str) -> tuple[str, str]:
        row = next(iter(self._parts.ledger.rows(Query(workload=workload_uid, limit=1))), None)
        return (row.namespace, row.workload or f"Pod/{row.pod}") if row is not None else ("", "")


def _with(report: Report, *nodes: NodePlan) -> Report:
    return dataclasses.replace(report, plan=dataclasses.replace(report.plan, nodes=nodes, evictions=()), others=())


def _calm(inputs: RunInput, node: Node) -> NodePlan:
    """A node that is not overloaded, with its reading beside each line."""
    taken, policies = inputs.taken, inputs.policies
    ratios = usage.fresh_ratios(taken.node_usage.get(node.name), taken.at_seconds, policies.whole)
    lines = ((name, ratios.get(name), 100 * band.evict_above_ratio) for name, band in policies.bands(node.name).items())
    known = [f"{name} {100 * value:.1f}% of {line:g}%" for name, value, line in lines if value is not None]
    text = f"not overloaded: {', '.join(known) or 'no fresh reading'}"
    return NodePlan(node, (), {}, left_alone=text, pool=policies.pool_name(node.name))


def _protected(inputs: RunInput, pod: Pod) -> ConsideredPod:
    """The verdict of the protections on a pod that no plan considers."""
    case = protections.CandidateContexts(inputs.taken, inputs.policies.whole).of(pod, inputs.taken.at_seconds)
    verdict = protections.verdict(case) or Verdict(Cause.NOT_NEEDED)
    return ConsideredPod(pod, inputs.taken.workload_of(pod), verdict)
