"""Answers become one value per node or pod here, and what cannot be trusted is refused by name of the reason.

Used by the annotator's collecting and the descheduler's usage. The judge of a value's range comes from the caller
(`policy.annotations.invalid_reason`: nan, infinite, negative, over_range); this module adds `double`: several series
for one node, of which none is believed. Refused and absent values are simply not in the result,
so they can never be read as 0.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from promql import door, identity

Judge = Callable[[float], str | None]
DOUBLE = "double"
# A query of an operator's own, 1 - rate(idle), comes out below 0 on an idle CPU because scrape times jitter: zero load.
ZERO_NOISE_RATIO = 0.02


@dataclass(frozen=True, slots=True)
class NodeValues:
    """What one answer says of the nodes: good values, refused ones with their reason, labels that are no node's."""

    values: Mapping[str, float]
    refused: Mapping[str, str]
    unmatched: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    @property
    def partial(self) -> bool:
        """True when the server said that nodes may be absent from the answer although they exist."""
        return bool(self.warnings)

    @property
    def refused_by_reason(self) -> Mapping[str, int]:
        """How many nodes were refused per reason."""
        return Counter(self.refused.values())


def by_node(answer: door.Answer, directory: identity.Directory, *, label: str, judge: Judge) -> NodeValues:
    """Utilisation ratios per node; -0.02..0 is the noise of a rate and reads as 0."""
    unmatched: set[str] = set()

    def found() -> Iterator[tuple[str, float]]:
        for sample in answer.samples:
            said = sample.labels.get(label, "")
            node = directory.resolve(said)
            if node is None:
                unmatched.add(said)
            else:
                yield node, _without_noise(sample.value)

    values, refused = judged(found(), judge)
    return NodeValues(values, refused, tuple(sorted(unmatched)), answer.warnings)


def by_pod(answer: door.Answer, *, judge: Judge) -> tuple[dict[str, float], dict[str, str]]:
    """Values and refusals by "namespace/name" for the answers of `promql.pod_queries` (cores or bytes)."""
    values: dict[str, float] = {}
    refused: dict[str, str] = {}
    for labels, value, _ in answer.samples:
        namespace, pod = labels.get("namespace"), labels.get("pod")
        if not namespace or not pod:
            continue
        key = f"{namespace}/{pod}"
        reason = DOUBLE if key in values or key in refused else judge(value)
        if reason is None:
            values[key] = value
        else:
            refused[key] = reason
            values.pop(key, None)
    return values, refused


def judged(found: Iterable[tuple[str, float]], judge: Judge) -> tuple[dict[str, float], dict[str, str]]:
    """Split into (value per key, reason per refused key); two values for one key are refused as a double."""
    values: dict[str, float] = {}
    refused: dict[str, str] = {}
    for key, value in found:
        if key in values or key in refused:
            values.pop(key, None)
            refused[key] = DOUBLE
        elif (reason := judge(value)) is None:
            values[key] = value
        else:
            refused[key] = reason
    return values, refused


def _without_noise(ratio: float) -> float:
    return 0.0 if -ZERO_NOISE_RATIO <= ratio < 0 else ratio
