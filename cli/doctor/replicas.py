"""Asks the services: each extender for its state, and a descheduler for what it holds back; at the URLs given, or at
each pod behind the Service through the apiserver.

`gathering` calls `ask` and `held_back`. All extenders are asked in turn, and a few times over when their views differ:
a node patch on its way is not a difference that lasts. Any descheduler answers GET /plan, since they share the ledger.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from prometheus_client import parser

from cli import plan
from cli.common import http_client, services
from cli.common.services import DESCHEDULER
from cli.doctor import findings
from cli.doctor.facts import BlockedRelief, Means, Relief, Replica
from cli.doctor.findings import Finding
from descheduler.planning.verdicts import Cause
from extender.verbs import documents
from kube import errors

ROUNDS: Final = 4
PAUSE_SECONDS: Final = 1.0
_REQUESTS: Final = "evenload_extender_request_duration_seconds_count"
_WATCH_AGE: Final = "evenload_kube_watch_age_seconds"
_SHADOW_MODE: Final = "evenload_extender_shadow_mode"
_SINCE: Final = "evenload_config_last_reload_success_timestamp_seconds"


class _Decision(msgspec.Struct, frozen=True):
    at_seconds: float


class _Decisions(msgspec.Struct, frozen=True):
    decisions: tuple[_Decision, ...] = ()


def ask(means: Means, namespace: str) -> tuple[Replica | Finding, ...] | Finding:
    """Every replica's answer, or the Finding that tells why one, or all of them, could not be asked."""
    try:
        extenders = means.extenders or services.behind(means.kube, services.EXTENDER, namespace)
    except errors.KubeError as error:
        return findings.unknown(f"the extenders could not be looked for: {error}", "--extender URL for each replica")
    if not extenders:
        return findings.fail(
            f"no extender at a --extender URL, and none behind Service {namespace}/{services.EXTENDER.in_cluster}",
            "deploy the extender (docs/reference/extender.md), or say where it is: --extender URL for each replica",
        )
    answers: tuple[Replica | Finding, ...] = ()
    for _ in range(ROUNDS):
        answers = tuple(_facts(one) for one in extenders)
        replicas = [one for one in answers if isinstance(one, Replica)]
        if len({one.view_digest for one in replicas}) <= 1 and all(one.heartbeat_matches for one in replicas):
            break
        means.pause(PAUSE_SECONDS)
    return answers


def _facts(item: services.Service) -> Replica | Finding:
    try:
        nodes = http_client.decoded(item.get("/nodes"), documents.Nodes, item.name)
        decisions = http_client.decoded(item.get("/decisions", limit="1"), _Decisions, item.name).decisions
        families = parser.text_string_to_metric_families(item.get("/metrics").decode())
        samples = [sample for family in families for sample in family.samples]
    except http_client.BadUrl:
        raise
    except http_client.Foreign as error:
        return findings.fail(str(error), "check --extender and versions")
    except http_client.HttpError as error:
        return findings.fail(f"{item.name} gives no answer: {error}", f"is {item.name} running and ready? its log says")
    except ValueError as error:
        return findings.fail(f"{item.name}/metrics is not an extender's: {error}", "check --extender and versions")
    last_seconds = max((decision.at_seconds for decision in decisions), default=None)
    values = {sample.name: sample.value for sample in samples}
    return Replica(
        item.name,
        nodes.policy,
        nodes.heartbeat.matches,
        nodes.view.view,
        sum(sample.value for sample in samples if sample.name == _REQUESTS),
        values.get(_SINCE, 0.0),  # it has counted since then at least: the policy's last load
        last_seconds,
        {sample.labels.get("watch", ""): sample.value for sample in samples if sample.name == _WATCH_AGE},
        values.get(_SHADOW_MODE) == 1,
    )


def held_back(means: Means, namespace: str) -> Relief | Finding:
    """Ask the descheduler for the relief it holds back at this moment; the Finding says why it could not be asked."""
    try:
        replicas: Sequence[services.Service] = means.deschedulers or services.behind(means.kube, DESCHEDULER, namespace)
    except errors.KubeError as error:
        return findings.unknown(f"the descheduler could not be looked for: {error}", "--descheduler URL")
    unanswered = ""
    for one in replicas:
        try:
            answer = http_client.decoded(one.get("/plan"), plan.Plan, one.name, DESCHEDULER)
        except http_client.BadUrl:
            raise
        except http_client.HttpError as error:
            unanswered = f"{one.name} gives no plan: {error}"
            continue
        return Relief(one.name, answer.summary, _held_back(answer))
    if unanswered:
        return findings.unknown(unanswered, "evenload plan says more; its /readyz?verbose names the cause")
    return Relief("", f"no descheduler behind Service {namespace}/{DESCHEDULER.in_cluster}: nothing is evicted")


def _held_back(answer: plan.Plan) -> tuple[BlockedRelief, ...]:
    """By node the first verdict that says what earlier evictions came to; nothing where the run evicts all the same."""
    causes = {str(Cause.LOAD_NOT_FALLING)} | (set() if answer.evictions else {str(Cause.UNREPLACED)})
    firsts = ((node, next((one for one in node.candidates if one.verdict in causes), None)) for node in answer.nodes)
    return tuple(BlockedRelief(node.node, one.verdict, one.detail) for node, one in firsts if one is not None)
