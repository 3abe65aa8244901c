"""A second opinion on placements: kube-scheduler's hard rules, written out naively over what a test drew itself.

It shares no code with the descheduler: templates are plain records, every rule is a loop over all pods.
"""

import collections
import dataclasses

ZONE = "topology.kubernetes.io/zone"


@dataclasses.dataclass(frozen=True)
class Template:
    """What all pods of one workload ask for; sizes in GiB and cores; "" and 0 are nothing."""

    app: str
    gib: int = 1
    cores: int = 1
    priority: int = 0
    placeholder: bool = False
    preempts: bool = True
    tolerates: bool = False
    zone: str = ""
    port: int = 0
    apart: bool = False  # anti-affinity to its own app by host
    near: str = ""  # affinity to this app by zone
    away: str = ""  # anti-affinity to this app by zone
    skew: int = 0  # hard spread over zones
    least_domains: int = 0


@dataclasses.dataclass(frozen=True)
class Machine:
    """A node."""

    name: str
    zone: str
    tainted: bool = False
    open: bool = True
    cores: int = 8
    gib: int = 32
    slots: int = 110


Placed = dict[str, tuple[Template, str]]  # pod -> template and node


def objections(pod: str, target: str, placed: Placed, machines: dict[str, Machine]) -> list[str]:
    """Every rule that keeps the pod off the target while all others stand as placed; [] if it fits."""
    template, machine = placed[pod][0], machines[target]
    others = [(one, machines[node]) for name, (one, node) in placed.items() if name != pod]
    rules = {
        "closed": not machine.open,
        "taint": machine.tainted and not template.tolerates,
        "zone": bool(template.zone) and template.zone != machine.zone,
        "room": not _room(template, machine, others),
        "port": bool(template.port) and any(one.port == template.port and at == machine for one, at in others),
        "apart": template.apart and any(one.app == template.app and at == machine for one, at in others),
        "kept apart": any(one.apart and one.app == template.app and at == machine for one, at in others),
        "away": any(one.app == template.away and at.zone == machine.zone for one, at in others),
        "kept away": any(one.away == template.app and at.zone == machine.zone for one, at in others),
        "near": not _near(template, machine, others),
        "skew": not _spread(template, machine, others, machines),
    }
    return [name for name, broken in rules.items() if broken]


def _room(template: Template, machine: Machine, others: list[tuple[Template, Machine]]) -> bool:
    def stays(item: Template) -> bool:
        return not item.placeholder or item.priority >= template.priority or not template.preempts

    here = [one for one, at in others if at == machine and stays(one)]
    return (
        sum(one.cores for one in here) + template.cores <= machine.cores
        and sum(one.gib for one in here) + template.gib <= machine.gib
        and len(here) + 1 <= machine.slots
    )


def _near(template: Template, machine: Machine, others: list[tuple[Template, Machine]]) -> bool:
    if not template.near:
        return True
    zones = {at.zone for one, at in others if one.app == template.near}
    return machine.zone in zones or (not zones and template.near == template.app)


def _spread(
    template: Template, machine: Machine, others: list[tuple[Template, Machine]], machines: dict[str, Machine]
) -> bool:
    if not template.skew:
        return True
    eligible = {one.name for one in machines.values() if not template.zone or one.zone == template.zone}
    counts = collections.Counter({one.zone: 0 for one in machines.values() if one.name in eligible})
    counts.update(at.zone for one, at in others if one.app == template.app and at.name in eligible)
    least = min(counts.values(), default=0) if len(counts) >= template.least_domains else 0
    return counts[machine.zone] + 1 - least <= template.skew
