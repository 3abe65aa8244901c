"""`evenload explain pod`: the decision that was made, what would be decided now, and every refusal."""

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import click.testing
import msgspec
import pytest
import yaml

from cli import explain_text
from cli.common import api_types as answers
from extender.verbs import documents
from kube import objects
from tests import builders, commands, scripted_http
from tests.unit.cli import extenders
from tests.unit.descheduler.test_protections import set_spec
from tests.unit.extender import worlds

HALF = dict.fromkeys(worlds.IDLE, 0.5)
LOADS = {"hot": worlds.HOT, "cool": worlds.IDLE, "half": HALF}
NAMES = ("cool", "half", "hot")
WEB = ("explain", "pod", "web")


@pytest.fixture
def extender() -> Iterator[extenders.Extender]:
    """A hot node, a cool one, and one between."""
    with extenders.serving(LOADS) as served:
        yield served


def explain(
    extender: extenders.Extender,
    directory: Path,
    *words: object,
    pod: builders.Body | None = None,
    nodes: Sequence[str] = NAMES,
    code: int = 0,
) -> click.testing.Result:
    """`evenload explain pod web ...`, where an apiserver has this pod and these nodes."""
    with extenders.apiserver(directory, pod or builders.pod_body("web"), nodes) as kubeconfig:
        return extender.run(*WEB, "--kubeconfig", kubeconfig, *words, code=code)


def row(stdout: str, node: str) -> str:
    (line,) = [line for line in stdout.splitlines() if line.startswith(f"{node} ")]
    return " ".join(line.split())


def test_the_decision_is_told_with_verdict_terms_base_and_score(extender: extenders.Extender) -> None:
    worlds.bind(extender.view, "hot", "p", cpu="800m")
    extender.decide(NAMES)
    result = extender.run(*WEB, code=0)
    lines = result.stdout.splitlines()
    assert lines[0] == "pod default/web: what was decided at 2026-11-21T04:00:00Z, policy 0123456789ab"
    assert lines[1:3] == [
        "2026-11-21T04:00:00Z filter: 2 of 3 nodes asked about (1 cpu_avg_5m over 0.65)",
        "2026-11-21T04:00:00Z prioritize: 2 of 2 nodes asked about, cool expected to win",
    ]
    assert "memory 179Mi (request ratio), counted in the score" in result.stdout
    assert "the base comes from the lowest of the sums of terms that a node has\n" in result.stdout
    assert "the extender's best gives 200 of the 1600 points (12.5 %)" in result.stdout
    assert row(result.stdout, "cool").startswith("cool 10 8.78->10.00 0 ")
    at = next(number for number, line in enumerate(lines) if line.startswith("cool "))
    assert row(result.stdout, "cool") == "cool 10 8.78->10.00 0 passes: cpu_avg_5m 10.0% <= 65% (10.0% read 0s ago)"
    assert [line.strip() for line in lines[at + 1 : at + 3]] == [
        "cpu_avg_5m 5.27 + cpu_max_1h 2.63 + cpu_max_1d 0.88 = 8.78",
        "memory_avg_5m 5.37 + memory_max_1h 2.68 + memory_max_1d 0.89 = 8.95",
    ]
    rejected = "rejected: cpu_avg_5m 97.0% > 65% (90.0% read 0s ago, 7.0% expected)"
    assert row(result.stdout, "hot") == f"hot - - 0 {rejected}"
    assert extender.asked == ["GET /decisions"]
    assert len(extender.run(*WEB, "--no-headers").stdout.splitlines()) == 3, "a line a node, for scripts"


def test_the_numbers_are_those_of_the_moment_not_of_now(extender: extenders.Extender) -> None:
    extender.decide(NAMES)
    extender.view.nodes.node_changed(None, worlds.node("hot", worlds.IDLE))
    result = extender.run(*WEB)
    assert "rejected: cpu_avg_5m 90.0% > 65%" in row(result.stdout, "hot")
    assert "--now says what has changed since" in result.stderr


