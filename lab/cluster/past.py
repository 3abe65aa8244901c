"""The past of a simulated cluster as the OpenMetrics text from which Prometheus makes its history.

`Cluster.backfill` takes the text. It holds what node-exporter, the kubelets' cAdvisor and kube-state-metrics would have
said of a `simulator.scenario.Scenario` whose replicas stood on given nodes, by their real names and labels, so that
`evenload whatif` can be held to a real Prometheus whose truth is known. Counters run on without a reset; use is
constant within a step, so a few scrapes a step tell all of it.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.scenario import NEVER, Machine, Owner, Replica, Scenario

SCRAPES_PER_STEP = 4
BORN_SECONDS = 1.7e9  # when the cluster was made
NODE_PORT = 9100
ALLOCATABLE = "kube_node_status_allocatable"
KUBE_STATE_METRICS = ("10.2.0.1:8080", "10.2.0.2:8080")  # two replicas, which say the same of what could be added up

Ratios = npt.NDArray[np.float64]
Moments = Sequence[tuple[float, float]]


def openmetrics(scenario: Scenario, nodes: Sequence[str]) -> str:
    """The text; `nodes[i]` is where replica i stood. ValueError for a replica on a machine that is not there."""
    known = {machine.name for machine in scenario.machines}
    for replica, node in zip(scenario.replicas, nodes, strict=True):
        if node not in known:
            raise ValueError(f"replica {replica.ordinal} of owner {replica.owner} on {node!r}, expected one of {known}")
    families: dict[str, list[str]] = {}
    every = _scrapes(scenario, scenario.start_seconds, NEVER)
    _add(families, iter([("kube_namespace_created", 'namespace="kube-system"', [(at, BORN_SECONDS) for at in every])]))
    for played in _machines(scenario, nodes):
        _add(families, _machine(scenario, played))
    for number, replica in enumerate(scenario.replicas):
        _add(families, _pod(scenario, replica, nodes[number], number))
    text = [line for family, lines in sorted(families.items()) for line in (_type(family), *lines)]
    return "\n".join([*text, "# EOF", ""])


def pod_name(owner: Owner, number: int) -> str:
    """The name of the pod of a scenario's replica `number`."""
    return f"{owner.name}-5d8f7c9b6d-{number:05d}"


Line = tuple[str, str, Moments]  # family, labels, values


class _PlayedLoad(NamedTuple):
    """A machine, its address, when it was scraped, and what it used at every step as ratios."""

    machine: Machine
    address: str
    scrapes: list[float]
    cpu_ratio: Ratios
    memory_ratio: Ratios


def _machines(scenario: Scenario, nodes: Sequence[str]) -> Iterator[_PlayedLoad]:
    for row, machine in enumerate(scenario.machines):
        played = _PlayedLoad(
            machine,
            f"10.1.{row // 250}.{row % 250 + 1}",
            _scrapes(scenario, machine.joins_seconds, machine.leaves_seconds),
            np.full(scenario.steps, machine.system.cpu_ratio),
            np.full(scenario.steps, machine.system.memory_ratio),
        )
        for replica, node in zip(scenario.replicas, nodes, strict=True):
            if node == machine.name:
                first, last = _steps(scenario, replica)
                where = slice(replica.offset + first, replica.offset + last)
                cpu, memory = scenario.usage.cpu_millicores[where], scenario.usage.memory_bytes[where]
                played.cpu_ratio[first:last] += replica.level * cpu / machine.capacity.cpu_millicores
                played.memory_ratio[first:last] += replica.level * memory / machine.capacity.memory_bytes
        yield played


def _machine(scenario: Scenario, played: _PlayedLoad) -> Iterator[Line]:
    name, capacity, scrapes = played.machine.name, played.machine.capacity, played.scrapes
    instance = f'instance="{played.address}:{NODE_PORT}",job="node-exporter"'
    busy = _busy(scenario, played)
    idle = [(at, at - scenario.start_seconds - seconds) for at, seconds in busy]
    for cpu in range(max(1, round(capacity.cpu_millicores / 1000))):
        yield "node_cpu_seconds", f'cpu="{cpu}",{instance},mode="idle"', idle
        yield "node_cpu_seconds", f'cpu="{cpu}",{instance},mode="user"', busy
    free = [(at, capacity.memory_bytes * (1 - float(played.memory_ratio[_step(scenario, at)]))) for at in scrapes]
    yield "node_memory_MemAvailable_bytes", instance, free
    yield "node_memory_MemTotal_bytes", instance, [(at, capacity.memory_bytes) for at in scrapes]
    yield "kube_node_info", f'node="{name}",internal_ip="{played.address}"', _ones(scrapes)
    sizes = {"cpu": capacity.cpu_millicores / 1000, "memory": capacity.memory_bytes, "pods": played.machine.max_pods}
    for resource, amount in sizes.items():
        yield ALLOCATABLE, f'node="{name}",resource="{resource}"', [(at, amount) for at in scrapes]


