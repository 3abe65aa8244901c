"""The extender's JSON answers to people, as far as commands print them.

`cli.nodes` and `cli.explain` decode GET /nodes, GET /decisions and POST /explain into these; the columns that both
print are worded here. Unknown keys are left aside, so that a newer extender can be read, and a number that does not
exist is None.
"""

import re
from typing import Final

import msgspec

MISSING: Final = "-"
NO_RULES: Final = "-"
_MEBIBYTE: Final = 2**20
_NUMBERS: Final = re.compile(r"(\d+)", re.ASCII)
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


class Rule(msgspec.Struct, frozen=True):
    """A filter rule for one node: `value` is the reading plus expected load, all of them ratios."""

    metric: str
    limit: float
    value: float | None = None
    reading: float | None = None
    expected: float | None = None
    age_seconds: float | None = None
    broken: bool = False
    own: bool = False
    pool: bool = False
    pod_class: bool = False


class Packing(msgspec.Struct, frozen=True):
    """The target that a node is filled up to, the load that its terms make, and the base that follows from both."""

    target_ratio: float
    load_ratio: float
    base: float

    def __str__(self) -> str:
        """`packing to 50%: load 41% -> 9.10`."""
        return f"packing to {percent(self.target_ratio)}: load {percent(self.load_ratio)} -> {points(self.base)}"


class Node(msgspec.Struct, frozen=True):
    """One node's row; what depends on the other nodes is None in a decision of the filter."""

    name: str
    usable: bool
    state: str
    pool: str | None = None
    age_seconds: float | None = None
    values: dict[str, float] = {}
    unusable: dict[str, str] = {}
    hot: dict[str, int] = {}
    expected: dict[str, float] = {}
    incoming: dict[str, float] = {}
    terms: dict[str, float | None] = {}
    penalty: float = 0.0
    own_base: float | None = None
    base: float | None = None
    median_base: bool | None = None
    capped_base: bool | None = None
    raw_score: float | None = None
    score: int | None = None
    allowed: bool = True
    rejected: str | None = None
    rules: tuple[Rule, ...] = ()
    rules_off: tuple[str, ...] = ()
    pool_rules_off: tuple[str, ...] = ()
    thresholds_ignored: str | None = None
    packing: Packing | None = None


class Nodes(msgspec.Struct, frozen=True):
    """GET /nodes."""

    policy: str
    nodes: tuple[Node, ...]


class Estimate(msgspec.Struct, frozen=True):
    """The load expected of the pod that is asked about, and by what each resource was estimated."""

    cpu_millicores: float
    cpu_by: str
    memory_bytes: float
    memory_by: str


class Decision(msgspec.Struct, frozen=True):
    """One element of GET /decisions; `nodes` is None in all but the newest of each verb."""

    verb: str
    at: str
    at_seconds: float
    namespace: str
    pod: str
    uid: str
    candidates: int
    passed: int
    policy_hash: str
    exempt: str | None = None
    rejected: dict[str, int] = {}
    degraded: tuple[str, ...] = ()
    assumed: str = ""
    shadow: bool = False
    pod_class: str | None = None
    nodes: tuple[Node, ...] | None = None
    omitted: int = 0
    estimate: Estimate | None = None
    means: tuple[tuple[str, ...], ...] = ()


class Decisions(msgspec.Struct, frozen=True):
    """GET /decisions."""

    decisions: tuple[Decision, ...]


class ExplainAnswer(msgspec.Struct, frozen=True):
    """POST /explain."""

    policy: str
    at: str
    nodes: tuple[Node, ...]
    shadow: bool = False
    pod_class: str | None = None
    exempt: str | None = None
    degraded: tuple[str, ...] = ()
    estimate: Estimate | None = None
    means: tuple[tuple[str, ...], ...] = ()


def natural(name: str) -> list[str | int]:
    """A sort key of names by the numbers in them: node-2 comes before node-10."""
    return [int(part) if at % 2 else part for at, part in enumerate(_NUMBERS.split(name))]


def percent(ratio: float | None) -> str:
    """A ratio as whole percent, "-" for none."""
    return MISSING if ratio is None else f"{100 * ratio:.0f}%"


def mebibytes(size_bytes: float | None) -> str:
    """Memory as whole mebibytes, "-" for none."""
    return MISSING if size_bytes is None else f"{size_bytes / _MEBIBYTE:.0f}Mi"


def age(seconds: float | None) -> str:
    """An age in the largest unit that fits, as kubectl's: 22s, 5m, 3h; "-" for none, "-3s" for one in the future."""
    if seconds is None:
        return MISSING
    whole, sign = round(abs(seconds)), "-" if seconds <= -1 else ""
    size, unit = next((size_unit for size_unit in _UNITS if whole >= 2 * size_unit[0]), _UNITS[-1])
    return f"{sign}{whole // size}{unit}"


def base(node: Node) -> str:
    """The node's own base and, where the other nodes change it, an arrow to the base that counts: by the stretch, the
    median for a node without a reading, or a cap for one that lacks a weighted metric and would otherwise be better
    than every node that lacks none.
    """
    by_others = " (median)" if node.median_base else " (capped)" if node.capped_base else ""
    own, counted = points(node.own_base), points(node.base)
    changed = None not in (node.own_base, node.base) and own != counted
    return f"{own}->{counted}{by_others}" if changed else f"{counted}{by_others}"


def points(value: float | None, decimals: int = 2) -> str:
    """Points on the scale of 0 to 10, "-" for none."""
    return MISSING if value is None else f"{value:.{decimals}f}"
