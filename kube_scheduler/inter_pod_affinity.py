"""InterPodAffinity as a filter: pods that must be near to other pods or away from them.

`refusals` are what is required, by the pod and by those that are there already; what is preferred only scores nodes,
which the simulated scheduler does by the same `places`. Pods of equal labels are matched once (`pod_groups`).
Source: kubernetes v1.36 pkg/scheduler/framework/plugins/interpodaffinity (filtering.go).
"""

from collections.abc import Iterator

import numpy as np

from kube.objects import Pod
from kube_scheduler import pod_groups
from kube_scheduler.arrays import Bools, Ints
from kube_scheduler.columns import Columns
from kube_scheduler.pod_groups import ClusterState, PodGroup, Term
from kube_scheduler.refusals import POD_AFFINITY, Refusal

UNATTRACTED = "node(s) didn't match pod affinity rules"
REPELLED = "node(s) didn't match pod anti-affinity rules"
UNWELCOME = "node(s) didn't satisfy existing pods anti-affinity rules"


def refusals(cluster: ClusterState, pod: Pod) -> Iterator[Refusal]:
    """Yields the rows away from what the pod must be near to, those near to what it must be away from, and those near
    to what must be away from it; nothing where no term applies.
    """
    own = [term for term in pod_groups.of_pod(pod) if term.required]
    theirs = [term for term in cluster.terms.about(pod, cluster.namespaces) if term.required and term.sign < 0]
    if not own and not theirs:
        return
    none, repelled, unwelcome = np.zeros((3, len(cluster.columns.names)), np.bool_)
    unattracted = _unattracted(cluster, pod, [term for term in own if term.sign > 0])
    for term in own:
        if term.sign < 0:
            repelled |= _near(cluster.columns, term, places(cluster, pod, [term]))
    for term in theirs:
        unwelcome |= _near(cluster.columns, term, cluster.columns.placed(term.places))
    yield Refusal(POD_AFFINITY, UNATTRACTED, unattracted, unattracted)
    yield Refusal(POD_AFFINITY, REPELLED, repelled, none)
    yield Refusal(POD_AFFINITY, UNWELCOME, unwelcome, none)


def _unattracted(cluster: ClusterState, pod: Pod, terms: list[Term]) -> Bools:
    """Every term needs a pod that meets all of them in its domain. The first of a group that is attracted to itself
    may go anywhere with the labels.
    """
    columns = cluster.columns
    unlabelled, far = np.zeros((2, len(columns.names)), np.bool_)
    there = places(cluster, pod, terms) if terms else np.zeros(0, np.int64)
    alone = bool(terms) and all(pod_groups.means(one.term, pod.namespace, pod, cluster.namespaces) for one in terms)
    for term in terms:
        unlabelled |= ~columns.topology(term.term.topology_key).labelled
        near = _near(columns, term, there)
        far |= ~near
        alone = alone and not near.any()
    return unlabelled if alone else unlabelled | far


def _near(columns: Columns, term: Term, there: Ints) -> Bools:
    """Rows in whose domain of the term any of the pods stands."""
    topology = columns.topology(term.term.topology_key)
    near: Bools = (topology.sums(there) > 0)[topology.codes]
    return near


def places(cluster: ClusterState, pod: Pod, terms: list[Term]) -> Ints:
    """Pods that meet all these terms of the pod, by row."""
    return cluster.columns.placed(*(group.places for group in _meant(cluster, pod, terms)))


def _meant(cluster: ClusterState, pod: Pod, terms: list[Term]) -> Iterator[PodGroup]:
    selectors = [one.term.label_selector for one in terms if one.term.label_selector is not None]
    if len(selectors) < len(terms):
        return
    first = terms[0].term
    named = first.namespaces or (pod.namespace,)
    # Only a namespace selector needs more than the few that are named.
    for namespace in named if first.namespace_selector is None else cluster.groups.namespaces:
        labels = pod_groups.namespace_labels(cluster.namespaces, namespace)
        if all(one.term.means_namespace(pod.namespace, namespace, labels) for one in terms):
            yield from cluster.groups.meant(namespace, selectors)
