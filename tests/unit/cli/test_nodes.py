"""`evenload nodes`: the table, its order, the machine formats, and what happens when nobody answers."""

import csv
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.common import api_types as answers
from cli.common import watching
from runtime import clock
from tests import builders, commands, scripted_http
from tests.unit.cli import extenders
from tests.unit.extender import worlds

WARM = {**worlds.IDLE, "cpu_avg_5m": 0.3, "memory_avg_5m": 0.5}


@pytest.fixture
def extender() -> Iterator[extenders.Extender]:
    """Three nodes that can be read, one of them over a limit."""
    with extenders.serving({"b-hot": worlds.HOT, "a-cool": worlds.IDLE, "c-warm": WARM}) as served:
        worlds.bind(served.view, "c-warm", *(f"p{at}" for at in range(5)))
        yield served


def rows(stdout: str) -> list[str]:
    return [line.split()[0] for line in stdout.splitlines()]


def test_the_cluster_comes_first_and_then_each_node_with_its_load_score_filter_and_age(
    extender: extenders.Extender,
) -> None:
    extender.clock.advance(22)
    result = extender.run("nodes", code=0)
    header, cluster, cool, hot, warm = (" ".join(line.split()) for line in result.stdout.splitlines())
    assert header == "NODE CPU 5M/1H/1D MEM 5M/1H/1D HOT SCORE AGE FILTER"
    assert cluster == "* 43/10/10% 23/10/10% - - 22s 1 of 3"
    assert cool == "a-cool 10/10/10% 10/10/10% 0 10 22s -"
    assert hot == "b-hot 90/10/10% 10/10/10% 0 0 22s cpu 90%>65%"
    assert warm == "c-warm 30/10/10% 50/10/10% 3 1 22s -"
    assert "policy 0123456789ab; next: evenload explain pod" in result.stderr


ORDERS = {
    "name": ["a-cool", "b-hot", "c-warm"],
    "cpu_avg_5m": ["b-hot", "c-warm", "a-cool"],
    "memory_avg_5m": ["c-warm", "a-cool", "b-hot"],
    "score": ["b-hot", "c-warm", "a-cool"],
    "age": ["a-cool", "b-hot", "c-warm"],
}


@pytest.mark.parametrize("key", ORDERS)
def test_the_worst_stand_first_in_the_order_asked_for(extender: extenders.Extender, key: str) -> None:
    assert rows(extender.run("nodes", "--sort-by", key, "--no-headers").stdout) == ["*", *ORDERS[key]]


def test_a_column_names_the_pools_where_the_policy_has_some() -> None:
    pool = {
        "name": "spot",
        "nodeSelector": {"matchLabels": {"kind": "a"}},
        "filter": {"thresholds": {"cpu_avg_5m": 0.95}},
    }
    view = worlds.view_of({"b-plain": {**worlds.IDLE, "cpu_avg_5m": 0.6504}}, worlds.policy(pools=[pool]))
    view.nodes.node_changed(None, worlds.node("a-spot", worlds.HOT, labels={"kind": "a"}))
    with extenders.serving({}, view) as served:
        shown = served.run("nodes")
        as_csv = served.run("nodes", "-o", "csv")
    assert [line.split()[-2:] for line in shown.stdout.splitlines()] == [
        ["FILTER", "POOL"],
        ["2", "-"],
        ["-", "spot"],
        ["65.04%>65%", "-"],  # never as equal to its line
    ]
    assert [row["pool"] for row in csv.DictReader(as_csv.stdout.splitlines())] == ["spot", ""]


