"""`evenload story`: happenings out of facts, the sentences about them, and what is printed where a source is silent."""

import dataclasses
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import click.testing
import msgspec
import pytest

from cli import eviction_rows, happenings
from cli.happenings import Facts, Happening, NodeLoads, Span
from descheduler.ledger.rows import Query, RecordedEvent
from descheduler.snapshot.usage import NodeUsage
from runtime import clock
from tests import builders, commands, scripted_http
from tests.unit.cli.deschedulers import Descheduler, serving
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW
from tests.unit.descheduler.test_ledger import record

MINUTE = 60.0
SPAN = Span(NOW, NOW + 600, MINUTE)
NODES = [builders.node("hot"), builders.node("cool")]
WORDS = ("run", "mode", "policy_hash", "namespace", "pod", "workload", "node", "metric", "destination", "result")
ROW: dict[str, Any] = {
    **dict.fromkeys(WORDS, "x"),
    **dict.fromkeys(("cpu_millicores", "memory_bytes"), 1.0),
    **{"id": 1, "intended_at": "2026-11-21T04:00:00Z", "at": "2026-11-21T04:00:00Z"},
    **{"namespace": "shop", "pod": "web-0", "node": "hot", "mode": "Enforce", "metric": "memory_avg_5m"},
    **{"value_ratio": 0.9, "threshold_ratio": 0.8, "target_ratio": 0.6, "projected_ratio": 0.7},
}


def row(result: str, now_seconds: float = NOW + 600, **fields: Any) -> Happening:
    """Makes the happening of a row of the ledger."""
    return happenings.of_row(eviction_rows.Row(**{**ROW, "result": result, **fields}), now_seconds)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        pytest.param(
            {"landed_node": "cool", "ready_at": "2026-11-21T04:00:21Z", "load_5m_ratio": 0.78, "load_30m_ratio": 0.61},
            "evicted shop/web-0: memory 90%>80%; now on cool, Ready after 21s; node at 78% after 5m, 61% after 30m",
            id="with its effect",
        ),
        pytest.param(
            {}, "evicted shop/web-0: memory 90%>80%; no replacement yet; later load not measured", id="unmeasured"
        ),
        pytest.param(
            {"now_seconds": NOW + 599},
            "evicted shop/web-0: memory 90%>80%; no replacement yet; later load not measured yet",
            id="young",
        ),
        pytest.param(
            {"landed_node": "hot", "returned": True, "load_5m_ratio": 0.9},
            "evicted shop/web-0: memory 90%>80%; came back to its node; node at 90% after 5m",
            id="in vain",
        ),
    ],
)
def test_an_eviction_says_why_where_and_what_it_helped(fields: dict[str, Any], text: str) -> None:
    assert (row("evicted", **fields).kind, row("evicted_unconfirmed", **fields).text) == ("eviction", text)


@pytest.mark.parametrize(
    ("result", "fields", "kind", "text"),
    [
        ("refused", {"http_status": 429}, "refusal", "not evicted, refused by budget (no): shop/web-0"),
        ("failed", {"http_status": 403}, "refusal", "not evicted, refused by apiserver (no): shop/web-0"),
        ("unknown", {}, "refusal", "not evicted, unknown (no): shop/web-0"),
        ("gone", {"http_status": 404}, "refusal", "not evicted, gone (no): shop/web-0"),
        ("observed", {"mode": "Observe"}, "planned", "would evict, but for mode Observe: shop/web-0"),
    ],
)
def test_what_evicted_nobody_says_why(result: str, fields: dict[str, Any], kind: str, text: str) -> None:
    happening = row(result, message="no", **fields)
    assert (happening.kind, happening.text) == (kind, text)


def rounds(*hot_ratios: float, cpu: bool = True) -> Iterator[tuple[float, dict[str, NodeUsage]]]:
    """Readings of both nodes, a minute apart from NOW on: this memory on `hot`, 0.1 of all else."""
    for number, ratio in enumerate(hot_ratios):
        at_seconds = NOW + MINUTE * number
        ratios = {"hot": {"memory_avg_5m": ratio}, "cool": {"memory_avg_5m": 0.1}}
        rest = {"cpu_avg_5m": 0.1} if cpu else {}
        yield at_seconds, {name: NodeUsage(name, own | rest, at_seconds) for name, own in ratios.items()}


