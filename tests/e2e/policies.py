"""The end-to-end suite's policy: the shipped defaults with windows of seconds; tests override keys by dotted path."""

import copy
import pathlib
from collections.abc import Mapping

import yaml

STALE_SECONDS = 30  # as in life several periods: a busy machine that stalls for ten must not make readings stale
WINDOWS_SECONDS = {"avg_5m": 5, "max_1h": 6, "max_1d": 7}  # an idle node reads cool after the first and the last


def metrics(windows_seconds: Mapping[str, int]) -> list[dict[str, str]]:
    """The metrics of CPU and memory with these windows, by what their names say of statistic and window."""
    return [
        {
            "name": f"{resource}_{statistic_window}",
            "resource": resource,
            "statistic": statistic_window.split("_")[0],
            "window": f"{seconds}s",
        }
        for resource in ("cpu", "memory")
        for statistic_window, seconds in windows_seconds.items()
    ]


METRICS = metrics(WINDOWS_SECONDS)
BASE: dict[str, object] = {
    "apiVersion": "evenload.io/v1alpha1",
    "kind": "LoadPolicy",
    "sync": {"period": "1s", "staleAfter": f"{STALE_SECONDS}s"},
    "metrics": METRICS,
    # minutes, unlike the rest: a burst that a stalled machine places slowly is still one burst
    "hotSpots": [{"window": "2m", "pods": 2, "penalty": 1}, {"window": "10m", "pods": 5, "penalty": 1}],
    "descheduler": {
        "interval": "2s",
        "overloadedFor": "4s",
        # minutes, too: where other control planes start beside it, reading the cluster takes more than its 30 s
        "limits": {"perRun": 4, "maxSnapshotAge": "5m"},
        "protect": {"minPodAge": "1s"},
        "cooldown": {"workload": "1s", "node": "1s", "returned": {"initial": "1s", "max": "5s", "window": "1m"}},
    },
}


def write(path: pathlib.Path, **overrides: object) -> pathlib.Path:
    """Writes the suite's policy to `path` with keys such as descheduler__mode="Enforce" laid over it."""
    document = copy.deepcopy(BASE)
    for dotted, value in overrides.items():
        *parents, leaf = dotted.split("__")
        section = document
        for parent in parents:
            inner = section.setdefault(parent, {})
            assert isinstance(inner, dict)
            section = inner
        section[leaf] = value
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return path
