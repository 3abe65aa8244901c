"""A node's own filter thresholds: the annotation by which operators hold one machine to other limits than the policy's.

    evenload.io/thresholds: {"cpu_avg_5m": 0.9, "memory_avg_5m": "80%", "cpu_max_1h": 0}

The extender decodes it when the node changes and filters by it, the annotator writes at once what crosses it. A metric
named here replaces the policy's threshold of that metric on that node, 0 turns the rule off there, and a metric not
named keeps the policy's: a limit for CPU must not silently end the one for memory. People write it, so what cannot be
read is never an error: it is left out with its reason, and the policy's threshold stays.
"""

import collections.abc
import dataclasses
import json
import re
from typing import Final

from policy.schema import units

KEY: Final = "evenload.io/thresholds"
MAX_LENGTH: Final = 4 * 1024
_MAX_METRICS: Final = 64
_SHOWN: Final = 60
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")


@dataclasses.dataclass(frozen=True, slots=True)
class Own:
    """A node's own thresholds: `limits` by metric name, ratios, 0 = rule off; `problems` are what was left out and why.

    Which metrics exist is the policy's to say, and that changes: `unknown` asks.
    """

    limits: collections.abc.Mapping[str, float]
    problems: tuple[str, ...] = ()

    def unknown(self, in_force: collections.abc.Collection[str]) -> tuple[str, ...]:
        """The metrics named that the policy does not have; their limits mean nothing."""
        return tuple(name for name in self.limits if name not in in_force)

    def ignored(self, in_force: collections.abc.Collection[str]) -> str:
        """Everything of the annotation that is not in force and why, in one line; "" if all of it is."""
        unknown = (f"{name}: no metric of this name" for name in self.unknown(in_force))
        return "; ".join((*self.problems, *unknown))


def decode(text: str | None) -> Own | None:
    """The thresholds in an annotation's text; None without the annotation.

    Values follow the rules of `filter.thresholds` in the policy file: 0.65 or "65%", from 0 to 1.
    """
    if text is None:
        return None
    if len(text) > MAX_LENGTH:
        return Own({}, (f"longer than {MAX_LENGTH} characters",))
    try:
        body = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        return Own({}, (f"no JSON: {error}",))
    if not isinstance(body, dict) or len(body) > _MAX_METRICS:
        return Own({}, (f'a JSON object of at most {_MAX_METRICS} metrics such as {{"cpu_avg_5m": 0.9}} expected',))
    limits: dict[str, float] = {}
    problems: list[str] = []
    for name, value in body.items():
        if not _NAME.fullmatch(name):
            problems.append(f"{name[:_SHOWN]!a}: no name of a metric")
            continue
        try:
            limits[name] = units.ratio(value)
        except ValueError as error:
            problems.append(f"{name}: {error}")
        except RecursionError:
            problems.append(f"{name}: a ratio expected, got a deep nest")
    return Own(limits, tuple(problems))


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    thresholds = dict(pairs)
    if len(thresholds) < len(pairs):
        raise ValueError("a metric is named twice")
    return thresholds
