"""What every implementation of `promql.door.PrometheusDoor` must do, as far as our own queries ask it.

A `stage` fixture says where it is and how it waits. What is asked is about a past instant, which does not change.
"""

import collections.abc
import dataclasses
import math

import numpy as np
import pytest

from promql import errors
from promql.door import Answer, PrometheusDoor, RangeAnswer, Sample
from promql.queries import node_queries, pod_queries
from promql.queries.node_queries import Window

Answered = collections.abc.Callable[[], bool]
Instants = collections.abc.Callable[[float], list[float]]
# Lets time pass until something is true; AssertionError with the text and the description if it never is.
Wait = collections.abc.Callable[[Answered, str, collections.abc.Callable[[], object]], object]


@dataclasses.dataclass(frozen=True)
class Stage:
    """A door to so many idle nodes with this selector, each scraped four times or more in an averaging window."""

    door: PrometheusDoor
    nodes: int
    averaging_seconds: float
    wait: Wait
    selector: str = ""

    def window(self, resource: str, statistic: str, windows: float = 1.0) -> Window:
        """A window of so many averaging windows."""
        return Window(resource, statistic, windows * self.averaging_seconds, self.averaging_seconds)

    def text(self, window: Window) -> str:
        """Its expression for the nodes of the stage."""
        return node_queries.expression(window, selector=self.selector)

    def answered(self, expression: str, low: float = -math.inf, high: float = math.inf) -> Answer:
        """The answer once every node is in it, with a value within low..high."""
        answers: list[Answer] = []

        def whole() -> bool:
            answers.append(self.door.query(expression))
            samples = answers[-1].samples
            return len(samples) == self.nodes and all(low <= sample.value <= high for sample in samples)

        self.wait(whole, f"{self.nodes} series within {low}..{high} of {expression}", lambda: answers[-1])
        return answers[-1]

    def one(self, expression: str) -> Sample:
        """The only sample of an answer, once there is one."""
        answers: list[Answer] = []

        def single() -> bool:
            answers.append(self.door.query(expression))
            return len(answers[-1].samples) == 1

        self.wait(single, f"one series of {expression}", lambda: answers[-1])
        return answers[-1].samples[0]

    def settled_seconds(self) -> float:
        """A whole second just past, of which everything is known that was scraped."""
        times = self.answered(node_queries.data_time("memory", selector=self.selector)).samples
        return float(math.floor(min(sample.value for sample in times)) - 1)

    def averages(self, resource: str, instants: Instants) -> tuple[list[float], dict[str, list[float]]]:
        """Instants, and the averages of each node then, by one range query; once no scrape was missed at any.

        `instants` says which, of a settled second.
        """
        text, last = self.text(self.window(resource, "avg")), list[tuple[list[float], RangeAnswer]]()

        def whole() -> bool:
            asked = instants(self.settled_seconds())
            answer = self.door.query_range(
                text, start_seconds=asked[0], end_seconds=asked[-1], step_seconds=asked[1] - asked[0]
            )
            last.append((asked, answer))
            good = [
                series for series in answer.series if [at for at, value in series.points if value == value] == asked
            ]
            return len(good) == len(answer.series) == self.nodes and not answer.warnings

        self.wait(whole, f"a value of {self.nodes} nodes at every step of a range of {text}", lambda: last[-1])
        asked, answer = last[-1]
        return asked, {one.labels["instance"]: [value for _, value in one.points] for one in answer.series}


