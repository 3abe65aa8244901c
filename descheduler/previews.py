"""Plans and breakers on demand: what a run would do at this moment, without doing or recording it.

`http.app` asks for GET /plan and GET /breaker, in any thread; `service.py` decides as it does in a run.
"""

import threading

from descheduler.ledger.rows import Query, Run
from descheduler.planning import breakers
from descheduler.planning.breakers import Breaker
from descheduler.planning.plans import EvictionPlan
from descheduler.run_report import Report
from descheduler.service import Service
from promql.errors import Partial

REPEAT_SECONDS = 2.0  # the same plan for all who ask within this time


class Previews:
    """The plans that a service would carry out, and the breakers that it would obey."""

    def __init__(self, service: Service) -> None:
        self._service, self._parts = service, service.parts
        self._lock = threading.Lock()
        self._last: tuple[float, str, Report] | None = None  # when asked (monotonic), policy, answer

    def plan(self) -> Report:
        """Plans a run at this moment. Raises the errors of the doors.

        A plan costs queries, so those who ask at the same time, or again within moments, get the same one.
        """
        parts = self._parts
        with self._lock:
            asked_at, name = parts.clock.monotonic(), parts.policy.content_hash
            if self._last is None or self._last[1] != name or asked_at - self._last[0] >= REPEAT_SECONDS:
                self._last = (asked_at, name, self._plan())
            return self._last[2]

    def _plan(self) -> Report:
        """The plan; where Prometheus answers in part, one that does nothing and says so."""
        service, rules, now_seconds = self._service, self._service.rules(), self._parts.clock.now()
        try:
            return service.decided(service.run_input(rules, self._parts.reader.view(), now_seconds))
        except Partial as problem:
            permissions = service.permissions(rules.policy, now_seconds)
            mode = permissions.strongest
            plan = EvictionPlan(now_seconds, blocked=f"the data is not whole: {problem}")
            run = Run("", now_seconds, mode, rules.name)
            return Report(run, permissions.why(mode), plan, partial=True, permissions=permissions)

    def breakers(self) -> tuple[Breaker, ...]:
        """The workloads whose evictions failed in the mode of this moment, the strongest of all pools. Raises
        LedgerError.
        """
        parts, policy, now_seconds = self._parts, self._parts.policy.current, self._parts.clock.now()
        mode = self._service.permissions(policy, now_seconds).strongest
        history = parts.ledger.history(mode, now_seconds=now_seconds, window_seconds=0.0)
        return breakers.standing(history.failures, self._named, policy.descheduler, now_seconds=now_seconds)

    def _named(self, workload_uid: str) -> tuple[str, str]:
        row = next(iter(self._parts.ledger.rows(Query(workload=workload_uid, limit=1))), None)
        return (row.namespace, row.workload or f"Pod/{row.pod}") if row is not None else ("", "")
