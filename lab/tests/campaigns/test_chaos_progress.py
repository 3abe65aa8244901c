"""The judges of what has to happen in runs with faults: each is content once it has, and says what has not."""

import hashlib
import json
from typing import Any

import pytest

from lab.campaigns.chaos import progress
from lab.campaigns.chaos.judging import Recorded
from lab.campaigns.chaos.progress import Annotated, Metrics, Span, Trial

METRICS = Metrics(("cpu_avg_5m", "memory_avg_5m"), 0.03)
LOADS = {"node-1": {"cpu": Span(0.3, 0.3), "memory": Span(0.2, 0.4)}}
BEGUN_SECONDS = 1795860000.0  # 2026-11-28T10:00:00Z
TRUE = {"cpu_avg_5m": 0.31, "memory_avg_5m": 0.25}


def text(values: dict[str, Any], at: str = "2026-11-28T10:00:05Z") -> str:
    return json.dumps({"v": 1, "at": at, "m": values, "hot": {}})


def annotated(annotation: str | None, *, least: float = 0, most: float = 3) -> dict[str, Annotated]:
    return {"node-1": Annotated(annotation, Span(least, most))}


def judged(annotation: str | None) -> str:
    """The sentence about the only node's annotation."""
    nodes = annotated(annotation)
    return progress.annotations(nodes, LOADS, METRICS, BEGUN_SECONDS)["node-1"]


def row(values: dict[str, float], *, usable: bool = True, state: str = "usable", pods: int = 1) -> dict[str, Any]:
    return {"name": "node-1", "usable": usable, "state": state, "values": values, "hot": {"2m": 0, "10m": pods}}


def test_an_annotation_that_says_what_the_exporters_had_is_true() -> None:
    assert judged(text(TRUE)) == ""
    assert judged(text({**TRUE, "memory_avg_5m": 0.425})) == "", "within the tolerance of a load that changes"


def test_an_annotation_of_another_load_is_named() -> None:
    said = "annotated with cpu_avg_5m 0.1500, the exporters had 0.3000 to 0.3000"
    assert judged(text({**TRUE, "cpu_avg_5m": 0.15})) == f"node-1 is {said}"
    assert judged(text({**TRUE, "cpu_avg_5m": 0.15}, "2026-11-28T09:59:59Z")) == f"node-1 is still {said}"


@pytest.mark.parametrize(
    "annotation", ["{", "[]", text({}), text({"cpu_avg_5m": "NaN"}), '{"v":1,"at":"never","m":{}}']
)
def test_an_annotation_without_a_value_is_named(annotation: str) -> None:
    assert judged(annotation) == "node-1 is annotated without cpu_avg_5m"


def test_a_node_without_annotation_is_named_and_one_that_is_not_there() -> None:
    assert judged(None) == "node-1 has no load annotation"
    assert progress.annotations({}, LOADS, METRICS, 0.0) == {"node-1": "node-1 has no load annotation"}


def beat(nodes: dict[str, str], *, at: str = "2026-11-28T10:00:01Z", excluded: str = "") -> dict[str, str]:
    lines = "".join(f"{name}={nodes[name]}\n" for name in sorted(nodes))
    return {"at": at, "digest": f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}", "except": excluded}


def test_a_heartbeat_has_to_be_new_and_to_vouch_for_every_node() -> None:
    nodes = {"b": Annotated("x", Span(0, 0)), "a": Annotated("y", Span(0, 0)), "c": Annotated(None, Span(0, 0))}
    texts = {"a": "y", "b": "x"}
    assert progress.heartbeat(beat(texts), nodes, BEGUN_SECONDS) == {"heartbeat": ""}
    assert progress.heartbeat(None, nodes, BEGUN_SECONDS) == {"heartbeat": "there is no heartbeat"}
    late = beat(texts, at="2026-11-28T09:59:50Z")
    assert progress.heartbeat(late, nodes, BEGUN_SECONDS) == {"heartbeat": "the heartbeat is of 10 s before"}
    for wrong in (beat({"a": "y"}), beat(texts, excluded="a")):
        assert "does not vouch" in progress.heartbeat(wrong, nodes, BEGUN_SECONDS)["heartbeat"]


def known(rows: list[dict[str, Any]], nodes: dict[str, Annotated]) -> list[str]:
    """The sentences about a replica that answers these rows."""
    return [sentence for sentence in progress.view("extender-0", {"nodes": rows}, nodes).values() if sentence]


def test_a_replica_knows_the_node_as_it_is_annotated() -> None:
    assert known([row(TRUE)], annotated(text(TRUE))) == []
    assert known([row({}, usable=False, state="no annotation")], annotated(None)) == []


@pytest.mark.parametrize(
    ("rows", "sentences"),
    [
        pytest.param([], ["extender-0 does not know node-1"], id="no node"),
        pytest.param(
            [row({**TRUE, "cpu_avg_5m": 0.1})],
            ["extender-0 knows cpu_avg_5m 0.1 of node-1, which is annotated with 0.31"],
            id="old value",
        ),
        pytest.param(
            [row({**TRUE, "more": 0.1})],
            ["extender-0 knows more 0.1 of node-1, which is annotated with None"],
            id="a value too many",
        ),
        pytest.param([row(TRUE, pods=0)], ["extender-0 counts 0 pods on node-1, 1 to 3 expected"], id="no pod"),
        pytest.param(
            [row(TRUE, usable=False, state="stale", pods=4)],
            [
                "extender-0 takes the annotation of node-1 for stale",
                "extender-0 counts 4 pods on node-1, 1 to 3 expected",
            ],
            id="stale, and a pod that has gone",
        ),
    ],
)
def test_a_replica_that_knows_something_else_is_named(rows: list[dict[str, Any]], sentences: list[str]) -> None:
    assert known(rows, annotated(text(TRUE), least=1)) == sentences


def test_a_replica_that_knows_a_node_that_is_gone_or_does_not_answer_is_named() -> None:
    assert known([row(TRUE)], {}) == ["extender-0 knows node-1, which is gone"]
    silent = progress.view("extender-0", None, annotated(text(TRUE)))
    assert silent == {"node-1": "extender-0 does not answer"}


@pytest.mark.parametrize(
    ("trial", "sentence"),
    [
        pytest.param(Trial(0.75, 0.8, 1), "", id="relieved"),
        pytest.param(Trial(0.85, 0.8, 0), "0.850; no pod was evicted from it", id="nothing"),
        pytest.param(Trial(0.85, 0.8, 1), "0.850; 1 pod was evicted from it", id="too little"),
        pytest.param(Trial(0.75, 0.8, 0), "0.750; no pod was evicted from it", id="by itself"),
    ],
)
def test_an_overloaded_node_is_relieved_by_evictions(trial: Trial, sentence: str) -> None:
    findings = progress.relief({"node-1": trial})
    assert findings == {"relief of node-1": sentence and f"node-1 was over 0.80 and is at {sentence}"}


def test_rows_that_are_due_need_an_outcome() -> None:
    rows = [
        Recorded(number, "r", "a", "n1", result, 0.0)
        for number, result in enumerate(("intended", "evicted", "unknown"))
    ]
    assert progress.closed({0, 1}, rows) == {"row 0": "row 0 of a pod on n1 is still intended", "row 1": ""}
