"""PodTopologySpread: how evenly a pod's kind stands over zones, hosts or whatever it names, as a filter and a score.

`filtering` asks `failed` for hard rules (DoNotSchedule), `scoring` asks `scores` for soft ones (ScheduleAnyway). A pod
without rules of its own gets the scheduler's: hosts with skew 3 and zones with skew 5, both soft, over the pods of its
owner; because of these defaults no pod is "signable", so that kube-scheduler 1.36 never batches pods of the default
profile (KEP-5598).
Source: kubernetes v1.36 pkg/scheduler/framework/plugins/podtopologyspread (common.go, filtering.go, scoring.go).
Services, which may select pods too, are not modelled.
"""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kube import selectors
from kube.objects import LabelSelector, Pod, TopologySpread
from simulator.scheduling.columns import Columns, Topology
from simulator.scheduling.order import Bools, Ints
from simulator.scheduling.state import State

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
SKEWS = {HOSTNAME: 3, ZONE: 5}
BEST = 100
Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """A rule with the selector it works by: `rule`'s own and matchLabelKeys, or the owner's for a default rule."""

    rule: TopologySpread
    selector: LabelSelector | None

    def itself(self, pod: Pod) -> bool:
        """Whether the pod is one of those it counts."""
        return self.selector is not None and self.selector.matches(pod.labels)


class Failed(NamedTuple):
    """Rows without the label of a rule, and rows that would make the skew too large, whichever comes first."""

    unlabelled: Bools
    skewed: Bools


def failed(state: State, pod: Pod) -> Failed | None:
    """What hard rules forbid; None for a pod without any.

    matching pods in the domain + (1 if the pod itself matches) - least over all domains <= maxSkew must hold; with
    fewer domains than minDomains the least is 0.
    """
    rules = [_own(rule, pod) for rule in pod.topology_spread if rule.when_unsatisfiable == HARD]
    if not rules:
        return None
    columns = state.columns
    unlabelled, skewed = np.zeros((2, len(columns.names)), np.bool_)
    labelled = _labelled(columns, rules)
    for rule in rules:
        topology = columns.topology(rule.rule.topology_key)
        unlabelled |= ~topology.labelled & ~skewed
        skewed |= _skewed(state, pod, rule, topology, labelled) & ~unlabelled
    return Failed(unlabelled, skewed)


def _skewed(state: State, pod: Pod, rule: Rule, topology: Topology, labelled: Bools) -> Bools:
    counted = labelled & _counted(state.columns, pod, rule.rule)
    matching = topology.sums(_matching(state, pod, rule), counted)
    domains = np.unique(topology.codes[counted])
    least = int(matching[domains].min()) if len(domains) >= (rule.rule.min_domains or 1) else 0
    skew = np.append(matching, 0)[topology.codes] + int(rule.itself(pod)) - least
    found: Bools = skew > rule.rule.max_skew
    return found


def scores(state: State, pod: Pod, rows: Ints) -> Ints | None:
    """0 to 100 for each of the rows, more where fewer of its kind are; None for a pod without soft rules.

    raw = round(sum over rules of matching x ln(domains + 2) + maxSkew - 1);
    score = 100 x (most + least - raw) // most, 100 if most is 0, 0 for nodes without all labels of its own rules.
    """
    rules = [_own(rule, pod) for rule in pod.topology_spread if rule.when_unsatisfiable == SOFT]
    if not pod.topology_spread:
        rules = _defaults(state, pod)
    if not rules:
        return None
    columns = state.columns
    everything = np.ones(len(columns.names), np.bool_)
    eligible = _labelled(columns, rules) if pod.topology_spread else everything
    scored = rows[eligible[rows]]
    raw = np.zeros(len(columns.names), np.float64)
    for rule in rules:
        raw[scored] += _raw(state, pod, rule, scored, eligible)
    return _normalised(_rounded(raw[rows]), eligible[rows])


def _raw(state: State, pod: Pod, rule: Rule, scored: Ints, eligible: Bools) -> Floats:
    """One rule's part, by scored row; a node without the label of a default rule gets nothing from it."""
    topology = state.columns.topology(rule.rule.topology_key)
    matching, codes = _matching(state, pod, rule), topology.codes[scored]
    if rule.rule.topology_key == HOSTNAME:
        domains, found = len(scored), matching[scored]
    else:
        domains = len(np.unique(codes))
        counted = eligible & _counted(state.columns, pod, rule.rule)
        found = np.append(topology.sums(matching, counted), 0)[codes]
    weighted: Floats = found * np.log(np.float64(domains + 2)) + (rule.rule.max_skew - 1)
    return np.where(codes >= 0, weighted, 0.0)


def _normalised(raw: Ints, eligible: Bools) -> Ints:
    if not eligible.any():
        return np.zeros(len(raw), np.int64)
    most, least = max(0, int(raw[eligible].max())), int(raw[eligible].min())
    good = np.full(len(raw), BEST, np.int64) if most == 0 else BEST * (most + least - raw) // most
    return np.where(eligible, good, 0)


def _rounded(amounts: Floats) -> Ints:
    """Half away from zero, as Go rounds; amounts are never negative."""
    whole = np.floor(amounts)
    return (whole + (amounts - whole >= 0.5)).astype(np.int64)


def _matching(state: State, pod: Pod, rule: Rule) -> Ints:
    """Pods of its namespace that the rule counts, by row; a selector that would match everybody counts nobody."""
    found = np.zeros(len(state.columns.names), np.int64)
    if rule.selector is not None and (rule.selector.match_labels or rule.selector.match_expressions):
        for crowd in state.crowds.meant(pod.namespace, (rule.selector,)):
            state.columns.placed(crowd.staying, found)
    return found


def _counted(columns: Columns, pod: Pod, rule: TopologySpread) -> Bools:
    """Rows whose pods and domain count, by nodeAffinityPolicy and nodeTaintsPolicy."""
    barred = columns.barred(pod)
    found = np.ones(len(columns.names), np.bool_)
    if rule.node_affinity_policy == "Honor":
        found &= ~barred.unselected
    if rule.node_taints_policy == "Honor":
        found &= ~barred.tainted
    return found


def _labelled(columns: Columns, rules: list[Rule]) -> Bools:
    """Rows that have the labels of all rules."""
    found = np.ones(len(columns.names), np.bool_)
    for rule in rules:
        found &= columns.topology(rule.rule.topology_key).labelled
    return found


def _own(rule: TopologySpread, pod: Pod) -> Rule:
    keys = {key: pod.labels[key] for key in rule.match_label_keys if key in pod.labels}
    return Rule(rule, _joined(rule.label_selector, keys) if rule.label_selector is not None else None)


def _joined(selector: LabelSelector, labels: Mapping[str, str]) -> LabelSelector:
    """The selector, and the labels as well (what the selector already says of them stays a condition)."""
    if not labels:
        return selector
    said = tuple(selectors.Requirement(key, "In", (value,)) for key, value in selector.match_labels.items())
    return LabelSelector(dict(labels), (*said, *selector.match_expressions))


def _defaults(state: State, pod: Pod) -> list[Rule]:
    """The scheduler's own soft rules over the pods its owner selects; none without such an owner."""
    owner = pod.owner
    selector = state.selectors.get((pod.namespace, owner.kind, owner.name)) if owner is not None else None
    if selector is None:
        return []
    return [Rule(TopologySpread(skew, key, SOFT), selector) for key, skew in SKEWS.items()]