@pytest.mark.parametrize(
    ("node", "loads", "ties", "best", "sentence"),
    [
        ("cool", LOADS, 1, True, "it is on cool, the only node with the best score, 10"),
        (
            "half",
            LOADS,
            1,
            False,
            "it is on half with score 0, where cool has 10: kube-scheduler's own plugins outweighed 200 points",
        ),
        (
            "half",
            LOADS | {"hot": worlds.IDLE},
            2,
            False,
            "it is on half with score 0, where cool and 1 more have 10: "
            "kube-scheduler's own plugins outweighed 200 points",
        ),
        (
            "half",
            dict.fromkeys(NAMES, worlds.IDLE),
            3,
            True,
            "it is on half: one of 3 with the best score, 10; kube-scheduler's own plugins chose among them",
        ),
        ("hot", LOADS, 1, False, "it is on hot, which is rejected here: another decision placed it"),
        ("other", LOADS, 1, None, "it is on other: it was not asked about here"),
        ("cool", LOADS | {"half": worlds.HOT}, 0, None, "it is on cool, the only node that passed"),
    ],
)
def test_the_node_of_the_pod_is_compared_with_those_of_the_best_score(
    node: str, loads: dict[str, dict[str, float]], *, ties: int, best: bool | None, sentence: str
) -> None:
    with extenders.serving(loads) as served:
        served.decide(NAMES)
        served.pods["default/web"] = builders.pod("web", node=node)
        shown = served.run(*WEB).stdout
        assert sentence in shown.splitlines()
        assert (f", {ties} with the best score\n" if ties > 1 else ", cool expected to win\n") in shown
        decision = served.get("/decisions?pod=web&limit=1")["decisions"][0]
    assert (decision["bound_to"], decision["ties"], decision["bound_to_best"]) == (node, ties, best)


def test_a_pod_that_is_another_gone_or_unbound_is_on_no_node(extender: extenders.Extender) -> None:
    extender.decide(NAMES)
    gone, unbound = "pod default/web of this decision has ended or is gone", "pod default/web is on no node yet"
    another = builders.pod("web", node="cool", mutate=lambda body: body["metadata"].update(uid="other"))
    for pods, sentence in (
        ({}, gone),
        ({"default/web": another}, gone),
        ({"default/web": builders.pod("web")}, unbound),
    ):
        extender.pods |= pods
        result = extender.run(*WEB)
        assert sentence in result.stderr
        assert "it is on" not in result.stdout


def test_now_asks_kubernetes_for_the_pod_and_all_nodes(extender: extenders.Extender, tmp_path: Path) -> None:
    extender.decide(NAMES)
    extender.view.nodes.node_changed(None, worlds.node("hot", worlds.IDLE))
    result = explain(extender, tmp_path, "--now", pod=builders.pod_body("web", node="cool"))
    assert "what would be decided at 2026-11-21T04:00:00Z, policy 0123456789ab; it is on cool" in result.stdout
    assert row(result.stdout, "hot").startswith("hot 10 8.78->10.00")
    assert extender.asked == ["POST /explain"]


def test_without_a_decision_it_says_so_and_tells_what_would_be(extender: extenders.Extender, tmp_path: Path) -> None:
    result = explain(extender, tmp_path, nodes=("hot", "gone"), code=4)
    assert "no decision about default/web" in result.stderr
    assert "rejected: cpu_avg_5m 90.0% > 65%" in row(result.stdout, "hot")
    assert row(result.stdout, "gone").endswith("passes unjudged: unknown node")
    assert "unknown_node" in result.stderr


