"""Differences between two policies in their behaviour, by path: `evenload policy diff` prints them.

Not the text is compared but the policies in force: defaults filled in, `5m` equal to `300s`, a threshold or weight of
0 equal to none (but in a pool or a class of pods, where 0 turns the policy's off), rows of lists found by what
identifies them (a metric's name, a hot spot's window, the name of a pool or a class). The order counts only where it
decides: descheduler.thresholds, flow rules, pools, classes.
"""

import collections.abc
from typing import Final, NamedTuple

from policy.schema import units
from policy.schema.load_policy import LoadPolicy

ABSENT: Final = "(none)"
_ZERO_IS_NONE: Final = frozenset({("filter", "thresholds"), ("score", "weights")})
_UNORDERED: Final = frozenset({"namespaces", "kinds", "days", "values", "priorityClassNames"})

Path = tuple[str, ...]
Leaves = collections.abc.Iterator[tuple[str, object]]


class Difference(NamedTuple):
    """One path with its two values; None where a side has nothing there."""

    path: str
    before: object
    after: object


def differences(before: LoadPolicy, after: LoadPolicy) -> tuple[Difference, ...]:
    """All paths whose values differ, in the order of the file, those of `before` first."""
    left, right = dict(_policy(before)), dict(_policy(after))
    paths = dict.fromkeys([*left, *right])
    return tuple(
        Difference(path, left.get(path), right.get(path)) for path in paths if left.get(path) != right.get(path)
    )


def line(difference: Difference) -> str:
    """`filter.thresholds.cpu_avg_5m: 0.65 -> 0.7`."""
    return f"{difference.path}: {formatted(difference.before)} -> {formatted(difference.after)}"


def formatted(value: object) -> str:
    """A value as the file writes it; one that is not there as (none)."""
    if isinstance(value, list):
        return f"[{', '.join(formatted(item) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.12g}"
    return ABSENT if value is None else str(value)


def _policy(policy: LoadPolicy) -> Leaves:
    for key, section in policy.as_file().items():
        if key == "metrics":
            for metric in policy.metrics_in_force:
                fields = {
                    "resource": metric.resource,
                    "statistic": metric.statistic,
                    "window": units.duration_text(metric.window_seconds),
                    "query": metric.query,
                    "podQuery": metric.pod_query,
                }
                yield from _leaves(("metrics", metric.name), fields)
        elif key == "hotSpots":
            for spot in policy.hot_spots:
                path = f"hotSpots[{units.duration_text(spot.window_seconds)}]"
                yield f"{path}.pods", spot.pods
                yield f"{path}.penalty", spot.penalty
        elif key in ("pools", "podClasses"):
            for part in policy.pools if key == "pools" else policy.pod_classes:
                yield from _leaves(
                    (f"{key}[{part.name}]",), part.model_dump(mode="json", by_alias=True, exclude={"name"})
                )
        else:
            yield from _leaves((key,), section)
    yield "descheduler.thresholds (order)", list(policy.descheduler.thresholds)
    yield "pools (order)", [pool.name for pool in policy.pools]
    yield "podClasses (order)", [one.name for one in policy.pod_classes]


def _leaves(path: Path, value: object) -> Leaves:
    """Every value under `path` that is no mapping and no list of mappings, with its path as text."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if inner or path not in _ZERO_IS_NONE:
                yield from _leaves((*path, units.quoted_key(str(key))), inner)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for index, item in enumerate(value):
            yield from _leaves((*path[:-1], f"{path[-1]}[{index}]"), item)
    elif isinstance(value, list) and path[-1] in _UNORDERED:
        yield ".".join(path), sorted(set(value))
    else:
        yield ".".join(path), value
