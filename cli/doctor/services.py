"""Judges of Evenload's services: the annotator beats, all obey one policy, replicas see the same, the scheduler asks,
evictions help, and the clocks agree, without which good data is stale or unbelievable.

`command` lists them; the facts are `gathering`'s (heartbeat, Leases, pods, the apiserver's Date header, the services'
answers) and `measuring`'s (Prometheus' time()).
"""

from collections.abc import Iterable, Iterator

from cli.doctor import findings
from cli.doctor.facts import ClockFacts, Facts, Replica
from cli.doctor.findings import Finding
from descheduler.planning.verdicts import Cause
from kube.cache import watch_status
from kube.objects import Pod
from policy.contract import freshness
from runtime import clock, options

LATE_PERIODS = 3  # two syncs may be late by a slow Prometheus; staleAfter is where it hurts
SLACK_SECONDS = 10.0  # a first sync after a start, or one that waited for a slow answer
GRACE_SECONDS = 30.0  # between a decision and its binding, with clocks of whole seconds
NOTABLE_SECONDS = 5.0  # of a clock
LATE_LEASE_SECONDS = 60.0  # a kubelet renews every 10 s; after 40 s the node is called NotReady
SCHEDULER, SECOND_SCHEDULER = "default-scheduler", "evenload-scheduler"
SECOND_SCHEDULER_LABELS = {"app.kubernetes.io/name": "evenload", "app.kubernetes.io/component": "scheduler"}
EXTENDER_LABELS = {"app.kubernetes.io/name": "evenload", "app.kubernetes.io/component": "extender"}
_LOGS = "kubectl -n {namespace} logs deployment/evenload-{name}"
EACH_REPLICA = "run doctor without --extender, which reads the pod of each replica, or give --extender for each"
_STANZA = (
    "give kube-scheduler the stanza of `evenload scheduler-config --policy FILE --url "
    "http://evenload-extender.{namespace}.svc:8900` (kube-scheduler --config); docs/reference/extender.md"
)


def annotator(facts: Facts) -> Finding:
    """The heartbeat is fresh, and speaks of the nodes there are as they are annotated."""
    sync, beat = facts.settings.policy.sync, findings.known(facts.heartbeat)
    age_seconds = facts.now_seconds - beat.at_seconds
    lease = facts.annotator_lease
    holder = "" if isinstance(lease, Finding) else lease.spec.holder_identity
    leader = f", {holder} leads" if holder else ""
    text = f"last heartbeat {max(0.0, age_seconds):.0f} s ago over {beat.nodes} nodes{leader}"
    logs = _LOGS.format(namespace=facts.settings.namespace, name="annotator")
    fix = f"{logs}; is it running, and does its /readyz?verbose name a query that fails?"
    if age_seconds >= sync.stale_after_seconds:
        why = f"{text}: older than staleAfter ({sync.stale_after_seconds:g} s), so every node is judged without load"
        return findings.fail(why, fix)
    if age_seconds > LATE_PERIODS * sync.period_seconds + SLACK_SECONDS:
        return findings.warn(f"{text}: expected one every {sync.period_seconds:g} s", fix)
    if names := findings.few(findings.known(facts.differing)):
        return findings.warn(
            f"{text}; it does not confirm what {names} carries, so those readings only age",
            f"{logs}: is a patch refused, or a node's value not answered? "
            "Or does a second annotator (another -n) write evenload.io/load?",
        )
    return findings.ok(text)


def policy_in_force(facts: Facts) -> Finding:
    """Annotator and every extender obey the policy at hand."""
    beats = {} if isinstance(facts.heartbeat, Finding) else {"annotator": facts.heartbeat.policy_hash}
    every = beats | {one.name: one.policy_hash for one in _answering(facts)}
    hashes = {name: known for name, known in every.items() if known}
    ours = facts.settings.policy_hash
    if not hashes:
        return findings.unknown("no service reported its policy", "see annotator and extenders")
    if ours is None:
        if len(set(hashes.values())) == 1:
            why = f"all obey policy {next(iter(hashes.values()))}; whether it is the one you deployed is not known"
            return findings.unknown(why, "name the file that you deployed: --policy FILE")
        why = "services obey different policies: " + findings.few(f"{name} {known}" for name, known in hashes.items())
        return findings.fail(why, "mount one ConfigMap evenload-policy into all of them")
    other = {name: known for name, known in hashes.items() if known != ours}
    if other:
        text = findings.few(f"{name} obeys {known}" for name, known in other.items())
        return findings.fail(
            f"{text}; {facts.settings.policy_source} is {ours}",
            f"kubectl -n {facts.settings.namespace} create configmap evenload-policy --from-file=policy.yaml=FILE "
            "--dry-run=client -o yaml | kubectl apply -f -; evenload policy status says who refuses it, and why",
        )
    replicas = (facts.replicas,) if isinstance(facts.replicas, Finding) else facts.replicas
    silent = next((one for one in replicas if isinstance(one, Finding)), None)
    unread = findings.unread({"the annotator's policy": facts.heartbeat, "that of an extender": silent})
    text = f"{', '.join(hashes)} obey {facts.settings.policy_source} ({ours})"
    return findings.worst([findings.ok(text), *unread])


