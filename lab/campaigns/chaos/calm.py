"""Calms between faults: nothing disturbs the services for a while, and all that they are for has to happen.

Every node gets another load, some so much that they are overloaded. Annotations have to show it, both extenders have to
know the annotations and the pods, pods have to leave the overloaded nodes, and rows have to get an outcome: each within
the bound, however soon. `progress` judges. Nothing is asked of a service but the extenders' answers.
"""

import collections
import contextlib
import datetime
import http.client
import json
import time
import urllib.request
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kube import errors, kinds
from lab.campaigns.chaos import judging, progress, records
from lab.campaigns.chaos.progress import Span
from lab.campaigns.chaos.site import HEAVY, MOST_REPLICAS, REPLICAS, Site
from lab.cluster import api, cache
from lab.cluster.demo import permissions
from policy.contract import heartbeat, load_annotation
from tests.e2e import policies, services

Loads = dict[str, dict[str, float]]
RESOURCES: Final = ("cpu", "memory")
METRICS: Final = progress.Metrics(
    names=tuple(f"{resource}_{window}" for resource in RESOURCES for window in policies.WINDOWS_SECONDS),
    tolerance_ratio=0.02 + 0.01,  # what need not be written (sync.minChange), and the jitter of scrapes
)
# The longest window, the one of its averages, a scrape before and one after it, and a sync.
SPAN_SECONDS: Final = max(policies.WINDOWS_SECONDS.values()) + policies.WINDOWS_SECONDS["avg_5m"] + 3 * 1.0
LOW, HIGH = (0.05, 0.15), (0.25, 0.35)  # a node's own load: between the two is more than the tolerance
LINE_RATIO: Final = 0.8  # evictAbove of the shipped policy
NODE_BYTES: Final = 32 * 2**30
POD_BYTES: Final = HEAVY["memory_bytes"]
TRIALS: Final = 2
ANSWER_SECONDS: Final = 60.0  # as long as the apiserver may work on an eviction whose sender has gone
NODES, PODS = "api/v1/nodes", "api/v1/namespaces/default/pods"
HEARTBEAT: Final = f"api/v1/namespaces/{permissions.NAMESPACE}/configmaps/{heartbeat.CONFIG_MAP}"


class World(NamedTuple):
    """Nodes and heartbeat as the apiserver has them, and the uids of all pods."""

    nodes: dict[str, progress.Annotated]
    heartbeat: Mapping[str, str] | None
    uids: frozenset[str]


def hold(site: Site, after: str) -> None:
    """Holds a calm, and remembers what did not happen in it."""
    begun = time.monotonic()
    with site.heating:
        for workload in site.budgeted:
            site.scale(workload, MOST_REPLICAS)
        wanted = len(site.budgeted) * MOST_REPLICAS + REPLICAS
        if site.within(lambda: sum(pod.ready for pod in site.pods()) == wanted, site.terms.ready_seconds):
            late = Calm(site).late(site.terms.calm_seconds)
        else:
            late = [f"not all pods are Ready after {site.terms.ready_seconds:g} s"]
    site.violations += [f"after {after}: {sentence}" for sentence in late]
    cache.say(f"calm after {after}, {time.monotonic() - begun:.0f} s: {'; '.join(late) or 'all happened'}")


