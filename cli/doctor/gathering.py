"""Reads the cluster and asks the services once for all checks; a part that fails becomes the Finding that says why.

`command` calls `gather`, which fills in `facts.Facts` together with `measuring` (Prometheus). Nothing is written to the
cluster; the reviews of rights are answered and not stored. All extenders are asked in turn, and any descheduler, since
they share the ledger: at the URLs given, or at each pod behind the Service through the apiserver.
"""

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from prometheus_client import parser

from cli import plan, story
from cli.common import api_types, http_client, services
from cli.common.services import DESCHEDULER
from cli.doctor import findings, measuring, metrics_server, rights
from cli.doctor.facts import ClockFacts, Facts, Means, Replica, Settings
from cli.doctor.findings import Finding
from extender.verbs import documents
from kube import access, errors, kinds
from kube.http.client import Client
from kube.objects import Node
from policy.contract import heartbeat, load_annotation
from policy.schema.load_policy import LoadPolicy
from runtime import options

ANNOTATOR_LEASE = "evenload-annotator"
NODE_LEASES = "kube-node-lease"
DATE_STEP_SECONDS = 1.0  # a Date header has whole seconds
ROUNDS: Final = 4  # of reading again what differs: a patch on its way is no difference that lasts
PAUSE_SECONDS: Final = 1.0
_REQUESTS: Final = "evenload_extender_request_duration_seconds_count"
_WATCH_AGE: Final = "evenload_kube_watch_age_seconds"
_SHADOW_MODE: Final = "evenload_extender_shadow_mode"
_SINCE: Final = "evenload_config_last_reload_success_timestamp_seconds"


class _Confirmations(NamedTuple):
    nodes: tuple[Node, ...] | Finding
    heartbeat: heartbeat.Heartbeat | Finding
    differing: tuple[str, ...] | Finding


def gather(means: Means, settings: Settings) -> Facts:
    """The facts. Raises kube.errors.Unreachable when the apiserver does not answer at all."""
    apiserver_clock = _apiserver_clock(means)
    ahead_seconds = 0.0 if isinstance(apiserver_clock, Finding) else apiserver_clock.ahead_seconds
    kube, namespace = means.kube, settings.namespace
    vouched = _vouched(means, namespace, means.clock.now() + ahead_seconds)
    nodes = vouched.nodes
    known = () if isinstance(nodes, Finding) else nodes
    settings = dataclasses.replace(settings, source=settings.source or metrics_server.source(known))
    extenders = _extenders(means, namespace)
    pods = findings.attempt(lambda: kube.list(kinds.PODS).items)
    known_pods = () if isinstance(pods, Finding) else pods
    return Facts(
        settings=settings,
        now_seconds=means.clock.now() + ahead_seconds,
        nodes=nodes,
        pods=pods,
        budgets=findings.attempt(lambda: kube.list(kinds.BUDGETS).items),
        priority_classes=findings.attempt(lambda: kube.list(kinds.PRIORITY_CLASSES).items),
        heartbeat=_heartbeat(vouched.heartbeat, namespace),
        differing=vouched.differing,
        annotator_lease=findings.attempt(lambda: kube.get(kinds.LEASES, ANNOTATOR_LEASE, namespace=namespace)),
        own_rights=findings.attempt(
            lambda: {one: access.may_i(kube, one) for one in rights.needed(rights.OWN, namespace)}
        ),
        account_rights=findings.attempt(lambda: _accounts(kube, settings)),
        guard=findings.attempt(lambda: rights.guarding(kube, means.connect, namespace, known_pods, nodes=known)),
        apiserver_clock=apiserver_clock,
        node_leases=_node_leases(means, nodes, ahead_seconds),
        load=measuring.blind(measuring.NOT_ASKED)._replace(metrics_server=metrics_server.look(kube, namespace))
        if settings.source == options.METRICS_SERVER  # the other source is not asked
        else measuring.measure(means, settings, known),
        replicas=extenders,
        relief=relief(means, namespace),
        undecodable=kube.undecodable.line() if kube.undecodable.present() else "",  # last: after all lists
    )


def _apiserver_clock(means: Means) -> ClockFacts | Finding:
    """The apiserver's clock against this machine's: whole seconds lie half a second behind on average.

    The one read that is allowed to raise: who is unreachable here is unreachable for all that follows.
    """
    try:
        return measuring.clock_of("the apiserver", means.clock, means.kube.server_time_seconds, DATE_STEP_SECONDS)
    except (errors.ApiError, errors.Undecodable) as error:
        return findings.unknown(str(error))


def _heartbeat(beat: heartbeat.Heartbeat | Finding, namespace: str) -> heartbeat.Heartbeat | Finding:
    if isinstance(beat, Finding) and "not found" in beat.observation:
        return findings.fail(
            f"no heartbeat: ConfigMap {namespace}/{heartbeat.CONFIG_MAP} does not exist, so no annotator ever finished "
            "a sync here",
            f"start one (evenload annotator --policy FILE --prometheus URL --namespace {namespace}), or name its "
            "namespace with -n",
        )
    return beat