def test_an_overload_is_as_long_as_the_policy_wants_it_and_says_how_high() -> None:
    policy = scenes.policy(overloadedFor="3m")
    loads = happenings.node_loads(rounds(0.7, 0.85, 0.93, 0.9, 0.81, 0.7, 0.99, 0.99, 0.7), policy, NODES, SPAN)
    (overload,) = loads.overloads
    assert (overload.at_seconds, overload.node) == (NOW + MINUTE, "hot")
    assert overload.text == "memory_avg_5m over 80%, at most 93%, for 3m"
    assert loads.nearest[""] == loads.nearest["hot"] == "hot, memory_avg_5m 99% of 80%"
    assert loads.nearest["cool"] == "cool, memory_avg_5m 10% of 80%"
    assert loads.coverage(SPAN) == "Prometheus covers 8.18 of 10 min of 2 nodes"  # 9 of 11 steps


def test_lines_over_the_mean_are_those_of_each_step() -> None:
    band = {"evictAbove": 0.8, "evictUntil": 0.6, "overMean": {"evictAbove": 0.2, "evictUntil": 0.1, "floor": 0.3}}
    policy = scenes.policy(overloadedFor="1m", thresholds={"memory_avg_5m": band})
    (overload,) = happenings.node_loads(rounds(0.6, 0.6, 0.6, 0.1, cpu=False), policy, NODES, SPAN).overloads
    assert overload.text == "memory_avg_5m over 55%, at most 60%, for 2m"


def test_a_metric_without_readings_covers_nothing() -> None:
    loads = happenings.node_loads(rounds(0.5, 0.5, cpu=False), scenes.policy(), NODES, SPAN)
    assert (loads.covered_ratio, loads.nodes) == (0.0, 2)


def points(*minutes: float) -> tuple[tuple[float, float], ...]:
    return tuple((NOW + MINUTE * minute, 1.0) for minute in minutes)


def test_a_leader_or_policy_changes_once_the_one_before_is_gone() -> None:
    series = [("a", points(0, 1, 2, 6)), ("b", points(2, 3, 4)), ("a", points(4))]
    changes = happenings.changes("leader", "leads", series)
    assert [(one.at_seconds - NOW, one.text) for one in changes] == [
        (180, "b leads, before it a"),
        (360, "a leads, before it b"),
    ]


def test_an_alert_is_one_for_all_its_series_and_two_after_a_pause() -> None:
    series = [("EvenloadWatchLost", points(0, 1, 2)), ("EvenloadWatchLost", points(2, 3, 9, 10))]
    facts = Facts(SPAN, alerts=happenings.alerts(series))
    assert [(one.at_seconds - NOW, one.text) for one in happenings.story(facts)] == [
        (0, "alert EvenloadWatchLost, for 3m"),
        (540, "alert EvenloadWatchLost, still"),
    ]


def event(minute: float, reason: str, note: str, *, kind: str = "Node", name: str = "hot") -> eviction_rows.PostedEvent:
    at = clock.to_rfc3339(NOW + MINUTE * minute)
    return eviction_rows.PostedEvent(at, "Warning", reason, kind, name, note)


def test_what_repeats_within_the_hour_is_one_line_and_a_node_has_its_own() -> None:
    note = "memory_avg_5m 0.{}, until 0.60: 3 protected; run r, policy p"
    events = (
        *(event(minute, "NoFittingNode", note.format(number)) for number, minute in enumerate((0, 30, 60, 200))),
        event(31, "NoFittingNode", note.format(9), name="warm"),
        event(32, "EvictionLoop", "came back to hot", kind="Pod"),
        msgspec.structs.replace(
            event(39, "SurgeUndone", "Deployment/web, surge undone: late; run r", kind="Pod", name="web-0"),
            namespace="shop",
            related="Node/hot",
        ),
        event(40, "PolicyRefused", "policy file b refused, a stays in force: p:1:1: no", kind="Namespace", name="ours"),
    )
    lines = happenings.story(Facts(SPAN, events=events))
    assert [(one.at_seconds - NOW, one.node, one.text) for one in lines] == [
        (0, "hot", "nothing could leave, NoFittingNode: 3 protected, 3 times in 60m"),
        (1860, "warm", "nothing could leave, NoFittingNode: 3 protected"),
        (2340, "hot", "shop/web-0: Deployment/web, surge undone: late"),
        (2400, "", "policy file b refused, a stays in force: p:1:1: no"),
        (12000, "hot", "nothing could leave, NoFittingNode: 3 protected"),
    ]
    assert [one.node for one in happenings.story(Facts(SPAN, events=events), "warm")] == ["warm", ""]


def test_without_prometheus_rows_and_events_say_which_policy_was_in_force() -> None:
    rows = [eviction_rows.Row(**{**ROW, "policy_hash": name}) for name in ("a", "a")]
    accepted = event(5, "PolicyAccepted", "policy b is in force", kind="Namespace")
    (change,) = happenings.changes("policy", "is in force", happenings.hashes(rows, [accepted]))
    assert change.text == "b is in force, before it a"