def extender_views(facts: Facts) -> Iterator[Finding]:
    """Every replica answers, believes the annotator's heartbeat and sees what the others see."""
    every, replicas = findings.known(facts.replicas), _answering(facts)
    yield from (one for one in every if isinstance(one, Finding))
    apart = [one.name for one in replicas if not one.heartbeat_matches]
    logs = _LOGS.format(namespace=facts.settings.namespace, name="extender")
    if apart:
        yield findings.warn(
            f"{findings.few(apart)}: the view does not match the annotator's heartbeat, readings only age",
            f"curl URL/nodes | jq .heartbeat.differing names the nodes; {logs}",
        )
    for one in replicas:
        if old := {name: age for name, age in one.watch_ages.items() if age > watch_status.STALE_SECONDS}:
            ages = findings.few(f"{name} {age:.0f} s" for name, age in old.items())
            yield findings.fail(
                f"{one.name}: watches that bring nothing ({ages}): it decides by what was true then",
                f"its /readyz?verbose names the cause; {logs}; docs/runbooks/EvenloadWatchLost.md",
            )
    digests = {one.view_digest for one in replicas if one.view_digest is not None}
    if len(digests) > 1:
        views = findings.few(f"{one.name} {(one.view_digest or '-')[7:15]}" for one in replicas)
        yield findings.fail(
            f"replicas see different data: {views}: the same pod is judged differently by each",
            f"a watch hangs: kubectl -n {facts.settings.namespace} delete pod NAME, the one that differs from most",
        )
    if len(replicas) == len(every) and (unread := _unread(facts)):
        text = f"{unread} of {unread + len(replicas)} replicas were not read, and may see other data"
        yield findings.unknown(text, EACH_REPLICA)
    alike = f", all with the same view ({next(iter(digests))[7:15]})" if len(digests) == 1 and len(replicas) > 1 else ""
    answering = "1 replica answers" if len(replicas) == 1 else f"{len(replicas)} replicas answer"
    yield findings.ok(f"{answering}{alike}")


def extender_called(facts: Facts) -> Finding:
    """kube-scheduler really asks: an ignorable extender that is not asked fails silently."""
    replicas = _answering(facts)
    if not replicas:
        return findings.unknown("no extender was reached", "see the extenders' views")
    bound_seconds = _last_bound_seconds(findings.known(facts.pods))
    requests = sum(one.requests for one in replicas)
    decided = [one.last_decision_seconds for one in replicas if one.last_decision_seconds is not None]
    since_seconds = max(decided) if decided else min(one.since_seconds for one in replicas)
    fix = _STANZA.format(namespace=facts.settings.namespace)
    if bound_seconds is not None and bound_seconds > since_seconds + GRACE_SECONDS:
        when = f"a pod was bound at {clock.to_rfc3339(bound_seconds)}"
        last = f"the extender was last asked at {clock.to_rfc3339(since_seconds)}" if decided else "it was never asked"
        if not decided and requests:
            last = "it was not asked for an hour"
        if unread := _unread(facts):
            return findings.unknown(f"{when}, {last}: but {unread} more replicas were not read", EACH_REPLICA)
        return findings.fail(f"kube-scheduler does not ask: {when}, {last}", f"{fix}; look for timeouts in its log")
    if not requests:
        return findings.unknown(
            "the extender has not been asked yet, and since "
            f"{clock.to_rfc3339(since_seconds + GRACE_SECONDS)}, {GRACE_SECONDS:g} s after its start, no pod was bound",
            f"create a pod and run doctor again; if it stays unasked, {fix}",
        )
    when = f", last at {clock.to_rfc3339(since_seconds)}" if decided else ""
    shadowing = sum(one.shadow for one in replicas)
    which = "the extender is" if shadowing == len(replicas) else f"{shadowing} of {len(replicas)} replicas are"
    shadow = f"; {which} in shadow mode: every node passes and scores the same" if shadowing else ""
    return findings.ok(f"kube-scheduler asks: {requests:,.0f} requests{when}{shadow}")


def relief_effective(facts: Facts) -> Iterator[Finding]:
    """Evictions lower the load of nodes, and evicted pods are replaced: of each node the first verdict that says what
    earlier evictions came to; that pods are waited for counts only where the run evicts nothing.
    """
    name, plan = findings.known(facts.relief)
    causes = {str(Cause.LOAD_NOT_FALLING)} | (set() if plan.evictions else {str(Cause.UNREPLACED)})
    firsts = ((node.node, next((one for one in node.candidates if one.verdict in causes), None)) for node in plan.nodes)
    held_back = [(node, one) for node, one in firsts if one is not None]
    resting = [(node, one.detail) for node, one in held_back if one.verdict == Cause.LOAD_NOT_FALLING]
    waiting = [(node, one.detail) for node, one in held_back if one.verdict == Cause.UNREPLACED]
    if resting:
        text = findings.few(f"{node}: {detail}" for node, detail in resting)
        fix = f"kubectl debug node/{resting[0][0]} -it --image=busybox -- top: what runs on it beside its pods?"
        yield findings.warn(text, fix)
    for node, detail in waiting[:1]:
        fix = "why are they not Ready? evenload evictions --since 1d; docs/runbooks/EvenloadEvictionsUnreplaced.md"
        yield findings.warn(f"nothing leaves {node}: {detail}", fix)
    yield findings.ok(f"{name}: {plan.summary}")


