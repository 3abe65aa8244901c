"""The search itself: optuna, behind one module, loaded by `evenload tune` only.

Its TPE sampler (Bergstra et al., Algorithms for Hyper-Parameter Optimization, NIPS 2011) suits what is searched here: a
dozen dimensions, some of them choices, trials that take seconds and are noisy, and one constraint. `fitting` calls
`search`; the first trial is where the policy stands, so that the result is never worse on what was searched.
"""

import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from simulator.tuning.goal import Goal, Score
from simulator.tuning.space import Dimension, Value

INSTALL = "tuning needs optuna, which is not installed: pip install 'evenload[tune]', or optuna alone"
UNPLACED_COST = 1e6  # a pod without a node outweighs every hot minute
_EXCESS = "excess"

Evaluate = Callable[[Mapping[str, Value]], Score | None]
Progress = Callable[[int, int, "Trial | None"], None]


class NotInstalled(Exception):
    """optuna is not there; the text says how to install it."""


class Trial(NamedTuple):
    """A choice and what came of it."""

    choice: Mapping[str, Value]
    score: Score


class Settings(NamedTuple):
    """How long to look, and the seed that makes it repeatable."""

    trials: int
    seed: int


def search(
    space: Sequence[Dimension],
    start: Mapping[str, Value],
    evaluate: Evaluate,
    goal: Goal,
    *,
    settings: Settings,
    progress: Progress = lambda _done, _trials, _best: None,
) -> tuple[Trial, ...]:
    """Every trial that could be judged, in order; the first is `start`.

    `evaluate` gives None for a choice that is no policy. NotInstalled without optuna. An exception of `evaluate`, also
    KeyboardInterrupt, ends the search.
    """
    optuna = _optuna()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that drawing dimensions together may change in later versions of optuna
        sampler = optuna.samplers.TPESampler(seed=settings.seed, constraints_func=_excess, multivariate=True)
    study = optuna.create_study(sampler=sampler)
    study.enqueue_trial(dict(start))
    trials: list[Trial] = []
    for number in range(settings.trials):
        progress(number, settings.trials, best(trials, goal))
        trial = study.ask()
        choice = {one.name: _suggested(trial, one) for one in space}
        score = evaluate(choice)
        if score is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        trial.set_user_attr(_EXCESS, score.excess(goal))
        study.tell(trial, score.value + UNPLACED_COST * score.unplaced)
        trials.append(Trial(choice, score))
    progress(settings.trials, settings.trials, best(trials, goal))
    return tuple(trials)


def best(trials: Sequence[Trial], goal: Goal) -> Trial | None:
    """The trial that keeps the limit with the fewest pods left out and the smallest figure; where none keeps it, the
    one nearest to it. Of equals the first, which is nearest to where the search began.
    """
    return min(trials, key=lambda one: _rank(one.score, goal), default=None)


def _rank(score: Score, goal: Goal) -> tuple[float, int, float]:
    return max(0.0, score.excess(goal)), score.unplaced, score.value


def _suggested(trial: Any, dimension: Dimension) -> Value:
    if dimension.options:
        option: Value = trial.suggest_categorical(dimension.name, list(dimension.options))
        return option
    return round(float(trial.suggest_float(dimension.name, dimension.low, dimension.high, step=dimension.step)), 6)


def _excess(trial: Any) -> tuple[float]:
    return (trial.user_attrs.get(_EXCESS, 0.0),)


def _optuna() -> Any:
    try:
        optuna = importlib.import_module("optuna")
    except ImportError as error:
        raise NotInstalled(INSTALL) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
