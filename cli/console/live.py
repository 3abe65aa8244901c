"""The console's doors to a real cluster: services by URL or by kubeconfig, and what the kubeconfig may read.

A service is asked as every command asks it (`cli.common.services`). Pods and pools come from the apiserver where there
is a kubeconfig; effectiveness comes from Prometheus where one is named or found.
"""

import collections.abc
import contextlib
import dataclasses
import sys
from typing import Final

from cli import effectiveness_figures as figures
from cli import policy_diff
from cli.common import http_client, services
from console.sources import Json, Replica, RunningPod, SourceError
from descheduler.snapshot.usage import PodUsage
from descheduler.sources.prometheus import PrometheusUsage
from kube import errors, kinds
from kube.door import KubeReader
from kube.http.client import Client
from kube.objects import NOTHING, Pod
from kube.pods import pod_view
from policy.loading import loader
from policy.schema import load_policy, problems
from policy.schema.load_policy import LoadPolicy
from promql import errors as promql_errors
from promql.door import QueryDoor
from promql.http import client as promql_client
from promql.queries import identity

STEPS: Final = 84  # of a week: two hours each
POOL_LABELS: Final = (
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "node.kubernetes.io/instance-type",
)


def replicas(names: http_client.Names, where: services.Where) -> collections.abc.Sequence[Replica]:
    """The replicas of a service, at least one, each time anew: pods come and go. Raises SourceError."""
    try:
        return services.every(names, where, quiet=True)
    except errors.KubeError as error:
        raise SourceError(str(error)) from error


def check(text: str, in_force: Json) -> Json:
    """The problems of a text, each with its place, or its differences from the policy in force."""
    try:
        tried = loader.load(text, "policy")
    except problems.PolicyError as error:
        return {"problems": [dataclasses.asdict(one) for one in error.problems], "differences": []}
    before = LoadPolicy.of(in_force) if in_force else load_policy.defaults()
    return {"problems": [], "differences": [policy_diff.line(one) for one in policy_diff.differences(before, tried)]}


def pods_of(kube: KubeReader, prometheus: QueryDoor | None, selector: str, node: str) -> list[RunningPod]:
    """The pods of a node, as `running` has them. Raises SourceError."""
    try:
        pods = kube.list(kinds.PODS, field_selector=f"spec.nodeName={node}").items
    except errors.KubeError as error:
        raise SourceError(f"the pods of {node} could not be listed: {error}") from error
    return running(pods, prometheus, selector)


def running(pods: collections.abc.Iterable[Pod], prometheus: QueryDoor | None, selector: str = "") -> list[RunningPod]:
    """The pods that are not finished with their use over the last minutes, those first that use most CPU, or ask for
    most; without Prometheus their use is not known.
    """
    living = [pod for pod in pods if not pod.finished]
    uses: collections.abc.Mapping[str, PodUsage] = {}
    if prometheus is not None:
        source = PrometheusUsage(prometheus, identity.SeriesLabels(pod_selector=selector))
        with contextlib.suppress(promql_errors.PromqlError):
            uses = source.pod_usage(load_policy.defaults(), living, of_all=sys.maxsize)
    rows = (_running(pod, uses.get(pod.key)) for pod in living)
    return sorted(rows, key=lambda row: (-(row.cpu_used_millicores or 0.0), -row.cpu_millicores))


def _running(pod: Pod, use: PodUsage | None) -> RunningPod:
    workload = "/".join(filter(None, pod_view.workload(pod)))
    used = (None, None) if use is None else (use.cpu_millicores, use.memory_bytes)
    try:
        requests = pod.requests
    except (ValueError, OverflowError):  # one odd pod costs only its own figures
        requests = NOTHING
    return RunningPod(
        pod.namespace, pod.name, workload, pod.phase, requests.cpu_millicores, requests.memory_bytes, *used
    )


def pools_of(kube: Client, label: str) -> dict[str, str]:
    """The pool of each node that has one: by the label given, else by the first that is known."""
    labels = (label,) if label else POOL_LABELS
    try:
        nodes = kube.list(kinds.NODES).items
    except errors.KubeError as error:
        raise SourceError(f"the nodes could not be listed: {error}") from error
    named = ((node.name, next((node.labels[key] for key in labels if key in node.labels), "")) for node in nodes)
    return {name: pool for name, pool in named if pool}


def effectiveness(door: promql_client.Client, selector: str, span_seconds: float) -> Json:
    """The annotator's figures over a span, as a whole and step by step, and how much of it has data."""
    try:
        (until,) = door.query("vector(time())").samples
        counted, covered_seconds = figures.measured(
            lambda text: door.query(text, at_seconds=until.value).samples, span_seconds, until.value, selector
        )
        steps = door.query_range(
            figures.increases(span_seconds / STEPS, selector),
            start_seconds=until.value - span_seconds * (1 - 1 / STEPS),
            end_seconds=until.value,
            step_seconds=span_seconds / STEPS,
        )
    except (promql_errors.PromqlError, ValueError) as error:
        raise SourceError(f"Prometheus: {error}") from error
    moments = figures.moments({one.labels[figures.PART]: one.points for one in steps.series})
    return {
        "figures": counted._asdict(),
        "covered_seconds": covered_seconds,
        "moments": [{"at_seconds": at_seconds, **step._asdict()} for at_seconds, step in moments],
    }
