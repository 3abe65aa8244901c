"""`evenload plan`: what the descheduler would do now, and for every pod that stays, why.

It asks a running descheduler (GET /plan) and prints every overloaded node, every pod of it, the verdict, the rule of
the policy behind it and the headroom. Nothing is evicted by asking.
"""

import collections.abc
import difflib
from typing import Any, Final

import click
import msgspec

from cli.common import api_types as answers
from cli.common import completing, http_client, output, services, watching
from descheduler.planning import verdicts as pod_verdicts
from kube import errors
from policy.explain import wording
from runtime import clock, exit_codes

HEADERS: Final = ("node", "pod", "cpu", "memory", "verdict", "why")
WIDE_HEADERS: Final = ("node", "pod", "workload", "cpu", "memory", "verdict", "rule", "why")
NAMES: Final = frozenset({"node", "pod", "workload", "rule"})


class Overload(msgspec.Struct, frozen=True):
    """One metric of a node over its line; `since` is null while an earlier relief goes on."""

    metric: str
    value_ratio: float
    threshold_ratio: float
    target_ratio: float
    projected_ratio: float
    since: str | None = None


class Candidate(msgspec.Struct, frozen=True):
    """A pod of an overloaded node and its one verdict."""

    namespace: str
    pod: str
    workload: str
    verdict: str
    detail: str
    rule: str = ""
    needs: str = ""
    cpu_millicores: float | None = None
    memory_bytes: float | None = None


class Node(msgspec.Struct, frozen=True):
    """One overloaded node; `left_alone` says why nothing was considered there."""

    node: str
    overloads: tuple[Overload, ...]
    candidates: tuple[Candidate, ...]
    left_alone: str = ""
    pool: str | None = None
    mode: str = ""


class PoolMode(msgspec.Struct, frozen=True):
    """The mode of the nodes of a pool, or of those without one (None)."""

    pool: str | None
    mode: str
    mode_reason: str = ""


class MeanLine(msgspec.Struct, frozen=True):
    """The lines of a metric that follow the mean of the nodes of a pool, or of those without one (None)."""

    pool: str | None
    metric: str
    nodes: int
    mean_ratio: float
    threshold_ratio: float
    target_ratio: float


class Budget(msgspec.Struct, frozen=True):
    """A budget over some candidate."""

    namespace: str
    name: str
    allowed: int
    reserved: int


class Room(msgspec.Struct, frozen=True):
    """How far a node that takes pods is under each target line."""

    node: str
    headroom_ratio: dict[str, float]


class Headroom(msgspec.Struct, frozen=True):
    """The rest of caps and budgets after the plan."""

    run: int
    hour: int
    budgets: tuple[Budget, ...] = ()
    destinations: tuple[Room, ...] = ()


class Plan(msgspec.Struct, frozen=True):
    """GET /plan, as far as it is read."""

    at: str
    mode: str
    policy: str
    summary: str
    headroom: Headroom
    mode_reason: str = ""
    partial: bool = False
    pools: tuple[PoolMode, ...] = ()
    mean_lines: tuple[MeanLine, ...] = ()
    evictions: tuple[dict[str, Any], ...] = ()
    nodes: tuple[Node, ...] = ()


@click.command("plan", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--node", "nodes", multiple=True, metavar="NAME", shell_complete=completing.nodes,
    help="Only this node; may be repeated.")  # fmt: skip
@click.option("-n", "--namespace", "namespaces", multiple=True, metavar="NAME",
    shell_complete=completing.namespaces, help="Only pods of this namespace; may be repeated.")  # fmt: skip
@click.option("--verdict", "verdicts", multiple=True, type=click.Choice(list(map(str, pod_verdicts.Cause))),
    metavar="WORD", help="Only pods with it; may be repeated.")  # fmt: skip
@services.descheduler_options
@watching.option
@click.option("--no-headers", is_flag=True, help="Rows only.")
@output.option("table", "wide", "csv", "json", "yaml")
def main(
    nodes: tuple[str, ...],
    namespaces: tuple[str, ...],
    verdicts: tuple[str, ...],
    *,
    watch: bool,
    no_headers: bool,
    output_format: str,
    **where: Any,
) -> None:
    """Say what the descheduler would evict now, and why everything else stays.

    Every overloaded node, every pod of it, one verdict each: `chosen`, or what keeps it and the figures behind. -o wide
    adds the workload and the key of the policy that decides. What is left of caps, budgets and destinations
    stands above the table. Exit code 4: the data was not whole.

    \b
    Examples:
      evenload plan
      evenload plan --verdict no_destination -o wide
      evenload plan -o json | jq '.nodes[].candidates[] | select(.verdict == "budget").pod'
    """
    with exit_codes.reported(http_client.HttpError, errors.KubeError):
        service = services.first(services.DESCHEDULER, services.Where.taken(services.DESCHEDULER, where))

        def show() -> int:
            body = service.get("/plan")
            answer, document = service.decode(body, Plan), service.decode(body, dict[str, Any])
            _refuse_unknown(nodes, answer)
            narrowed = _narrowed(document, nodes, namespaces, verdicts)
            if output_format in ("json", "yaml"):
                output.data(output.structured(narrowed, output_format))
            else:
                output.data(text(msgspec.convert(narrowed, Plan), output_format, no_headers=no_headers))
            return _remarks(answer)

        watching.repeated(show, clock.WallClock(), watch=watch)


