"""Whether the policy file is in force, on /metrics: the same three names in every service.

A service registers one `ReloadCollector` over its `reloading.Reloading`; the values are read when scraped. Alert on
`evenload_config_last_reload_successful == 0`: an edit was refused and an older policy decides.
"""

import collections.abc
from typing import Any

from prometheus_client import core, registry

from runtime.reloading import Reloading


class ReloadCollector(registry.Collector):
    """The state of one polled file, read when scraped."""

    def __init__(self, held: Reloading[Any]) -> None:
        self._held = held

    def collect(self) -> collections.abc.Iterator[core.Metric]:
        """Whether the file as it stands is in force, since when what is in force is, and its hash."""
        held = self._held
        text = "1 when the policy file as it stands is in force; 0 means that an older one still is."
        yield core.GaugeMetricFamily("evenload_config_last_reload_successful", text, value=float(held.error is None))
        name, text = "evenload_config_last_reload_success_timestamp_seconds", "When the policy in force was loaded."
        yield core.GaugeMetricFamily(name, text, value=held.loaded_at_seconds)
        text = "The policy in force, by the hash of its file."
        yield core.InfoMetricFamily("evenload_config", text, value={"hash": held.content_hash})