def _vouched(means: Means, namespace: str, now_seconds: float) -> _Confirmations:
    """Nodes and heartbeat of one moment: read again when they differ, since a sync may run between the two reads."""
    reading = _read(means.kube, namespace, now_seconds)
    for _ in range(ROUNDS - 1):
        if isinstance(reading.differing, Finding) or not reading.differing:
            break
        means.clock.wait(threading.Event(), PAUSE_SECONDS)
        reading = _read(means.kube, namespace, now_seconds)
    return reading


def _read(kube: Client, namespace: str, now_seconds: float) -> _Confirmations:
    beat = findings.attempt(
        lambda: heartbeat.decode(kube.get(kinds.CONFIG_MAPS, heartbeat.CONFIG_MAP, namespace=namespace).data)
    )
    nodes = findings.attempt(lambda: kube.list(kinds.NODES).items)
    if isinstance(beat, Finding) or isinstance(nodes, Finding):
        return _Confirmations(nodes, beat, findings.unknown("nodes or heartbeat could not be read"))
    compared = heartbeat.EffectiveTimes()
    for node in nodes:
        compared.put(node.name, node.annotations.get(load_annotation.KEY))
    compared.accept(beat, now_seconds)
    compared.settle()
    return _Confirmations(nodes, beat, compared.differing_nodes())


def _accounts(kube: Client, settings: Settings) -> Mapping[str, Mapping[access.Access, bool]]:
    namespace, surges = settings.namespace, settings.policy.descheduler.surge.enabled
    may = functools.partial(access.may_account, kube, namespace=namespace)
    return {
        name: {one: may(one, name=f"evenload-{name.removesuffix('-surge')}") for one in rights.needed(name, namespace)}
        for name in (*rights.SERVICES, *([rights.SURGES] if surges else []))
    }


def _node_leases(
    means: Means, nodes: tuple[Node, ...] | Finding, ahead_seconds: float
) -> Mapping[str, float] | Finding:
    """How old each Ready node's last renewal is by the node's own stamp, in seconds; negative: from the future."""
    if isinstance(nodes, Finding):
        return nodes
    leases = findings.attempt(lambda: means.kube.list(kinds.LEASES, namespace=NODE_LEASES).items)
    if isinstance(leases, Finding):
        return leases
    ready = {node.name for node in nodes if node.ready}
    now_seconds = means.clock.now() + ahead_seconds
    return {
        lease.name: now_seconds - lease.spec.renew_time.timestamp()
        for lease in leases
        if lease.name in ready and lease.spec.renew_time is not None
    }


def _extenders(means: Means, namespace: str) -> tuple[Replica | Finding, ...] | Finding:
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
        answers = tuple(_replica(one) for one in extenders)
        replicas = [one for one in answers if isinstance(one, Replica)]
        if len({one.view_digest for one in replicas}) <= 1 and all(one.heartbeat_matches for one in replicas):
            break
        means.clock.wait(threading.Event(), PAUSE_SECONDS)
    return answers


def _replica(item: services.Service) -> Replica | Finding:
    try:
        nodes = http_client.decoded(item.get("/nodes"), documents.Nodes, item.name)
        decisions = http_client.decoded(item.get("/decisions", limit="1"), api_types.Decisions, item.name).decisions
        families = parser.text_string_to_metric_families(item.get("/metrics").decode())
        samples = [sample for family in families for sample in family.samples]
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


def policy_obeyed(means: Means, namespace: str) -> tuple[LoadPolicy, str] | None:
    """The policy of the first extender, or else descheduler, and its name; None where none answers in this version."""

    def ask(replica: services.Service) -> tuple[LoadPolicy, str]:
        in_force = http_client.decoded(replica.get("/configz"), story.InForce, replica.name)
        return LoadPolicy.of(in_force.policy), f"policy {in_force.policyState['hash']}, which {replica.name} obeys"

    with contextlib.suppress(errors.KubeError, http_client.HttpError, LookupError, ValueError):
        extenders = means.extenders or services.behind(means.kube, services.EXTENDER, namespace)
        deschedulers = means.deschedulers or services.behind(means.kube, DESCHEDULER, namespace)
        return services.first_answer([*extenders, *deschedulers], ask)
    return None


def relief(means: Means, namespace: str) -> tuple[str, plan.Plan] | Finding:
    """Ask a descheduler for its plan of this moment; the Finding says why there is none."""
    try:
        replicas: Sequence[services.Service] = means.deschedulers or services.behind(means.kube, DESCHEDULER, namespace)
    except errors.KubeError as error:
        return findings.unknown(f"the descheduler could not be looked for: {error}", "--descheduler URL")
    unanswered = ""
    for one in replicas:
        try:
            answer = http_client.decoded(one.get("/plan"), plan.Plan, one.name, DESCHEDULER)
        except http_client.HttpError as error:
            unanswered = f"{one.name} gives no plan: {error}"
            continue
        if answer.partial:
            return findings.unknown(f"{one.name}: {answer.summary}", "evenload plan says more")
        return one.name, answer
    if unanswered:
        return findings.unknown(unanswered, "evenload plan says more; its /readyz?verbose names the cause")
    return findings.ok(f"no descheduler behind Service {namespace}/{DESCHEDULER.in_cluster}: nothing is evicted")
