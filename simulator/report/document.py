"""A study for scripts: what `-o json` and `-o yaml` print, under names that stay.

`simulator.commands.simulate` writes what `of` gives. Figures are under their `comparison.Definition.key`; ratios are 0
to 1, times RFC 3339, and a number that does not exist is null.
"""

import math
from typing import Final

from runtime import clock
from simulator.results.comparison import Comparison, Line
from simulator.results.outcome import EvictedPod, Outcome
from simulator.results.study import Study

Json = dict[str, object]
UNITS: Final = {"percent": "ratio", "ratio": "ratio", "minutes": "minutes", "half": "count", "count": "count"}
_DECIMALS: Final = 6


def of(study: Study) -> Json:
    """Settings, every figure of every variant with its value for each seed, every run's events."""
    compared = study.comparison
    return {
        "title": study.title,
        "settings": dict(study.facts),
        "seeds": list(study.seeds),
        "baseline": compared.baseline,
        "variants": [
            {"name": one.name, "policy": one.source or None, "hash": one.content_hash or None} for one in study.variants
        ],
        "figures": {line.figure.key: _figure(line, compared) for line in compared.lines},
        "runs": [_run(outcome) for outcomes in study.outcomes.values() for outcome in outcomes],
        "findings": list(study.findings()),
        "assumptions": list(study.assumptions),
    }


def _figure(line: Line, compared: Comparison) -> Json:
    return {
        "name": line.figure.name,
        "unit": UNITS[line.figure.unit],
        "better": line.figure.better or None,
        "variants": {name: _values(line, name, compared.baseline) for name in compared.variants},
    }


def _values(line: Line, variant: str, baseline: str) -> Json:
    span, verdict = line.span(variant), line.verdict(variant, baseline)
    return {
        "median": _number(span.median),
        "min": _number(span.low),
        "max": _number(span.high),
        "values": [_number(value) for value in line.values[variant]],
        "verdict": verdict.word or None,
        "seeds_better": verdict.better,
        "seeds_worse": verdict.worse,
    }


def _run(outcome: Outcome) -> Json:
    return {
        "variant": outcome.variant,
        "seed": outcome.seed,
        "evictions": [_moved(one) for one in outcome.moved],
        "unplaced": list(outcome.unplaced),
        "violations": list(outcome.violations),
    }


def _moved(evicted: EvictedPod) -> Json:
    return {
        "at": clock.to_rfc3339(evicted.at_seconds),
        "pod": evicted.pod,
        "workload": evicted.workload,
        "node": evicted.node,
        "metric": evicted.metric,
        "value": _number(evicted.value),
        "threshold": _number(evicted.threshold),
        "projected": _number(evicted.projected),
        "landed_on": evicted.landed_on or None,
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, _DECIMALS)
