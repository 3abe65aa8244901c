"""The JSON of a study keeps its names, and a number that does not exist is null."""

import json
import math

from simulator.report import document
from simulator.results import comparison, figures
from tests.unit.simulator import outcomes


def test_names_stay() -> None:
    found = document.of(outcomes.study_of())
    assert list(found) == [
        *("title", "settings", "seeds", "baseline", "variants", "figures", "runs", "findings", "assumptions")
    ]
    body = json.loads(json.dumps(found, allow_nan=False))
    assert list(body["figures"]) == [definition.key for definition in comparison.DEFINITIONS]
    assert body["variants"] == [
        {"name": "plain", "policy": None, "hash": None},
        {"name": "policy.yaml", "policy": "policy.yaml", "hash": "0123456789ab"},
    ]
    evictions = body["figures"]["evictions"]
    assert evictions["unit"] == "count"
    assert evictions["variants"]["policy.yaml"] == {
        "median": 9, "min": 9, "max": 9, "values": [9], "verdict": None, "seeds_better": 0, "seeds_worse": 0
    }  # fmt: skip
    assert body["figures"]["cpu_p99_ratio"]["unit"] == "ratio"
    assert body["figures"]["cpu_p99_ratio"]["variants"]["policy.yaml"]["verdict"] == "better"


def test_a_run_has_its_evictions_with_time_and_reason() -> None:
    found = json.loads(json.dumps(document.of(outcomes.study_of())))
    assert [(run["variant"], run["seed"], len(run["evictions"])) for run in found["runs"]] == [
        ("plain", 1, 0),
        ("policy.yaml", 1, 9),
    ]
    assert found["runs"][1]["evictions"][0] == {
        "at": "2026-09-21T14:28:20Z",
        "pod": "shop/web-0",
        "workload": "shop/Deployment/web",
        "node": "node-00",
        "metric": "cpu_avg_5m",
        "value": 0.87,
        "threshold": 0.8,
        "projected": 0.74,
        "landed_on": "node-01",
    }


def test_what_was_never_measured_is_null() -> None:
    nothing = figures.Load(*(math.nan,) * 5)
    run = outcomes.outcome()
    empty = figures.Figures(run.figures.effectiveness, nothing, nothing, 0, 0, 0, 0)
    line = next(line for line in comparison.of({"plain": [empty]}, [1]).lines if line.figure.key == "cpu_p99_ratio")
    found = document._values(line, "plain", "plain")
    assert (found["median"], found["values"]) == (None, [None])
