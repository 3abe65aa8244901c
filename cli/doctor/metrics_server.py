"""Reads and judges metrics-server, where the load of nodes comes from it instead of Prometheus.

`gathering` calls `look`, which lists metrics.k8s.io as the annotator does; the nodes' annotations say since when the
annotator observes each of them. `command` lists the judges.
"""

import functools
import statistics
from collections.abc import Iterable
from typing import Final

from annotator.collect import metrics_server
from cli.doctor import findings
from cli.doctor.facts import Facts, MetricsServerFacts
from cli.doctor.findings import Finding
from kube import access, errors, kinds
from kube.http.client import Client
from kube.objects import Node, NodeMetrics
from policy import metrics as load_metrics
from policy.contract import heartbeat, load_annotation
from policy.contract.load_annotation import Reading
from policy.rules import sample_windows
from runtime import clock, options

GROUP: Final = "metrics.k8s.io"
EVICTS: Final = access.Access("create", "pods/eviction")  # a descheduler without it is not installed
LONGEST_WINDOW_SECONDS: Final = 75.0  # metrics-server asks kubelets every 15 s by default, of some providers every 60 s
_COMPONENT: Final = "add the component deploy/kustomize/components/metrics-server (chart: source: metrics-server)"


def source(nodes: Iterable[Node]) -> str:
    """The source of the newest annotation: with it metrics-server's windows are written, and no other's."""
    newest = max(
        (one for node in nodes if (one := _reading(node)) is not None), key=lambda one: one.at_seconds, default=None
    )
    return options.PROMETHEUS if newest is None or newest.windows is None else options.METRICS_SERVER


def look(kube: Client, namespace: str) -> MetricsServerFacts | Finding:
    """Lists the nodes as the annotator does, and asks whether the services may do what they need."""
    try:
        items = kube.list(kinds.NODE_METRICS).items
    except errors.Forbidden as error:
        return findings.unknown(error.message or str(error), f"{_COMPONENT}, or bind yourself the ClusterRole view")
    except errors.NotFound:
        return findings.fail(
            f"{metrics_server.API} is not served: there is no metrics-server",
            "install metrics-server, or let the annotator read Prometheus (docs/start/install.md)",
        )
    except errors.KubeError as error:
        return findings.fail(f"metrics-server does not answer: {error}", metrics_server.NEXT_STEP)
    return MetricsServerFacts(items, findings.attempt(lambda: _denied(kube, namespace)))


def _denied(kube: Client, namespace: str) -> tuple[str, ...]:
    """The rights of the component that the services lack."""
    beat = access.Access("get", "configmaps", "", namespace, heartbeat.CONFIG_MAP)
    of_nodes, of_pods = (access.Access("list", resource, GROUP) for resource in ("nodes", "pods"))
    may = functools.partial(access.may_account, kube, namespace=namespace)
    evicts = may(EVICTS, name="evenload-descheduler")
    needed = [("evenload-annotator", of_nodes)]
    needed += [("evenload-descheduler", right) for right in (of_pods, beat) if evicts]
    return tuple(
        f"the ServiceAccount {account} may not {right}" for account, right in needed if not may(right, name=account)
    )


def answers(facts: Facts) -> Finding:
    """metrics-server answers, often enough, and the services may ask it."""
    reading = findings.known(facts.load.metrics_server)
    if not isinstance(reading.denied, Finding) and reading.denied:
        return findings.fail(findings.few(reading.denied), _COMPONENT)
    if not reading.items:
        return findings.fail(f"{metrics_server.API} lists no node", metrics_server.NEXT_STEP)
    ages = [facts.now_seconds - item.at_seconds for item in reading.items if item.at_seconds is not None]
    windows = [seconds for item in reading.items if (seconds := sample_windows.window_seconds(item.window)) is not None]
    text = f"{metrics_server.API} lists {len(reading.items)} nodes"
    if not ages or not windows:
        return findings.fail(f"{text} without a time or a window", metrics_server.NEXT_STEP)
    every = f"{text}, {max(0.0, statistics.median(ages)):.0f} s old, each over {statistics.median(windows):.0f} s"
    if statistics.median(windows) > LONGEST_WINDOW_SECONDS:
        return findings.warn(
            f"{every}: load may change unseen for as long",
            f"set metrics-server's --metric-resolution to {LONGEST_WINDOW_SECONDS - 15:.0f}s or less (15s is usual)",
        )
    unread = findings.unread({"whether the services may ask it": reading.denied})
    return findings.worst([findings.ok(every), *unread])


def metrics(facts: Facts) -> Finding:
    """Every metric of the policy can be had."""
    policy = facts.settings.policy
    absent = metrics_server.unavailable(policy.metrics_in_force)
    if absent:
        return findings.fail(absent, "take them out of `metrics` of the policy, or use Prometheus")
    count = len(policy.metrics_in_force)
    return findings.ok(
        f"{count} of {count} metrics, by the annotator's own windows; not to be had: owners' usage (pods are estimated "
        "by their requests)"
    )


def nodes_matched(facts: Facts) -> Finding:
    """Every node has an item that can be used."""
    reading, nodes = findings.known(facts.load.metrics_server), findings.known(facts.nodes)
    items = {item.name: item for item in reading.items}
    lacking = [
        (node.name, why) for node in nodes if (why := _lack(items.get(node.name), node, facts.now_seconds)) is not None
    ]
    total = len(nodes)
    counted = f"{total - len(lacking)} of {total} nodes matched (by name)"
    if not lacking:
        return findings.ok(counted)
    text = findings.few(f"{name} {why}" for name, why in lacking)
    return findings.fail(
        f"{counted}; {text}",
        "look at metrics-server's log for that kubelet (certificate, address, port 10250), and at the node's clock; if "
        "zero: `kubectl get --raw /api/v1/nodes/NODE/proxy/stats/summary` says what the kubelet measures",
    )


def _lack(item: NodeMetrics | None, node: Node, now_seconds: float) -> str | None:
    if item is None:
        return "is not listed"
    reason = metrics_server.refusal(item, node, now_seconds)
    return reason and f"is refused ({reason})"


def windows(facts: Facts) -> Finding:
    """The annotator has observed the nodes, and for how long."""
    nodes = findings.known(facts.nodes)
    readings = [reading for node in nodes if (reading := _reading(node)) is not None]
    since = [reading.windows.since_seconds for reading in readings if reading.windows is not None]
    if not since:
        return findings.unknown(
            "no node has windows yet",
            "wait: an average needs half of its window (2m30s); then the annotator's /readyz?verbose says why",
        )
    youngest = max(since)
    text = f"{len(since)} of {len(nodes)} nodes observed, the last one since {clock.to_rfc3339(youngest)}"
    names = [
        metric.name
        for metric in facts.settings.policy.metrics_in_force
        if metric.statistic == load_metrics.MAXIMUM and metric.window_seconds > facts.now_seconds - youngest
    ]
    young = f": until they are full, {findings.few(names)} cover less and may be too low" if names else ""
    unseen = len(since) < len(nodes)
    return findings.unknown(text + young, "see the nodes above") if unseen else findings.ok(text + young)


def _reading(node: Node) -> Reading | None:
    try:
        return load_annotation.decode(node.annotations.get(load_annotation.KEY, ""))
    except load_annotation.AnnotationError:
        return None