def test_a_decision_that_no_replica_remembers_is_read_from_the_ledger_without_its_nodes(
    extender: extenders.Extender, tmp_path: Path
) -> None:
    extender.decide(NAMES)
    extender.pods["default/web"] = builders.pod("web", node="half")
    rows = [one | {"replica": "10.0.0.7"} for one in reversed(extender.get("/decisions?after=")["decisions"])]
    extender.clock.advance(3600)
    with scripted_http.serving(scripted_http.having({"/decisions": {"decisions": rows}})) as ledger:
        result = extender.run(*WEB, "--descheduler", ledger.url, code=4)
        alone = commands.run(*WEB, "--extender", "http://127.0.0.1:1", "--descheduler", ledger.url, code=4)
        assert alone.stdout == result.stdout
        ledger.script = scripted_http.having({"/decisions": {"decisions": []}})
        now = explain(extender, tmp_path, "--descheduler", ledger.url, code=4)
        commands.run(*WEB, "--extender", "http://127.0.0.1:1", "--descheduler", ledger.url, code=3)
    lines = result.stdout.splitlines()
    assert lines[:3] == [
        "pod default/web: what was decided at 2026-11-21T04:00:00Z, policy 0123456789ab",
        "2026-11-21T04:00:00Z filter: 2 of 3 nodes asked about (1 cpu_avg_5m over 0.65)",
        "2026-11-21T04:00:00Z prioritize: 2 of 2 nodes asked about, cool expected to win",
    ]
    assert lines[3].startswith("it is on half with score 0, where cool has 10: kube-scheduler's own plugins outweighed")
    assert [row(result.stdout, name) for name in ("cool", "half")] == ["cool 10 10.00 0 passes", "half 0 0.00 0 passes"]
    assert "this is what the ledger has, without nodes" in result.stderr
    assert "1 nodes are no longer remembered" in result.stderr
    assert "in the ledger (decisions that rejected a node, lacked data, or were not followed)" in now.stderr


def test_of_many_nodes_the_pods_own_the_best_and_the_first_rejected_are_shown() -> None:
    loads = {f"n{at:02}": dict.fromkeys(worlds.IDLE, at / 20) for at in range(20)}
    with extenders.serving(loads) as served:
        served.decide(tuple(loads))
        served.pods["default/web"] = builders.pod("web", node="n10")
        result, wide = served.run(*WEB), served.run(*WEB, "-o", "wide").stdout
        rows = served.run(*WEB, "--no-headers").stdout.splitlines()
    shown = [line.split()[0] for line in result.stdout.splitlines() if line.startswith("n")]
    assert shown == ["n10", *(f"n{at:02}" for at in (*range(5), *range(14, 19)))]
    assert result.stdout.endswith("\nand 9 more: -o wide has every node\n")
    assert (len(rows), wide.count("\nn")) == (20, 20 * 6)


def test_a_base_that_is_capped_says_so() -> None:
    lacking = {name: 0.02 for name in worlds.IDLE if name.startswith("memory")}
    view = worlds.view_of({"lacking": lacking, "whole": worlds.IDLE}, worlds.policy(score={"spread": "none"}))
    with extenders.serving({}, view) as served:
        served.decide(("lacking", "whole"))
        result = served.run(*WEB)
    assert "9.75->8.78 (capped)" in row(result.stdout, "lacking")
    assert "(capped)" not in row(result.stdout, "whole")


def test_where_nodes_are_packed_the_load_and_the_target_lead_from_the_terms_to_the_base() -> None:
    view = worlds.view_of({"half": HALF, "idle": worlds.IDLE}, worlds.policy(score={"goal": "pack", "target": 0.6}))
    with extenders.serving({}, view) as served:
        served.decide(("half", "idle"))
        lines = served.run(*WEB).stdout.splitlines()
    assert "packing to 60%: load 52% gives 9.48" in [line.strip() for line in lines]


