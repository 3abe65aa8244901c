"""The pods of the past: whose they were, what they asked for, from when to when, and what they used.

`rebuilding` calls `build`. Each pod that was alive becomes a replica of its own with its own stretch of measured use. A
pod is known by its uid, as a StatefulSet gives the same name again; use is recorded by name, so it is cut by the lives.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from policy.contract import owner_usage
from simulator.contention import Load
from simulator.history import grids
from simulator.history.queries import Subject
from simulator.history.reader import RecordedSeries, Span
from simulator.scenario import NEVER, Owner, Replica, Usage

# kube-state-metrics names a pod's priority class, not its value; these two exist in every cluster (KEP-268).
PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
PINNED = ("DaemonSet", "Node")  # a Node owns its static pods: neither is for the scheduler to place
ABSENT = ("", "<none>")
MILLI = 1000.0


@dataclasses.dataclass(frozen=True, slots=True)
class Pods:
    """Owners, replicas (by index into them) and their use, where each replica really was, and what a reader must
    know.
    """

    owners: tuple[Owner, ...]
    replicas: tuple[Replica, ...]
    usage: Usage
    nodes: tuple[str, ...]
    notes: tuple[str, ...]


class _Life(NamedTuple):
    """One pod: both steps belong to it; `node` is the last that it was seen on."""

    namespace: str
    name: str
    uid: str
    node: str
    kind: str
    owner: str
    priority_class: str
    first: int
    last: int


def build(recorded: RecordedSeries, renamed: Mapping[str, str]) -> Pods:
    """The pods; `renamed` leads from a machine's former names to its last. ValueError when none is recorded."""
    lives, notes = _lives(recorded, renamed)
    if not lives:
        raise ValueError(
            "no pod is named by kube_pod_info or by cAdvisor's series in the whole span: check the matchers, and that "
            "Prometheus scrapes kube-state-metrics or the kubelets' cAdvisor"
        )
    requests, unasked = _requests(recorded, lives)
    owners, of_life = _owners(lives, requests, _deployments(recorded), _budgets(recorded))
    usage, offsets, unknown = _usage(recorded, lives)
    notes += unasked + unknown + _classes(lives)
    replicas = _replicas(lives, owners, of_life, offsets, span=recorded.span)
    return Pods(tuple(owners), replicas, usage, tuple(life.node for life in lives), tuple(notes))


def _lives(recorded: RecordedSeries, renamed: Mapping[str, str]) -> tuple[list[_Life], list[str]]:
    """Every pod from its first to its last step alive, in order of time and name."""
    span, notes = recorded.span, []
    labels = ("namespace", "pod", "uid", "node", "created_by_kind", "created_by_name", "priority_class")
    info = grids.grid(recorded.series[Subject.PODS], labels, span)
    if not info.keys:
        info = grids.grid(recorded.series[Subject.POD_MEMORY], labels, span)
        notes.append(
            "kube_pod_info is not recorded: pods are those that cAdvisor measured, each without owner and restarted "
            "under the same name counted once"
        )
    alive = grids.grid(recorded.series[Subject.ALIVE], ("namespace", "pod", "uid"), span)
    at_work = {key: alive.present[row] for key, row in alive.rows().items()}
    if not at_work:
        notes.append("kube_pod_status_phase is not recorded: a finished pod counts until it was deleted")
    by_pod: dict[grids.Key, list[int]] = {}
    for row, key in enumerate(info.keys):
        by_pod.setdefault(key[:3], []).append(row)
    lives = []
    for pod, rows in by_pod.items():
        alive_at = info.present[rows].any(axis=0)
        if at_work:
            alive_at = alive_at & at_work.get(pod, np.zeros(span.steps, dtype=np.bool_))
        steps = np.flatnonzero(alive_at)
        if len(steps):
            latest = max(rows, key=lambda row: (info.keys[row][3] != "", int(np.flatnonzero(info.present[row])[-1])))
            life = _Life._make((*info.keys[latest], int(steps[0]), int(steps[-1])))
            lives.append(life._replace(node=renamed.get(life.node, life.node)))
    return sorted(lives, key=lambda life: (life.first, life.namespace, life.name, life.uid)), notes


def _requests(recorded: RecordedSeries, lives: Iterable[_Life]) -> tuple[dict[grids.Key, Load], list[str]]:
    """Returns the requests of each pod by namespace, name and uid; without any recorded request: nothing."""
    recorded_amounts = grids.highest(recorded.series[Subject.REQUESTS], ("namespace", "pod", "uid", "resource"))
    amounts: dict[grids.Key, dict[str, float]] = {}
    for key, amount in recorded_amounts.items():
        amounts.setdefault(key[:3], {})[key[3]] = amount
    loads = {key: Load(load.get("cpu", 0.0) * MILLI, load.get("memory", 0.0)) for key, load in amounts.items()}
    if not loads:
        return {}, [
            "kube_pod_container_resource_requests is not recorded: every pod is replayed without requests, so "
            "whatever depends on requests (what fits, LeastAllocated, expected load) says little"
        ]
    without = sum(1 for life in lives if life[:3] not in loads)
    return loads, [f"{without} pods had no requests recorded and ask for nothing"] if without else []


