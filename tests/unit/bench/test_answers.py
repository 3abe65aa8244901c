"""The bench of answers: what its rows say of several legs, and what the table shows of it."""

from bench import answers, contestants, table


def leg(ours_ms: float, reference_ms: float) -> answers.Leg:
    """A leg in which every verb of a contestant took one time."""
    figures = {contestants.US: ours_ms, contestants.REFERENCE: reference_ms}
    return {
        name: {verb: {f"{part}_microseconds": 1000 * took_ms for part in ("p50", "p99")} for verb in answers.VERBS}
        for name, took_ms in figures.items()
    }


def test_a_row_is_the_medians_of_the_legs_and_says_how_far_they_lie_apart() -> None:
    rows = answers.rows(500, [leg(1.0, 2.0), leg(30.0, 5.0), leg(2.0, 3.0)])
    assert [row.what for row in rows[:2]] == ["filter, 500 names, p50", "filter, 500 names, p99"]
    p99 = rows[1]
    assert (p99.ours, p99.yardstick, p99.legs) == (2.0, 3.0, (0.5, 6.0))
    assert (p99.limit, p99.within) == (1.3, True)


def test_every_verb_and_quantile_has_a_row_and_a_leg_that_is_worse_on_the_whole_is_over() -> None:
    rows = answers.rows(5000, [leg(2.0, 2.0), leg(2.0, 2.0), leg(1.0, 2.0)])
    assert len(rows) == 2 * len(answers.VERBS)
    assert [row.within for row in rows] == [False] * len(rows)


def test_the_table_shows_the_spread_where_there_are_legs() -> None:
    with_legs, without = answers.rows(500, [leg(1.0, 2.0)])[0], table.Row("memory", 205.0, "MiB", None, 300)
    heading, first, second = table.rendered([with_legs, without]).splitlines()
    assert "of legs" in heading
    assert "0.50-0.50x" in first
    assert second.split() == ["memory", "205", "MiB", "-", "<=", "300", "MiB", "ok"]
