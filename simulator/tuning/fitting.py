"""A policy fitted on one part of what happened, and judged on another.

`evenload tune` hands in two ways of trying a policy: on what may be learned from and on what is held back. The result
says what was won in both; a gain that does not carry over is called over-fitting, in words and by a flag.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from policy.schema.load_policy import LoadPolicy
from simulator.tuning import searching, space
from simulator.tuning.goal import Goal, Score
from simulator.tuning.searching import Progress, Settings, Trial
from simulator.tuning.space import Dimension, Value

CARRIED_RATIO = 0.5  # a fitted gain of which less than this is left on what was held back did not carry over

Try = Callable[[LoadPolicy], Score]


@dataclass(frozen=True, slots=True)
class FittedPolicy:
    """The policy to start from and the fitted one, with the score of each where it was searched and where held back."""

    start: LoadPolicy
    policy: LoadPolicy
    given_learned: Score
    found_learned: Score
    given_held: Score
    found_held: Score
    trials: tuple[Trial, ...]
    goal: Goal

    @property
    def learned_gain(self) -> float:
        """By how much the figure fell where it was searched, as a share of what it was."""
        return _gain(self.given_learned.value, self.found_learned.value)

    @property
    def held_gain(self) -> float:
        """Returns the gain on the held-back seeds where nothing was searched."""
        return _gain(self.given_held.value, self.found_held.value)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Returns the reasons against using the policy."""
        parts = []
        if self.found_held.excess(self.goal) > 0:
            parts.append(
                f"{self.found_held.evictions_per_day:.1f} evictions a day on what was held back, over the limit of "
                f"{self.goal.evictions_per_day:g}"
            )
        if self.learned_gain > 0 and self.held_gain < CARRIED_RATIO * self.learned_gain:
            parts.append(
                f"over-fitted: {self.learned_gain:.0%} less {self.goal.aim} where it was searched, "
                f"{self.held_gain:.0%} on what was held back; give more history, or vary fewer parts"
            )
        worse = sum(new > old for old, new in zip(self.given_held.values, self.found_held.values, strict=True))
        if worse:
            parts.append(f"worse than the given policy in {worse} of {len(self.found_held.values)} runs held back")
        if self.found_held.unplaced > self.given_held.unplaced:
            parts.append(
                f"{self.found_held.unplaced} pods without a node on what was held back, "
                f"{self.given_held.unplaced} before"
            )
        return tuple(parts)


def fit(
    policy: LoadPolicy,
    dimensions: tuple[Dimension, ...],
    learned: Try,
    held: Try,
    *,
    goal: Goal,
    settings: Settings,
    progress: Progress = lambda _done, _trials, _best: None,
) -> FittedPolicy:
    """Search on `learned`, judge on `held`. ValueError when nothing may be moved."""
    if not dimensions:
        raise ValueError("nothing of this policy may be moved: it has no threshold or weight in the parts to vary")

    def evaluate(choice: Mapping[str, Value]) -> Score | None:
        tried = space.chosen(policy, dimensions, choice)
        return None if tried is None else learned(tried)

    start = space.present(policy, dimensions)
    given_learned = learned(policy)
    trials = searching.search(dimensions, start, evaluate, goal, settings=settings, progress=progress)
    best = searching.best((Trial(start, given_learned), *trials), goal) or Trial(start, given_learned)
    stays = best.score is given_learned
    best_policy = policy if stays else space.chosen(policy, dimensions, best.choice) or policy
    given_held = held(policy)
    found_held = given_held if stays else held(best_policy)
    return FittedPolicy(policy, best_policy, given_learned, best.score, given_held, found_held, trials, goal)


def _gain(before: float, after: float) -> float:
    return (before - after) / before if before > 0 else 0.0
