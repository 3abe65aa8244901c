"""PodTopologySpread: how evenly a pod's kind stands over zones, hosts or whatever it names, as a filter and a score.

`refusals` are by hard rules (DoNotSchedule), a scheduler asks `scores` for soft ones (ScheduleAnyway). A pod
without rules of its own gets the scheduler's: hosts with skew 3 and zones with skew 5, both soft, over the pods of its
owner; because of these defaults no pod is "signable", so that kube-scheduler 1.36 never batches pods of the default
profile (KEP-5598).
Source: kubernetes v1.36 pkg/scheduler/framework/plugins/podtopologyspread (common.go, filtering.go, scoring.go).
Services, which may select pods too, are not modelled.
"""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kube.api import selectors
from kube.objects import LabelSelector, Pod, TopologySpread
from kube_scheduler.arrays import Bools, Ints
from kube_scheduler.cluster_state import ClusterState
from kube_scheduler.columns import Columns, Topology
from kube_scheduler.refusals import SPREAD, Refusal

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
DEFAULTS = (TopologySpread(3, HOSTNAME, SOFT), TopologySpread(5, ZONE, SOFT))
BEST = 100
SKEWED = "node(s) didn't match pod topology spread constraints"
UNLABELLED = f"{SKEWED} (missing required label)"
Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """A rule with the selector it works by: `rule`'s own and matchLabelKeys, or the owner's for a default rule."""

    rule: TopologySpread
    selector: LabelSelector | None

    def itself(self, pod: Pod) -> bool:
        """Whether the pod is one of those it counts."""
        return self.selector is not None and self.selector.matches(pod.labels)


def refusals(cluster: ClusterState, pod: Pod) -> Iterator[Refusal]:
    """Yields the rows without the label of a hard rule, and those that would make its skew too large; of several rules
    the first that a row breaks counts.

    matching pods in the domain + (1 if the pod itself matches) - least over all domains <= maxSkew must hold; with
    fewer domains than minDomains the least is 0.
    """
    rules = [_own(rule, pod) for rule in pod.spec.topology_spread_constraints if rule.when_unsatisfiable == HARD]
    if not rules:
        return
    columns = cluster.columns
    unlabelled, skewed = np.zeros((2, len(columns.names)), np.bool_)
    labelled = _labelled(columns, rules)
    for rule in rules:
        topology = columns.topology(rule.rule.topology_key)
        unlabelled |= ~topology.labelled & ~skewed
        skewed |= _skewed(cluster, pod, rule, topology, labelled=labelled) & ~unlabelled
    yield Refusal(SPREAD, UNLABELLED, unlabelled, unlabelled)
    yield Refusal(SPREAD, SKEWED, skewed, columns.none())


def _skewed(cluster: ClusterState, pod: Pod, rule: Rule, topology: Topology, *, labelled: Bools) -> Bools:
    counted = _counted(cluster.columns, pod, rule.rule, labelled)
    matching = topology.sums(_matching(cluster, pod, rule.selector), counted)
    domains = np.unique(topology.codes[counted])
    least = int(matching[domains].min()) if len(domains) >= (rule.rule.min_domains or 1) else 0
    skew = matching[topology.codes] + int(rule.itself(pod)) - least
    over: Bools = skew > rule.rule.max_skew
    return over


def scores(cluster: ClusterState, pod: Pod, rows: Ints, owner: LabelSelector | None) -> Ints | None:
    """0 to 100 for each of the rows, more where fewer of its kind are; None for a pod without soft rules.

    `owner` is the selector of the pod's owner, if it has one that selects.

    raw = round(sum over rules of matching x ln(domains + 2) + maxSkew - 1);
    score = 100 x (most + least - raw) // most, 100 if most is 0, 0 for nodes without all labels of its own rules.
    """
    if not pod.spec.topology_spread_constraints:
        return _by_default(cluster, pod, rows, owner) if owner is not None else None
    rules = [_own(rule, pod) for rule in pod.spec.topology_spread_constraints if rule.when_unsatisfiable == SOFT]
    if not rules:
        return None
    labelled = _labelled(cluster.columns, rules)
    eligible = labelled[rows]
    spread = np.zeros(len(rows), np.int64)
    if eligible.any():
        scored = rows[eligible]
        raw = np.zeros(len(scored))
        for rule in rules:
            matching = _matching(cluster, pod, rule.selector)
            raw += _raw(cluster.columns, pod, rule.rule, matching, scored=scored, eligible=labelled)
        spread[eligible] = _normalised(_rounded(raw))
    return spread


