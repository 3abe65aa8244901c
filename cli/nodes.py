"""`evenload nodes`: the load that scheduling goes by, per node, with its age, score and what the filter says.

It prints GET /nodes of the extender: a table whose first row is the cluster, or the answer as it came (-o json, yaml).
Numbers are those that a pod without a load of its own would meet now.
"""

import collections.abc
import functools
import statistics
from typing import Any, Final, NamedTuple

import click

from cli import plan
from cli.common import api_types as answers
from cli.common import completing, http_client, output, services, watching
from extender.verbs import documents
from kube import config, errors, kinds
from policy.explain import wording
from runtime import clock, exit_codes

CPU: Final = ("cpu_avg_5m", "cpu_max_1h", "cpu_max_1d")
MEMORY: Final = ("memory_avg_5m", "memory_max_1h", "memory_max_1d")
STATUS: Final = "status"  # a column where some node is not Ready, under pressure or cordoned
POOL: Final = "pool"  # a column where the policy has pools
WHOLE_CLUSTER: Final = "*"

Order = collections.abc.Callable[[documents.NodeRow], Any]
# The worst first, except by name: what one looks for stands at the top.
ORDERS: Final[dict[str, Order]] = {
    "cpu_avg_5m": lambda node: _last(node.values.get("cpu_avg_5m"), descending=True),
    "memory_avg_5m": lambda node: _last(node.values.get("memory_avg_5m"), descending=True),
    "score": lambda node: _last(node.score),
    "age": lambda node: _last(node.age_seconds, descending=True),
    "name": lambda node: answers.natural(node.name),
}


@click.command("nodes", context_settings={"help_option_names": ["-h", "--help"]})
@services.extender_options
@click.option("--sort-by", type=click.Choice(list(ORDERS)), default="name", show_default=True, help="Worst first.")
@click.option("--node", "names", multiple=True, metavar="NAME", shell_complete=completing.nodes,
    help="Only this node; may be repeated.")  # fmt: skip
@click.option("-l", "--selector", default="", metavar="LABELS", help="Nodes with these labels, such as pool=batch.")
@watching.option
@click.option("--no-headers", is_flag=True, help="No line with the columns' names.")
@output.option("table", "wide", "csv", "json", "yaml", "name")
def main(
    sort_by: str, names: tuple[str, ...], selector: str, *, watch: bool, no_headers: bool, output_format: str,
    **where: Any,
) -> None:  # fmt: skip
    """Show the load that scheduling goes by, per node.

    HOT is the hot-spot penalty in points, SCORE what a pod would find (0 to 10), FILTER the rule that keeps new pods
    away, AGE that of the reading. STATUS is there where a node is not Ready, under pressure or cordoned, POOL where the
    policy has pools. The row * is the cluster: means of the loads. -o wide adds further metrics, the placements per
    window, the base, and why a reading is unusable. Exit code 4: some node has no usable reading.

    \b
    Examples:
      evenload nodes --sort-by memory_avg_5m
      evenload nodes -l node.kubernetes.io/instance-type=m5.large
      evenload nodes --extender https://evenload-extender.evenload-system.svc:8900 --ca-file ca.crt
      evenload nodes -o json | jq '.nodes[] | select(.score < 3).name'
    """
    place = services.Where.taken(services.EXTENDER, where)
    with exit_codes.reported(http_client.HttpError, errors.KubeError, codes=output.REFUSAL_CODES):
        service = services.first(services.EXTENDER, place)

        def show() -> int:
            body = service.get("/nodes")
            answer, document = service.decode(body, documents.Nodes), service.decode(body, dict[str, Any])
            known = {node.name for node in answer.nodes}
            for name in (one for one in names if one not in known):
                output.fail(f"--node {name}: the extender knows no such node; {plan.hint(name, known)}")
            chosen = _labelled(place, selector, names) if selector else set(names or known)
            nodes = sorted((node for node in answer.nodes if node.name in chosen), key=ORDERS["name"])
            nodes.sort(key=ORDERS[sort_by])
            if output_format in ("json", "yaml"):
                rows = {row["name"]: row for row in document["nodes"]}
                output.data(output.structured(document | {"nodes": [rows[node.name] for node in nodes]}, output_format))
            elif output_format == "name":
                for node in nodes:
                    output.data(f"node/{node.name}")
            elif output_format == "csv":
                output.data(csv_text(nodes, no_headers=no_headers))
            else:
                output.data(text(nodes, wide=output_format == "wide", no_headers=no_headers))
            return _remarks(nodes, answer.policy)

        watching.repeated(show, clock.WallClock(), watch=watch)