def test_a_column_names_what_else_keeps_pods_away_where_something_does() -> None:
    view = worlds.view_of({"a-well": worlds.IDLE})
    ill, well = worlds.node("b-ill", worlds.IDLE, mutate=worlds.under_pressure), worlds.node("b-ill", worlds.IDLE)
    view.nodes.node_changed(None, ill)
    with extenders.serving({}, view) as served:
        shown = served.run("nodes")
        view.nodes.node_changed(ill, well)
        later = served.run("nodes")
    last = [line.split()[-1] for line in shown.stdout.splitlines()]
    assert last == ["STATUS", "not", "Ready", "NotReady,MemoryPressure,SchedulingDisabled"]
    assert "1 of 2 not" in shown.stdout
    assert "STATUS" not in later.stdout


def test_json_is_the_answer_and_nothing_else_in_the_order_asked_for(extender: extenders.Extender) -> None:
    answer = json.loads(extender.run("nodes", "-o", "json", "--sort-by", "score").stdout)
    assert [row["name"] for row in answer["nodes"]] == ORDERS["score"]
    assert {"policy", "heartbeat", "at"} <= set(answer)


@pytest.mark.parametrize(
    ("words", "labelled", "text"),
    [
        ("--node b-hot --node a-cool", [], "node/a-cool\nnode/b-hot\n"),
        ("--node b-hut", [], "error: --node b-hut: the extender knows no such node; did you mean b-hot?"),
        ("-l pool=batch", ["b-hot", "unknown"], "\nnode/b-hot\n"),
        (
            "-l pool=batch --node a-cool",
            ["b-hot"],
            "error: none of a-cool has the labels pool=batch; kubectl get nodes",
        ),
        ("-l nosuch=label", [], "error: no node has the labels nosuch=label; kubectl get nodes --show-labels "),
    ],
)
def test_nodes_of_some_names_and_labels(
    words: str, labelled: list[str], text: str, extender: extenders.Extender, tmp_path: Path
) -> None:
    with extenders.apiserver(tmp_path, builders.pod_body("web"), labelled) as kubeconfig:
        result = extender.run("nodes", "--kubeconfig", kubeconfig, *words.split(), "-o", "name")
    assert (result.exit_code, text in result.output) == (2 if "error" in text else 0, True)


def test_csv_has_a_row_for_each_node_and_a_figure_in_each_column(extender: extenders.Extender) -> None:
    found = list(csv.DictReader(extender.run("nodes", "-o", "csv").stdout.splitlines()))
    assert [row["node"] for row in found] == ["a-cool", "b-hot", "c-warm"]
    assert (found[1]["filter"], found[1]["reading"]) == ("cpu_avg_5m>65%", "usable")
    assert (found[1]["cpu_avg_5m"], found[1]["cpu_max_1h"], found[2]["pods_30m"]) == ("0.9", "0.1", "5")