def _busy(scenario: Scenario, played: _PlayedLoad) -> Moments:
    """Busy seconds of each CPU since the beginning, at every scrape."""
    sums = np.concatenate([[0.0], np.cumsum(played.cpu_ratio) * scenario.step_seconds])
    steps = [(at - scenario.start_seconds) / scenario.step_seconds for at in played.scrapes]
    return list(zip(played.scrapes, np.interp(steps, np.arange(len(sums)), sums).tolist(), strict=True))


def _pod(scenario: Scenario, replica: Replica, node: str, number: int) -> Iterator[Line]:
    owner = scenario.owners[replica.owner]
    scrapes = _scrapes(scenario, replica.arrives_seconds, replica.leaves_seconds)
    name, first = pod_name(owner, number), _steps(scenario, replica)[0]
    pod = f'namespace="{owner.namespace}",pod="{name}"'
    identity = f'{pod},uid="uid-{number}"'
    replica_set = f"{owner.name}-5d8f7c9b6d"
    created = f'created_by_kind="ReplicaSet",created_by_name="{replica_set}"'
    yield "kube_pod_info", f'{identity},node="{node}",{created}', _ones(scrapes)
    yield "kube_pod_status_phase", f'{identity},phase="Running"', _ones(scrapes)
    for resource, amount in (
        ("cpu", owner.requests.cpu_millicores / 1000),
        ("memory", owner.requests.memory_bytes),
    ):
        for speaker in KUBE_STATE_METRICS:
            labels = f'{identity},container="app",resource="{resource}",instance="{speaker}"'
            yield "kube_pod_container_resource_requests", labels, [(at, amount) for at in scrapes]
    if replica.ordinal == 0:
        above = f'namespace="{owner.namespace}",owner_kind="Deployment",owner_name="{owner.name}"'
        yield "kube_replicaset_owner", f'{above},replicaset="{replica_set}"', _ones(scrapes)
    steps = [_step(scenario, at) for at in scrapes]
    cpu = [replica.level * float(scenario.usage.cpu_millicores[replica.offset + step]) / 1000 for step in steps]
    memory = [replica.level * float(scenario.usage.memory_bytes[replica.offset + step]) for step in steps]
    spent, seconds, before = 0.0, [], scenario.start_seconds + first * scenario.step_seconds
    for at, cores in zip(scrapes, cpu, strict=True):
        spent, before = spent + cores * (at - before), at
        seconds.append((at, spent))
    where = f'{pod},node="{node}",container="app",image="app"'
    yield "container_cpu_usage_seconds", where, seconds
    yield "container_memory_working_set_bytes", where, list(zip(scrapes, memory, strict=True))


def _step(scenario: Scenario, at_seconds: float) -> int:
    """The step that a scrape ends or lies in."""
    step = math.ceil((at_seconds - scenario.start_seconds) / scenario.step_seconds) - 1
    return min(max(0, step), scenario.steps - 1)


def _steps(scenario: Scenario, replica: Replica) -> tuple[int, int]:
    """The steps in which a replica was there: the first, and the one after the last."""
    first = (replica.arrives_seconds - scenario.start_seconds) / scenario.step_seconds
    last = (min(replica.leaves_seconds, scenario.end_seconds) - scenario.start_seconds) / scenario.step_seconds
    return max(0, math.floor(first)), min(scenario.steps, math.ceil(last))


def _scrapes(scenario: Scenario, from_seconds: float, to_seconds: float) -> list[float]:
    """When something that lived from then to then was scraped."""
    every = scenario.step_seconds / SCRAPES_PER_STEP
    moments = (scenario.start_seconds + number * every for number in range(scenario.steps * SCRAPES_PER_STEP + 1))
    return [at for at in moments if from_seconds <= at < to_seconds]


def _ones(scrapes: Sequence[float]) -> Moments:
    return [(at, 1.0) for at in scrapes]


def _type(family: str) -> str:
    return f"# TYPE {family} {'counter' if family.endswith('_seconds') else 'gauge'}"


def _add(families: dict[str, list[str]], lines: Iterator[Line]) -> None:
    for family, labels, moments in lines:
        name = f"{family}_total" if family.endswith("_seconds") else family
        families.setdefault(family, []).extend(f"{name}{{{labels}}} {value:.6f} {at:.3f}" for at, value in moments)
