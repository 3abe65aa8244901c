"""Which metric is stale or missing for how many nodes, exactly at the limit that the extender reads by."""

from annotator.collect.last_good_values import GoodValue, LastGoodValues
from annotator.diagnostics import staleness

NOW, STALE_AFTER = 1000.0, 300.0


def held(**ages_seconds: float) -> dict[str, GoodValue]:
    return {name: GoodValue(0.5, NOW - age) for name, age in ages_seconds.items()}


def by_metric(held: dict[str, dict[str, GoodValue]], *metrics: str) -> dict[str, staleness.Unusable]:
    book = LastGoodValues.of(held, ("cpu", "memory"))
    return dict(staleness.by_metric(book, metrics, now_seconds=NOW, stale_after_seconds=STALE_AFTER))


def test_a_value_is_stale_from_stale_after_on_and_not_before() -> None:
    book = {"a": held(cpu=299.9), "b": held(cpu=300.0), "c": held(cpu=301.0), "d": held()}
    assert by_metric(book, "cpu") == {"cpu": staleness.Unusable(missing=1, stale=2)}


def test_the_line_names_only_what_is_not_fresh() -> None:
    book = {"a": held(cpu=0, memory=400), "b": held(cpu=0)}
    assert staleness.line(by_metric(book, "cpu", "memory"), len(book)) == (
        "memory missing for 1 of 2 nodes; memory stale for 1 of 2 nodes"
    )


def test_a_fresh_fleet_is_said_to_be_so() -> None:
    book = {"a": held(cpu=0, memory=10)}
    assert staleness.line(by_metric(book, "cpu", "memory"), 1) == "all 2 metrics fresh for all 1 nodes"