def test_wide_and_csv_have_a_line_for_each_node_and_metric(extender: extenders.Extender) -> None:
    extender.decide(NAMES)
    wide = extender.run(*WEB, "-o", "wide", "--no-headers").stdout
    lines = [" ".join(line.split()) for line in wide.splitlines()]
    assert len(lines) == 18
    assert [line for line in lines if line.endswith(" over")] == ["hot cpu_avg_5m 90% +0.0% +2.2% 65% 0.47 0s over"]
    found = list(csv.DictReader(extender.run(*WEB, "-o", "csv").stdout.splitlines()))
    assert (len(found), found[0]["node"], found[0]["metric"], found[0]["term"]) == (18, "cool", "cpu_avg_5m", "5.27")


def test_json_and_yaml_are_data_alone_and_carry_the_share(extender: extenders.Extender) -> None:
    extender.decide(NAMES)
    as_json = json.loads(extender.run(*WEB, "--weight", "1", "-o", "json").stdout)
    assert as_json == yaml.safe_load(extender.run(*WEB, "--weight", "1", "-o", "yaml").stdout)
    assert (as_json["weight"], as_json["source"]) == (1, "decision")
    assert "the extender's best gives 100 of the 1500 points" in as_json["share"]
    rules = as_json["nodes"][-1]["rules"]
    assert rules[0] | {"age_seconds": 0.0} == {
        "metric": "cpu_avg_5m",
        "limit": 0.65,
        "value": 0.9,
        "reading": 0.9,
        "expected": 0.0,
        "age_seconds": 0.0,
        "broken": True,
        "own": False,
        "pool": False,
        "pod_class": False,
    }


@pytest.mark.parametrize("now", [False, True])
def test_the_class_of_the_pod_is_named_beside_its_limits(tmp_path: Path, now: bool) -> None:
    thresholds = {"cpu_avg_5m": 0.95, "memory_avg_5m": 0.05}
    jobs = {"name": "jobs", "match": {"priorityClassNames": ["night"]}, "filter": {"thresholds": thresholds}}
    view = worlds.view_of({"hot": worlds.HOT, "half": HALF}, worlds.policy(podClasses=[jobs]))
    view.nodes.node_changed(None, worlds.node("cool", worlds.IDLE, thresholds='{"memory_avg_5m": 0.2}'))
    night = set_spec(priorityClassName="night")
    body = builders.pod_body("web", mutate=night)
    with extenders.serving({}, view) as served, extenders.apiserver(tmp_path, body, NAMES) as file:
        served.decide(NAMES, mutate=night)
        words = [*WEB, "--kubeconfig", file, *["--now"] * now]
        result, wide = served.run(*words), served.run(*words, "-o", "wide").stdout
        story = json.loads(served.run(*words, "-o", "json").stdout)
    assert "of class jobs, the first that matches it\n" in result.stdout
    over = "rejected: memory_avg_5m 10.0% > 5% of class jobs (10.0% read 0s ago)"
    assert over in row(result.stdout, "hot")
    assert "passes: memory_avg_5m 10.0% <= 20% of its own (10.0% read 0s ago)" in row(result.stdout, "cool")
    limits = {" ".join(line.split()[:2]): line for line in wide.splitlines() if line.startswith(NAMES)}
    assert "95% (class jobs)" in limits["hot cpu_avg_5m"]
    assert "20% (own)" in limits["cool memory_avg_5m"]
    assert story["pod_class"] == "jobs"


@pytest.mark.parametrize("now", [False, True])
def test_shadow_mode_is_said_beside_what_would_have_been_decided(tmp_path: Path, now: bool) -> None:
    view = worlds.view_of(LOADS, worlds.policy(extender={"mode": "Shadow"}))
    with extenders.serving({}, view) as served, extenders.apiserver(tmp_path, builders.pod_body("web"), NAMES) as file:
        served.decide(NAMES)
        words = [*WEB, "--kubeconfig", file, *["--now"] * now]
        result, story = served.run(*words), json.loads(served.run(*words, "-o", "json").stdout)
    assert "shadow mode: kube-scheduler is told that every node passes and scores the same\n" in result.stdout
    assert ("prioritize: 2 of 2 nodes asked about\n" in result.stdout) is not now
    assert "rejected: cpu_avg_5m 90.0% > 65%" in row(result.stdout, "hot")
    assert row(result.stdout, "cool").startswith("cool 10 8.78->10.00 0 passes: ")
    assert story["shadow"] is True