QUIET = Facts(SPAN, scenes.policy(), "abc", rows=(), policies=[], leaders=[], alerts=[])
COVERED = NodeLoads((), {"": "cool, cpu_avg_5m 11% of 80%"}, 0.993, 5, NOW)


def test_nothing_happened_says_what_was_looked_at() -> None:
    night = dataclasses.replace(QUIET, loads=COVERED, span=Span(NOW, NOW + 12 * 3600, MINUTE))
    assert happenings.summary([], night, whole=True) == (
        "nothing happened: overloads 0, evictions 0, refused or failed 0, only planned 0, changes of policy 0, "
        "changes of leader 0, alerts 0 (if Prometheus has their rules)",
        "highest against its line: cool, cpu_avg_5m 11% of 80%",
        "from 2026-11-21T04:00:00Z to 2026-11-21T16:00:00Z: Prometheus covers 11.9 of 12 h of 5 nodes; policy abc, "
        "mode Observe",
    )


@pytest.mark.parametrize("unread", ["loads", "rows", "policies", "leaders", "alerts"])
def test_what_could_not_be_read_is_never_nothing(unread: str) -> None:
    facts = dataclasses.replace(QUIET, loads=COVERED)
    setattr(facts, unread, None)
    first, *_ = happenings.summary([], facts, whole=False)
    assert "nothing happened" not in first
    assert "not known" in first


class Site:
    """An apiserver with the scene's nodes, and a Prometheus: `loads` by node, and further series by what asks them."""

    def __init__(self) -> None:
        self.loads = {"hot": 0.9, "cool": 0.1}
        self.series: dict[str, list[dict[str, str]]] = {
            "evenload_config_info": [{"hash": "abc"}],
            "evenload_descheduler_leader": [{"pod": "descheduler-0"}],
            "evenload_annotator_leader": [],
            "ALERTS": [],
        }
        self.warnings: list[str] = []
        self.begin_seconds = 0.0
        self.url = self.kubeconfig = ""

    def answer(self, exchange: scripted_http.Exchange) -> None:
        """A list, which is empty but for nodes, or a range."""
        if not exchange.path.endswith("query_range"):
            bodies = [builders.node_body(name) for name in ("hot", "cool") if exchange.path.endswith("/nodes")]
            exchange.answer({"metadata": {"resourceVersion": "1"}, "items": bodies})
            return
        labels = [({"instance": f"{name}:9100"}, load) for name, load in self.loads.items()]
        for name, series in self.series.items():
            if exchange.query["query"].startswith(name):
                labels = [(each, 1.0) for each in series]
        start_seconds, end_seconds, step_seconds = (float(exchange.query[name]) for name in ("start", "end", "step"))
        steps = int((end_seconds - start_seconds) / step_seconds + 1e-6) + 1
        moments = [start_seconds + step_seconds * number for number in range(steps)]
        moments = [at for at in moments if at >= self.begin_seconds]
        rows = [{"metric": each, "values": [[at, str(value)] for at in moments]} for each, value in labels]
        data = {"resultType": "matrix", "result": rows}
        exchange.answer({"status": "success", "data": data, "warnings": self.warnings})


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Iterator[Site]:
    made = Site()
    with scripted_http.serving(made.answer) as server:
        made.url, made.kubeconfig = server.url, str(scripted_http.kubeconfig(tmp_path, server.url))
        yield made


@pytest.fixture
def descheduler(tmp_path: pathlib.Path) -> Iterator[Descheduler]:
    """A descheduler that evicted web-0 from node hot an hour ago by the wall clock."""
    with serving(scenes.hot_and_cool(), tmp_path, mode="Enforce") as served:
        ledger, at_seconds = served.world.ledger, clock.WallClock().now() - 3600
        record(ledger, "evicted", at_seconds=at_seconds)
        ledger.tell(RecordedEvent(at_seconds + 60, "NoFittingNode", 1, "Node", "", "hot", "", "cpu 0.9: 2 protected"))
        yield served


def run(descheduler: Descheduler, site: Site, *words: object, code: int | None = None) -> click.testing.Result:
    where = ("--prometheus", site.url, "--kubeconfig", site.kubeconfig)
    return descheduler.run("story", "--since", "2h", *where, *words, code=code)


