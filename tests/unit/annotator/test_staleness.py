"""Which metric is stale or missing for how many nodes, exactly at the limit that the extender reads by."""

from annotator.collect.last_good_values import GoodValue, LastGoodValues
from annotator.diagnostics import standing
from policy.schema.load_policy import LoadPolicy

NOW = 1000.0
CPU, MEMORY = "cpu_avg_5m", "memory_avg_5m"
POLICY = LoadPolicy.of({"sync": {"staleAfter": "5m"}})


def held(**ages_seconds: float) -> dict[str, GoodValue]:
    return {f"{name}_avg_5m": GoodValue(0.5, NOW - age) for name, age in ages_seconds.items()}


def by_metric(held: dict[str, dict[str, GoodValue]], *metrics: str) -> dict[str, standing.Unusable]:
    book = LastGoodValues.of(held, (CPU, MEMORY))
    every = standing.Standing(book, POLICY, NOW).unusable()
    return {name: every[name] for name in metrics}


def test_a_value_is_stale_from_stale_after_on_and_not_before() -> None:
    book = {"a": held(cpu=299.9), "b": held(cpu=300.0), "c": held(cpu=301.0), "d": held()}
    assert by_metric(book, CPU) == {CPU: standing.Unusable(missing=1, stale=2)}


def test_the_line_names_only_what_is_not_fresh() -> None:
    book = {"a": held(cpu=0, memory=400), "b": held(cpu=0)}
    assert standing.line(by_metric(book, CPU, MEMORY), len(book)) == (
        "memory_avg_5m missing for 1 of 2 nodes; memory_avg_5m stale for 1 of 2 nodes"
    )


def test_a_fresh_fleet_is_said_to_be_so() -> None:
    book = {"a": held(cpu=0, memory=10)}
    assert standing.line(by_metric(book, CPU, MEMORY), 1) == "all 2 metrics fresh for all 1 nodes"
