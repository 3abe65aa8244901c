"""`evenload effectiveness`: what it asks, prints where, and its exit codes, over a server of prepared answers."""

import json
import pathlib
from collections.abc import Iterator

import click.testing
import pytest

from cli import effectiveness_figures as figures
from tests import commands, scripted_http
from tests.unit.cli.doctor import clusters

NOW_SECONDS = 1_795_233_600.0
DAY_SECONDS = 86400.0
SUMS = {
    "total": 40.0,
    "effective": 26.5,
    "cpu": 16.0,
    "memory": 10.0,
    "left_out": 10.0,
    "looked_back": 20.0,
    "stayed": 9.0,
}


SHADOW: dict[str, dict[str, float]] = {
    "verdict": {"best": 50.0, "lower": 30.1, "rejected": 20.0, "not_asked": 3.0, "unjudged": 2.0},
    "le": {"0.0": 50.0, "1.0": 60.0, "2.0": 72.0, "9.0": 80.1, "+Inf": 80.1},
}


class Prometheus:
    """Answers the queries of a span; `sums` and `oldest_seconds` may be changed, None means no series.

    So may `shadow_seconds`, when the extenders' mode became Shadow, and `shadow_known`.
    """

    def __init__(self) -> None:
        self.shadow_seconds: float | None = NOW_SECONDS - 8 * DAY_SECONDS
        self.shadow_known = True
        self.sums: dict[str, float] = dict(SUMS)
        self.oldest_seconds: float | None = NOW_SECONDS - 8 * DAY_SECONDS
        self.warnings: list[str] = []
        self.url = ""
        self.asked: list[scripted_http.Exchange] = []

    def answer(self, exchange: scripted_http.Exchange) -> None:
        """One query."""
        self.asked.append(exchange)
        ranged = exchange.path.endswith("query_range")
        kind = "matrix" if ranged else "vector"
        rows: list[dict[str, object]] = []
        for labels, value in self._values(exchange.query["query"]):
            points = {"values": [[float(exchange.query["end"]), str(value)]]} if ranged else {}
            rows.append({"metric": labels, "value": [NOW_SECONDS, str(value)], **points})
        body = {"status": "success", "data": {"resultType": kind, "result": rows}, "warnings": self.warnings}
        exchange.answer(body)

    def _values(self, query: str) -> list[tuple[dict[str, str], float]]:
        if query == "vector(time())":
            return [({}, NOW_SECONDS)]
        if "shadow" in query:
            return self._shadow_values(query)
        if query.startswith("min(min_over_time("):
            return [] if self.oldest_seconds is None else [({}, self.oldest_seconds)]
        return [({"part": part}, value) for part, value in self.sums.items() if f'"part", "{part}"' in query]

    def _shadow_values(self, query: str) -> list[tuple[dict[str, str], float]]:
        if query.startswith("count("):
            return [({}, 2.0)] * self.shadow_known
        if query.startswith("min(min_over_time("):
            return [] if self.shadow_seconds is None else [({}, self.shadow_seconds)]
        times = 0 if self.shadow_seconds is None else 1  # counters are there at 0, whatever the mode
        counted = [({label: value}, times * count) for label, each in SHADOW.items() for value, count in each.items()]
        return [*counted, ({"part": "missed"}, times * 60.2)] if self.shadow_known else []


@pytest.fixture
def prometheus() -> Iterator[Prometheus]:
    """At a URL."""
    made = Prometheus()
    with scripted_http.serving(made.answer) as server:
        made.url = server.url
        yield made


def run(prometheus: Prometheus, *words: object, code: int | None = None) -> click.testing.Result:
    """`evenload effectiveness ...`."""
    return commands.run("effectiveness", "--prometheus", prometheus.url, *words, code=code)


def test_the_table_names_the_five_figures_and_what_was_left_out(prometheus: Prometheus) -> None:
    result = run(prometheus, "--since", "7d", code=0)
    rows = {line.split()[0]: line.split()[1] for line in result.stdout.splitlines()}
    assert rows == {
        "FIGURE": "VALUE",
        "cpu_utilization_total_avg": "40.0%",
        "memory_utilization_total_avg": "25.0%",
        "effective_dynamic_schedule_count": "26.5",
        "total_schedule_count": "40",
        "effective_schedule_ratio": "0.66",
        "left_out": "10",
        "stayed_under_median_ratio": "0.45",
    }
    assert result.stderr == "20.0% of the results were on nodes without fresh data\n"
    assert not run(prometheus, "--no-headers").stdout.startswith("FIGURE")


def test_json_is_pure_and_whole(prometheus: Prometheus) -> None:
    document = json.loads(run(prometheus, "--since", "24h", "-o", "json").stdout)
    assert (document["from"], document["to"]) == ("2026-11-20T04:00:00Z", "2026-11-21T04:00:00Z")
    assert document["figures"]["effective_schedule_ratio"] == pytest.approx(26.5 / 40)
    assert (document["leftOut"], document["leftOutRatio"], document["coveredSeconds"]) == (10, 0.2, 86400)


def test_all_parts_are_asked_for_at_once_and_the_matchers_reach_each(prometheus: Prometheus) -> None:
    run(prometheus, "--since", "2h", "--selector", 'cluster="a"')
    now, parts, oldest = prometheus.asked
    assert "time" not in now.query
    assert {exchange.query["time"] for exchange in (parts, oldest)} == {f"{NOW_SECONDS:.3f}"}
    counted = [exchange.query["query"].count('{cluster="a"}') for exchange in (parts, oldest)]
    assert counted == [len(figures.SERIES), 2]