def _deployments(recorded: RecordedSeries) -> dict[tuple[str, str], tuple[str, str]]:
    """(namespace, ReplicaSet) -> kind and name of what owns it."""
    owners = {}
    for one in recorded.series[Subject.REPLICA_SETS]:
        labels = one.labels
        if labels.get("owner_kind", "") not in ABSENT:
            owners[labels.get("namespace", ""), labels.get("replicaset", "")] = (
                labels["owner_kind"],
                labels["owner_name"],
            )
    return owners


def _budgets(recorded: RecordedSeries) -> dict[tuple[str, str], int]:
    """(namespace, name of the budget) -> the most healthy pods it ever wanted."""
    budgets = grids.highest(recorded.series[Subject.BUDGETS], ("namespace", "poddisruptionbudget"))
    return {(namespace, name): int(healthy) for (namespace, name), healthy in budgets.items()}


def _owners(
    lives: Iterable[_Life],
    requests: Mapping[grids.Key, Load],
    deployments: Mapping[tuple[str, str], tuple[str, str]],
    budgets: Mapping[tuple[str, str], int],
) -> tuple[list[Owner], list[int]]:
    """The owners, and each life's index among them. A workload whose requests changed is one owner per request."""
    owners: dict[tuple[object, ...], int] = {}
    builders: list[Owner] = []
    of_life = []
    for life in lives:
        kind, name = deployments.get((life.namespace, life.owner), (life.kind, life.owner))
        if kind == "ReplicaSet":
            kind, name = "Deployment", owner_usage.owner_key("", kind, name).rpartition("/")[2]
        if kind in PINNED or kind in ABSENT:
            kind, name = ("DaemonSet", name) if kind in PINNED else ("", life.name)
        request = requests.get(life[:3], Load())
        key = (life.namespace, kind, name, request, life.priority_class)
        if key not in owners:
            owners[key] = len(builders)
            budget = budgets.get((life.namespace, name))
            priority = PRIORITIES.get(life.priority_class, 0)
            labels = {"app": name}
            builders.append(Owner(life.namespace, name, request, kind, priority, labels, min_available=budget or None))
        of_life.append(owners[key])
    return builders, of_life


def _usage(recorded: RecordedSeries, lives: list[_Life]) -> tuple[Usage, list[int], list[str]]:
    """The measured use of every life, one behind the other; where each begins, less its first step; what is missing."""
    lengths = [life.last - life.first + 1 for life in lives]
    starts = np.concatenate([[0], np.cumsum(lengths)])[:-1].tolist()
    flat, notes = [], []
    for subject, factor, most in (
        (Subject.POD_CPU, MILLI, owner_usage.MOST_CPU_MILLICORES),
        (Subject.POD_MEMORY, 1.0, owner_usage.MOST_MEMORY_BYTES),
    ):
        grid = grids.grid(recorded.series[subject], ("namespace", "pod"), recorded.span, highest=most / factor)
        rows, values = grid.rows(), np.full(sum(lengths), np.nan, np.float32)
        for life, start, length in zip(lives, starts, lengths, strict=True):
            row = rows.get((life.namespace, life.name))
            if row is not None:
                values[start : start + length] = grid.values[row, life.first : life.last + 1] * factor
        flat.append(values)
        unknown = np.isnan(values)
        if unknown.any():
            never = sum(bool(unknown[at : at + length].all()) for at, length in zip(starts, lengths, strict=True))
            notes.append(
                f"{subject} is unknown for {unknown.mean():.1%} of all steps of all pods, for {never} of {len(lives)} "
                "pods throughout: they are replayed as if they used nothing then"
            )
        if grid.refused or grid.contradictions:
            notes.append(f"{subject}: {grid.refused} impossible values refused, {grid.contradictions} contradicted")
    return Usage(*flat), [start - life.first for life, start in zip(lives, starts, strict=True)], notes


def _classes(lives: Iterable[_Life]) -> list[str]:
    others = Counter(life.priority_class for life in lives)
    unknown = sorted(name for name in others if name not in PRIORITIES and name not in ABSENT)
    if not unknown:
        return []
    return [f"the values of priority classes are not recorded: {', '.join(unknown)} count as 0"]


def _replicas(
    lives: list[_Life], owners: list[Owner], of_life: list[int], offsets: list[int], *, span: Span
) -> tuple[Replica, ...]:
    """Ordinals, which make the names of a StatefulSet's pods, are given once for all versions of a workload: a version
    whose pods bore the names of another's would come only when those are gone.
    """
    ordinals: Counter[tuple[str, str, str]] = Counter()
    replicas = []
    for life, owner, offset in zip(lives, of_life, offsets, strict=True):
        workload = owners[owner].namespace, owners[owner].kind, owners[owner].name
        replicas.append(
            Replica(
                owner=owner,
                ordinal=ordinals[workload],
                arrives_seconds=span.begin_seconds(life.first),
                leaves_seconds=NEVER if life.last == span.steps - 1 else span.begin_seconds(life.last + 1),
                offset=offset,
                node=life.node if life.first == 0 or life.kind in PINNED else "",
            )
        )
        ordinals[workload] += 1
    return tuple(replicas)
