"""What is held of nodes after answers and failures."""

import math
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotator.collect import collector
from annotator.collect.last_good_values import EMPTY, GoodValue, LastGoodValues
from policy import metrics
from promql import door, errors
from promql.queries import identity, node_queries
from promql.readings import NodeValues

CPU, CPU_MAX, MEMORY = metrics.BUILT_IN[0], metrics.BUILT_IN[1], metrics.BUILT_IN[3]
DOWN = errors.Unreachable("down")
NOW = 1000.0


def metric_answer(
    metric: metrics.Metric, values: Mapping[str, float] | None, *, refused: Mapping[str, str] | None = None
) -> collector.MetricAnswer:
    if values is None:
        return collector.MetricAnswer(metric, None, DOWN)
    return collector.MetricAnswer(metric, NodeValues(values, refused or {}, ()))


def fold(book: LastGoodValues, *answers: collector.MetricAnswer) -> Mapping[str, Mapping[str, float]]:
    folded = collector.fold(book, answers, ("a", "b"), now_seconds=NOW, keep_seconds=240.0)
    return {node: {name: value.ratio for name, value in values_of(folded, node).items()} for node in folded.nodes}


def values_of(book: LastGoodValues, node: str) -> dict[str, GoodValue]:
    """What a book holds of one node."""
    row = book.nodes.index(node)
    pairs = zip(book.ratios[row].tolist(), book.confirmed_seconds[row].tolist(), strict=True)
    return {name: GoodValue(*pair) for name, pair in zip(book.metrics, pairs, strict=True) if not math.isnan(pair[0])}


def held(confirmed_seconds: float, **ratios: float) -> LastGoodValues:
    return LastGoodValues.of(
        {"a": {name: GoodValue(ratio, confirmed_seconds) for name, ratio in ratios.items()}}, tuple(ratios)
    )


@pytest.mark.parametrize("refused", [{}, {"a": "nan"}])
def test_a_value_that_is_absent_or_refused_stands_with_its_old_confirmation(refused: dict[str, str]) -> None:
    before, answers = held(NOW - 30, cpu_avg_5m=0.3), [metric_answer(CPU, {"b": 0.1}, refused=refused)]
    after = collector.fold(before, answers, ("a", "b"), now_seconds=NOW, keep_seconds=240.0)
    assert values_of(after, "a") == {CPU.name: GoodValue(0.3, NOW - 30)}
    assert collector.lagging(after, answers).tolist() == [True, False]
    later = collector.fold(after, answers, ("a", "b"), now_seconds=NOW + 210, keep_seconds=240.0)
    assert values_of(later, "a") == {}
    assert not collector.lagging(later, answers).any()


def test_a_longer_average_stands_for_nothing_current_and_the_order_of_metrics_is_no_matter() -> None:
    longer = metrics.Metric("cpu_avg_1h", "cpu", metrics.AVERAGE, 3600.0, 3600.0)
    assert fold(EMPTY, metric_answer(CPU, {"a": 0.5}), metric_answer(longer, {}))["a"] == {CPU.name: 0.5}
    assert fold(EMPTY, metric_answer(CPU, {"a": 0.5}), metric_answer(longer, {"a": 0.2}))["a"] == {
        CPU.name: 0.5,
        longer.name: 0.2,
    }
    assert fold(EMPTY, metric_answer(CPU_MAX, {"a": 0.4}), metric_answer(CPU, {"a": 0.5}))["a"] == {
        CPU_MAX.name: 0.5,
        CPU.name: 0.5,
    }
    assert fold(EMPTY, metric_answer(CPU_MAX, {"a": 0.4}), metric_answer(CPU, {}))["a"] == {}


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        pytest.param(NodeValues({}, {}, ()), False, id="nothing at all"),
        pytest.param(NodeValues({}, {"a": "nan"}, ()), True, id="a value that is refused"),
        pytest.param(NodeValues({}, {}, ("db-1",)), True, id="a series of another machine"),
    ],
)
def test_an_answer_without_any_series_is_none_and_one_without_values_is_one(answer: NodeValues, counts: bool) -> None:
    (judged,) = collector.doubted([collector.MetricAnswer(CPU, answer)], held(NOW, cpu_avg_5m=0.3))
    assert (judged.error is None) is counts


NODES, METRICS = ("a", "b", "c"), (CPU, CPU_MAX, MEMORY)
BOOKS = st.dictionaries(
    st.sampled_from(["a", "b", "gone"]),
    st.dictionaries(
        st.sampled_from([metric.name for metric in METRICS]),
        st.builds(GoodValue, st.floats(0, 1.5), st.sampled_from([NOW - 300, NOW - 240, NOW - 30])),
    ),
)
ANSWERS = st.tuples(
    st.none() | st.dictionaries(st.sampled_from(NODES), st.floats(0, 1.5)),
    st.dictionaries(st.sampled_from(NODES), st.just("nan")),
)