def _refuse_unknown(names: collections.abc.Iterable[str], plan: Plan) -> None:
    """Ends with code 2 for a node that the plan does not know; one that takes pods is there and not overloaded."""
    overloaded = {node.node for node in plan.nodes}
    known = overloaded | {room.node for room in plan.headroom.destinations}
    for name in names:
        if name not in known:
            why = "it is not overloaded and takes no pods, or there is no such node"
            output.fail(f"--node {name}: {why}; {hint(name, known)}")
        if name not in overloaded:
            output.say(f"node {name} is not overloaded: nothing would be evicted there")


def hint(name: str, known: collections.abc.Iterable[str]) -> str:
    """Returns the names of nodes that an unknown one may be meant for, or where all are."""
    near = difflib.get_close_matches(name, sorted(known))
    return f"did you mean {' or '.join(near)}?" if near else "evenload nodes names all nodes"


def text(plan: Plan, output_format: str, *, no_headers: bool) -> str:
    """The summary, what is left, a line per overloaded node, and a row per pod."""
    wide = output_format in ("wide", "csv")
    rows = [_row(node, one, wide=wide) for node in plan.nodes for one in node.candidates]
    headers = WIDE_HEADERS if wide else HEADERS
    if output_format == "csv":
        return output.csv_table(headers, rows, no_headers=no_headers)
    grid = output.table(headers, rows, names=NAMES, no_headers=no_headers) if rows else ""
    if no_headers:
        return grid
    return "\n".join((*_head(plan), *(("", grid) if grid else ())))


def _head(plan: Plan) -> collections.abc.Iterator[str]:
    why = f" ({plan.mode_reason})" if plan.mode_reason else ""
    yield f"plan at {plan.at}, mode {plan.mode}{why}, policy {plan.policy}"
    if plan.pools:
        yield f"modes: {', '.join(map(_pool_mode, plan.pools))}"
    yield from map(_mean_line, plan.mean_lines)
    yield plan.summary
    left = plan.headroom
    yield f"evictions still allowed after these: {left.run} in this run, {left.hour} in this hour"
    if left.budgets:
        named = (f"{one.namespace}/{one.name} {one.allowed - one.reserved} of {one.allowed}" for one in left.budgets)
        yield f"disruptions that budgets still allow: {', '.join(named)}"
    rests = [
        f"{one.node} {answers.percent(min(one.headroom_ratio.values(), default=0.0))}" for one in left.destinations
    ]
    yield f"nodes with room: {answers.few(rests)} below the nearest evictUntil" if rests else "nodes with room: none"
    yield from map(node_line, plan.nodes)


def node_line(node: Node) -> str:
    """The node, its overloads, and why it is left alone."""
    pool = f" of pool {node.pool}, {node.mode}" if node.pool else ""
    left_alone = f"; left alone: {node.left_alone}" if node.left_alone and node.overloads else node.left_alone
    return f"node {node.node}{pool}: {'; '.join(map(_overload, node.overloads))}{left_alone}"


def _pool_mode(mode: PoolMode) -> str:
    why = f" ({mode.mode_reason})" if mode.mode_reason else ""
    return f"pool {mode.pool} {mode.mode}{why}" if mode.pool else f"other nodes {mode.mode}{why}"


def _mean_line(line: MeanLine) -> str:
    pool = f"pool {line.pool}: " if line.pool else ""
    mean = f"{pool}{line.metric} has a mean of {answers.percent(line.mean_ratio)} over {line.nodes} nodes"
    above, until = answers.percent(line.threshold_ratio), answers.percent(line.target_ratio)
    return f"{mean}: overloaded above {above}, relieved until {until}"


def _overload(over: Overload) -> str:
    since = f"since {over.since}" if over.since else "relief goes on"
    after = f", then {answers.percent(over.projected_ratio)}" if over.projected_ratio != over.value_ratio else ""
    sign = "% > " if over.value_ratio > over.threshold_ratio else "% <= "
    figures = wording.compared(100 * over.value_ratio, sign, 100 * over.threshold_ratio, decimals=0)
    return f"{over.metric} {figures}%, until {100 * over.target_ratio:g}%, {since}{after}"


def _row(node: Node, candidate: Candidate, *, wide: bool) -> list[str]:
    cpu = answers.MISSING if candidate.cpu_millicores is None else f"{candidate.cpu_millicores:.0f}m"
    rule = [f"descheduler.{candidate.rule}" if candidate.rule else answers.MISSING] if wide else []
    workload = [candidate.workload or answers.MISSING] if wide else []
    pod, why = f"{candidate.namespace}/{candidate.pod}", candidate.detail or answers.MISSING
    return [node.node, pod, *workload, cpu, answers.mebibytes(candidate.memory_bytes), candidate.verdict, *rule, why]


def _narrowed(
    document: dict[str, Any], nodes: tuple[str, ...], namespaces: tuple[str, ...], verdicts: tuple[str, ...]
) -> dict[str, Any]:
    """The answer as it came, narrowed to the nodes and pods asked for."""
    narrowed = []
    for node in document.get("nodes", ()):
        candidates = [
            one
            for one in node["candidates"]
            if (not verdicts or one["verdict"] in verdicts) and (not namespaces or one["namespace"] in namespaces)
        ]
        if not nodes or node["node"] in nodes:
            narrowed.append(node | {"candidates": candidates})
    return document | {"nodes": narrowed}


def _remarks(plan: Plan) -> int:
    """Prints remarks and next steps on stderr; returns the exit code."""
    if not plan.nodes:
        output.say("no node is overloaded; evenload nodes shows the load of all")
    output.say(
        f"next: {output.program()} evictions shows what was done before; "
        "docs/reference/descheduler.md says what each verdict means"
    )
    if plan.partial:
        output.say("warning: the data was not whole, so nothing would be evicted; the summary says what is missing")
        return int(exit_codes.Exit.PARTIAL)
    return int(exit_codes.Exit.OK)
