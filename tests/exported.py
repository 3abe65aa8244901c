"""What the three services export, with label names, from registries filled as their wirings fill them.

A counter that has not counted yet shows nothing on /metrics, so its labels are read from the collectors themselves. The
services' own unit tests hold these names to those of their real /metrics; tests of rules, dashboards and docs use them.
"""

import pathlib
import random
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, metrics, registry

import annotator.metrics
import descheduler.metrics
import extender.metrics
from annotator.diagnostics import standing
from annotator.placements import effectiveness
from extender.http import tls
from kube import kinds
from kube.api import salvage
from kube.cache import reflector, watch_status
from kube.http import client_metrics as kube_telemetry
from kube.http import undecodable
from kube.pods import left_out
from policy.loading import loader
from promql.http import circuit_breaker
from promql.http import client as promql_client
from runtime import reload_metrics
from runtime.reloading import Reloading
from simulator.apiserver import ApiServer
from tests import clocks, fake_prometheus

POLICY: Final = pathlib.Path(__file__).parents[1] / "deploy" / "policies" / "default.yaml"
SUFFIXES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "counter": {"_total": ()},
    "gauge": {"": ()},
    "histogram": {"_bucket": ("le",), "_count": (), "_sum": ()},
    "info": {"_info": ()},
}


class Family(NamedTuple):
    """One metric: its name without what its kind appends, its kind, and its labels."""

    name: str
    kind: str
    labels: frozenset[str]

    @property
    def page(self) -> str:
        """As # TYPE lines and docs name it."""
        return self.name + {"counter": "_total", "info": "_info"}.get(self.kind, "")

    def series(self) -> dict[str, frozenset[str]]:
        """Its series as PromQL names them, with their labels."""
        return {self.name + end: self.labels | set(more) for end, more in SUFFIXES[self.kind].items()}


def _described(collector: registry.Collector) -> list[Family]:
    if isinstance(collector, metrics.MetricWrapperBase):
        (one,) = collector.describe()
        return [Family(one.name, one.type, frozenset(collector._labelnames))]
    return [
        Family(one.name, one.type, frozenset(label for sample in one.samples for label in sample.labels))
        for one in collector.collect()
    ]


def services() -> dict[str, tuple[Family, ...]]:
    """By service what it exports."""
    made = {"annotator": _annotator(), "extender": _extender(), "descheduler": _descheduler()}
    return {
        service: tuple(one for collector in filled._collector_to_names for one in _described(collector))
        for service, filled in made.items()
    }


def series() -> dict[str, frozenset[str]]:
    """All series of all services with their labels."""
    every = (one for exported in services().values() for family in exported for one in family.series().items())
    return dict(every)


def _annotator() -> CollectorRegistry:
    filled = _common()
    filled.register(_door())
    filled.register(_kube())
    filled.register(left_out.PodsLeftOut())
    made = annotator.metrics.Telemetry(filled, lambda: 0.0)
    filled.register(annotator.metrics.Figures(effectiveness.Tally, effectiveness.LookbackTally))
    last = made.last_sync
    last.spread = lambda: standing.Spread({("cpu_avg_5m", "1"): 0.5}, {("cpu_avg_5m", "filter"): 0.65})
    last.unusable, last.nodes = lambda: {"cpu_avg_5m": standing.Unusable(1, 1)}, 3
    return filled


def _extender() -> CollectorRegistry:
    filled = _common()
    filled.register(_kube())
    extender.metrics.Metrics(filled)
    filled.register(left_out.PodsLeftOut())
    standing = dict.fromkeys(extender.metrics.GAUGES, 0) | {"nodes": {"usable": 1}, "node_thresholds": {"own": 0}}
    filled.register(extender.metrics.ReplicaStateCollector(lambda: standing))
    tls.Security(tls.Files(pathlib.Path("crt"), pathlib.Path("key"))).export(filled)
    return filled


def _descheduler() -> CollectorRegistry:
    filled = _common()
    filled.register(_door())
    filled.register(_kube())
    descheduler.metrics.Telemetry(filled).leader.set(1.0)
    return filled


def _common() -> CollectorRegistry:
    filled = CollectorRegistry()
    held = Reloading(POLICY, loader.load, clock=clocks.ManualClock())
    held.load()
    filled.register(reload_metrics.ReloadCollector(held))
    return filled


def _door() -> circuit_breaker.DoorCollector:
    guarded = circuit_breaker.CircuitBreaker(
        fake_prometheus.FakePrometheus(), clock=clocks.ManualClock(), rng=random.Random(1)
    )
    return circuit_breaker.DoorCollector(guarded, promql_client.Traffic())


def _kube() -> kube_telemetry.DoorCollector:
    left_out = undecodable.UndecodableObjects(clocks.ManualClock())
    left_out.listed(undecodable.Source("Node"), [salvage.UndecodableObject("", "n", "u", "", "1", "time", "")])
    door = ApiServer(clocks.ManualClock(), random.Random(1)).door(waits=False)  # nothing is asked of it
    nodes = reflector.Reflector(door, kinds.NODES, clock=clocks.ManualClock(), rng=random.Random(1))
    return kube_telemetry.DoorCollector(left_out, watch_status.Watches({"nodes": nodes}))
