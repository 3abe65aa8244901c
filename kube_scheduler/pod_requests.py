"""A pod's requests in whole numbers, as kube-scheduler counts them.

`columns` adds demands up per node, and a scheduler's scores compare them with what is allocatable. Amounts come from
`kube.api.resources`. For scoring by what is left (LeastAllocated), a container that names no CPU or memory counts as
one that asks for 100m and 200Mi, so that pods without requests do not all go to one node.
Sources: kubernetes v1.36 pkg/scheduler/framework/types.go (CalculateResource), pkg/scheduler/util/pod_resources.go.
"""

import functools
import math
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from kube.api import resources
from kube.api.pods import PodSpec, Port
from kube.api.resources import Quantity, Requirements
from kube.objects import Container, Node, Pod, Resources
from kube_scheduler.arrays import Ints

CPU, MEMORY, PODS = "cpu", "memory", "pods"
UNNAMED: Mapping[str, resources.Quantity] = {CPU: "100m", MEMORY: "200Mi"}


class Demand(NamedTuple):
    """`amounts`: (resource, millicores, bytes or pieces), without zeros, CPU and memory first. The same as columns:
    `base` is CPU, memory and one pod; `scored` CPU and memory with 100m and 200Mi for a pod without requests; `is_base`
    where it asks for nothing but CPU and memory; `host_ports` are the node's that it takes. Pods that ask for the same
    share one: it must not change.
    """

    amounts: tuple[tuple[str, int], ...]
    base: Ints
    scored: Ints
    is_base: bool
    host_ports: tuple[Port, ...]


def of_pod(pod: Pod) -> Demand:
    """Returns the requests of a pod; fractions are rounded up (as Quantity.Value does).

    Pods of a workload ask alike, and each is asked about several times: it is counted once for what they write.
    """
    spec = pod.spec
    return _of_asking(_encoder.encode((spec.containers, spec.init_containers, spec.level, spec.overhead)))


def of_node(node: Node) -> dict[str, int]:
    """Returns the allocatable amounts of a node by resource; `pods` is how many it may hold."""
    return {**dict(_whole(node.allocatable)), PODS: node.allocatable.pods}


_Asking = tuple[tuple[Container, ...], tuple[Container, ...], Requirements, dict[str, Quantity]]
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Asking)


@functools.lru_cache(maxsize=4096)
def _of_asking(text: bytes) -> Demand:
    containers, init_containers, level, overhead = _decoder.decode(text)
    spec = PodSpec(containers=containers, init_containers=init_containers, level=level, overhead=overhead)
    pod, scored = Pod(spec=spec), _with_defaults(spec)
    amounts = _whole(pod.requests)
    named = dict(amounts)
    base = np.array([[named.get(CPU, 0)], [named.get(MEMORY, 0)], [1]], np.int64)
    base_scored = np.array([[math.ceil(scored.cpu_millicores)], [math.ceil(scored.memory_bytes)]], np.int64)
    return Demand(amounts, base, base_scored, named.keys() <= UNNAMED.keys(), pod.host_ports)


def _whole(amounts: Resources) -> tuple[tuple[str, int], ...]:
    named = ((CPU, amounts.cpu_millicores), (MEMORY, amounts.memory_bytes), *amounts.extended.items())
    return tuple((name, math.ceil(amount)) for name, amount in named if amount)


def _with_defaults(spec: PodSpec) -> Resources:
    """The pod's total with what its containers do not name; what is named at the level of the pod stays."""
    level = spec.level.requests
    named = {name for one in (*spec.containers, *spec.init_containers) for name in one.resources.requests}
    missing = {name: text for name, text in UNNAMED.items() if not level or name not in named.union(level)}

    def filled(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        put = msgspec.structs.replace
        return tuple([put(one, resources=Requirements({**missing, **one.resources.requests})) for one in containers])

    containers, init_containers = filled(spec.containers), filled(spec.init_containers)
    return msgspec.structs.replace(spec, containers=containers, init_containers=init_containers).requests()
