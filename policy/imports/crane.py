"""crane-scheduler's policy as Evenload's: `DynamicSchedulerPolicy` v1alpha1 -> sections of a LoadPolicy and remarks.

`evenload policy import` reads the file and prints both. What crane's own code makes of each field was read in
gocrane/crane-scheduler (pkg/plugins/dynamic, pkg/controller/annotator); a remark says where the two systems differ
for this file. A thing that has no equal is left out and named, never guessed. crane takes 0 for a number left out.

| crane | here |
|---|---|
| syncPolicy[].period, one for each metric | sync.period: the shortest of them, for all metrics |
| a value is used for its period + 5 min | sync.staleAfter: that of the shortest period |
| predicate[].maxLimitPecent, a share of one; 0 = off | filter.thresholds |
| a pod that no node passes waits | filter.whenAllRejected: pending |
| priority[].weight, of one mean, without the pod | score.weights, combine: mean, spread: none, incomingPod: false |
| hotValue[]: each full `count` in `timeRange` costs 10 of 100 points | hotSpots: 1 of 10 points |
"""

import re
from typing import Final

from policy import metrics
from policy.imports import converting
from policy.schema import units

API_VERSION: Final = "scheduler.policy.crane.io/v1alpha1"
KIND: Final = "DynamicSchedulerPolicy"
EXTRA_ACTIVE_SECONDS: Final = 300.0  # crane's stats.go: a value counts this long after its period
_METRIC: Final = re.compile(r"(cpu|mem)_usage_(max_avg|avg)_([1-9][0-9]{0,3})([smhd])")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LISTS: Final = {
    "syncPolicy": ("name", "period"),
    "predicate": ("name", "maxLimitPecent"),
    "priority": ("name", "weight"),
    "hotValue": ("timeRange", "count"),
}
_Row = converting.Mapping


def convert(tree: object) -> converting.ImportedPolicy:
    """The policy of a parsed crane file. Raises ImportRefused with all that is wrong with it."""
    if not isinstance(tree, dict):
        raise converting.ImportRefused(
            [converting.Remark("file", f"a mapping with apiVersion {API_VERSION} and kind {KIND} expected")]
        )
    reading = _Reading()
    spec = reading.spec(tree)
    rows = {key: reading.rows(spec, key) for key in _LISTS}
    synced = reading.synced(rows["syncPolicy"])
    sections: dict[str, object] = {"sync": reading.sync(synced)} if synced else {}
    thresholds = reading.thresholds(rows["predicate"], synced)
    weights = reading.weights(rows["priority"], synced)
    if reading.extra:
        sections["metrics"] = list(reading.extra.values())
    sections["filter"] = {"thresholds": thresholds, "whenAllRejected": "pending"}
    if any(weights.values()):
        sections["score"] = {"weights": weights, "combine": "mean", "spread": "none", "incomingPod": False}
    else:
        reading.remark("spec.priority", "no weight is left (crane then scores every node 0): the default weights hold")
    sections["hotSpots"] = reading.hot_spots(rows["hotValue"])
    return reading.finished(sections)


