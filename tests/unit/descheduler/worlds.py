"""A whole descheduler over fake doors: a scene as apiserver and Prometheus, a manual clock, a ledger in a directory."""

import collections.abc
import pathlib
import random
import threading

import flask
import yaml
from prometheus_client import CollectorRegistry

from descheduler.eviction.eviction_events import CONTROLLER, EventPublisher
from descheduler.eviction.evictor import Evictor
from descheduler.http import app
from descheduler.ledger.ledger import Ledger
from descheduler.metrics import Telemetry
from descheduler.previews import Previews
from descheduler.run_journal import Report
from descheduler.service import Parts, Service
from descheduler.snapshot import usage
from descheduler.snapshot.cluster_reader import Reader
from descheduler.snapshot.cluster_watch import ClusterView, ClusterWatch
from descheduler.sources.prometheus import PrometheusUsage
from kube import kinds
from kube.events import EventWriter
from kube.policy_events import PolicyEventPublisher, speaker
from policy import metrics as load_metrics
from policy.loading import loader
from policy.schema.load_policy import LoadPolicy
from promql import errors
from promql.door import Answer, Sample
from promql.queries import identity, node_queries, pod_queries
from runtime.health import Check
from runtime.options import ServiceOptions
from runtime.reloading import Reloading
from tests import clocks
from tests.unit.descheduler import doors
from tests.unit.descheduler.scenes import NOW, Scene, crowd


class FakePrometheus:
    """Answers the descheduler's queries out of a scene; its data is `age_seconds` old; it may be down or partial."""

    def __init__(self, scene: Scene, policy: LoadPolicy) -> None:
        self._scene = scene
        self._policy = policy
        self.age_seconds = 10.0
        self.down = False
        self.warnings: tuple[str, ...] = ()
        self.asked: list[tuple[str, float | None]] = []

    def show(self, scene: Scene) -> None:
        """What is measured from now on."""
        self._scene = scene

    def query(self, expression: str, *, at_seconds: float | None = None) -> Answer:
        self.asked.append((expression, at_seconds))
        if self.down:
            raise errors.Unreachable("Prometheus at http://p: connection refused")
        moment, asked = NOW if at_seconds is None else at_seconds, pod_queries.named(expression)
        rows = self._rows(asked.expression, moment)
        named = ((labels, value) for labels, value in rows if asked.names is None or labels["pod"] in asked.names)
        answer = Answer.of(tuple(Sample(labels, value, moment) for labels, value in named))
        if self.warnings:
            raise errors.Partial("; ".join(self.warnings), answer=answer, reasons=self.warnings)
        return answer

    def _rows(self, expression: str, moment: float) -> collections.abc.Iterator[tuple[dict[str, str], float]]:
        times = {node_queries.data_time("cpu"), node_queries.data_time("memory")}
        asked = self._policy.metrics_in_force
        texts = {node_queries.of_metric(metric): metric.name for metric in asked}
        for node, ratios in self._scene.readings.items():
            if expression in times:
                yield {"instance": f"{node}:9100"}, moment - self.age_seconds
            elif texts.get(expression) in ratios:
                yield {"instance": f"{node}:9100"}, ratios[texts[expression]]
        yield from self._pod_rows(expression, moment)

    def _pod_rows(self, expression: str, moment: float) -> collections.abc.Iterator[tuple[dict[str, str], float]]:
        windows = usage.pod_windows(self._policy)
        shares = {
            query: resource for resource, query in load_metrics.pod_queries(self._policy.metrics_in_force).items()
        }
        for key, used in self._scene.used.items():
            namespace, pod = key.split("/")
            figures = {
                pod_queries.cpu_cores(windows[load_metrics.CPU]): used.cpu_millicores / 1000,
                pod_queries.memory_bytes(windows[load_metrics.MEMORY]): used.memory_bytes,
                pod_queries.data_time("cpu"): moment - self.age_seconds,
                pod_queries.data_time("memory"): moment - self.age_seconds,
            }
            if expression in figures:
                yield {"namespace": namespace, "pod": pod}, figures[expression]
            elif (resource := shares.get(expression, "")) in used.shares:
                yield {"namespace": namespace, "pod": pod}, used.shares[resource]


