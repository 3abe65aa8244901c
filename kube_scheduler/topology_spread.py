"""PodTopologySpread as a filter: how evenly a pod's kind stands over zones, hosts or whatever it names.

`refusals` are by hard rules (DoNotSchedule); soft ones (ScheduleAnyway) only score nodes, which the simulated scheduler
does by the same functions.
Source: kubernetes v1.36 pkg/scheduler/framework/plugins/podtopologyspread (common.go, filtering.go).
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from kube.api import selectors
from kube.objects import LabelSelector, Pod, TopologySpread
from kube_scheduler.arrays import Bools, Ints
from kube_scheduler.columns import Columns, Topology
from kube_scheduler.pod_groups import ClusterState
from kube_scheduler.refusals import SPREAD, Refusal

HARD = "DoNotSchedule"
SKEWED = "node(s) didn't match pod topology spread constraints"
UNLABELLED = f"{SKEWED} (missing required label)"


def refusals(cluster: ClusterState, pod: Pod) -> Iterator[Refusal]:
    """Yields the rows without the label of a hard rule, and those that would make its skew too large; of several rules
    the first that a row breaks counts.

    matching pods in the domain + (1 if the pod itself matches) - least over all domains <= maxSkew must hold; with
    fewer domains than minDomains the least is 0.
    """
    rules = [own_rule(rule, pod) for rule in pod.spec.topology_spread_constraints if rule.when_unsatisfiable == HARD]
    if not rules:
        return
    columns = cluster.columns
    unlabelled, skewed = np.zeros((2, len(columns.names)), np.bool_)
    labelled = labelled_rows(columns, rules)
    for rule in rules:
        topology = columns.topology(rule.topology_key)
        unlabelled |= ~topology.labelled & ~skewed
        skewed |= _skewed(cluster, pod, rule, topology, labelled=labelled) & ~unlabelled
    yield Refusal(SPREAD, UNLABELLED, unlabelled, unlabelled)
    yield Refusal(SPREAD, SKEWED, skewed, columns.none())


def _skewed(cluster: ClusterState, pod: Pod, rule: TopologySpread, topology: Topology, *, labelled: Bools) -> Bools:
    counted = counted_rows(cluster.columns, pod, rule, labelled)
    matching = topology.sums(matching_pods(cluster, pod, rule.label_selector), counted)
    domains = np.unique(topology.codes[counted])
    least = int(matching[domains].min()) if len(domains) >= (rule.min_domains or 1) else 0
    itself = rule.label_selector is not None and rule.label_selector.matches(pod.labels)
    over: Bools = matching[topology.codes] + int(itself) - least > rule.max_skew
    return over


def matching_pods(cluster: ClusterState, pod: Pod, selector: LabelSelector | None) -> Ints:
    """Pods of its namespace that are selected, by row; an empty selector counts none."""
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return cluster.columns.placed()
    return cluster.columns.placed(*(group.staying for group in cluster.groups.meant(pod.namespace, (selector,))))


def counted_rows(columns: Columns, pod: Pod, rule: TopologySpread, eligible: Bools | None) -> Bools | None:
    """Of the eligible rows (None for all) those whose pods and domain count, by nodeAffinityPolicy and
    nodeTaintsPolicy.
    """
    barred = columns.barred(pod)
    for policy, rows in ((rule.node_affinity_policy, barred.unselected), (rule.node_taints_policy, barred.tainted)):
        if policy == "Honor" and rows is not None:
            eligible = ~rows if eligible is None else eligible & ~rows
    return eligible


def labelled_rows(columns: Columns, rules: list[TopologySpread]) -> Bools:
    """Rows that have the labels of all rules."""
    labelled: Bools = np.logical_and.reduce([columns.topology(rule.topology_key).labelled for rule in rules])
    return labelled


def own_rule(rule: TopologySpread, pod: Pod) -> TopologySpread:
    """The rule whose selector has the labels of its keys as well (what it already says of them stays a condition)."""
    labels, selector = {key: pod.labels[key] for key in rule.match_label_keys if key in pod.labels}, rule.label_selector
    if labels and selector is not None:
        own = (selectors.Requirement(key, "In", (value,)) for key, value in selector.match_labels.items())
        selector = LabelSelector(labels, (*own, *selector.match_expressions))
    return msgspec.structs.replace(rule, label_selector=selector)
