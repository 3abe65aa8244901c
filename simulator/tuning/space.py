"""Search space of a policy: one dimension per number or choice, and the policy of a point in it.

Pure. A dimension reads its present value from the policy in the shape of the file and writes another one there, so the
search knows no policy and the policy no search. Only thresholds and weights that the given policy has are moved: a rule
that is off stays off.
"""

import copy
import enum
import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from policy.loading import loader
from policy.schema import problems
from policy.schema.load_policy import LoadPolicy

Tree = dict[str, Any]
Value = float | str | bool
Choice = Mapping[str, Value]


class Part(enum.StrEnum):
    """The parts of a policy that can be tuned, as `--vary` names them."""

    FILTER = "filter"
    SCORE = "score"
    RECENT = "recentPods"
    DESCHEDULER = "descheduler"


@dataclass(frozen=True, slots=True)
class Dimension:
    """A number from `low` to `high` in steps of `step`, or one of `options`; `name` is the path in the file."""

    name: str
    read: Callable[[Tree], Value]
    write: Callable[[Tree, Value], None]
    low: float = 0.0
    high: float = 0.0
    step: float = 0.0
    options: tuple[Value, ...] = ()

    def nearest(self, value: Value) -> Value:
        """The value that can be chosen and is closest to one that the file gives; an option that is none is the
        first.
        """
        if self.options:
            return value if value in self.options else self.options[0]
        steps = round((min(max(float(value), self.low), self.high) - self.low) / self.step)
        return round(self.low + steps * self.step, 6)


def dimensions(policy: LoadPolicy, parts: Iterable[Part]) -> tuple[Dimension, ...]:
    """Everything that may be moved in these parts of a policy."""
    tree, wanted = policy.as_file(), set(parts)
    makers = {
        Part.FILTER: _filter,
        Part.SCORE: _score,
        Part.RECENT: _recent,
        Part.DESCHEDULER: _descheduler,
    }
    return tuple(one for part, maker in makers.items() if part in wanted for one in maker(tree))


def present(policy: LoadPolicy, space: Sequence[Dimension]) -> dict[str, Value]:
    """Where the policy stands, moved to what can be chosen."""
    tree = policy.as_file()
    return {one.name: one.nearest(one.read(tree)) for one in space}


def chosen(policy: LoadPolicy, space: Sequence[Dimension], choice: Choice) -> LoadPolicy | None:
    """The policy with the choice made; None where the combination is none that a policy file may have."""
    tree = copy.deepcopy(policy.as_file())
    for one in space:
        one.write(tree, choice[one.name])
    try:
        return loader.load(yaml.safe_dump(tree, sort_keys=False), "tuned")
    except problems.PolicyError:
        return None


def _filter(tree: Tree) -> Iterator[Dimension]:
    for metric, limit in tree["filter"]["thresholds"].items():
        if limit:
            yield _number(("filter", "thresholds", metric), 0.40, 0.95, 0.05)


def _score(tree: Tree) -> Iterator[Dimension]:
    for metric in tree["score"]["weights"]:
        yield _number(("score", "weights", metric), 0.0, 1.0, 0.05)
    yield _option(("score", "combine"), ("mean", "worst"))
    yield _option(("score", "incomingPod"), (False, True))
    yield _option(("score", "spread"), ("none", "stretch"))


def _recent(_tree: Tree) -> Iterator[Dimension]:
    for resource in ("cpu", "memory"):
        yield _number(("recentPods", "usagePerRequest", resource), 0.2, 1.6, 0.1)


def _descheduler(tree: Tree) -> Iterator[Dimension]:
    for metric in tree["descheduler"]["thresholds"]:
        yield _number(("descheduler", "thresholds", metric, "evictAbove"), 0.60, 0.95, 0.05)
        yield _gap(metric)
    yield _option(("descheduler", "overloadedFor"), ("1m", "3m", "5m", "10m"))


def _gap(metric: str) -> Dimension:
    """How far under evictAbove relief goes: the two lines are moved independently of each other this way."""
    band: Callable[[Tree], Tree] = lambda tree: tree["descheduler"]["thresholds"][metric]  # noqa: E731

    def write(tree: Tree, value: Value) -> None:
        band(tree)["evictUntil"] = round(band(tree)["evictAbove"] - float(value), 6)

    return Dimension(
        f"descheduler.thresholds.{metric}.evictAbove - evictUntil",
        lambda tree: band(tree)["evictAbove"] - band(tree)["evictUntil"],
        write,
        low=0.05,
        high=0.35,
        step=0.05,
    )


def _number(path: tuple[str, ...], low: float, high: float, step: float) -> Dimension:
    return Dimension(".".join(path), _reader(path), _writer(path), low=low, high=high, step=step)


def _option(path: tuple[str, ...], options: tuple[Value, ...]) -> Dimension:
    return Dimension(".".join(path), _reader(path), _writer(path), options=options)


def _reader(path: tuple[str, ...]) -> Callable[[Tree], Any]:
    return lambda tree: functools.reduce(operator.getitem, path, tree)


def _writer(path: tuple[str, ...]) -> Callable[[Tree, Value], None]:
    return lambda tree, value: operator.setitem(functools.reduce(operator.getitem, path[:-1], tree), path[-1], value)