def _labelled(place: services.Where, selector: str, names: collections.abc.Collection[str]) -> set[str]:
    """The names of the nodes (of these, if any) with labels, which the extender does not keep; KubeError."""
    kube = config.connect(place.kubeconfig, place.context)
    every = kube.list(kinds.NODES, label_selector=selector).items
    labelled = {node.name for node in every if not names or node.name in names}
    if not labelled:
        none = f"none of {', '.join(names)}" if names else "no node"
        output.fail(f"{none} has the labels {selector}; kubectl get nodes --show-labels lists them")
    return labelled


def csv_text(nodes: collections.abc.Sequence[documents.NodeRow], *, no_headers: bool) -> str:
    """A row for each node and a figure in each column: loads and base as they are, ages in seconds, empty: unknown."""
    names, windows = [*CPU, *MEMORY, *_further(nodes)], list(nodes[0].hot) if nodes else []
    headers = ["node", *names, "hot", "score", "age_seconds", "filter", *(f"pods_{one}" for one in windows)]
    rows = [
        [
            node.name,
            *map(node.values.get, names),
            node.penalty,
            node.score,
            node.age_seconds,
            _filter(node, lambda rule: f"{rule.metric}>{answers.percent(rule.limit)}"),
            *(node.hot.get(window, 0) for window in windows),
            node.base,
            node.state,
            ",".join(node.conditions),
            node.pool,
        ]
        for node in nodes
    ]
    return output.csv_table([*headers, "base", "reading", STATUS, POOL], rows, no_headers=no_headers)


def text(nodes: collections.abc.Sequence[documents.NodeRow], *, wide: bool = False, no_headers: bool = False) -> str:
    """The table, the cluster's row first."""
    columns = [*_columns(nodes), *(_wide(nodes) if wide else ()), *_extra(nodes)]
    headers = [column.header for column in columns]
    rows = [[column.cell(node) for column in columns] for node in nodes]
    if nodes:
        rows.insert(0, [column.whole for column in columns])
    return output.table(headers, rows, names={"node", STATUS, POOL}, no_headers=no_headers)


class Column(NamedTuple):
    """A column: its header, its cell in the cluster's row, and that of a node."""

    header: str
    whole: str
    cell: collections.abc.Callable[[documents.NodeRow], str]


def _columns(nodes: collections.abc.Sequence[documents.NodeRow]) -> collections.abc.Iterator[Column]:
    """The usual ones; of the cluster the means of what nodes have, how many the filter rejects, the oldest reading."""
    rejected = sum(node.rejected is not None for node in nodes)
    oldest_seconds = max((node.age_seconds for node in nodes if node.age_seconds is not None), default=None)
    yield Column("node", WHOLE_CLUSTER, lambda node: node.name)
    for header, names in (("cpu 5m/1h/1d", CPU), ("mem 5m/1h/1d", MEMORY)):
        yield Column(header, _percents([_mean(nodes, name) for name in names]), functools.partial(_loads, names))
    yield Column("hot", answers.MISSING, lambda node: f"{node.penalty:g}")
    yield Column("score", answers.MISSING, lambda node: answers.MISSING if node.score is None else str(node.score))
    yield Column("age", answers.age(oldest_seconds), lambda node: answers.age(node.age_seconds))
    yield Column("filter", f"{rejected} of {len(nodes)}" if rejected else answers.MISSING, _filter)


