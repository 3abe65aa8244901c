"""The last look at an eviction: pod, both nodes and the Lease, read again right before the eviction is asked for.

`service.py` makes a `LastLook` with the snapshot of a run, `eviction.evictor` calls it between intent and Eviction
call. A plan is seconds old by then, in a long run minutes: meanwhile a pod may have been protected, its node relieved
or cordoned, a destination may have become hot, another replica may lead. The apiserver itself is asked for the objects,
not the watches; what only many objects tell (replicas, claims) stays as the snapshot has it; budgets are counted by the
apiserver. The pod's resourceVersion goes along with the call, so that a change after the look is a 409.
"""

import collections.abc
import dataclasses
import functools
from typing import Final

from descheduler.eviction import api_results
from descheduler.eviction.api_results import EvictionResult
from descheduler.placement import destinations, open_nodes
from descheduler.planning import protections
from descheduler.planning.plans import Eviction
from descheduler.planning.verdicts import Cause, Verdict
from descheduler.snapshot import usage
from descheduler.snapshot.snapshot import Snapshot
from descheduler.snapshot.usage import NodeUsage, UsageSource
from kube import errors, kinds
from kube.door import KubeDoor
from kube.objects import Node, Pod
from policy.explain import wording
from policy.schema.load_policy import LoadPolicy
from promql.errors import PromqlError
from runtime.clock import Clock

REREAD_SECONDS: Final = 1.0  # a node's reading is of its last scrape, which is 10 s and more apart