def _by_default(cluster: ClusterState, pod: Pod, rows: Ints, owner: LabelSelector) -> Ints:
    """The scheduler's own rules, over the pods that the owner selects; a node may lack the label of one."""
    matching = _matching(cluster, pod, owner)
    hosts, zones = (_raw(cluster.columns, pod, rule, matching, scored=rows, eligible=None) for rule in DEFAULTS)
    return _normalised(_rounded(hosts + zones))


def _raw(
    columns: Columns, pod: Pod, rule: TopologySpread, matching: Ints, *, scored: Ints, eligible: Bools | None
) -> Floats:
    """One rule's part, by scored row; nothing for a node without the label."""
    topology = columns.topology(rule.topology_key)
    if not topology.numbers:
        return np.zeros(len(scored))
    if rule.topology_key == HOSTNAME:
        domains, pods = len(scored), columns.at(matching, scored)
    else:
        codes = columns.at(topology.codes, scored)
        domains = topology.domains(codes)
        pods = topology.sums(matching, _counted(columns, pod, rule, eligible))[codes]
    weighted: Floats = pods * np.float64(math.log(domains + 2)) + (rule.max_skew - 1)
    return weighted if topology.whole else np.where(topology.labelled[scored], weighted, 0.0)


def _normalised(raw: Ints) -> Ints:
    most, least = int(raw.max()), int(raw.min())
    return BEST * (most + least - raw) // most if most else np.full(len(raw), BEST, np.int64)


def _rounded(amounts: Floats) -> Ints:
    """Half away from zero, as Go rounds; amounts are never negative."""
    whole = np.floor(amounts)
    return (whole + (amounts - whole >= 0.5)).astype(np.int64)


def _matching(cluster: ClusterState, pod: Pod, selector: LabelSelector | None) -> Ints:
    """Pods of its namespace that are selected, by row; an empty selector counts none."""
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return cluster.columns.placed()
    return cluster.columns.placed(*(group.staying for group in cluster.groups.meant(pod.namespace, (selector,))))


def _counted(columns: Columns, pod: Pod, rule: TopologySpread, eligible: Bools | None) -> Bools | None:
    """Of the eligible rows (None for all) those whose pods and domain count, by nodeAffinityPolicy and
    nodeTaintsPolicy.
    """
    barred = columns.barred(pod)
    if rule.node_affinity_policy == "Honor" and barred.unselected is not None:
        eligible = ~barred.unselected if eligible is None else eligible & ~barred.unselected
    if rule.node_taints_policy == "Honor" and barred.tainted is not None:
        eligible = ~barred.tainted if eligible is None else eligible & ~barred.tainted
    return eligible


def _labelled(columns: Columns, rules: list[Rule]) -> Bools:
    """Rows that have the labels of all rules."""
    labelled: Bools = np.logical_and.reduce([columns.topology(rule.rule.topology_key).labelled for rule in rules])
    return labelled


def _own(rule: TopologySpread, pod: Pod) -> Rule:
    """The rule with its selector, and with the labels of its keys as well (what the selector already says of them
    stays a condition).
    """
    labels, selector = {key: pod.labels[key] for key in rule.match_label_keys if key in pod.labels}, rule.label_selector
    if labels and selector is not None:
        own = (selectors.Requirement(key, "In", (value,)) for key, value in selector.match_labels.items())
        selector = LabelSelector(labels, (*own, *selector.match_expressions))
    return Rule(rule, selector)
