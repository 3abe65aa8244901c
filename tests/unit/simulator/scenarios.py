"""What a scenario adds up to, computed the slow way: what the tests hold its makers to."""

import math

import numpy as np
import numpy.typing as npt

from simulator import scenario

Amounts = npt.NDArray[np.float64]


def steps(drawn: scenario.Scenario, replica: scenario.Replica) -> tuple[int, int]:
    """The steps that a replica touches: the first, and the one after the last."""
    first = math.floor((replica.arrives_seconds - drawn.start_seconds) / drawn.step_seconds)
    leaves_seconds = min(replica.leaves_seconds, drawn.end_seconds)
    return first, math.ceil((leaves_seconds - drawn.start_seconds) / drawn.step_seconds)


def used_ratio(drawn: scenario.Scenario) -> Amounts:
    """Use of all replicas together [2, steps], as ratios of all nodes."""
    total = np.zeros((2, drawn.steps))
    for replica in drawn.replicas:
        for step in range(*steps(drawn, replica)):
            total[0, step] += replica.level * drawn.usage.cpu_millicores[replica.offset + step]
            total[1, step] += replica.level * drawn.usage.memory_bytes[replica.offset + step]
    return total / _capacity(drawn)


def asked_ratio(drawn: scenario.Scenario) -> Amounts:
    """Requests of all replicas together [2, steps], as ratios of all nodes."""
    total = np.zeros((2, drawn.steps))
    for replica in drawn.replicas:
        first, end = steps(drawn, replica)
        requests = drawn.owners[replica.owner].requests
        total[:, first:end] += [[requests.cpu_millicores], [requests.memory_bytes]]
    return total / _capacity(drawn)


def used_per_request(drawn: scenario.Scenario) -> list[float]:
    """Mean CPU use over the request, of every replica that is no agent and whose use is known."""
    ratios = []
    for replica in drawn.replicas:
        owner = drawn.owners[replica.owner]
        if owner.kind != "DaemonSet":
            first, end = (replica.offset + step for step in steps(drawn, replica))
            used = replica.level * drawn.usage.cpu_millicores[first:end]
            known = used[np.isfinite(used)]
            ratios += [float(known.mean()) / owner.requests.cpu_millicores] if len(known) else []
    return ratios


def _capacity(drawn: scenario.Scenario) -> Amounts:
    cpu = sum(machine.capacity.cpu_millicores for machine in drawn.machines)
    memory = sum(machine.capacity.memory_bytes for machine in drawn.machines)
    return np.array([[cpu], [memory]])