class Calm:
    """A calm from its beginning: the nodes that were overloaded, with the uids of their pods, the rows that are due,
    and the exporters' loads since, by node and resource.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._since_seconds = time.time()
        self._pod = f"calm-{site.rng.getrandbits(32):08x}"
        site.within(lambda: site.is_bound(self._pod), site.terms.calm_seconds)  # it is among the first findings then
        pods = [pod for pod in site.pods() if pod.node_name]
        rows = judging.by_the_true_clock(records.rows(site.ledger), site.jumps)
        young_seconds, uids = self._since_seconds - ANSWER_SECONDS, {pod.uid for pod in pods}
        still = [row for row in rows if row.result in judging.OPEN]
        young = [row for row in still if row.pod_uid in uids and row.intended_at_seconds > young_seconds]
        self._due = frozenset(row.id for row in still if row not in young)
        able = set(site.budgeted) - {row.workload for row in young}
        tried = sorted({pod.node_name for pod in pods if pod.labels.get("app") in able})
        self._trials = {
            name: {pod.uid for pod in pods if pod.node_name == name} for name in site.rng.sample(tried, TRIALS)
        }
        self._samples = collections.deque[tuple[float, Loads]]()
        self._set_loads({pod.key for pod in pods})

    def _set_loads(self, staying: Collection[str]) -> None:
        """Gives every node another load of its own than it has, and some so much that one of the pods that stay there
        is too much: the exporter counts those, too, that are leaving.
        """
        for name, node in self._truth().items():
            loads = {}
            for key in (f"{resource}_ratio" for resource in RESOURCES):
                is_high = (node["control"].get(key) or 0.0) >= HIGH[0]
                loads[key] = self._site.rng.uniform(*(LOW if is_high else HIGH))
            if name in self._trials:
                pods_bytes = sum(pod["memory_bytes"] for key, pod in node["pods"].items() if key in staying)
                loads["memory_ratio"] = LINE_RATIO - (pods_bytes - POD_BYTES / 2) / NODE_BYTES
            self._site.load(name, **loads)

    def late(self, within_seconds: float) -> list[str]:
        """Waits until all has happened; a sentence for everything that has not, in time."""
        waiting = {"": "neither apiserver nor exporter answers"}

        def is_over() -> bool:
            nonlocal waiting
            with contextlib.suppress(api.ApiError, OSError):
                now = self._look()
                waiting = {subject: now[subject] for subject in (now if "" in waiting else waiting) if now.get(subject)}
            return not waiting

        self._site.within(is_over, within_seconds)
        with contextlib.suppress(errors.KubeError):
            self._site.door.delete(kinds.PODS, self._pod, namespace="default")
        for name in self._trials:
            self._site.load(name, memory_ratio=LOW[0])
        return [f"{sentence} after {within_seconds:g} s" for sentence in dict.fromkeys(waiting.values())]

    def _look(self) -> progress.Findings:
        """All findings of this moment. What a replica knows of a node counts once the node is annotated with its load:
        until then it may be what it knew before the calm, or what it assumed of its own answer.
        """
        site = self._site
        loads, before = self._loads(), self._world()
        answers = {name: answer(service, "/nodes") for name, service in site.services.items() if "extender" in name}
        after = self._world()
        annotated = progress.annotations(after.nodes, loads, METRICS, self._since_seconds)
        findings = dict(annotated)
        for name, view in answers.items():
            earlier, later = (progress.view(name, view, world.nodes) for world in (before, after))
            views = {subject: earlier.get(subject, sentence) and sentence for subject, sentence in later.items()}
            for subject, sentence in views.items():
                node = subject.removeprefix(progress.PODS)
                findings[f"{name} {subject}"] = sentence or annotated.get(node, "")
        findings |= progress.heartbeat(before.heartbeat, after.nodes, self._since_seconds)
        findings |= progress.closed(self._due, records.rows(site.ledger))
        return findings | progress.relief({name: self._trial(name, loads, after.uids) for name in self._trials})

    def _trial(self, name: str, loads: Mapping[str, Mapping[str, Span]], uids: frozenset[str]) -> progress.Trial:
        """The audit log is long: it is read once a pod has gone."""
        mine = self._trials[name]
        calls = records.evictions(self._site.audit) if mine - uids else []
        evictions = sum(one.accepted and one.pod_uid in mine and one.at_seconds >= self._since_seconds for one in calls)
        return progress.Trial(self._samples[-1][1][name]["memory"], LINE_RATIO, evictions)

    def _loads(self) -> dict[str, dict[str, Span]]:
        """Asks the exporters once more; what each node had at least and at most for as long as windows look back."""
        now_seconds = time.monotonic()
        self._samples.append(
            (
                now_seconds,
                {name: {one: node[f"{one}_ratio"] for one in RESOURCES} for name, node in self._truth().items()},
            )
        )
        while self._samples[0][0] < now_seconds - SPAN_SECONDS:
            self._samples.popleft()
        return {
            name: {one: _span(loads[name][one] for _, loads in self._samples if name in loads) for one in RESOURCES}
            for name in self._samples[-1][1]
        }

    def _truth(self) -> dict[str, dict[str, Any]]:
        with urllib.request.urlopen(f"{self._site.cluster.exporter_url}/nodes", timeout=10) as page:
            nodes: dict[str, dict[str, Any]] = json.load(page)
        return nodes

    def _world(self) -> World:
        client = self._site.cluster.api
        pods = [pod for pod in client.items(PODS) if "deletionTimestamp" not in pod["metadata"]]
        placed = collections.Counter(pod["spec"].get("nodeName") for pod in pods)
        new = collections.Counter(pod["spec"].get("nodeName") for pod in pods if self._is_new(pod))
        nodes = {}
        for node in client.items(NODES):
            name, annotations = node["metadata"]["name"], node["metadata"].get("annotations") or {}
            nodes[name] = progress.Annotated(annotations.get(load_annotation.KEY), Span(new[name], placed[name]))
        beat = client.get(HEARTBEAT).get("data") if client.exists(HEARTBEAT) else None
        return World(nodes, beat, frozenset(pod["metadata"]["uid"] for pod in pods))

    def _is_new(self, pod: api.Json) -> bool:
        """True for one that was bound since the calm began."""
        bound = [one for one in pod["status"].get("conditions", ()) if one["type"] == "PodScheduled"]
        at = [datetime.datetime.fromisoformat(one["lastTransitionTime"]).timestamp() for one in bound]
        return "nodeName" in pod["spec"] and any(moment > self._since_seconds for moment in at)


def _span(ratios: Iterable[float]) -> Span:
    whole = list(ratios)
    return Span(min(whole), max(whole))


def answer(service: services.Service, path: str) -> Any:
    """What a service answers; None if nothing."""
    try:
        return service.json(path)
    except (OSError, http.client.HTTPException, ValueError):
        return None
