"""Carries surges on: a replica more, the wait for another pod, and the replicas as before once the old pod has left.

`service.py` begins those of a plan after its evictions, and carries all open ones on in every run; the eviction itself
is `eviction.evictor`'s. `next_step` is the pure part, so that the next leader goes on, or undoes, wherever a process
ended. A state is in the ledger before its patch is sent, and a patch names the resourceVersion of the scale: where
another client wrote that meanwhile it is a Conflict: it is read again at once, after a second one in the next run.
"""

import collections.abc
import dataclasses
import math
from typing import Any, Final

from descheduler.eviction import eviction_events
from descheduler.eviction.eviction_events import EventPublisher
from descheduler.eviction.evictor import Evictor, ExecutionContext
from descheduler.eviction.followup import ANSWER_SECONDS
from descheduler.ledger import rows
from descheduler.ledger.ledger import Ledger
from descheduler.planning.plans import EvictionPlan
from descheduler.surges import ABANDONED, FAILED, FINISHED, SCALING_DOWN, SCALING_UP, UNDONE, WAITING, Surge
from kube import errors, kinds
from kube.door import ScalesDoor
from kube.events import Reason
from kube.objects import Pod, Scale
from policy.schema.load_policy import LoadPolicy
from runtime import logs
from runtime.clock import Clock

log = logs.get(__name__)
Names = collections.abc.Collection[str]

OURS: Final = "evenload"  # the field manager of `kube.http.client`
REASONS: Final = {
    WAITING: Reason.SURGE_STARTED,
    FINISHED: Reason.SURGE_FINISHED,
    UNDONE: Reason.SURGE_UNDONE,
    ABANDONED: Reason.SURGE_ABANDONED,
}
RESULTS: Final = {state: reason.removeprefix("Surge").lower() for state, reason in REASONS.items()}


def next_step(
    surge: Surge,
    replicas: int | None,
    *,
    writers: Names = (),
    eviction: str = "",
    stands: bool = True,
    new_nodes: Names = (),
    why_undone: str = "",
    now_seconds: float,
) -> Surge:
    """Returns an open surge in its next state; in SCALING_DOWN the replicas are to be put back.

    `replicas` are those wanted now (None: there is no such Deployment), `writers` the managers of that field but
    Evenload, `eviction` the ledger's result, `new_nodes` where the new pods are; the old one `stands` or not.
    """
    if replicas is None:
        return surge._replace(state=ABANDONED, message="its Deployment has gone")
    if replicas == surge.replicas and surge.state == SCALING_DOWN:
        return surge._replace(state=FINISHED if eviction in rows.DONE else UNDONE)
    if replicas == surge.replicas and surge.state == SCALING_UP:  # a request may outlive its sender
        asked_lately = 0 <= now_seconds - surge.changed_at_seconds < ANSWER_SECONDS
        return surge if asked_lately else surge._replace(state=UNDONE, message="it did not get a replica more")
    if replicas != surge.replicas + 1 or writers:
        return surge._replace(state=ABANDONED, message=f"{', '.join(writers) or 'somebody'} set {replicas} replicas")
    if surge.state == SCALING_DOWN:
        return surge
    if eviction in rows.DONE or not stands:
        return surge._replace(state=SCALING_DOWN, message=f"{surge.pod} has left")
    if eviction in rows.OPEN:  # it may still take place, and the other pod is needed then
        return surge._replace(state=WAITING)
    if not why_undone and new_nodes and set(new_nodes) == {surge.node}:
        why_undone = f"the new pod is on {surge.node}, too"
    return surge._replace(state=SCALING_DOWN if why_undone else WAITING, message=why_undone)


def why_undone(surge: Surge, policy: LoadPolicy, now_seconds: float, enforced: Names | None) -> str:
    """Why a surge ends without an eviction, "" if it goes on; `enforced` are the nodes to be relieved, where known."""
    section = policy.descheduler
    if section.paused or not section.surge.enabled:
        return "the policy pauses" if section.paused else "the policy has surges off"
    if not 0 <= now_seconds - surge.at_seconds < section.surge.ready_within_seconds:
        return f"the pod could not leave within {section.surge.ready_within_seconds:g} s (surge.readyWithin)"
    return "" if enforced is None or surge.node in enforced else f"{surge.node} is not to be relieved any more"


