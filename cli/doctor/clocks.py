"""Judge of the clocks: readings carry times, so a clock that is wrong makes good data stale or unbelievable.

`checks` lists it; the facts are `gathering`'s (the apiserver's Date header, the renewals of the nodes' Leases, the
heartbeat's time) and `measuring`'s (Prometheus' time()).
"""

from typing import Final

from cli.doctor import findings
from cli.doctor.facts import ClockFacts, Facts
from cli.doctor.findings import Finding
from policy.contract import freshness

NOTABLE_SECONDS: Final = 5.0
LATE_LEASE_SECONDS: Final = 60.0  # a kubelet renews every 10 s; after 40 s the node is called NotReady


def skew(facts: Facts) -> Finding:
    """This machine's, the apiserver's, Prometheus', the annotator's and the nodes' clocks agree."""
    if isinstance(facts.apiserver_clock, Finding):
        return facts.apiserver_clock
    reference = facts.apiserver_clock
    notes = [_judged(ClockFacts("this machine", -reference.ahead_seconds, reference.within_seconds))]
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