@dataclasses.dataclass
class LastLook:
    """The doors to look through, what the plan was made of, and whether this run may still act."""

    door: KubeDoor
    source: UsageSource
    planned: Snapshot
    policy: LoadPolicy
    clock: Clock
    may_act: collections.abc.Callable[[], bool]
    _read: tuple[float, collections.abc.Mapping[str, NodeUsage]] | None = dataclasses.field(default=None, init=False)
    _hot: set[tuple[str, str]] = dataclasses.field(default_factory=set, init=False)  # groups that their node is hot for

    @functools.cached_property
    def _cases(self) -> protections.CandidateContexts:
        """Made at the first eviction: in most runs there is none."""
        return protections.CandidateContexts(self.planned, self.policy)

    def __call__(self, eviction: Eviction) -> EvictionResult | str:
        """Reads pod, nodes and Lease: the pod's resourceVersion, or why not to ask; nothing is raised."""
        try:
            pod = self.door.get(kinds.PODS, eviction.pod.name, namespace=eviction.pod.namespace)
        except errors.NotFound as error:
            return api_results.of_error(error)
        except errors.KubeError as error:
            return _unread("the pod", error)
        if pod.uid != eviction.pod.uid:
            return EvictionResult("replaced", None, f"another pod has its name now: uid {pod.uid}")
        try:
            verdict = self._protection(eviction, pod) or self._relieved(eviction) or self._destination(eviction, pod)
        except (PromqlError, errors.MetricsServerError) as error:
            return EvictionResult("not_done", None, f"the nodes could not be read again: {error}", stops=True)
        except errors.KubeError as error:
            return _unread("a node", error)
        if verdict is not None:
            return EvictionResult("not_done", None, str(verdict), verdict=verdict)
        if not self.may_act():
            return EvictionResult("not_done", None, "the run was ended before the call", stops=True)
        return pod.resource_version

    def _protection(self, eviction: Eviction, pod: Pod) -> Verdict | None:
        """The first protection that keeps the pod as it is now."""
        before = eviction.pod.owner.uid if eviction.pod.owner is not None else ""
        if (pod.owner.uid if pod.owner is not None else "") != before:
            return Verdict(Cause.UNKNOWN_OWNER, "it has another owner than in the plan")
        verdict, group = protections.verdict(self._cases.of(pod, self.clock.now())), self._cases.group(pod)
        for one in group.pods if verdict is None and group.restarts else ():  # its controller deletes all of them
            mate = self.door.get(kinds.PODS, one.name, namespace=one.namespace)
            if (why := protections.verdict(self._cases.of(mate, self.clock.now()))) is not None:
                return why._replace(detail=f"{why.detail} ({mate.name} of {group.name})")
        return None if eviction.surges and verdict is not None and verdict.cause in protections.FEW else verdict

    def _relieved(self, eviction: Eviction) -> Verdict | None:
        """Why the overloaded node needs no relief any more, or is to be left alone; asked once for a group, of which
        the rest does not stay because the node is relieved meanwhile. Raises KubeError, PromqlError.
        """
        name, metric, group = eviction.overload.node, eviction.overload.metric, (eviction.pod.namespace, eviction.group)
        if group in self._hot:
            return None
        try:
            node = self.door.get(kinds.NODES, name)
        except errors.NotFound:
            return Verdict(Cause.NOT_NEEDED, f"{name} has gone")
        if why := open_nodes.leaving(node) or ("" if node.ready else "it is not ready"):
            return Verdict(Cause.NOT_NEEDED, f"{name} is left alone: {why}")
        ratio = usage.fresh_ratios(self._usages().get(name), self.clock.now(), self.policy).get(metric)
        if ratio is None:
            return Verdict(Cause.NOT_NEEDED, f"{name} has no fresh {metric} any more")
        if not usage.over(ratio, eviction.overload.evict_until_ratio):
            figures = wording.compared(ratio, " <= ", eviction.overload.evict_until_ratio)
            return Verdict(Cause.NOT_NEEDED, f"{name} is relieved: {metric} {figures}")
        self._hot.update([group] if eviction.group else [])
        return None

    def _destination(self, eviction: Eviction, pod: Pod) -> Verdict | None:
        """Why the destination would not take the pod as both are at this moment. Raises KubeError and PromqlError."""
        name = eviction.destination
        if eviction.replacement is not None:
            return self._readiness(eviction.pod, eviction.replacement)
        try:
            node = self.door.get(kinds.NODES, name)
        except errors.NotFound:
            return Verdict(Cause.NO_DESTINATION, f"{name} has gone")
        if not open_nodes.open_to_pods(node):
            return Verdict(Cause.NO_DESTINATION, f"{name} takes no pods any more")
        if rule := open_nodes.why_not(node, pod):
            return Verdict(Cause.NO_DESTINATION, f"{name} does not take it any more: {rule}")
        return self._heat(eviction, node)

    def _readiness(self, old: Pod, replacement: Pod) -> Verdict | None:
        """Why the pod that was made first does not serve at this moment, or is not to stay. Raises KubeError."""
        surge = next(one for one in self.planned.open_surges.values() if one.pod_uid == old.uid)
        try:
            scale = self.door.get(kinds.DEPLOYMENT_SCALES, surge.workload.partition("/")[2], namespace=old.namespace)
            pod = self.door.get(kinds.PODS, replacement.name, namespace=replacement.namespace)
        except errors.NotFound:
            return Verdict(Cause.SURGE, f"{replacement.name} has gone")
        if scale.spec.replicas != surge.replicas + 1:
            return Verdict(Cause.SURGE, f"somebody set {scale.spec.replicas} replicas")
        serves = pod.uid == replacement.uid and pod.ready and not pod.deleting
        return None if serves else Verdict(Cause.SURGE, f"{replacement.name} is not Ready any more")

    def _usages(self) -> collections.abc.Mapping[str, NodeUsage]:
        """The nodes' usage, asked for again when it is older than a moment; several evictions follow within one."""
        now_seconds = self.clock.monotonic()
        if self._read is None or now_seconds - self._read[0] >= REREAD_SECONDS:
            self._read = (now_seconds, self.source.node_usage(self.planned.nodes, self.policy))
        return self._read[1]

    def _heat(self, eviction: Eviction, node: Node) -> Verdict | None:
        name, allocatable = node.name, node.allocatable
        usages = self._usages()
        now = dataclasses.replace(self.planned, node_usage=usages, at_seconds=self.clock.now())
        before_ratios, ratios = (destinations.judged_ratios(one, name, self.policy) for one in (self.planned, now))
        resources = usage.resources_of(self.policy)
        for metric, band in self.policy.on_node(node.labels).descheduler.thresholds.items():
            if metric not in ratios:
                return Verdict(Cause.NO_DESTINATION, f"{name} has no fresh {metric} any more")
            projected = ratios[metric] + usage.share(eviction.used, allocatable, resources[metric])
            planned_ratio = eviction.destination_ratio if metric == eviction.overload.metric else None
            if planned_ratio is not None:  # with what else the plan sends there
                projected = max(projected, planned_ratio + ratios[metric] - before_ratios[metric])
            if usage.over(projected, band.evict_until_ratio):
                figures = wording.compared(projected, " > ", band.evict_until_ratio)
                return Verdict(Cause.NO_DESTINATION, f"{name} has become hotter: {metric} {figures} with it")
        return None


def _unread(what: str, error: errors.KubeError) -> EvictionResult:
    text = f"{what} could not be read again: {error}"
    return EvictionResult("not_done", None, text, trouble=True)
