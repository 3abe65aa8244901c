"""`evenload plan` over a descheduler of ours: every pod with its reason, what is left, and the machine formats."""

import csv
import json
import pathlib
from collections.abc import Iterator

import pytest

from tests import builders, commands
from tests.unit.cli import deschedulers
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import Scene
from tests.unit.docs.worlds import crowded


@pytest.fixture
def descheduler(tmp_path: pathlib.Path) -> Iterator[deschedulers.Descheduler]:
    """A descheduler in Enforce over the crowded node."""
    with deschedulers.serving(crowded(), tmp_path, mode="Enforce") as served:
        yield served


def lines(text: str) -> list[str]:
    """Lines with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_every_pod_has_its_line_below_what_is_left(descheduler: deschedulers.Descheduler) -> None:
    result = descheduler.run("plan", code=0)
    assert lines(result.stdout) == [
        f"plan at 2026-11-21T04:00:00Z, mode Enforce, policy {descheduler.world.policy.content_hash}",
        "1 to evict: 1 protected, 1 PDB",
        "evictions still allowed after these: 9 in this run, 59 in this hour",
        "disruptions that budgets still allow: default/db 0 of 0",
        "nodes with room: cool 19% below the nearest evictUntil",
        "node hot: memory_avg_5m 90% > 80%, until 60%, since 2026-11-21T03:56:05Z, then 59%",
        "",
        "NODE POD CPU MEMORY VERDICT WHY",
        "hot default/bare 500m 4096Mi bare no controller would replace it",
        "hot default/db-0 500m 10138Mi budget db allows 0 (3 healthy, 2 needed)",
        "hot default/web-0 500m 10240Mi chosen expected on cool",
    ]


def test_pools_have_a_line_for_their_modes_and_their_names_at_their_nodes(tmp_path: pathlib.Path) -> None:
    scene = Scene().node("hot", memory=0.9, labels={"kind": "a"}).node("cool").workload("web", on=["hot", "cool"])
    pool = {"name": "spot", "nodeSelector": {"matchLabels": {"kind": "a"}}, "descheduler": {"mode": "Enforce"}}
    with deschedulers.serving(scene, tmp_path, pools=[pool]) as served:
        shown = lines(served.run("plan").stdout)
    assert "mode Enforce" in shown[0]
    assert shown[1] == "modes: pool spot Enforce, other nodes Observe"
    assert any(line.startswith("node hot of pool spot, Enforce: memory_avg_5m 90% > 80%") for line in shown)


def test_lines_that_follow_the_mean_are_printed_with_it(tmp_path: pathlib.Path) -> None:
    pool = {"name": "spot", "nodeSelector": {"matchLabels": {"kind": "a"}}}
    over = {"evictAbove": 0.25, "evictUntil": 0.1}
    thresholds = {"memory_avg_5m": {"evictAbove": 0.8, "evictUntil": 0.6, "overMean": over}}
    scene = Scene().node("hot", memory=0.7, labels={"kind": "a"}).workload("web", on=["hot"])
    for name in ("cool-1", "cool-2", "cool-3"):
        scene.node(name, memory=0.2, labels={"kind": "a"})
    with deschedulers.serving(scene, tmp_path, pools=[pool], thresholds=thresholds, overloadedFor="0s") as served:
        shown = lines(served.run("plan").stdout)
    assert shown[2] == (
        "pool spot: memory_avg_5m has a mean of 32% over 4 nodes: overloaded above 57%, relieved until 42%"
    )
    assert any(
        line.startswith("node hot of pool spot, Observe: memory_avg_5m 70% > 57.5%, until 42.5%") for line in shown
    )


def test_an_eviction_that_cannot_be_says_0_to_evict_and_why(tmp_path: pathlib.Path) -> None:
    scene = crowded().workload("big", on=["hot", "cool"], gib=25)
    scene.budget("web", allowed=0)
    with deschedulers.serving(scene, tmp_path) as served:
        shown = lines(served.run("plan").stdout)
    assert shown[1] == "0 to evict: 1 protected, 2 PDB, 1 without a destination"
    assert "disruptions that budgets still allow: default/db 0 of 0, default/web 0 of 0" in shown


def test_wide_names_the_key_of_the_policy(descheduler: deschedulers.Descheduler) -> None:
    assert lines(descheduler.run("plan", "-o", "wide", "--no-headers").stdout)[0] == (
        "hot default/bare - 500m 4096Mi bare descheduler.protect.bare no controller would replace it"
    )


def test_rows_can_be_narrowed(descheduler: deschedulers.Descheduler) -> None:
    chosen = descheduler.run("plan", "--verdict", "chosen", "--no-headers")
    assert [line.split()[1] for line in chosen.stdout.splitlines()] == ["default/web-0"]
    for elsewhere in (("--node", "cool"), ("-n", "shop")):
        assert descheduler.run("plan", *elsewhere, "--no-headers").stdout.strip() == ""
    rows = list(csv.DictReader(descheduler.run("plan", "-n", "default", "-o", "csv").stdout.splitlines()))
    assert [row["pod"] for row in rows] == ["default/bare", "default/db-0", "default/web-0"]
    assert rows[0]["rule"] == "descheduler.protect.bare"


def test_json_is_the_answer_narrowed(descheduler: deschedulers.Descheduler) -> None:
    answer = json.loads(descheduler.run("plan", "-o", "json", "--verdict", "bare").stdout)
    assert answer["evictions"][0]["pod"] == "web-0"
    assert [one["pod"] for node in answer["nodes"] for one in node["candidates"]] == ["bare"]
    assert answer["headroom"]["destinations"] == [
        {"node": "cool", "headroom_ratio": {"memory_avg_5m": 0.1875, "cpu_avg_5m": 0.4375}}
    ]


def test_a_verdict_that_is_none_is_refused_with_those_that_are(descheduler: deschedulers.Descheduler) -> None:
    result = descheduler.run("plan", "--verdict", "foo")
    commands.assert_refused(result, 2, "'foo' is not one of 'chosen', 'stale_view', 'undecodable'")


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("hit", 2, "--node hit: it is not overloaded and takes no pods, or there is no such node; did you mean hot"),
        ("nope", 2, "or there is no such node; evenload nodes names all nodes"),
        ("cool", 0, "node cool is not overloaded: nothing would be evicted there"),
    ],
)
def test_a_node_without_an_overload(name: str, code: int, words: str, descheduler: deschedulers.Descheduler) -> None:
    assert words in descheduler.run("plan", "--node", name, code=code).stderr


def test_data_that_is_not_whole_ends_with_4(descheduler: deschedulers.Descheduler) -> None:
    descheduler.world.prometheus.warnings = ("a store is away",)
    assert "a store is away" in descheduler.run("plan", code=4).stdout


def test_a_calm_cluster_says_so(tmp_path: pathlib.Path) -> None:
    with deschedulers.serving(Scene().node("a").node("b"), tmp_path) as served:
        result = served.run("plan", code=0)
    assert lines(result.stdout)[1] == "0 to evict"
    assert "no node is overloaded" in result.stderr


def test_a_node_that_is_left_alone_says_why(tmp_path: pathlib.Path) -> None:
    scene = scenes.hot_and_cool()
    scene.nodes["hot"] = builders.node("hot", spec={"unschedulable": True})
    with deschedulers.serving(scene, tmp_path) as served:
        assert "left alone: it is cordoned" in served.run("plan").stdout


def test_nobody_there_is_3_with_the_next_step() -> None:
    result = commands.run("plan", "--descheduler", "http://127.0.0.1:1")
    commands.assert_refused(result, 3, "service/evenload-descheduler 8902")


@pytest.mark.parametrize("output_format", ["table", "wide", "json", "yaml"])
def test_what_a_tenant_wrote_does_not_command_the_terminal(tmp_path: pathlib.Path, output_format: str) -> None:
    clipboard = "\x1b]52;c;eA==\x07\x9b2J\u202e\nnode fake"
    scene = crowded().pod("held", "hot", labels={"app": "held", "evenload.io/protected": clipboard})
    with deschedulers.serving(scene, tmp_path) as served:
        result = served.run("plan", "-o", output_format, code=0)
    assert "]52;c;eA==" in result.stdout
    assert not set("\x1b\x07\x9b\u202e") & set(result.stdout)
    assert not any(line.startswith("node fake") for line in result.stdout.splitlines())
