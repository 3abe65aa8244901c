"""The checks, in the order in which they are printed: from where numbers come to what is done with them.

`command` judges the facts by each. A name is what people and scripts know a check by.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Final

from cli.doctor import findings, guard, metrics_server, rights, rules, services, sources
from cli.doctor.facts import Facts
from cli.doctor.findings import Finding
from runtime import options

Judge = Callable[[Facts], Finding | Iterator[Finding]]

_JUDGES: Final[dict[str, Judge]] = {
    "your rights": rights.own,
    "objects": rules.decoded,
    "prometheus": sources.prometheus,
    "metrics-server": metrics_server.answers,
    "metrics": sources.metrics,
    "query cost": sources.cost,
    "nodes matched": sources.nodes_matched,
    "one cluster": sources.one_cluster,
    "scrape interval": sources.scrapes,
    "pod series": sources.pod_series,
    "windows": metrics_server.windows,
    "clocks": services.clocks_agree,
    "service rights": rights.services,
    "guard": guard.in_force,
    "annotator": services.annotator,
    "policy in force": services.policy_in_force,
    "extender views": services.extender_views,
    "extender asked": services.extender_called,
    "relief": services.relief_effective,
    "policy rules": rules.consistent,
    "disruption budgets": rules.budgets,
    "placeholders": rules.placeholders,
}


def _judged(judge: Judge, facts: Facts) -> Finding:
    try:
        answer = judge(facts)
        return answer if isinstance(answer, Finding) else findings.worst(answer)
    except findings.Missing as missing:
        return missing.finding


CHECKS: Final = {name: functools.partial(_judged, judge) for name, judge in _JUDGES.items()}
OF_PROMETHEUS: Final = frozenset(("prometheus", "query cost", "one cluster", "scrape interval", "pod series"))
OF_METRICS_SERVER: Final = frozenset(("metrics-server", "windows"))


def names(source: str) -> list[str]:
    """The checks of an installation whose load comes from there."""
    others = OF_METRICS_SERVER if source == options.PROMETHEUS else OF_PROMETHEUS
    return [name for name in CHECKS if name not in others]


def judge(facts: Facts) -> dict[str, Finding]:
    """The finding of every check that concerns this installation."""
    return {name: CHECKS[name](facts) for name in names(facts.settings.source)}