def test_an_exempt_pod_is_not_filtered_and_the_reason_is_there(extender: extenders.Extender, tmp_path: Path) -> None:
    own = {"evenload.io/expected-usage": "cpu=a lot"}
    pod = builders.pod_body("web", spec={"priority": 2_000_001_000}, annotations=own)
    result = explain(extender, tmp_path, pod=pod)
    assert "not filtered: priority at least" in result.stdout
    assert "expected of the pod: cpu 175m (request ratio), memory 179Mi (request ratio)" in result.stdout
    assert (
        "; annotation evenload.io/expected-usage ignored: amounts over 0 such as cpu=500m,memory=1Gi, " in result.stdout
    )
    assert "passes in spite of cpu_avg_5m 90.0% > 65%" in row(result.stdout, "hot")


def test_an_unknown_pod_is_bad_input(extender: extenders.Extender, tmp_path: Path) -> None:
    result = explain(extender, tmp_path, pod=builders.pod_body("other"), code=2)
    commands.assert_refused(result, 2, "error: there is no pod default/web now; -n names its namespace")


def test_an_apiserver_or_extender_that_is_away_is_code_3(extender: extenders.Extender, tmp_path: Path) -> None:
    with extenders.apiserver(tmp_path, builders.pod_body("web"), NAMES) as kubeconfig:
        pass
    extender.run(*WEB, "--now", "--kubeconfig", kubeconfig, code=3)
    commands.assert_refused(commands.run(*WEB, "--extender", "http://127.0.0.1:1"), 3, "http://127.0.0.1:1/decisions")


def test_scores_older_than_the_last_filter_answer_are_not_its_scores(extender: extenders.Extender) -> None:
    extender.decide(("cool", "half"))
    extender.clock.advance(10)
    extender.decide(("hot", "cool"))
    result = extender.run(*WEB)
    assert row(result.stdout, "cool").startswith("cool - - 0")
    assert "2026-11-21T04:00:10Z filter: 1 of 2 nodes" in result.stdout


def test_what_is_sent_of_a_pod_is_what_was_read_of_it() -> None:
    pod = builders.pod("web", node="n", cpu="250m", memory="1Gi")
    assert msgspec.json.decode(msgspec.json.encode(pod), type=objects.Pod) == pod


VERDICTS = {
    "passes without rules": (documents.NodeRow("n", usable=True, state="usable"), "passes"),
    "stale": (documents.NodeRow("n", usable=False, state="stale"), "passes unjudged: stale"),
    "rejected without a metric": (
        documents.NodeRow("n", usable=True, state="usable", allowed=False, rejected="relieved of this workload"),
        "rejected: relieved of this workload",
    ),
    "rejected for a missing metric": (
        documents.NodeRow(
            "n", usable=False, state="stale", allowed=False, rules=[documents.Rule("cpu_avg_5m", 0.65, broken=True)]
        ),
        "rejected: cpu_avg_5m missing, limit 65%",
    ),
}


@pytest.mark.parametrize(("node", "words"), VERDICTS.values(), ids=VERDICTS.keys())
def test_verdicts_in_words(node: documents.NodeRow, words: str) -> None:
    assert explain_text.verdict(node).text == words


AGES = {None: "-", 0.0: "0s", 22.4: "22s", 119.0: "119s", 120.0: "2m", 7_200.0: "2h", 200_000.0: "2d", -30.0: "-30s"}


@pytest.mark.parametrize(("seconds", "words"), AGES.items())
def test_ages_are_short(seconds: float | None, words: str) -> None:
    assert answers.age(seconds) == words