def test_no_data_is_partial_and_says_what_to_scrape(prometheus: Prometheus) -> None:
    prometheus.sums, prometheus.oldest_seconds = {}, None
    result = run(prometheus, code=4)
    assert "let it scrape the annotators' /metrics" in result.stderr
    assert {line.split()[1] for line in result.stdout.splitlines()[1:]} == {"-"}, "what nobody counted is not 0"


def test_data_for_a_part_of_the_span_are_partial(prometheus: Prometheus) -> None:
    prometheus.oldest_seconds = NOW_SECONDS - 370
    assert "thin data: 6 minutes of 7 days\n" in run(prometheus, "--since", "7d", code=4).stderr


@pytest.mark.parametrize("words", [[], ["--shadow"]], ids=["placements", "shadow mode"])
def test_an_answer_that_may_not_be_whole_is_partial(prometheus: Prometheus, words: list[str]) -> None:
    prometheus.warnings = ["store 3 is down"]
    assert run(prometheus, *words, code=4).stderr.count("store 3 is down") == 1


def test_without_an_address_it_is_found_through_the_apiserver(tmp_path: pathlib.Path, prometheus: Prometheus) -> None:
    def answer(exchange: scripted_http.Exchange) -> None:
        if exchange.path == "/api/v1/services":
            exchange.answer({"metadata": {"resourceVersion": "1"}, "items": [clusters.SERVICE]})
        else:
            prometheus.answer(exchange)

    with scripted_http.serving(answer) as server:
        result = commands.run("effectiveness", "--kubeconfig", scripted_http.kubeconfig(tmp_path, server.url), code=0)
    assert "http://prometheus.monitoring.svc:9090, found by label app.kubernetes.io/name=prometheus" in result.stderr
    assert all("/services/prometheus%3A9090/proxy/api/v1/" in exchange.path for exchange in prometheus.asked)


@pytest.mark.parametrize("span", ["7", "d", "0d", "7 days", "-1d", "1.5h"])
def test_a_span_without_a_sense_is_bad_input(prometheus: Prometheus, span: str) -> None:
    commands.assert_refused(run(prometheus, "--since", span), 2, "write such as 7d, 12h or 90m")


def test_a_prometheus_that_is_gone_is_unreachable() -> None:
    commands.assert_refused(commands.run("effectiveness", "--prometheus", "http://127.0.0.1:1"), 3, "cannot be reached")


def test_the_table_of_shadow_mode_says_what_would_have_changed(prometheus: Prometheus) -> None:
    result = run(prometheus, "--shadow", "--since", "7d", "--points", "2")
    rows = {line.split()[0]: line.split()[1] for line in result.stdout.splitlines()}
    assert rows == {
        "FIGURE": "VALUE",
        "pods": "100",
        "rejected": "20",
        "rejected_ratio": "0.20",
        "worse": "20",
        "worse_ratio": "0.20",
        "lower_points_avg": "2.00",
        "best": "50",
        "left_out": "5",
    }
    assert "on a node that scores 2 points or more below the best" in result.stdout
    assert (result.stderr, result.exit_code) == ("", 0)


@pytest.mark.parametrize(("points", "worse"), [(1, 30), (2, 20), (3, 8), (10, 0)])
def test_a_node_is_worse_from_so_many_points_on(prometheus: Prometheus, points: int, worse: int) -> None:
    document = json.loads(run(prometheus, "--shadow", "--points", str(points), "-o", "json").stdout)
    assert (document["points"], document["figures"]["worse"]) == (points, worse)


def test_json_of_shadow_mode_is_pure_and_whole(prometheus: Prometheus) -> None:
    prometheus.shadow_seconds = NOW_SECONDS - 86000
    result = run(prometheus, "--shadow", "--since", "24h", "-o", "json")
    document = json.loads(result.stdout)
    assert (document["from"], document["to"]) == ("2026-11-20T04:00:00Z", "2026-11-21T04:00:00Z")
    assert (document["shadowSince"], result.exit_code) == ("2026-11-20T04:06:40Z", 0)
    assert document["figures"]["rejected_ratio"] == pytest.approx(20 / 100.1)
    assert document["figures"]["lower_points_avg"] == pytest.approx(2.0)


def test_the_queries_of_shadow_mode_are_of_one_moment_and_get_the_matchers(prometheus: Prometheus) -> None:
    run(prometheus, "--shadow", "--since", "2h", "--selector", 'cluster="a"')
    _, *asked = prometheus.asked
    assert {exchange.query["time"] for exchange in asked} == {f"{NOW_SECONDS:.3f}"}
    assert sorted(exchange.query["query"].count('{cluster="a"}') for exchange in asked) == [1, 2, 3]


@pytest.mark.parametrize(
    ("known", "remark"),
    [
        (False, "let it scrape the extenders' /metrics (port 8900)"),
        (True, "no extender was in shadow mode within the span: write extender: {mode: Shadow} into the policy"),
    ],
)
def test_without_shadow_mode_it_says_how_to_begin(prometheus: Prometheus, known: bool, remark: str) -> None:
    prometheus.shadow_known, prometheus.shadow_seconds = known, None
    result = run(prometheus, "--shadow")
    assert (result.exit_code, result.stderr.count(remark)) == (4, 1)
    assert {line.split()[1] for line in result.stdout.splitlines()[1:]} == {"-"}


def test_a_mode_that_began_within_the_span_is_partial(prometheus: Prometheus) -> None:
    prometheus.shadow_seconds = NOW_SECONDS - 2 * DAY_SECONDS
    result = run(prometheus, "--shadow", "--since", "7d")
    assert (result.exit_code, result.stderr) == (4, "thin data: 2 days of 7 days in shadow mode\n")
