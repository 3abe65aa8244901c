"""Turns GET /nodes of the extender into columns for the page: 5,000 nodes in some 250 KB instead of 13 MB.

Ratios are sent as whole thousandths, what is missing as null, and a reason as its place in a list of reasons.
"""

import collections.abc
from typing import Final

from console.sources import Json
from extender.verbs import documents

THOUSAND: Final = 1000


def columns(answer: documents.Nodes, pools: collections.abc.Mapping[str, str]) -> Json:
    """The nodes by column, in the order of the answer."""
    nodes = answer.nodes
    metrics = list(dict.fromkeys(name for node in nodes for name in node.values))
    windows = list(dict.fromkeys(window for node in nodes for window in node.hot))
    reasons, states = dict[str, int](), dict[str, int]()  # texts by the order in which they first came
    limits = {rule.metric: rule.limit for node in nodes for rule in node.rules if not (rule.own or rule.pool)}
    own = {
        node.name: {rule.metric: rule.limit for rule in node.rules if rule.own or rule.pool}
        for node in nodes
        if any(rule.own or rule.pool for rule in node.rules)
    }
    return {
        "at": answer.at,
        "policy": answer.policy,
        "heartbeat": answer.heartbeat,
        "names": [node.name for node in nodes],
        "values": {name: [_thousandths(node.values.get(name)) for node in nodes] for name in metrics},
        "expected": {
            name: [_thousandths(node.expected.get(name, 0.0)) for node in nodes]
            for name in metrics
            if any(node.expected.get(name) for node in nodes)
        },
        "hot": {window: [node.hot.get(window, 0) for node in nodes] for window in windows},
        "penalty": [node.penalty for node in nodes],
        "score": [node.score for node in nodes],
        "age_seconds": [None if node.age_seconds is None else round(node.age_seconds) for node in nodes],
        "state": [states.setdefault(node.state, len(states)) for node in nodes],
        "states": list(states),
        "rejected": [
            -1 if node.rejected is None else reasons.setdefault(node.rejected, len(reasons)) for node in nodes
        ],
        "reasons": list(reasons),
        "conditions": {node.name: node.conditions for node in nodes if node.conditions},
        "limits": limits,
        "own_limits": own,
        "pools": [pools.get(node.name, "") for node in nodes] if pools else [],
    }


def _thousandths(ratio: float | None) -> int | None:
    return None if ratio is None else round(ratio * THOUSAND)
