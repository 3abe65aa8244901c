"""The report is one file that holds everything, fetches nothing, and shows what a cluster calls its pods as text."""

import dataclasses
import html.parser
import re
import statistics
from typing import cast

import numpy as np
import pytest

from simulator.report import charts, headline, page, stories
from simulator.results import figures, study
from tests.unit.simulator import outcomes

VOID = {"meta", "link", "br", "img", "hr", "input"}
HOSTILE = '<script>alert("1")</script>&{{ 7*7 }}'


class Reader(html.parser.HTMLParser):
    """Reads a page strictly: every element that is opened is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.names: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Opens."""
        self.names.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Opens and closes."""
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        """Closes what was opened last."""
        assert self.open, f"</{tag}> without a beginning"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text."""
        self.texts.append(data)

    def values(self, name: str) -> list[str]:
        """The values of an attribute anywhere."""
        return [value for found, value in self.attributes if found == name]

    @property
    def text(self) -> str:
        """All text."""
        return " ".join("".join(self.texts).split())


def hostile() -> study.Study:
    """A study in which everything that a cluster or a file names is an attack."""
    shown = dataclasses.replace(outcomes.timeline(nodes=3, steps=12), nodes=(HOSTILE, "b", "c"))
    found = outcomes.outcome("policy.yaml", load_timeline=shown, moves=2)
    moved = tuple(dataclasses.replace(one, pod=HOSTILE, workload=HOSTILE, landed_on=HOSTILE) for one in found.moved)
    explained = tuple(dataclasses.replace(one, pod=HOSTILE, node=HOSTILE) for one in found.explained)
    bad = dataclasses.replace(
        found, variant=HOSTILE, moved=moved, explained=explained, unplaced=(HOSTILE,), violations=(HOSTILE,),
        assumptions=(HOSTILE,),
    )  # fmt: skip
    variants = (study.PLAIN, study.Variant(HOSTILE, outcomes.policy(), HOSTILE, HOSTILE, HOSTILE))
    compared = outcomes.study_of((outcomes.outcome(load_timeline=shown),), (bad,), variants=variants)
    return dataclasses.replace(compared, title=HOSTILE, facts={HOSTILE: HOSTILE})


def seeds(*numbers: int, moves: int = 4) -> study.Study:
    """Both variants on several seeds."""
    plain = tuple(outcomes.outcome(seed=seed) for seed in numbers)
    ours = tuple(
        outcomes.outcome("policy.yaml", seed, load_timeline=outcomes.timeline(seed, spread_ratio=0.08), moves=moves)
        for seed in numbers
    )
    return outcomes.study_of(plain, ours)


@pytest.mark.parametrize(
    "compared", [outcomes.study_of(), seeds(1, 2, 3), hostile()], ids=["one seed", "three", "hostile"]
)
def test_the_page_is_whole_and_every_reference_leads_somewhere(compared: study.Study) -> None:
    read = Reader(page.render(compared))
    assert len(set(read.ids)) == len(read.ids)
    links = {link.removeprefix("#") for link in read.values("href")}
    described = {one for value in read.values("aria-labelledby") for one in value.split()}
    assert links
    assert links | described <= set(read.ids)


def test_the_page_runs_nothing_and_fetches_nothing() -> None:
    text = page.render(hostile())
    read = Reader(text)
    assert not {"script", "iframe", "object", "embed", "link", "img", "image", "use", "foreignobject"} & set(read.names)
    assert not [name for name, _ in read.attributes if name.startswith("on") or name in ("src", "srcset", "xlink:href")]
    assert not [value for value in read.values("href") if not value.startswith("#")]
    assert not re.search(r"url\(|@import|https?://", text)
    assert "default-src 'none'" in "".join(read.values("content"))


def test_whatever_a_cluster_names_is_shown_as_it_is() -> None:
    assert Reader(page.render(hostile())).text.count(HOSTILE) > 15


def test_every_chart_is_told_in_words_and_every_figure_is_in_the_table() -> None:
    compared = seeds(1, 2, 3)
    read = Reader(page.render(compared))
    for line in compared.comparison.lines:
        assert line.figure.name in read.text
        assert line.text("policy.yaml") in read.text
    assert read.text.count("In words: ") == 4
    assert "Seed 1 is drawn." in read.text
    assert read.text.count("to 65 %over 65 %: no new podsover 73 %over 80 %: overloaded") == 2
    facts = {"seeds": "1 to 3", "nodes": 3, "pods": 70, "owners": 9, "days": 0.5, "step s": 300, "rule": "mix"}
    subtitle = "70 pods of 9 workloads on 3 nodes, 12 hours in steps of 5 minutes; random seed 1 to 3; rule mix"
    assert subtitle in Reader(page.render(dataclasses.replace(compared, facts=facts))).text
    assert "Seeds: 1, 2, 3." in read.text


def test_an_eviction_on_the_chart_leads_to_its_line_with_the_reason() -> None:
    read = Reader(page.render(outcomes.study_of()))
    marks = [link for link in read.values("href") if "-eviction-" in link]
    assert len(set(marks)) == 9
    assert len(marks) == 2 * 9  # on the heat map and on the chart
    assert "cpu_avg_5m 87 %, over 80 %" in read.text
    assert "cpu_avg_5m 80 %" in read.text  # the policy's line on the chart


