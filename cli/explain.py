"""`evenload explain pod`: why a pod may or may not go to each node, and how each score came about.

It asks the extender what it really decided (GET /decisions: the numbers of that moment), then the descheduler, which
stores the decisions that mattered in a short form. Where neither knows any, or with --now, it reads the pod and the
names of the nodes from Kubernetes and asks what would be decided now (POST /explain). `cli.explain_text` words the
answer.
"""

from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

from cli import eviction_rows, explain_text, plan, scheduler_config
from cli.common import api_types as answers
from cli.common import completing, http_client, output, services
from extender.verbs import documents
from kube import config, errors, kinds
from runtime import exit_codes

DEFAULT_WEIGHT: Final = 2  # of the shipped stanza (deploy/scheduler/extender-stanza.yaml)
EVENTS: Final = "20"  # of the pod and of its node, the newest
_NAMESPACE: Final = click.option("-n", "--namespace", default="default", show_default=True, metavar="NAME",
    shell_complete=completing.namespaces, help="The pod's namespace.")  # fmt: skip


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Say why a pod went where it went, and why it stays there or leaves.

    \b
    Examples:
      evenload explain pod web-7 -n shop
      evenload explain eviction web-7 -n shop
    """


@main.command()
@click.argument("name", shell_complete=completing.pods)
@_NAMESPACE
@click.option("--now", is_flag=True, help="What would be decided now, not what was decided.")
@click.option(
    "--weight",
    type=click.IntRange(1, 100),
    default=DEFAULT_WEIGHT,
    show_default=True,
    help="The extender's weight in the scheduler's configuration.",
)
@services.url_option(services.DESCHEDULER)
@services.extender_options
@click.option("--no-headers", is_flag=True, help="Rows only.")
@output.option("table", "wide", "csv", "json", "yaml", "name")
def pod(
    name: str, *, namespace: str, now: bool, weight: int, no_headers: bool, output_format: str, **where: Any
) -> None:
    """Say for each node whether the pod may go there, and what its score is made of.

    The decision of the last hour, with its inputs, if the extender remembers one; else what the descheduler stored of
    an earlier one that mattered; else (or with --now) what it would decide now. Of many nodes the table has the pod's
    own, the best and some that were rejected; -o wide and csv print a line for each node and metric. Exit code 4: some
    numbers were or are missing.

    \b
    Examples:
      evenload explain pod web-7 -n shop
      evenload explain pod web-7 -n shop --now -o wide
      evenload explain pod web-7 -n shop -o json | jq '.nodes[] | select(.allowed | not)'
    """
    place, about = services.Where.taken(services.EXTENDER, where), {"namespace": namespace, "pod": name}
    ledger = place._replace(url=where["descheduler"])
    with exit_codes.reported(http_client.HttpError, errors.KubeError, codes=output.REFUSAL_CODES):
        replicas = services.every(services.EXTENDER, place)
        story = (None if now else past(replicas, ledger, about)) or explained(replicas, place, about)
    if output_format in ("json", "yaml"):
        share = scheduler_config.arithmetic(weight)[-1]
        output.data(output.structured(msgspec.to_builtins(story) | {"weight": weight, "share": share}, output_format))
    elif output_format == "name":
        output.data("\n".join(f"node/{node.name}" for node in story.nodes if node.allowed))
    elif output_format == "csv":
        rows = explain_text.metric_rows(story)
        output.data(output.csv_table(explain_text.WIDE_HEADERS, rows, no_headers=no_headers))
    else:
        output.data(explain_text.table(story, weight, wide=output_format == "wide", no_headers=no_headers))
    _remarks(story, f"{name} -n {namespace}")


@main.command()
@click.argument("name", shell_complete=completing.pods)
@_NAMESPACE
@services.descheduler_options
@output.option("table", "json", "yaml")
def eviction(name: str, *, namespace: str, output_format: str, **where: Any) -> None:
    """Say why a pod stays or leaves now, what would change that, and what the ledger has of it and its workload.

    \b
    Example:
      evenload explain eviction web-7 -n shop
    """
    place, about = services.Where.taken(services.DESCHEDULER, where), {"namespace": namespace, "pod": name}
    with exit_codes.reported(http_client.HttpError, errors.KubeError, codes=output.REFUSAL_CODES):
        service = services.first(services.DESCHEDULER, place)
        judged = service.decode(service.get("/plan", **about), plan.Plan)
        workload = next((one.workload for node in judged.nodes for one in node.candidates), "")
        query = {"namespace": namespace, "workload": workload} if workload else about
        ledger = service.decode(service.get("/evictions", **query), eviction_rows.Evictions)
        policy = service.decode(service.get("/configz"), dict[str, Any])["policy"]["descheduler"]
        nodes = [*(node.node for node in judged.nodes), *(row.node for row in ledger.evictions)]
        bodies = [service.get("/events", name=one, limit=EVENTS) for one in (*nodes[:1], name)]
        posted = [one for body in bodies for one in service.decode(body, eviction_rows.Events).events]
    if not nodes and not judged.partial:
        output.fail(f"no node has a pod {namespace}/{name}, and the ledger has no eviction of it")
    warnings = [one for one in posted if one.type == "Warning" and one.namespace in ("", namespace)]
    if output_format == "table":
        output.data(explain_text.eviction(f"{namespace}/{name}", judged, policy, ledger=ledger, events=warnings))
    else:
        document = msgspec.to_builtins({"plan": judged, "evictions": ledger.evictions, "events": warnings})
        output.data(output.structured(document, output_format))
    if judged.partial:
        raise SystemExit(int(exit_codes.Exit.PARTIAL))


def past(
    replicas: Sequence[services.Service], ledger: services.Where, about: dict[str, str]
) -> explain_text.Story | None:
    """Returns the last decision about the pod in a replica's memory, else in the ledger, or None with the reason on
    stderr. Raises the HttpError of replicas that give no answer, if the ledger has none.
    """
    away: http_client.HttpError | None = None
    try:
        if story := decided(replicas, about):
            return story
    except http_client.Unreachable as error:
        away = error
    try:
        if story := decided(services.every(services.DESCHEDULER, ledger), about):
            output.say("this is what the ledger has, without nodes")
            return story
    except (http_client.HttpError, errors.KubeError) as error:
        output.say(f"warning: decisions of the ledger are not known: {error}")
    if away is not None:
        raise away
    return None


def decided(replicas: Sequence[services.Service], about: dict[str, str]) -> explain_text.Story | None:
    """Returns the last decision that any of them knows about the pod, or None with the reason on stderr."""

    def ask(service: services.Service) -> list[documents.PastDecision]:
        return service.decode(service.get("/decisions", **about), answers.Decisions).decisions

    answered = services.each(replicas, ask)
    newest = sorted((one for decisions in answered for one in decisions), key=lambda one: -one.at_seconds)
    whose = "/".join(about.values())
    if not newest:
        names = ", ".join(one.name for one in replicas)
        where = "memory (the last hour, each replica its own)"
        if replicas[0].names == services.DESCHEDULER:
            where = "ledger (decisions that rejected a node, lacked data, or were not followed)"
        output.say(f"no decision about {whose} in the {where} of {names}")
        return None
    story = merged([decision for decision in newest if decision.uid == newest[0].uid])
    if newest[0].bound_to is None:
        output.say(f"pod {whose} of this decision has ended or is gone")
    elif newest[0].bound_to == "":
        output.say(f"pod {whose} is on no node yet")
    return msgspec.structs.replace(story, bound_to=newest[0].bound_to or "")


def merged(decisions: Sequence[documents.PastDecision]) -> explain_text.Story:
    """One story of the newest filter answer and the prioritize answer after it.

    The verdicts are the filter's, the scores those of prioritize: the scheduler asks for scores only where more than
    one node passed.
    """
    newest: dict[str, documents.PastDecision] = {}
    for decision in decisions:
        newest.setdefault(decision.verb, decision)
    judged = newest.get("filter")
    scored = newest.get("prioritize")
    if judged is not None and scored is not None and scored.at_seconds < judged.at_seconds:
        scored = None
    used = [decision for decision in (judged, scored) if decision is not None] or list(newest.values())
    rows: dict[str, documents.NodeRow] = {}
    for node in (node for decision in used for node in decision.nodes or _ranked(decision)):
        row = rows.get(node.name, node)
        rows[node.name] = msgspec.structs.replace(node, allowed=row.allowed, rejected=row.rejected, rules=row.rules)
    last = used[-1]
    return explain_text.Story(
        pod=f"{last.namespace}/{last.pod}",
        at=last.at,
        policy=last.policy_hash,
        source="ledger" if last.replica else "decision",
        nodes=explain_text.ranked(rows.values()),
        exempt=next((decision.exempt for decision in used if decision.exempt), None),
        degraded=tuple(dict.fromkeys(cause for decision in used for cause in decision.degraded)),
        omitted=max(decision.candidates - len(decision.nodes or rows) for decision in used),
        ties=last.ties,
        steps=tuple(map(_step, reversed(newest.values()))),
        estimate=last.estimate or None,
        means=last.means or [],
        shadow=last.shadow,
        pod_class=last.pod_class,
    )


def explained(replicas: Sequence[services.Service], place: services.Where, about: dict[str, str]) -> explain_text.Story:
    """Returns the decision of the first replica that answers, if it were asked now about the pod, over all nodes."""
    door = config.connect(place.kubeconfig, place.context)
    try:
        unplaced = door.get(kinds.PODS, about["pod"], namespace=about["namespace"])
    except errors.NotFound:
        output.fail(f"there is no pod {'/'.join(about.values())} now; -n names its namespace")
    names = [node.name for node in door.list(kinds.NODES).items]
    body = {"Pod": msgspec.to_builtins(unplaced), "NodeNames": names}
    answer = services.first_answer(replicas, lambda one: one.decode(one.post("/explain", body), documents.Explanation))
    own = {"pod": unplaced.key, "nodes": explain_text.ranked(answer.nodes), "bound_to": unplaced.node_name}
    return explain_text.Story(**msgspec.structs.asdict(answer) | own, source="now")


def _ranked(decision: documents.PastDecision) -> list[documents.NodeRow]:
    """The best nodes of a decision that is stored without any."""
    every = map(msgspec.structs.asdict, decision.best)
    return [
        documents.NodeRow(one.pop("node"), usable=True, raw_score=one["base"] - one["penalty"], **one) for one in every
    ]


def _step(decision: documents.PastDecision) -> str:
    reasons = ", ".join(f"{count} {reason}" for reason, count in decision.rejected.items())
    outcome = f"{decision.passed} of {decision.candidates} nodes asked about" + (f" ({reasons})" if reasons else "")
    guess = f", {decision.assumed} expected to win" if decision.assumed else ""
    guess = f", {decision.ties} with the best score" if decision.ties > 1 else guess
    return f"{decision.at} {decision.verb}: {outcome}{guess}"


def _remarks(story: explain_text.Story, pod: str) -> None:
    if story.omitted:
        output.say(f"warning: {story.omitted} nodes are no longer remembered; the best are shown")
    if story.source != "now":
        output.say(f"next: {output.program()} explain pod {pod} --now says what has changed since")
    else:
        output.say(f"next: {output.program()} nodes shows the load of all nodes")
    if story.degraded:
        output.say(
            f"warning: numbers are missing ({', '.join(story.degraded)}); "
            "docs/reference/extender.md says what each means"
        )
    if story.omitted or story.degraded:
        raise SystemExit(int(exit_codes.Exit.PARTIAL))
