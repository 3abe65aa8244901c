"""Overloads after a start: from the source's last `overloadedFor`, and from the ledger.

`service.py` asks before its first run, and again after a gap (a pause, an outage, another leader);
other runs go on from the memory of the run before. So a restart, or `--once`, need not watch an overload for minutes
that has lasted for hours.
"""

import math
from collections.abc import Mapping, Sequence

from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import Query
from descheduler.planning import overload
from descheduler.planning.overload import Memory
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.usage import NodeUsage, UsageSource
from kube.objects import Node
from policy.schema.load_policy import LoadPolicy

FEWEST_STEPS = 4


def memory(
    source: UsageSource,
    ledger: Ledger,
    nodes: Sequence[Node],
    node_usage: Mapping[str, NodeUsage],
    *,
    policies: NodePolicies,
    now_seconds: float,
) -> Memory:
    """The memory before the readings of now (`node_usage`); raises PromqlError, KubeError and LedgerError.

    Where no node is over a line now, what was before says nothing: a reading under it ends every count.
    """
    policy = policies.whole
    past = Memory(relieving=_still_relieving(ledger, policy, now_seconds))
    if not overload.over_a_line(node_usage, policies):
        return past
    span_seconds, step_seconds = policy.descheduler.overloaded_for_seconds, _step_seconds(policy)
    # They reach back over `overloadedFor`, and one more; none where a single reading is enough.
    steps = math.ceil(span_seconds / step_seconds) + 1 if span_seconds > 0 else 0
    for number in range(steps, 0, -1):
        at_seconds = now_seconds - number * step_seconds
        usages = source.node_usage(nodes, policy, at_seconds=at_seconds)
        past = overload.observe(past, usages, policies, now_seconds=at_seconds)
    return past


def _step_seconds(policy: LoadPolicy) -> float:
    """Between two looks: a quarter of `overloadedFor`, at most half of what one look is good for, since the readings
    behind two looks are further apart where the first is the older one.
    """
    quarter_seconds = math.ceil(policy.descheduler.overloaded_for_seconds / FEWEST_STEPS)
    return min(quarter_seconds, overload.bridged_seconds(policy) / 2)


def _still_relieving(ledger: Ledger, policy: LoadPolicy, now_seconds: float) -> dict[overload.Key, float]:
    """Nodes from which pods were evicted shortly before a restart: relief goes on where it was, as if read now."""
    cooldown, interval_seconds = policy.descheduler.cooldown, policy.descheduler.interval_seconds
    since_seconds = now_seconds - 2 * (cooldown.node_seconds + interval_seconds)
    rows = ledger.rows(Query(since_seconds=since_seconds, outcome="evicted"))
    return {(row.node, row.metric): now_seconds for row in rows}