class Suite:
    """The tests; a subclass has the fixture `stage`."""

    @pytest.mark.parametrize("resource", ["cpu", "memory"])
    @pytest.mark.parametrize(("statistic", "windows"), [("avg", 1.0), ("max", 3.0), ("p95", 3.0)])
    def test_every_window_is_answered_for_every_node(
        self, stage: Stage, resource: str, statistic: str, windows: float
    ) -> None:
        answer = stage.answered(stage.text(stage.window(resource, statistic, windows)), -0.02, 1.0)
        assert len({sample.labels["instance"] for sample in answer.samples}) == stage.nodes
        assert all(sample.labels.keys() == {"instance", "job"} for sample in answer.samples)

    def test_a_series_younger_than_its_window_is_not_taken_for_busy(self, stage: Stage) -> None:
        text = stage.text(Window("cpu", "avg", 86400.0, stage.averaging_seconds))

        def idle() -> bool:
            """Without nodes that another file's test once made say NaN: for a day they have no rate."""
            values = [sample.value for sample in stage.door.query(text).samples]
            return any(value == value for value in values) and all(value < 0.5 for value in values if value == value)

        stage.wait(idle, "nodes that are known for less than a day to be idle", lambda: stage.door.query(text))

    @pytest.mark.parametrize("resource", ["cpu", "memory"])
    def test_the_data_time_is_the_scrape_not_the_evaluation(self, stage: Stage, resource: str) -> None:
        answer = stage.answered(node_queries.data_time(resource, selector=stage.selector))
        at_seconds = answer.samples[0].at_seconds
        assert all(sample.at_seconds == at_seconds for sample in answer.samples)
        assert all(at_seconds - 300.0 < sample.value <= at_seconds for sample in answer.samples)

    @pytest.mark.parametrize(("statistic", "over"), [("max", np.max), ("p50", np.median)])
    @pytest.mark.parametrize("resource", ["cpu", "memory"])
    def test_a_long_window_is_over_the_averages_at_the_multiples_of_its_step(
        self, stage: Stage, resource: str, statistic: str, over: collections.abc.Callable[[list[float]], float]
    ) -> None:
        window = stage.window(resource, statistic, 2.0)
        step_seconds = node_queries.step_seconds(window)

        def multiples(settled_seconds: float) -> list[float]:
            last = math.floor(settled_seconds / step_seconds)
            return [number * step_seconds for number in range(last - 7, last + 1)]

        instants, averages = stage.averages(resource, multiples)
        found = stage.door.query(stage.text(window), at_seconds=instants[-1] + step_seconds / 10).samples
        assert {one.labels["instance"]: one.value for one in found} == {
            node: pytest.approx(float(over(values)), abs=1e-9) for node, values in averages.items()
        }

    def test_a_range_is_the_instants_from_start_to_end(self, stage: Stage) -> None:
        def halves(settled_seconds: float) -> list[float]:
            return [settled_seconds + 0.25 - back / 2 for back in range(4, -1, -1)]

        instants, averages = stage.averages("cpu", halves)
        for number, instant in enumerate(instants):
            samples = stage.door.query(stage.text(stage.window("cpu", "avg")), at_seconds=instant).samples
            at_once = {sample.labels["instance"]: sample.value for sample in samples}
            assert at_once == pytest.approx({node: values[number] for node, values in averages.items()}, abs=1e-12)
            assert {sample.at_seconds for sample in samples} == {instant}

    def test_before_there_was_anything_nothing_is_known(self, stage: Stage) -> None:
        for text in (
            stage.text(stage.window("memory", "avg")),
            stage.text(stage.window("cpu", "max", 3.0)),
            node_queries.data_time("cpu", selector=stage.selector),
            node_queries.scrapes("cpu", stage.averaging_seconds, selector=stage.selector),
            pod_queries.memory_bytes(stage.averaging_seconds),
        ):
            assert stage.door.query(text, at_seconds=1234.5).samples == ()

    def test_pods_are_known_by_namespace_and_name(self, stage: Stage) -> None:
        for text in (
            pod_queries.cpu_cores(stage.averaging_seconds),
            pod_queries.memory_bytes(stage.averaging_seconds),
            pod_queries.data_time("cpu"),
            pod_queries.data_time("memory"),
        ):
            answer = stage.door.query(text)
            assert all(sample.labels.keys() == {"namespace", "pod"} for sample in answer.samples)

    def test_scrapes_and_the_share_of_known_nodes_are_one_number_each(self, stage: Stage) -> None:
        scrapes = stage.one(node_queries.scrapes("cpu", 2 * stage.averaging_seconds, selector=stage.selector))
        known = stage.one(node_queries.known_share(stage.averaging_seconds, selector=stage.selector))
        assert scrapes.labels == known.labels == {}
        assert scrapes.value >= 1.0
        assert 0.0 < known.value <= 1.0
        assert stage.door.query(node_queries.known_share(864000.0, selector=stage.selector)).samples == ()

    def test_what_does_not_parse_is_a_bad_query(self, stage: Stage) -> None:
        with pytest.raises(errors.BadQuery):
            stage.door.query("sum(")

    @pytest.mark.parametrize(
        ("end_seconds", "step_seconds"),
        [
            pytest.param(900.0, 1.0, id="that ends before it begins"),
            pytest.param(1100.0, 0.0, id="without a step"),
            pytest.param(100_000.0, 1.0, id="of more than 11,000 points"),
        ],
    )
    def test_an_impossible_range_is_a_bad_query(self, stage: Stage, end_seconds: float, step_seconds: float) -> None:
        text = node_queries.data_time("memory", selector=stage.selector)
        with pytest.raises(errors.BadQuery):
            stage.door.query_range(text, start_seconds=1000.0, end_seconds=end_seconds, step_seconds=step_seconds)