def test_the_story_is_three_lines_and_what_happened_by_time(descheduler: Descheduler, site: Site) -> None:
    site.series["ALERTS"] = [{"alertname": "EvenloadNodesStayOverloaded"}]
    result = run(descheduler, site, code=0)
    summary, lines = result.stdout.split("\n\n")
    counted, highest, looked = summary.splitlines()
    assert counted.startswith("overloads 2, evictions 1, refused or failed 0, only planned 0, changes of policy 0")
    assert "90% of 80%" in highest
    assert "Prometheus covers 2 of 2 h of 2 nodes; policy " in looked
    assert lines.startswith("TIME (UTC)")
    assert [" ".join(line.split()[2:]) for line in lines.splitlines()[1:]] == [
        "- alert EvenloadNodesStayOverloaded, still",
        "hot cpu_avg_5m over 80%, at most 90%, still",
        "hot memory_avg_5m over 80%, at most 90%, still",
        "hot evicted default/web-0: memory 90%>80%; no replacement yet; later load not measured",
        "hot nothing could leave, NoFittingNode: 2 protected",
    ]
    assert result.stderr == f"descheduler at {descheduler.url}\n"


def test_json_has_each_happening_with_its_kind(descheduler: Descheduler, site: Site) -> None:
    site.loads["hot"] = 0.5
    document = json.loads(run(descheduler, site, "-o", "json", code=0).stdout)
    eviction, stuck = document["happenings"]
    assert (eviction["kind"], eviction["node"], eviction["until_seconds"]) == ("eviction", "hot", None)
    assert eviction["text"] == eviction["cause"]
    assert (stuck["kind"], len(document["summary"]), document["notKnown"]) == ("stuck", 3, {})
    (row,) = descheduler.world.ledger.rows(Query())
    assert eviction["at_seconds"] == int(row.intended_at_seconds)


def test_a_span_that_is_over_has_what_happened_before_its_end(descheduler: Descheduler, site: Site) -> None:
    result = run(descheduler, site, "--until", "90m", code=0)
    assert "overloads 2, evictions 0" in result.stdout
    assert "Prometheus covers 30 of 30 min of 2 nodes" in result.stdout


def test_a_node_of_which_nothing_is_known_is_not_where_nothing_happened(descheduler: Descheduler, site: Site) -> None:
    cool = run(descheduler, site, "--node", "cool", code=0).stdout
    assert cool.startswith("nothing happened: overloads 0")
    assert "\nhighest against its line: cool, " in cool
    words = "error: --node kool: no node has this name now, and nothing is known of one that had it"
    commands.assert_refused(run(descheduler, site, "--node", "kool"), 2, words)


@pytest.mark.parametrize("words", [["--prometheus", "http://127.0.0.1:1"], ["--prometheus", ""]], ids=["gone", "none"])
def test_without_prometheus_the_ledger_is_printed(descheduler: Descheduler, site: Site, words: list[str]) -> None:
    result = run(descheduler, site, *words, code=4)
    assert "overloads not known, evictions 1" in result.stdout
    assert "evicted default/web-0" in result.stdout
    assert result.stderr.splitlines()[1].startswith("not known: ")


def test_without_the_descheduler_alerts_and_leaders_are_printed(descheduler: Descheduler, site: Site) -> None:
    site.series["ALERTS"] = [{"alertname": "EvenloadDeschedulerNoLeader"}]
    descheduler.url = "http://127.0.0.1:1"
    result = run(descheduler, site, code=4)
    assert "overloads not known, evictions not known" in result.stdout
    assert "alert EvenloadDeschedulerNoLeader" in result.stdout
    assert "not known: ledger: http://127.0.0.1:1" in result.stderr
    assert "not known: policy in force: " in result.stderr


def test_what_is_missing_in_prometheus_and_ledger_is_named(descheduler: Descheduler, site: Site) -> None:
    del site.loads["cool"]
    site.begin_seconds = (clock.WallClock().now() // MINUTE - 30) * MINUTE
    site.series["evenload_descheduler_leader"] = []
    site.warnings = ["store 3 is down"]
    descheduler.world.ledger.set_aside("it was corrupt", clock.WallClock().now() - MINUTE)
    result = run(descheduler, site, code=4)
    begin = clock.to_rfc3339(site.begin_seconds)[5:16].replace("T", " ")
    assert f"% of the span, from {begin} on, of 1 of 2 nodes\n" in result.stderr
    assert "not known: leaders: Prometheus has no evenload_descheduler_leader" in result.stderr
    assert "not known: whole answers: store 3 is down" in result.stderr
    assert "not known: ledger: begun anew at " in result.stderr
    assert "memory_avg_5m over 80%" in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--since", "yesterday"], "yesterday"),
        (["--since", "2999-01-01T00:00:00Z"], "still to come"),
        (["--until", "3h"], "--until is not after --since"),
        (["--kubeconfig", "/nowhere"], "/nowhere"),
    ],
)
def test_what_cannot_be_asked_for_is_bad_input(
    descheduler: Descheduler, site: Site, words: list[str], message: str
) -> None:
    result = run(descheduler, site, *words, code=2)
    assert message in result.stderr
    assert result.stdout == ""