class _Reading(converting.Findings):
    """One file being converted: what was wrong, what had no equal, which metrics had to be added."""

    def __init__(self) -> None:
        super().__init__("crane")
        self.extra: dict[str, dict[str, object]] = {}
        self._built_in = set(metrics.names(metrics.BUILT_IN))

    def spec(self, tree: _Row) -> _Row:
        """The spec of the right kind of file."""
        self.kind(tree, API_VERSION, KIND)
        self.unknown(tree, "", ("apiVersion", "kind", "metadata", "spec"))
        spec = tree.get("spec")
        if not isinstance(spec, dict):
            self.problem("spec", "a mapping expected")
            return {}
        self.unknown(spec, "spec.", tuple(_LISTS))
        return spec

    def rows(self, spec: _Row, key: str) -> list[tuple[str, _Row]]:
        """The entries of one list with their paths."""
        entries = self.entries(spec.get(key), f"spec.{key}", " and ".join(_LISTS[key]))
        for path, row in entries:
            self.unknown(row, f"{path}.", _LISTS[key])
        return entries

    def synced(self, rows: list[tuple[str, _Row]]) -> dict[str, float]:
        """By crane's metric name its period in seconds; of several entries the first counts, as in crane."""
        periods: dict[str, float] = {}
        for path, row in rows:
            period = self.value(path, row, "period", units.duration_seconds, absent=0.0)
            if period is not None:
                periods.setdefault(self._name(path, row), period)
        return {name: seconds for name, seconds in periods.items() if seconds > 0}

    def sync(self, synced: dict[str, float]) -> dict[str, object]:
        """One period for all metrics: the shortest."""
        shortest = min(synced.values())
        stale_after = max(shortest + EXTRA_ACTIVE_SECONDS, 2 * shortest)
        if len(set(synced.values())) > 1:
            text = units.duration_text(shortest)
            self.remark("spec.syncPolicy", f"a period for each metric has no equal: all are read every {text}")
        return {"period": units.duration_text(shortest), "staleAfter": units.duration_text(stale_after)}

    def thresholds(self, rows: list[tuple[str, _Row]], synced: dict[str, float]) -> dict[str, float]:
        """Returns the thresholds: of several limits on one metric the lowest is the one that held."""
        limits: dict[str, float] = {}
        for path, row in rows:
            limit = self.value(path, row, "maxLimitPecent", units.number, absent=0.0)
            if limit and limit > 1:
                self.remark(path, f"{limit:g} is over 1, the full node: the rule could never hold and is left out")
            elif limit and (metric := self._metric(path, row, synced)) is not None:
                limits[metric] = min(limit, limits.get(metric, limit))
        return limits

    def weights(self, rows: list[tuple[str, _Row]], synced: dict[str, float]) -> dict[str, float]:
        """Returns the weights: several entries for one metric add up."""
        weights: dict[str, float] = {}
        for path, row in rows:
            weight = self.value(path, row, "weight", units.weight, absent=0.0)
            metric = self._metric(path, row, synced) if weight else None
            if weight and metric is not None:
                weights[metric] = round(weights.get(metric, 0.0) + weight, 12)
        return weights

    def hot_spots(self, rows: list[tuple[str, _Row]]) -> list[dict[str, object]]:
        """Returns the hot spots; of several with one time range the one that strikes first is kept."""
        counts: dict[float, int] = {}
        for path, row in rows:
            window = self.value(path, row, "timeRange", units.duration_seconds, absent=0.0)
            count = row.get("count")
            if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= 1_000_000:
                self.problem(f"{path}.count", f"a whole number from 1 expected, got {units.quoted(count)}")
            elif window == 0:
                self.remark(path, "without a timeRange crane counts nothing: it is left out")
            elif window is not None:
                if window in counts:
                    self.remark(path, "a second penalty for one time range has no equal: the lower count is kept")
                counts[window] = min(count, counts.get(window, count))
        return [
            {"window": units.duration_text(window), "pods": count, "penalty": 1} for window, count in counts.items()
        ]

    def _metric(self, path: str, row: _Row, synced: dict[str, float]) -> str | None:
        """Returns the metric's name in a LoadPolicy; None, with a remark, where there is no equal."""
        name = self._name(path, row)
        match = _METRIC.fullmatch(name)
        if match is None:
            hint = "add it under metrics: with a PromQL query of your own, as a ratio of cpu or memory"
            self.remark(path, f"the metric {units.quoted(name)} has no equal and is left out; {hint}")
            return None
        if name not in synced:
            self.remark(path, f"crane has no syncPolicy for {name} and never applied this; here it is in force")
        resource = metrics.CPU if match[1] == "cpu" else metrics.MEMORY
        statistic = metrics.AVERAGE if match[2] == "avg" else metrics.MAXIMUM
        ours = f"{resource}_{statistic}_{match[3]}{match[4]}"
        if ours not in self._built_in and ours not in self.extra:
            window = units.duration_text(float(match[3]) * _SECONDS[match[4]])
            self.extra[ours] = {"name": ours, "resource": resource, "statistic": statistic, "window": window}
            self.remark(
                path, f"{match[0]} becomes the extra metric {ours}, by Evenload's own query, not by your recording rule"
            )
        return ours

    def _name(self, path: str, row: _Row) -> str:
        name = row.get("name")
        if not isinstance(name, str) or not name:
            self.problem(f"{path}.name", f"the name of a metric expected, got {units.quoted(name)}")
        return str(name)
