"""crane-scheduler's annotation keys, for clusters that still run its reader beside Evenload's (`--crane-annotations`).

`annotator.publish.write_plan` adds them to the patch it writes anyway. The form is crane's,
"0.63012,2026-11-21T04:00:00Z"; the time is really UTC, so a crane reader needs TZ=UTC (it takes the text as local
time). The built-in metrics have an equal there; a metric of another name has none. A metric without a value has its key
removed: crane would read an old one as current for minutes.
"""

from collections.abc import Mapping
from typing import Final

from policy import metrics
from policy.contract import timestamps
from policy.contract.load_annotation import Reading

KEYS: Final[Mapping[str, str]] = {
    metrics.CPU_AVG_5M: "cpu_usage_avg_5m",
    metrics.CPU_MAX_1H: "cpu_usage_max_avg_1h",
    metrics.CPU_MAX_1D: "cpu_usage_max_avg_1d",
    metrics.MEMORY_AVG_5M: "mem_usage_avg_5m",
    metrics.MEMORY_MAX_1H: "mem_usage_max_avg_1h",
    metrics.MEMORY_MAX_1D: "mem_usage_max_avg_1d",
}
REFRESH_SECONDS: Final = 180.0  # crane's own sync period of the 5m keys; its readers give up 5 min after it


def annotations(reading: Reading) -> dict[str, str | None]:
    """crane's keys for a reading; None removes a key."""
    at = timestamps.encode(reading.at_seconds)
    return {key: f"{reading.values[name]:.5f},{at}" if name in reading.values else None for name, key in KEYS.items()}
