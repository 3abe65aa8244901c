"""The load of pods that made room on a node, as far as its maxima still show it.

`placement.destinations` leaves it out, so that a node from which small pods were moved takes the large one before the
maximum of the hour forgets them. Averages are believed as they are: a node has room when they show it, by when its
score shows it, too.

    left_m = sum of usage * shown_m(age) / capacity, over pods that made room and have gone; 0 of averages
"""

import collections
from collections.abc import Iterable, Mapping

from descheduler.snapshot import usage
from descheduler.snapshot.eviction_history import EvictedPod
from descheduler.snapshot.snapshot import Snapshot
from descheduler.snapshot.usage import PodUsage
from policy import metrics
from policy.schema.load_policy import LoadPolicy

Ratios = Mapping[str, float]  # by metric
NOTHING: Ratios = {}


def left_ratios(taken: Snapshot, policy: LoadPolicy, departed: Iterable[EvictedPod]) -> Mapping[str, Ratios]:
    """By node and metric the ratio that its maxima show of pods that made room."""
    moved = [one for one in departed if one.made_room]
    if not moved:
        return {}
    nodes = {node.name: node for node in taken.nodes}
    maxima = [one for one in policy.metrics_in_force if one.statistic != metrics.AVERAGE]
    found: dict[str, dict[str, float]] = {}
    for one in moved:
        node = nodes.get(one.node)
        if node is None or any(pod.uid == one.uid for pod in taken.on_nodes.get(one.node, ())):
            continue
        age_seconds = taken.windows_end_seconds(one.node) - one.gone_at_seconds
        used = PodUsage("", one.cpu_millicores, one.memory_bytes, one.gone_at_seconds)
        ratios = found.setdefault(one.node, collections.defaultdict(float))
        for metric in maxima:
            share_ratio = usage.share(used, node.capacity, metric.resource)
            ratios[metric.name] += usage.shown_ratio(policy, metric.name, age_seconds) * share_ratio
    return found


def without(valid: Ratios, left: Ratios) -> Ratios:
    """The readings of a node without what its maxima show of such pods."""
    return {name: max(0.0, ratio - left.get(name, 0.0)) for name, ratio in valid.items()} if left else valid
