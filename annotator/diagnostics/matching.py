"""Why a node has no values, or only those before: said per node in words an operator can act on.

`annotator.node_sync` asks it for the nodes that ended a sync without any new value; the sentences stand in the log, in
/readyz?verbose and on stderr of `--once`. Pure.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from annotator.collect.collector import MetricAnswer
from kube.objects import Node
from promql.queries.identity import Claim, Directory, SeriesLabels

SHOWN: Final = 3


def sentence(
    nodes: Collection[Node],
    without: Collection[str],
    answers: Sequence[MetricAnswer],
    directory: Directory,
    *,
    labels: SeriesLabels,
    absence: Callable[[Node], str] = lambda _: "",
) -> str:
    """ "4 of 5 nodes matched; node-3 has no series: no target with instance 10.0.0.3"; "" when all have values.
    `absence` is the source's own reason (`collector.Source.absence`), "" where it has none.
    """
    if not without:
        return ""
    missing = frozenset(without)
    silent = [node for node in nodes if node.name in missing]
    reasons = [f"{node.name} {reason(node, answers, directory, labels, absence=absence)}" for node in silent[:SHOWN]]
    more = [f"{len(silent) - SHOWN} more nodes without values"] if len(silent) > SHOWN else []
    return "; ".join(
        [f"{len(nodes) - len(silent)} of {len(nodes)} nodes matched", *reasons, *more, *_strays(answers, labels)]
    )


def reason(
    node: Node,
    metric_answers: Sequence[MetricAnswer],
    directory: Directory,
    labels: SeriesLabels,
    *,
    absence: Callable[[Node], str] = lambda _: "",
) -> str:
    """Returns the reason why one node has no values, from the answers of a sync."""
    answers = [one.answer for one in metric_answers if one.answer is not None]
    refused = sorted({answer.refused[node.name] for answer in answers if node.name in answer.refused})
    if refused:
        return f"has only values that are refused: {', '.join(refused)}"
    present = [one.metric.name for one in metric_answers if one.answer is not None and node.name in one.answer.values]
    if present:
        return f"has no current average, so its {', '.join(present)} say nothing about the present"
    if own := absence(node):
        return own
    lost = sorted({word for word in _words(node) if directory.resolve(word) not in (None, node.name)})
    claimed = f"; it claims {', '.join(lost[:SHOWN])}, of {directory.resolve(lost[0])}" if lost else ""
    words = [word for word in _words(node) if word not in lost]
    return f"has no series: no target with {labels.node_label} {' or '.join(words[:SHOWN])}{claimed}"


def standing(nodes: Sequence[str], lagging: Sequence[bool], answers: Sequence[MetricAnswer]) -> str:
    """ "last values of 1 of 5 nodes stand and age: node-3 (double: cpu_avg_5m)"; "" where all nodes have new ones.
    `lagging` marks nodes of which a value was not answered.
    """
    behind = [node for node, lags in zip(nodes, lagging, strict=True) if lags]
    if not behind:
        return ""
    texts = [f"{node} ({_unanswered(node, answers)})" for node in behind[:SHOWN]]
    more = [f"{len(behind) - SHOWN} more nodes"] if len(behind) > SHOWN else []
    return f"last values of {len(behind)} of {len(nodes)} nodes stand and age: {', '.join([*texts, *more])}"


def _unanswered(node: str, metric_answers: Sequence[MetricAnswer]) -> str:
    """Returns the metrics that the answers lack of a node, by reason."""
    metrics: dict[str, list[str]] = {}
    for metric, answer, _ in metric_answers:
        if answer is not None and node not in answer.values:
            metrics.setdefault(answer.refused.get(node, "no series"), []).append(metric.name)
    return "; ".join(f"{reason}: {', '.join(names)}" for reason, names in sorted(metrics.items()))


def claims(directory: Directory) -> str:
    """ "node-9 claims 10.0.0.3, which stays with node-3"; "" where no node claims another's address."""
    claimants = [
        f"{', '.join(claim.others[:SHOWN])} claims {address}, which {_holds(claim)}"
        for address, claim in sorted(directory.contested.items())
    ]
    return "; ".join(claimants[:SHOWN]) + (
        f"; {len(claimants) - SHOWN} more addresses" if len(claimants) > SHOWN else ""
    )


def _holds(claim: Claim) -> str:
    if claim.holder == claim.owner:
        return f"stays with {claim.holder}"
    return f"{claim.holder} has while {claim.owner} is not Ready"


def _words(node: Node) -> list[str]:
    """Returns the names that a series could use for the node: its addresses, and its name where no address is the same
    text.
    """
    addresses = [address.address for address in node.addresses]
    return list(dict.fromkeys([*addresses, node.name]))


def _strays(answers: Sequence[MetricAnswer], labels: SeriesLabels) -> list[str]:
    """Labels that are no node's, when some node has no series: often the answer to why."""
    stray = sorted({text for one in answers if one.answer is not None for text in one.answer.unmatched})
    if not stray:
        return []
    texts = ", ".join(repr(text) for text in stray[:SHOWN]) + (" …" if len(stray) > SHOWN else "")
    return [f"{len(stray)} series match no node by {labels.node_label}: {texts}"]