def _wide(nodes: collections.abc.Sequence[documents.NodeRow]) -> collections.abc.Iterator[Column]:
    """Those that -o wide adds: further metrics by name, placements per hot-spot window, base and state."""
    metrics, windows = _further(nodes), list(nodes[0].hot) if nodes else []
    for name in metrics:
        yield Column(name, answers.percent(_mean(nodes, name)), functools.partial(_loads, (name,)))
    if metrics or windows:
        yield Column(f"pods {'/'.join(windows)}", answers.MISSING, functools.partial(_placements, windows))
        yield Column("base", answers.MISSING, answers.base)
        yield Column("reading", answers.MISSING, lambda node: node.state)


def _further(nodes: collections.abc.Iterable[documents.NodeRow]) -> list[str]:
    """The metrics that the usual columns do not have."""
    names = dict.fromkeys(name for node in nodes for name in (*node.values, *node.unusable))
    return [name for name in names if name not in CPU + MEMORY]


def _extra(nodes: collections.abc.Sequence[documents.NodeRow]) -> collections.abc.Iterator[Column]:
    """Those that are there where some node has something to say in them."""
    if adverse := sum(bool(node.conditions) for node in nodes):
        yield Column(STATUS, f"{adverse} of {len(nodes)} not", lambda node: ",".join(node.conditions) or "Ready")
    if any(node.pool for node in nodes):
        yield Column(POOL, answers.MISSING, lambda node: node.pool or answers.MISSING)


def _placements(windows: collections.abc.Iterable[str], node: documents.NodeRow) -> str:
    return "/".join(str(node.hot.get(window, 0)) for window in windows) or answers.MISSING


def _loads(names: tuple[str, ...], node: documents.NodeRow) -> str:
    return _percents([node.values.get(name) for name in names])


def _percents(ratios: collections.abc.Iterable[float | None]) -> str:
    """`43/52/61%`, with `-` for a value that is missing."""
    texts = [answers.percent(ratio) for ratio in ratios]
    unit = "%" if any(text.endswith("%") for text in texts) else ""
    return "/".join(text.removesuffix("%") for text in texts) + unit


def _compared(rule: documents.Rule) -> str:
    """`cpu 65.3%>65%`: with the load of pods that arrived a moment ago, which the columns of loads do not have."""
    name = rule.metric.removesuffix("_avg_5m")
    if rule.value is None:
        return f"{name} missing"
    return f"{name} {wording.compared(100 * rule.value, '%>', 100 * rule.limit, decimals=0)}%"


def _filter(node: documents.NodeRow, text: collections.abc.Callable[[documents.Rule], str] = _compared) -> str:
    return ", ".join(text(rule) for rule in node.rules if rule.broken) or node.rejected or answers.MISSING


def _mean(nodes: collections.abc.Iterable[documents.NodeRow], name: str) -> float | None:
    values = [node.values[name] for node in nodes if name in node.values]
    return statistics.fmean(values) if values else None


def _last(value: float | None, *, descending: bool = False) -> tuple[bool, float]:
    """A sort key by which nodes without the number come last."""
    return value is None, 0.0 if value is None else -value if descending else value


def _remarks(nodes: collections.abc.Sequence[documents.NodeRow], policy_hash: str) -> int:
    """Prints remarks and next steps on stderr; returns the exit code, 4 where readings are unusable."""
    if not nodes:
        output.say("the extender knows no nodes: is it ready? curl URL/readyz?verbose says what it waits for")
        return int(exit_codes.Exit.PARTIAL)
    for node in nodes:
        if node.thresholds_ignored:
            output.say(f"warning: of evenload.io/thresholds on {node.name} is not in force: {node.thresholds_ignored}")
    blind = [node for node in nodes if not node.usable]
    output.say(f"policy {policy_hash}; next: {output.program()} explain pod NAME -n NAMESPACE")
    if blind:
        names = answers.few((f"{node.name} ({node.state})" for node in blind), 5)
        output.say(f"warning: no usable reading of {len(blind)} of {len(nodes)} nodes: {names}; -o wide lists them")
        return int(exit_codes.Exit.PARTIAL)
    return int(exit_codes.Exit.OK)