@dataclasses.dataclass
class Surges:
    """The doors of surges, and whether some are open; used by the thread that runs."""

    door: ScalesDoor
    ledger: Ledger
    announcer: EventPublisher
    clock: Clock
    counter: collections.abc.Callable[[str], Any]  # of a result
    leads: bool = True  # else another process carries them on
    are_open: bool = False
    early: bool = False  # the run comes for an open surge, before the interval is over
    _next_at_seconds: float = 0.0  # when it is, by the monotonic clock

    def begin_run(self, began: float, interval_seconds: float) -> None:
        """Notes a run: one that is not early begins an interval, for which the caps of a run hold."""
        self.early = self.are_open and began < self._next_at_seconds
        self._next_at_seconds = self._next_at_seconds if self.early else began + interval_seconds

    def begin(self, plan: EvictionPlan, terms: ExecutionContext, evicter: Evictor) -> None:
        """Begins the surges of a plan, each after a last look; Observe records them, DryRun asks with dryRun=All."""
        for eviction in plan.surges:
            if not terms.may_go_on(0.0):
                return
            evicter.hint(eviction, terms)
            look = terms.look(eviction)
            if not isinstance(look, str):
                log.info("surge not begun", pod=eviction.pod.key, message=look.message, run=terms.run.run)
            elif surge := self.ledger.begin_surge(terms.run, eviction, at_seconds=self.clock.now()):
                self._scale_up(surge)

    def carry_on(
        self, pods: collections.abc.Collection[Pod], policy: LoadPolicy, enforced: Names | None = None
    ) -> None:
        """Takes each open surge a step on; with an apiserver that does not answer the next run does."""
        surges = self.ledger.surges(math.inf) if self.leads else ()
        self.are_open = bool(surges)
        for surge in surges:
            try:
                self._carry(surge, pods, why_undone(surge, policy, self.clock.now(), enforced))
            except errors.KubeError as error:
                log.warning("surge not carried on", workload=surge.workload, state=surge.state, error=str(error))

    def _carry(self, surge: Surge, pods: collections.abc.Collection[Pod], why: str) -> None:
        scale, before = self._scale(surge), surge.state
        scalers = scale.metadata.scalers if scale is not None else ()
        known = self.ledger.rows(rows.Query(namespace=surge.namespace, pod=surge.pod, since_seconds=surge.at_seconds))
        eviction = next((row.result for row in known if row.pod_uid == surge.pod_uid), "")
        surge = next_step(
            surge,
            scale.spec.replicas if scale is not None else None,
            writers=[one.manager for one in scalers if one.manager != OURS],
            eviction=eviction,
            stands=any(pod.uid == surge.pod_uid and not (pod.deleting or pod.finished) for pod in pods),
            new_nodes=[pod.node_name for pod in surge.new_pods(pods)],
            why_undone=why,
            now_seconds=self.clock.now(),
        )
        if surge.state != before:
            surge = self._put(surge)
        if scale is None or surge.state != SCALING_DOWN:
            return
        try:
            self._patch(surge, scale, surge.replicas)
        except errors.KubeError as error:
            if not isinstance(error, errors.Conflict) and str(error) != surge.message:  # an Event for each reason
                self._put(surge._replace(message=str(error)), Reason.SURGE_STUCK)
        else:
            self._put(surge._replace(state=FINISHED if eviction in rows.DONE else UNDONE))

    def _scale_up(self, surge: Surge) -> None:
        if surge.mode == "Observe":
            return
        try:
            scale = self._scale(surge)
            if scale is not None and scale.spec.replicas == surge.replicas:
                self._patch(surge, scale, surge.replicas + 1)
                message = f"{surge.replicas + 1} replicas until another pod is Ready on another node"
                surge = surge._replace(state=WAITING if surge.mode == "Enforce" else surge.mode, message=message)
            else:
                surge = surge._replace(state=FAILED, message="its replicas are not those of the plan")
        except (errors.ServerError, errors.Unreachable) as error:  # it may have been carried out: the next run looks
            log.warning("surge without an answer", workload=surge.workload, error=str(error))
        except errors.KubeError as error:
            surge = surge._replace(state=FAILED, message=str(error))
        self._put(surge)

    def _scale(self, surge: Surge) -> Scale | None:
        """Its Deployment, read as a scale with the owners of its replicas; None if that has gone."""
        name = surge.workload.partition("/")[2]
        try:
            scale = self.door.get(kinds.DEPLOYMENT_SCALES, name, namespace=surge.namespace)
        except errors.NotFound:
            return None
        return scale if scale.uid == surge.workload_uid else None

    def _patch(self, surge: Surge, scale: Scale, replicas: int, *, again: bool = True) -> None:
        """Sets the replicas, if they are those that were read: its controller may write a status meanwhile."""
        body = {"metadata": {"resourceVersion": scale.resource_version}, "spec": {"replicas": replicas}}
        kind, name, tries = kinds.DEPLOYMENTS, surge.workload.partition("/")[2], surge.mode != "Enforce"
        try:
            self.door.merge_patch(kind, name, body, namespace=surge.namespace, subresource="scale", dry_run=tries)
        except errors.Conflict:
            newer = self._scale(surge) if again else None
            if newer is None or newer.spec.replicas != scale.spec.replicas:
                raise
            self._patch(surge, newer, replicas, again=False)

    def _put(self, surge: Surge, reason: Reason | None = None) -> Surge:
        """Writes a new state, and says it with its reason, or another one where nothing could be done."""
        reason = reason or REASONS.get(surge.state)
        surge = surge._replace(changed_at_seconds=self.clock.now())
        self.ledger.put_surge(surge)
        log.info("surge", state=surge.state, workload=surge.workload, message=surge.message, run=surge.run)
        if reason is not None:
            self.announcer.post(eviction_events.surge(surge, reason))
        if surge.state in RESULTS:
            self.counter(RESULTS[surge.state]).inc()
        self.are_open = self.are_open or surge.state == WAITING
        return surge
