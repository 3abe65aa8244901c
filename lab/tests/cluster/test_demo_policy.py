"""The demo's policy is a valid one, and its windows fit the speed at which the demo plays the curves."""

import pathlib

from lab.cluster.demo import __main__ as demo
from lab.cluster.demo import phases
from policy.loading import loader
from policy.schema import load_policy
from simulator import load_curves

PATH = pathlib.Path(__file__).parents[3] / "deploy" / "policies" / "demo.yaml"


def policy() -> load_policy.LoadPolicy:
    """The policy of `make run`."""
    return loader.load(PATH.read_text(encoding="utf-8"), str(PATH))


def test_it_acts() -> None:
    assert policy().descheduler.mode == "Enforce"


def test_a_step_of_the_curves_lasts_one_averaging_window() -> None:
    windows = {metric.averaging_seconds for metric in policy().metrics_in_force}
    assert windows == {load_curves.STEP_SECONDS / phases.SPEED}


def test_it_has_the_six_metrics_with_windows_of_seconds() -> None:
    metrics = policy().metrics_in_force
    assert len(metrics) == phases.NEEDED_METRICS
    assert max(metric.window_seconds for metric in metrics) <= 60


def test_the_screen_says_how_long_the_windows_really_are() -> None:
    assert demo.windows(policy()) == {"avg_5m": "5s", "max_1h": "15s", "max_1d": "45s"}


def test_nodes_are_relieved_down_to_the_line_at_which_they_get_no_new_pods() -> None:
    """Where nodes were relieved from that line on, five both lost and received pods: pods moved in circles."""
    found = policy()
    for name, band in found.descheduler.thresholds.items():
        assert band.evict_until_ratio == found.filter.thresholds[name] < band.evict_above_ratio


def test_it_scores_as_the_shipped_policy_does() -> None:
    assert policy().score == load_policy.defaults().score