def of_one_node(
    before: Mapping[str, GoodValue], node: str, answers: list[collector.MetricAnswer]
) -> dict[str, GoodValue]:
    """The rules of the module, said of one node by itself."""
    found: dict[str, GoodValue] = {}
    for metric, answer, _ in answers:
        kept = before.get(metric.name)
        if answer is not None and node in answer.values:
            found[metric.name] = GoodValue(answer.values[node], NOW)
        elif kept is not None:
            found |= {metric.name: kept} if NOW - kept.confirmed_seconds < 240.0 else {}
    if CPU.name not in found and answers[0].answer is not None:
        found.pop(CPU_MAX.name, None)
    if CPU.name in found and CPU_MAX.name in found:
        average, maximum = found[CPU.name], found[CPU_MAX.name]
        found[CPU_MAX.name] = maximum._replace(ratio=max(average.ratio, maximum.ratio))
    return found


@given(before=BOOKS, given_answers=st.tuples(ANSWERS, ANSWERS, ANSWERS))
def test_all_nodes_at_once_are_what_each_is_by_itself(
    before: dict[str, dict[str, GoodValue]], given_answers: tuple[tuple[dict[str, float] | None, dict[str, str]], ...]
) -> None:
    answers = [
        metric_answer(
            metric, values, refused={node: why for node, why in refused.items() if node not in (values or {})}
        )
        for metric, (values, refused) in zip(METRICS, given_answers, strict=True)
    ]
    book = LastGoodValues.of(before, [metric.name for metric in reversed(METRICS)])
    folded = collector.fold(book, answers, NODES, now_seconds=NOW, keep_seconds=240.0)
    assert {node: values_of(folded, node) for node in folded.nodes} == {
        node: of_one_node(before.get(node, {}), node, answers) for node in NODES
    }


@pytest.mark.parametrize(
    ("period", "stale_after", "expected"),
    [
        pytest.param(30.0, 300.0, 240.0, id="two periods before staleAfter"),
        pytest.param(120.0, 300.0, 150.0, id="but at least half of it"),
    ],
)
def test_how_long_an_unconfirmed_value_is_kept(period: float, stale_after: float, expected: float) -> None:
    assert collector.keep_seconds(period, stale_after) == expected


DIRECTORY = identity.build([identity.NodeAddress("a", ("10.0.0.1",))])
LABEL = identity.SeriesLabels(node_selector='job="x"')


A_QUARTER = door.Answer.of((door.Sample({"instance": "10.0.0.1:9100"}, 0.25, 0.0),))


def ask(
    answer: Callable[[str], door.Answer] = lambda _: door.Answer(), **options: tuple[str, ...]
) -> tuple[list[str], list[collector.MetricAnswer]]:
    """The metrics that were asked for, in order, and what came of each."""
    tried: list[str] = []

    def query(name: str, _expression: str) -> door.Answer:
        tried.append(name)
        return answer(name)

    return tried, list(collector.ask(query, metrics.BUILT_IN, DIRECTORY, LABEL, **options))


def raising(error: errors.PromqlError) -> door.Answer:
    raise error


def test_every_metric_is_asked_once_for_all_nodes() -> None:
    seen: list[str] = []

    def query(_name: str, expression: str) -> door.Answer:
        seen.append(expression)
        return A_QUARTER

    answers = collector.ask(query, metrics.BUILT_IN, DIRECTORY, LABEL)
    assert seen == [node_queries.of_metric(metric, selector='job="x"') for metric in metrics.BUILT_IN]
    assert all(one.answer is not None and one.answer.values == {"a": 0.25} for one in answers)


def test_what_failed_before_is_asked_last_and_stands_in_its_place() -> None:
    tried, answers = ask(failed_before=(CPU.name,))
    assert tried[-1] == CPU.name
    assert [one.metric for one in answers] == list(metrics.BUILT_IN)


def test_a_query_of_the_policy_is_asked_as_it_stands() -> None:
    own = metrics.Metric("cpu_own", "cpu", "anything", 60.0, 60.0, query="node:cpu:ratio")
    assert node_queries.of_metric(own, selector='job="x"') == "node:cpu:ratio"


@pytest.mark.parametrize(
    ("error", "tried"),
    [
        pytest.param(errors.Unreachable("no route"), 1, id="nobody there: the rest is not tried"),
        pytest.param(errors.BadQuery("parse error"), 6, id="one bad query costs only itself"),
    ],
)
def test_a_failure_is_held_against_the_metric(error: errors.PromqlError, tried: int) -> None:
    names, answers = ask(lambda _: raising(error))
    assert len(names) == tried
    assert [one.error for one in answers] == [error] * 6


def test_a_query_that_is_too_slow_costs_only_its_own_metric() -> None:
    slow = [metrics.CPU_MAX_1D, metrics.MEMORY_MAX_1D]
    late = errors.Unreachable("did not answer within 10 s")
    _, answers = ask(lambda name: raising(late) if name in slow else A_QUARTER)
    assert [one.metric.name for one in answers if one.error] == slow


def test_two_answers_that_do_not_come_in_a_row_end_the_asking() -> None:
    tried, answers = ask(lambda name: door.Answer() if name == metrics.CPU_AVG_5M else raising(DOWN))
    assert tried == [metrics.CPU_AVG_5M, metrics.CPU_MAX_1H, metrics.CPU_MAX_1D]
    assert [one.error for one in answers] == [None, *[DOWN] * 5]
