"""A node whose load does not fall when pods leave it: what was expected, what was measured, and how long it rests."""

import pytest

from descheduler.planning import relief_effect
from descheduler.snapshot.eviction_history import History, PastRelief
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW

POLICY = scenes.policy()
MEMORY = "memory_avg_5m"
EIGHTHS = (0.8125,) * 3  # half an eighth below 0.875, without an error of rounding


def relieved(
    *loads: float | None, before: float = 0.9, share: float = 0.1, gone_after_seconds: float | None = 10.0
) -> tuple[PastRelief, ...]:
    """Evictions in runs of their own, an hour and more ago, and what the node showed 5 min after each."""
    begun = [NOW - 7200 + 600 * number for number in range(len(loads))]
    return tuple(
        PastRelief(
            f"run-{at_seconds}",
            MEMORY,
            before,
            share,
            None if gone_after_seconds is None else at_seconds + gone_after_seconds,
            ((at_seconds + 300, load), (at_seconds + 1800, None)),
        )
        for at_seconds, load in zip(begun, loads, strict=True)
    )


@pytest.mark.parametrize(
    ("evictions", "in_a_row"),
    [
        pytest.param(relieved(0.9, 0.9), 0, id="two say nothing yet"),
        pytest.param(relieved(0.9, 0.9, 0.9), 1, id="three, and nothing fell"),
        pytest.param(relieved(0.9, 0.9, 0.9, 0.9, 0.9), 3, id="and each further one"),
        pytest.param(relieved(0.86, 0.86, 0.86), 1, id="less than half"),
        pytest.param(relieved(0.84, 0.84, 0.84), 0, id="more than half"),
        pytest.param(relieved(*EIGHTHS, before=0.875, share=0.125, gone_after_seconds=0), 0, id="exactly half"),
        pytest.param(relieved(0.95, 0.95, 0.95), 1, id="it rose"),
        pytest.param(relieved(0.9, 0.9, 0.9, 0.6), 0, id="one that helped ends it"),
        pytest.param(relieved(0.9, 0.9, None), 0, id="what is not known yet is not judged"),
        pytest.param(relieved(0.9, None, 0.9, 0.9), 1, id="and ends nothing"),
        pytest.param(relieved(0.9, 0.9, 0.9, share=0.0), 0, id="nothing was expected of the pods"),
        pytest.param(relieved(0.9, 0.9, 0.9, gone_after_seconds=None), 0, id="the pods have not gone yet"),
        pytest.param(relieved(0.9, 0.9, 0.9, gone_after_seconds=150), 1, id="the window shows half of them"),
        pytest.param(relieved(0.9, 0.9, 0.9, gone_after_seconds=151), 0, id="the window shows more of them"),
    ],
)
def test_the_load_is_compared_with_what_should_have_gone(evictions: tuple[PastRelief, ...], in_a_row: int) -> None:
    found = relief_effect.ineffective(evictions, MEMORY, POLICY)
    assert (found.in_a_row if found is not None else 0) == in_a_row
    assert relief_effect.ineffective(evictions, "cpu_avg_5m", POLICY) is None


def test_where_one_eviction_is_enough_the_first_failure_is_one() -> None:
    obeyed = scenes.policy(cooldown={"ineffective": {"evictions": 1}})
    found = relief_effect.ineffective(relieved(0.9, gone_after_seconds=0), MEMORY, obeyed)
    assert found == relief_effect.Effect(1, 0.1, 0.0, in_a_row=1)


def test_what_has_not_left_the_window_is_not_expected_yet() -> None:
    found = relief_effect.ineffective(relieved(0.9, 0.9, 0.9, gone_after_seconds=60), MEMORY, POLICY)
    assert found is not None
    assert found.expected_ratio == pytest.approx(0.3 * 0.8)  # 60 of the 300 s before the look were with the pod


def test_pods_of_one_run_are_judged_together() -> None:
    one, two, three = relieved(0.75, 0.75, 0.75)
    together = [
        one._replace(run="run", before_ratio=before, looks=one.looks, gone_at_seconds=one.gone_at_seconds)
        for one, before in zip((one, one, one), (0.9, 0.8, 0.7), strict=True)
    ]
    assert relief_effect.ineffective(together, MEMORY, POLICY) is None, "0.15 of 0.3 is half"
    worse = [item._replace(looks=((item.looks[0][0], 0.8), item.looks[1])) for item in together]
    found = relief_effect.ineffective(worse, MEMORY, POLICY)
    assert found is not None
    assert found.evictions == 3
    assert found.measured_ratio == pytest.approx(0.1)
    assert two.run != three.run


@pytest.mark.parametrize(
    ("early", "late", "gone_after_seconds"),
    [
        pytest.param(0.9, 0.8, 10, id="the later one"),
        pytest.param(0.86, 0.855, 140, id="the earlier one, of which less was expected"),
    ],
)
def test_the_better_of_both_looks_counts(early: float, late: float, gone_after_seconds: float) -> None:
    past = [
        one._replace(looks=(one.looks[0], (one.looks[1][0], late)))
        for one in relieved(early, early, early, gone_after_seconds=gone_after_seconds)
    ]
    assert relief_effect.ineffective(past, MEMORY, POLICY) is None


@pytest.mark.parametrize(
    ("loads", "age_seconds", "cause"),
    [
        pytest.param((0.9,) * 3, 1799, "load_not_falling", id="half an hour"),
        pytest.param((0.9,) * 3, 1801, "chosen", id="and it is over"),
        pytest.param((0.9,) * 4, 3599, "load_not_falling", id="twice as long"),
        pytest.param((0.9,) * 4, 3601, "chosen", id="then that is over"),
        pytest.param((0.9,) * 9, 21599, "load_not_falling", id="at most six hours"),
        pytest.param((0.9,) * 9, 21601, "chosen", id="no longer"),
        pytest.param((0.6,) * 9, 1000, "chosen", id="its load falls"),
    ],
)
def test_the_node_rests_longer_each_time(loads: tuple[float, ...], age_seconds: float, cause: str) -> None:
    history = History(relieved={"hot": relieved(*loads)}, last_by_node={"hot": NOW - age_seconds})
    judged = scenes.judged(scenes.hot_and_cool().plan(history=history))["web-0"].verdict
    assert str(judged.cause) == cause
    if cause == "load_not_falling":
        assert "evictions should have lowered memory_avg_5m by 0.2" in judged.detail
        assert "lowered it by 0.00: its load does not come from its pods" in judged.detail
