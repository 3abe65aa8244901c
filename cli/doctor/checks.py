"""The checks, in the order in which they are printed: from where numbers come to what is done with them.

`command` judges the facts by each. A name is what people and scripts know a check by.
"""

from collections.abc import Callable
from typing import Final

from cli.doctor import clocks, guard, relief, rights, rules, services, sources, workloads
from cli.doctor.facts import Facts
from cli.doctor.findings import Finding, Named

CHECKS: Final[dict[str, Callable[[Facts], Finding]]] = {
    "your rights": rights.own,
    "objects": workloads.decoded,
    "prometheus": sources.prometheus,
    "metrics": sources.metrics,
    "query cost": sources.cost,
    "nodes matched": sources.nodes_matched,
    "one cluster": sources.one_cluster,
    "scrape interval": sources.scrapes,
    "clocks": clocks.skew,
    "service rights": rights.services,
    "guard": guard.in_force,
    "annotator": services.annotator,
    "policy in force": services.policy_in_force,
    "extender views": services.extender_views,
    "extender asked": services.extender_called,
    "relief": relief.effective,
    "policy rules": rules.consistent,
    "disruption budgets": workloads.budgets,
    "placeholders": workloads.placeholders,
}


def judge(facts: Facts) -> tuple[Named, ...]:
    """Every check's finding."""
    return tuple(Named(name, check(facts)) for name, check in CHECKS.items())