def test_an_eviction_below_the_line_says_until_where_relief_goes_on() -> None:
    ours = outcomes.outcome("policy.yaml", moves=1)
    below = dataclasses.replace(ours.moved[0], value=0.65)
    read = Reader(page.render(outcomes.study_of((outcomes.outcome(),), (dataclasses.replace(ours, moved=(below,)),))))
    assert "cpu_avg_5m 65 %, relieving until 60 %, begun over 80 %" in read.text


def test_three_numbers_are_on_top_and_say_what_they_are_made_of() -> None:
    text = Reader(page.render(seeds(1, 2, 3))).text
    names = ["node-minutes over 80 %", "node load, p99", "disruption budgets broken"]
    places = [text.index(name) for name in names]
    assert places == sorted(places)
    assert places[-1] < text.index("CPU of every node") < text.index("Side by side")
    compared = seeds(1, 2, 3)
    hot, _peak, broken = headline.of(compared, "policy.yaml")
    sums = [
        one.figures.cpu.hot_node_minutes + one.figures.memory.hot_node_minutes for one in compared.outcomes["plain"]
    ]
    assert hot.before == figures.written(statistics.median(sums), "minutes")
    assert (hot.word, hot.change[0]) == ("better", "−")
    assert (broken.after, broken.word, broken.detail) == ("0", "better", "by 12 evictions")


def test_a_broken_budget_is_a_bad_number() -> None:
    bad = outcomes.outcome("policy.yaml")
    bad = dataclasses.replace(bad, figures=dataclasses.replace(bad.figures, pdb_violations=2))
    broken = headline.of(outcomes.study_of((outcomes.outcome(),), (bad,)), "policy.yaml")[2]
    assert (broken.after, broken.word) == ("2", "worse")


def test_a_policy_is_shown_with_its_hash_and_text() -> None:
    read = Reader(page.render(outcomes.study_of()))
    assert "policy.yaml: policy.yaml, hash 0123456789ab" in read.text
    assert "descheduler: {mode: Enforce}" in read.text


def test_a_hundred_nodes_over_a_week_are_under_two_megabytes() -> None:
    shown = outcomes.timeline(nodes=100, steps=2016)
    rough = np.random.default_rng(2).random(shown.cpu_ratio.shape).astype(np.float32)  # the worst for a heat map
    shown = dataclasses.replace(shown, cpu_ratio=rough, memory_ratio=rough)
    ours = outcomes.outcome("policy.yaml", load_timeline=shown, moves=2000)
    text = page.render(outcomes.study_of((outcomes.outcome(load_timeline=shown),), (ours,)))
    assert len(text.encode()) < 2_000_000
    read = Reader(text)
    assert "2000 evictions, the first 500 shown" in read.text
    assert {link.removeprefix("#") for link in read.values("href")} <= set(read.ids)


def test_a_run_without_evictions_and_decisions_says_so() -> None:
    read = Reader(page.render(outcomes.study_of((outcomes.outcome(),))))
    assert "Nothing was evicted." in read.text
    assert "No decision was recorded." in read.text


def test_what_nobody_may_overlook_is_on_top() -> None:
    text = Reader(page.render(hostile())).text
    assert text.index("PDB violated") < text.index("Side by side")
    assert text.index("1 pods never found a node") < text.index("Side by side")


def test_a_decision_begins_with_the_chosen_node_and_counts_the_rejected() -> None:
    found = stories.decisions(outcomes.outcome("policy.yaml").explained)
    assert [row.name for row in found[0].rows][:2] == ["node-01", "node-00"]
    assert found[0].allowed == 10
    assert found[0].rejected == (("cpu_avg_5m over 0.65", 2),)


def test_decisions_are_sampled_over_the_whole_run() -> None:
    (one, *_) = outcomes.outcome("policy.yaml").explained
    many = tuple(dataclasses.replace(one, pod=f"shop/web-{number}") for number in range(100))
    found = [decision.pod for decision in stories.decisions(many)]
    assert len(found) == stories.MOST_DECISIONS
    assert found[0] == "shop/web-0"
    assert int(found[-1].removeprefix("shop/web-")) > 80


def test_the_decision_that_says_most_comes_first() -> None:
    (one, *_) = outcomes.outcome("policy.yaml").explained
    nodes = [dict(row, allowed=True, rejected=None) for row in cast(list[dict[str, object]], one.body["nodes"])]
    dull = dataclasses.replace(one, pod="shop/dull", body=one.body | {"nodes": nodes})
    found = stories.decisions((dull, dull, dataclasses.replace(one, pod="shop/telling"), dull))
    assert [decision.pod for decision in found] == ["shop/telling", "shop/dull", "shop/dull", "shop/dull"]


def test_the_load_after_an_eviction_is_that_of_the_timeline() -> None:
    found = outcomes.outcome("policy.yaml", moves=3)
    lines = stories.evictions(found, "v1", outcomes.policy())
    step = round((found.moved[0].at_seconds + 1800 - found.timeline.start_seconds) / 300)
    assert lines[0].later == charts.percent(float(found.timeline.cpu_ratio[step, 0]))
    late = dataclasses.replace(found.moved[0], at_seconds=found.timeline.start_seconds + 288 * 300.0)
    (line,) = stories.evictions(dataclasses.replace(found, moved=(late,)), "v1", outcomes.policy())
    assert line.later == "-"
