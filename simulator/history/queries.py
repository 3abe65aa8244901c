"""Prometheus queries that rebuild a cluster's past: one range query per subject, for the whole cluster.

Pure text. Use comes from the same expressions that the services ask (`promql.queries.node_queries`,
`promql.queries.pod_queries`), with the replay's step as window, so that the value at a step's end is the mean over the
step. Pods, their requests and owners come from kube-state-metrics; a subject it does not export is
simply absent from the answer, and `rebuilding` says what follows from that.
"""

import enum
from typing import NamedTuple

from promql.queries import node_queries, pod_queries


class Subject(enum.StrEnum):
    """The subject of a query."""

    NODE_CPU = "node-cpu"
    NODE_MEMORY = "node-memory"
    POD_CPU = "pod-cpu"
    POD_MEMORY = "pod-memory"
    PODS = "pods"
    ALIVE = "alive"
    REQUESTS = "requests"
    REPLICA_SETS = "replicasets"
    NODES = "nodes"
    SIZES = "sizes"
    CPUS = "cpus"
    MEMORY = "memory"
    TAINTS = "taints"
    LABELS = "labels"
    BUDGETS = "budgets"


class Selectors(NamedTuple):
    """Further matchers, as `cluster="a"`: for node-exporter's series, for cAdvisor's, and for kube-state-metrics'."""

    nodes: str = ""
    containers: str = ""
    state: str = ""


def expressions(step_seconds: float, selectors: Selectors) -> dict[Subject, str]:
    """Every subject's expression, most useful first.

    Each takes kube-state-metrics' series once, however many of its replicas say the same: while it moves to another
    node two of them do, and a sum over both would double all requests.
    """
    braces = f"{{{selectors.state}}}" if selectors.state else ""
    more = f",{selectors.state}" if selectors.state else ""
    nodes = f",{selectors.nodes}" if selectors.nodes else ""
    return {
        Subject.NODES: f"max by (node, internal_ip) (kube_node_info{braces})",
        Subject.SIZES: f'max by (node, resource) (kube_node_status_allocatable{{resource=~"cpu|memory|pods"{more}}})',
        Subject.PODS: (
            "max by (namespace, pod, uid, node, created_by_kind, created_by_name, priority_class) "
            f"(kube_pod_info{braces})"
        ),
        Subject.ALIVE: (
            f'max by (namespace, pod, uid) (kube_pod_status_phase{{phase=~"Pending|Running|Unknown"{more}}}) > 0'
        ),
        Subject.REQUESTS: (
            "sum by (namespace, pod, uid, resource) (max by (namespace, pod, uid, container, resource) "
            f'(kube_pod_container_resource_requests{{resource=~"cpu|memory"{more}}}))'
        ),
        Subject.REPLICA_SETS: f"max by (namespace, replicaset, owner_kind, owner_name) (kube_replicaset_owner{braces})",
        Subject.NODE_CPU: _node("cpu", step_seconds, selectors.nodes),
        Subject.NODE_MEMORY: _node("memory", step_seconds, selectors.nodes),
        Subject.POD_CPU: pod_queries.cpu_cores(step_seconds, selector=selectors.containers),
        Subject.POD_MEMORY: pod_queries.memory_bytes(step_seconds, selector=selectors.containers),
        Subject.CPUS: f'count without (cpu, mode) (node_cpu_seconds_total{{mode="idle"{nodes}}})',
        Subject.MEMORY: node_queries.memory_bytes(selector=selectors.nodes),
        Subject.TAINTS: f"max by (node, key, value, effect) (kube_node_spec_taint{braces})",
        Subject.LABELS: f"kube_node_labels{braces}",
        Subject.BUDGETS: (
            f"max by (namespace, poddisruptionbudget) (kube_poddisruptionbudget_status_desired_healthy{braces})"
        ),
    }


def _node(resource: str, step_seconds: float, selector: str) -> str:
    window = node_queries.Window(resource, "avg", step_seconds, step_seconds)
    return node_queries.expression(window, selector=selector)
