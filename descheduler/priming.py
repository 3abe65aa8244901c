"""What a run knows of overloads after a start: what Prometheus still has of the last `overloadedFor`, and the ledger.

`service.py` asks before its first run, and again where nobody looked for long (a pause, an outage, another leader);
other runs go on from the memory of the run before. So a restart, or `--once`, need not watch an overload for minutes
that has lasted for hours.
"""

import math

from descheduler import overload
from descheduler.ledger import Ledger
from descheduler.overload import Memory
from descheduler.reading import Reader
from descheduler.rows import Query
from kube.objects import Node
from policy.schema import LoadPolicy

STEPS = 4


def memory(
    reader: Reader, ledger: Ledger, nodes: tuple[Node, ...], policy: LoadPolicy, *, now_seconds: float
) -> Memory:
    """The memory before the readings of now; raises PromqlError and LedgerError."""
    span_seconds = policy.descheduler.overloaded_for_seconds
    steps = STEPS if span_seconds > 0 else 0
    step_seconds = math.ceil(span_seconds / STEPS)
    found = Memory(relieving=_still_relieving(ledger, policy, now_seconds))
    for number in range(steps + 1, 0, -1) if steps else ():
        at_seconds = now_seconds - number * step_seconds
        usages = reader.node_usage(nodes, policy, gaps=[], at_seconds=at_seconds)
        found = overload.observe(found, usages, policy, now_seconds=at_seconds)
    return found


def _still_relieving(ledger: Ledger, policy: LoadPolicy, now_seconds: float) -> frozenset[overload.Key]:
    """Nodes from which pods were evicted shortly before a restart: relief goes on where it was."""
    cooldown, interval_seconds = policy.descheduler.cooldown, policy.descheduler.interval_seconds
    since_seconds = now_seconds - 2 * (cooldown.node_seconds + interval_seconds)
    rows = ledger.rows(Query(since_seconds=since_seconds, outcome="evicted"))
    return frozenset((row.node, row.metric) for row in rows)
