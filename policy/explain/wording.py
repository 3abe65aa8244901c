"""The words in which a policy is read back to people: shares, spans of time, metrics, lists.

`policy.explain.summary` and `policy.explain.descheduler_summary` build their sentences from these; nothing here decides
anything.
"""

import collections.abc
import re
from typing import Final

from policy import metrics
from policy.schema import pod_classes, sections, units

MOST_DECIMALS: Final = 12
_UNITS: Final = ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second"))
_RESOURCES: Final = {metrics.CPU: "CPU", metrics.MEMORY: "memory"}
_STATISTICS: Final = {metrics.AVERAGE: "average", metrics.MAXIMUM: "maximum"}
_PERCENTILE: Final = re.compile(r"p([0-9]{1,2})([0-9]?)")


def percent(ratio: float) -> str:
    """`65 %` for 0.65; as many digits as the file gave."""
    return f"{round(ratio * 100, 10):.12g} %"


def compared(value: float, sign: str, line: float, decimals: int = 2) -> str:
    """`0.87 > 0.80`: both with so many decimals, or those that the line has; the value with more where it would look
    like the line: never `0.80 > 0.80`.
    """
    line = round(line, MOST_DECIMALS)
    line_text = f"{line:.{decimals}f}" if round(line, decimals) == line else f"{line:g}"
    places = next((at for at in range(decimals, MOST_DECIMALS) if round(value, at) != line), decimals)
    return f"{value:.{places}f}{sign}{line_text}"


def number(value: float) -> str:
    """A number without digits it does not need: 1, 0.5."""
    return f"{value:.12g}"


def count(amount: float, thing: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number(amount)} {thing}" + ("" if amount == 1 else "s")


def span(seconds: float) -> str:
    """`5 minutes`, `1 hour`; a Go duration where no single unit fits."""
    amount, unit = _in_one_unit(seconds)
    return count(amount, unit) if unit else units.duration_text(seconds)


def share(part_seconds: float, whole_seconds: float) -> str:
    """`6 minutes of 7 days`: a part in the largest unit of which it has two, rounded down."""
    size, unit = next((one for one in _UNITS if part_seconds >= 2 * one[0]), _UNITS[-1])
    return f"{count(part_seconds // size, unit)} of {span(whole_seconds)}"


def within(seconds: float) -> str:
    """A span after "the last": `5 minutes`, but `hour` for one hour."""
    amount, unit = _in_one_unit(seconds)
    return unit if amount == 1 and unit else span(seconds)


def _in_one_unit(seconds: float) -> tuple[float, str]:
    for size, unit in _UNITS:
        if seconds >= size and seconds % size == 0:
            return seconds / size, unit
    return seconds, ""


def resource(name: str) -> str:
    """`CPU`, `memory`, or the name of a resource of the operator's own."""
    return _RESOURCES.get(name, name)


def metric(of: metrics.Metric) -> str:
    """Returns a metric as a noun: `5-minute memory average`; one with a query of its own is called by its name."""
    if of.query is not None:
        return f"{of.name} ({resource(of.resource)}, own query)"
    return f"{long(of.window_seconds)} {resource(of.resource)} {statistic(of.statistic)}"


def long(seconds: float) -> str:
    """A span before a noun: `5-minute`, `1-hour`."""
    amount, unit = _in_one_unit(seconds)
    return f"{number(amount)}-{unit}" if unit else units.duration_text(seconds)


def statistic(name: str) -> str:
    """`average`, `maximum`, `95th percentile`."""
    match = _PERCENTILE.fullmatch(name)
    if match is None:
        return _STATISTICS.get(name, name)
    digits = match[1] + (f".{match[2]}" if match[2] else "")
    is_plain = "." in digits or digits in ("11", "12", "13")
    end = "th" if is_plain else {"1": "st", "2": "nd", "3": "rd"}.get(digits[-1], "th")
    return f"{digits}{end} percentile"


def listed(words: collections.abc.Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return f" {last} ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def selector(of: sections.LabelSelector) -> str:
    """A label selector as kubectl's -l writes it: `app=web,tier in (a,b),!canary`."""
    parts = [f"{key}={value}" for key, value in of.match_labels.items()]
    for expression in of.match_expressions:
        values = f"({','.join(expression.values)})"
        parts.append(
            {
                "In": f"{expression.key} in {values}",
                "NotIn": f"{expression.key} notin {values}",
                "Exists": expression.key,
                "DoesNotExist": f"!{expression.key}",
            }[expression.operator]
        )
    return ",".join(parts)


def pods(of: pod_classes.PodMatch) -> str:
    """The pods of a class: `the pods of priority 9000 to 9999 in shop or shop-*`, `all pods`."""
    least, most = of.priority.least, of.priority.most
    parts = []
    if least is not None and most is not None:
        parts.append(f"of priority {least} to {most}")
    elif least is not None or most is not None:
        parts.append(f"of priority {least} or more" if most is None else f"of priority {most} or less")
    if of.priority_class_names:
        parts.append(f"of PriorityClass {listed(of.priority_class_names, 'or')}")
    if of.namespaces:
        parts.append(f"in {listed(of.namespaces, 'or')}")
    return " ".join(("the pods", *parts)) if parts else "all pods"