class World:
    """The parts of one descheduler, to be driven by a test."""

    def __init__(
        self,
        scene: Scene,
        directory: pathlib.Path,
        *,
        pools: object = None,
        metrics: object = None,
        alone: object = False,
        **descheduler: object,
    ) -> None:
        self.policy_path = path = directory / "policy.yaml"
        sections = {"descheduler": descheduler, "pools": pools or [], "metrics": metrics or []}
        document = {"apiVersion": "evenload.io/v1alpha1", "kind": "LoadPolicy", **sections}
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        self.clock = clocks.ManualClock(NOW)
        self.policy = Reloading(path, loader.load, clock=self.clock)
        self.door = doors.FakeDoor()
        self.prometheus = FakePrometheus(scene, self.policy.load())
        self.ledger_path = directory / "ledger.sqlite"
        self.ledger = Ledger(self.ledger_path, alone=bool(alone)).open()
        self.leads = self.holds_lease = True
        self.stopping = threading.Event()
        self.registry = CollectorRegistry()
        self.show(scene)
        self.source = self.of_usage()
        given = ServiceOptions(path, namespace="ours")
        writer = EventWriter(self.door, controller=CONTROLLER, instance="me", clock=self.clock)
        announcer = EventPublisher(writer, self.ledger, self.clock)
        self.service = Service(
            Parts(
                policy=self.policy,
                reader=Reader(self.listed, self.door, self.source),
                ledger=self.ledger,
                evicter=Evictor(self.door, self.ledger, announcer, clock=self.clock),
                announcer=announcer,
                telemetry=Telemetry(self.registry),
                door=self.door,
                clock=self.clock,
                rng=random.Random(1),
                leads=lambda: self.leads,
                holds_lease=lambda: self.holds_lease,
                stopping=self.stopping,
                news=PolicyEventPublisher(self.policy, self.door, speaker("descheduler", given), clock=self.clock),
            )
        )
        self.previews = Previews(self.service)

    def of_usage(self) -> usage.UsageSource:
        """Where its usage comes from."""
        return PrometheusUsage(self.prometheus, identity.SeriesLabels())

    def show(self, scene: Scene) -> None:
        """What the apiserver lists from now on."""
        self.door.objects |= {
            kinds.NODES.plural: tuple(scene.nodes.values()),
            kinds.PODS.plural: tuple(scene.pods),
            kinds.REPLICA_SETS.plural: tuple(scene.owners),
            kinds.BUDGETS.plural: tuple(scene.budgets),
        }

    def listed(self) -> ClusterView:
        """What the apiserver lists now."""
        watch = ClusterWatch(self.door, clock=self.clock, rng=random.Random(1))
        watch.begin_lists()
        return watch.view()

    def report(self) -> Report:
        """The report of a run, which takes place."""
        report = self.service.run()
        assert report is not None
        return report

    @property
    def last(self) -> Report:
        """The report of the last run, which took place."""
        assert self.service.last is not None
        return self.service.last

    def reload(self, descheduler: str = "") -> None:
        """Put another `descheduler` section into the policy file, if one is passed, and poll until it counts."""
        if descheduler:
            head = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"
            self.policy_path.write_text(f"{head}descheduler: {descheduler}", encoding="utf-8")
        for _ in range(2):
            self.service.poll()

    def metric(self, name: str, **labels: str) -> float | None:
        """A sample of /metrics."""
        return self.registry.get_sample_value(name, labels)

    def pages(self) -> flask.Flask:
        """The HTTP application."""
        return app.create_app(
            self.service,
            self.ledger,
            self.policy,
            clock=self.clock,
            livez=[],
            registry=self.registry,
            details=[Check("circuit to Prometheus", lambda: None, lambda: "as told")],
        )


def two_to_evict(directory: pathlib.Path, **descheduler: object) -> World:
    """A descheduler whose next run would evict two pods in a row."""
    given = {"mode": "Enforce", "limits": {"perNode": 2}, **descheduler}
    return World(crowd("ab", gib=4.0), directory, **given)