def clocks_agree(facts: Facts) -> Finding:
    """This machine's, the apiserver's, Prometheus', the annotator's and the nodes' clocks agree."""
    reference = findings.known(facts.apiserver_clock)
    notes = [_judged(ClockFacts("this machine", -reference.ahead_seconds, reference.within_seconds))]
    of_prometheus = facts.load.prometheus_clock if facts.settings.source == options.PROMETHEUS else None
    others = {"the annotator's clock": facts.heartbeat, "those of nodes": facts.node_leases}
    notes += findings.unread(others | {"that of Prometheus": of_prometheus})
    if isinstance(facts.load.prometheus_clock, ClockFacts):
        probe = facts.load.prometheus_clock
        within_seconds = probe.within_seconds + reference.within_seconds
        notes.append(_judged(ClockFacts(probe.whose, probe.ahead_seconds - reference.ahead_seconds, within_seconds)))
    if not isinstance(facts.heartbeat, Finding):
        ahead_seconds = facts.heartbeat.at_seconds - facts.now_seconds
        if ahead_seconds > 0:  # behind is what an old heartbeat looks like
            notes.append(_judged(ClockFacts("the annotator", ahead_seconds, reference.within_seconds)))
    leases = {} if isinstance(facts.node_leases, Finding) else facts.node_leases
    nodes = [judged for name, age_seconds in leases.items() if (judged := _node(name, age_seconds)) is not None]
    if len(nodes) > findings.SHOWN:
        text = f"{len(nodes)} nodes: {findings.few(one.observation for one in nodes)}"
        nodes = [findings.warn(text, "run NTP or chrony on every node")]
    return findings.worst([*notes, *nodes])


def _judged(facts: ClockFacts) -> Finding:
    """One clock against the apiserver's."""
    seconds = abs(facts.ahead_seconds)
    text = f"{facts.whose} is {seconds:.1f} s {'ahead of' if facts.ahead_seconds > 0 else 'behind'} the apiserver"
    if seconds <= NOTABLE_SECONDS + facts.within_seconds:
        return findings.ok(f"{facts.whose} agrees with the apiserver to {max(seconds, facts.within_seconds):.1f} s")
    fix = f"run NTP or chrony where {facts.whose} runs"
    if seconds > freshness.MAX_AHEAD_SECONDS:
        return findings.fail(f"{text}: readings of more than 1 min ahead are refused", fix)
    return findings.warn(text, fix)


def _node(name: str, age_seconds: float) -> Finding | None:
    """A node's clock by its last renewal, which it stamps itself: ahead is certain, behind may also be silence."""
    fix = f"run NTP or chrony on {name}"
    if age_seconds < -NOTABLE_SECONDS:
        return findings.warn(f"clock skew {name} {-age_seconds:.0f} s ahead", fix)
    if age_seconds > LATE_LEASE_SECONDS:
        text = f"{name} is Ready, but its Lease is {age_seconds:.0f} s old by its own clock"
        return findings.warn(text, f"{fix}, or look at its kubelet")
    return None


def _unread(facts: Facts) -> int:
    """Counts the replicas behind the Service that gave no answer: kube-scheduler stays with one of them."""
    running = sum(
        EXTENDER_LABELS.items() <= pod.labels.items() and pod.ready and not pod.deleting
        for pod in (() if isinstance(facts.pods, Finding) else facts.pods)
        if pod.namespace == facts.settings.namespace
    )
    listed = 0 if isinstance(facts.replicas, Finding) else len(facts.replicas)
    return max(running, listed) - len(_answering(facts))


def _answering(facts: Facts) -> list[Replica]:
    every = () if isinstance(facts.replicas, Finding) else facts.replicas
    return [one for one in every if isinstance(one, Replica)]


def _last_bound_seconds(pods: Iterable[Pod]) -> float | None:
    """When the scheduler that should ask last bound a pod, Unix seconds: the second one where that runs.

    A restarted kubelet gives its static pods a new PodScheduled time, and no scheduler saw them.
    """
    every = tuple(pods)
    second = any(SECOND_SCHEDULER_LABELS.items() <= pod.labels.items() for pod in every)
    name = SECOND_SCHEDULER if second else SCHEDULER
    bound = [pod for pod in every if pod.node_name and pod.spec.scheduler_name == name and not pod.is_from_node]
    times = (pod.scheduled_at_seconds for pod in bound)
    return max((seconds for seconds in times if seconds is not None), default=None)