def test_a_watch_prints_the_nodes_again_until_the_extender_is_gone(
    extender: extenders.Extender, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def wait(_clock: clock.WallClock, _stop: object, seconds: float) -> bool:
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr(clock.WallClock, "wait", wait)
    result = extender.run("nodes", "-w", "-o", "name", code=1)
    assert result.stdout == 2 * "node/a-cool\nnode/b-hot\nnode/c-warm\n"
    assert waits == [watching.PERIOD_SECONDS] * 2


def test_wide_adds_placements_base_and_the_state_of_the_reading(extender: extenders.Extender) -> None:
    lines = extender.run("nodes", "-o", "wide").stdout.splitlines()
    assert lines[0].split()[-5:] == ["FILTER", "PODS", "1M/5M/30M", "BASE", "READING"]
    assert lines[-1].split()[-3] == "5/5/5"
    assert lines[-1].split()[-1] == "usable"


def test_a_base_that_is_capped_or_the_median_says_so() -> None:
    lacking = {name: 0.02 for name in worlds.IDLE if name.startswith("memory")}
    loads = {"a-lacking": lacking, "b-none": None, "c-whole": worlds.IDLE}
    with extenders.serving({}, worlds.view_of(loads, worlds.policy(score={"spread": "none"}))) as served:
        lines = served.run("nodes", "-o", "wide").stdout.splitlines()[2:]
    assert [" ".join(line.split()).split(" 0/0/0 ")[1] for line in lines] == [
        "9.80->9.00 (capped) usable", "9.00 (median) no annotation", "9.00 usable",
    ]  # fmt: skip


def test_nodes_without_a_usable_reading_show_none_come_last_and_make_the_answer_partial() -> None:
    with extenders.serving({"a-none": None, "b-cool": worlds.IDLE, "c-old": worlds.load_text(WARM, -1e6)}) as served:
        result = served.run("nodes", "--sort-by", "cpu_avg_5m", "--no-headers", code=4)
    assert rows(result.stdout) == ["*", "b-cool", "a-none", "c-old"]
    assert result.stdout.splitlines()[2].split()[:3] == ["a-none", "-/-/-", "-/-/-"]
    assert "no usable reading of 2 of 3 nodes: a-none (no annotation), c-old (stale)" in result.stderr


def test_an_extender_that_knows_no_nodes_is_partial_and_says_what_to_look_at() -> None:
    with extenders.serving({}) as served:
        result = served.run("nodes", code=4)
    assert "knows no nodes" in result.stderr


def test_nobody_there_is_code_3_with_the_url_and_the_next_step() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        result = commands.run("nodes", "--extender", url)
    commands.assert_refused(result, 3, f"error: {url}/nodes gives no answer", "port-forward")


def test_an_extender_that_is_asked_too_often_is_code_3_and_says_when_to_ask_again() -> None:
    refusal = {"code": 429, "message": "such requests have had their share of time; ask again in 7 s"}
    with scripted_http.serving(lambda exchange: exchange.answer(refusal, 429)) as server:
        result = commands.run("nodes", "--extender", server.url)
    commands.assert_refused(result, 3)
    assert result.stderr.rstrip().endswith(
        "/nodes answers 429: such requests have had their share of time; ask again in 7 s"
    )


BROKEN = {
    "an error of a proxy": lambda exchange: exchange.answer("<html>bad gateway", 502),
    "a 404 of something else": lambda exchange: exchange.answer("not here", 404),
    "a connection cut off": lambda exchange: exchange.cut(),
    "an answer cut off": lambda exchange: exchange.raw(b'{"policy": ', 1000),
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_extender_is_as_good_as_nobody(answer: scripted_http.Script) -> None:
    with scripted_http.serving(answer) as server:
        result = commands.run("nodes", "--extender", server.url)
    commands.assert_refused(result, 3, server.url)


@pytest.mark.parametrize("url", ["127.0.0.1:8900", "ftp://host", "http://", "http://host:99999", "http://a b"])
def test_a_url_that_cannot_be_one_is_bad_input(url: str) -> None:
    commands.assert_refused(commands.run("nodes", "--extender", url), 2, "write such as http://127.0.0.1:8900")


def test_a_ca_file_that_is_none_is_bad_input() -> None:
    result = commands.run("nodes", "--extender", "https://127.0.0.1:1", "--ca-file", __file__)
    commands.assert_refused(result, 2, "--ca-file")


def test_the_url_may_come_from_the_environment(extender: extenders.Extender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENLOAD_EXTENDER", f"{extender.url}/")
    assert commands.run("nodes", "-o", "name").exit_code == 0
    assert extender.asked == ["GET /nodes"]


def test_a_proxy_is_never_asked_for_this_machine(extender: extenders.Extender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert extender.run("nodes").exit_code == 0


def test_names_are_sorted_by_their_numbers() -> None:
    names = ["node-10", "node-9", "node-2-b", "node-2-a", "9-x", "a", "٣"]
    assert sorted(names, key=answers.natural) == ["9-x", "a", "node-2-a", "node-2-b", "node-9", "node-10", "٣"]
    with extenders.serving(dict.fromkeys(("node-10", "node-2"), worlds.IDLE)) as served:
        assert served.run("nodes", "-o", "name").stdout.split() == ["node/node-2", "node/node-10"]
