"""One sync of the annotator: read the windows, hold what is good, write what changed, renew the rest.

`annotator.service` calls `Annotator.sync` every period and `annotator.__main__` once for `--once`; both hand in the
nodes and pods as they are now. What a sync remembers for the next is the last good values, its own writes and
which complaints were logged already; everything else is read from the cluster, so a restart loses nothing that matters.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from annotator import change_logger, usage_sync
from annotator.collect import collector
from annotator.collect.last_good_values import EMPTY, Flags, LastGoodValues, NodeSet
from annotator.diagnostics import matching, scrapes, standing
from annotator.metrics import Telemetry
from annotator.placements import effectiveness, hot_counts
from annotator.placements.pod_index import PodIndex
from annotator.publish import node_annotations, node_publisher, write_plan
from annotator.sync_outcome import Outcome
from kube.door import KubeReader, KubeWriter
from kube.objects import Node
from kube.pods.pod_view import PodView
from policy import metrics as load_metrics
from policy.metrics import Metric
from policy.rules import hotspots
from policy.schema.load_policy import LoadPolicy
from promql import errors
from promql.door import Answer, QueryDoor
from promql.queries import identity
from runtime import clock, loop

PATCHING_RATIO: Final = 1 - loop.LEAST_REST_RATIO  # of a period, in which patches begin: the rest is the loop's


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the command line: where the heartbeat lives, how series name nodes, crane's keys or not; how many
    nodes are written at a time; and whether no further sync can write what this one has no time for.
    """

    namespace: str
    labels: identity.SeriesLabels
    crane: bool = False
    writers: int = write_plan.WRITERS
    once: bool = False


class World(NamedTuple):
    """The cluster as a sync finds it; pods by "namespace/name". Neither the mapping nor what is in it ever changes."""

    nodes: Sequence[Node]
    pods: Mapping[str, PodView]


class Rulebook(NamedTuple):
    """The policy in force and its content hash, which the heartbeat carries."""

    policy: LoadPolicy
    content_hash: str


class Annotator:
    """The state between syncs. `sync` belongs to one thread; `levels`, `last` and `shortage` may be read from others.

    `prometheus` None: nothing is known of owners' usage, and the load of nodes comes from `source`.
    """

    _worth: write_plan.Rules  # exists after the first sync

    def __init__(
        self,
        prometheus: QueryDoor | None,
        kube: KubeReader,
        writer: KubeWriter,
        settings: Settings,
        *,
        clock: clock.Clock,
        telemetry: Telemetry,
        publisher: node_publisher.Publisher | None = None,
        source: collector.Source | None = None,
    ) -> None:
        self._prometheus = prometheus
        self._source = source or collector.PrometheusSource(self._query, settings.labels)
        self._kube = kube
        self._settings = settings
        self._clock = clock
        self._telemetry = telemetry
        self._book = EMPTY
        self._held_seconds = -math.inf  # when the book was last brought up to date
        self._uids: tuple[str, ...] = ()  # of the nodes in the book
        self._policy: LoadPolicy | None = None  # of the last sync, as what follows
        self._fleet = NodeSet.of(())
        self._directory = identity.follow(())
        self._publisher = publisher or node_publisher.NodePublisher(
            writer, telemetry, clock, namespace=settings.namespace, writers=settings.writers
        )
        self._complaints = change_logger.ChangeLogger()
        publish = functools.partial(usage_sync.write, writer, settings.namespace)
        self.usage = usage_sync.OwnerUsage(self._ask_pods, publish, telemetry, clock.now)
        self.pods = PodIndex()
        selector = settings.labels.node_selector
        self._scrapes = None if prometheus is None else scrapes.Scrapes(prometheus, selector=selector)
        self.shortage = ""  # what windows lack; "" while nothing is wrong, or nothing is known
        self.levels: effectiveness.Levels | None = None
        self.last: Outcome | None = None

    def sync(self, world: World, rules: Rulebook) -> Outcome:
        """Read, hold, write, renew. Raises nothing that Prometheus or the apiserver does; the outcome says it."""
        with self._telemetry.sync_seconds.time():
            self.pods.follow(world.pods)
            outcome = self._sync(world.nodes, rules)
            if not outcome.read_nothing:
                self._look_aside(rules.policy)
                outcome = dataclasses.replace(outcome, usage_problem=self.usage.problem)
        result = "failed" if outcome.read_nothing else "whole" if outcome.whole else "partial"
        self._telemetry.syncs.labels(result).inc()
        stands = standing.Standing(self._book, rules.policy, self._clock.now())
        last = self._telemetry.last_sync
        last.nodes, last.unusable, last.spread = len(self._book.nodes), stands.unusable, stands.spread
        self._telemetry.placeholders_are(hot_counts.placeholders(self.pods.placeholders.values()))
        self.last = outcome
        return outcome

    def _look_aside(self, policy: LoadPolicy) -> None:
        """After the heartbeat, what may wait: what owners use, or the windows; never both in one sync."""
        if self._scrapes is None:
            self.shortage = self._source.shortage(policy.metrics_in_force)
        elif not self.usage.sync(self.pods, policy):
            self._scrapes.look(policy, now_seconds=self._clock.now())
            self.shortage = self._scrapes.sentence
        self._complaints.update("windows are not full", self.shortage)

    def freshness_line(self, policy: LoadPolicy) -> str:
        """Returns the freshness in words, for /readyz?verbose."""
        if not self._book.nodes:
            return "nothing read since the start; nodes keep what they carry until it is stale"
        unusable = standing.Standing(self._book, policy, self._clock.now()).unusable()
        return standing.line(unusable, len(self._book.nodes))

    @property
    def claims(self) -> str:
        """Describe the addresses that nodes claim from others; "" for none."""
        return matching.claims(self._directory)

    def _sync(self, nodes: Sequence[Node], rules: Rulebook) -> Outcome:
        if nodes is not self._fleet.nodes or rules.policy is not self._policy:
            self._policy, self._fleet = rules.policy, NodeSet.of(nodes)
            self._directory = identity.follow(nodes, self._directory)
            self._worth = write_plan.Rules.of(rules.policy, nodes, crane=self._settings.crane)
        fleet, known, labels = self._fleet, self._directory, self._settings.labels
        self._complaints.update("nodes claim addresses of others", self.claims)
        self._telemetry.contested_addresses.set(len(known.contested))
        self._resume(fleet, rules.policy)
        asked_seconds = self._clock.now()  # before the answers, which may be long on their way
        answers = self._source.read(fleet, known, rules.policy.metrics_in_force, self._book)
        self._report(answers)
        failures = tuple(one.error for one in answers if one.error is not None)
        if len(failures) == len(answers):
            return Outcome(len(nodes), (), failures, 0, {})
        self._hold(answers, fleet, rules.policy, asked_seconds)
        lagging = collector.lagging(self._book, answers)
        published = self._publish(fleet, rules, self._clock.now(), lagging)
        without = tuple(sorted(self._book.silent()))
        unmatched = matching.sentence(nodes, without, answers, known, labels=labels, absence=self._source.absence)
        self._complaints.update("nodes have no values", unmatched, nodes=len(without))
        standing = matching.standing(fleet.names, lagging.tolist(), answers)
        self._complaints.update("last values of nodes stand", standing, nodes=int(lagging.sum()))
        self._telemetry.nodes.labels("matched").set(len(nodes) - len(without))
        self._telemetry.nodes.labels("unmatched").set(len(without))
        answered = len(answers) - len(failures)
        return Outcome(
            len(nodes),
            without,
            failures,
            answered,
            *published,
            unmatched="; ".join(filter(None, (unmatched, standing))),
        )

    def _ask_pods(self, resource: str, window_seconds: float) -> usage_sync.UsageAnswer:
        """Queries the use of pods; raises PromqlError."""
        query, selector = functools.partial(self._query, f"pods_{resource}"), self._settings.labels.pod_selector
        answer = usage_sync.ask(query, resource, window_seconds, selector=selector)
        return usage_sync.within_nodes(answer, resource, self.pods.pods, self._fleet.nodes)

    def _query(self, name: str, expression: str) -> Answer:
        if self._prometheus is None:
            raise errors.ConfigError("no Prometheus: load comes from another source, which has nothing of this")
        with self._telemetry.query_seconds.labels(name).time():
            return self._prometheus.query(expression)

    def _hold(
        self, answers: Sequence[collector.MetricAnswer], fleet: NodeSet, policy: LoadPolicy, asked_seconds: float
    ) -> None:
        keep_seconds = collector.keep_seconds(policy.sync.period_seconds, policy.sync.stale_after_seconds)
        book = _of_these_machines(self._book, self._uids, fleet)
        self._book = collector.fold(book, answers, fleet.names, now_seconds=asked_seconds, keep_seconds=keep_seconds)
        self._held_seconds, self._uids = asked_seconds, fleet.uids
        self.levels = _levels(self._book, policy.metrics_in_force, asked_seconds)
        self._telemetry.oldest(self._book.oldest_by_metric())

    def _resume(self, fleet: NodeSet, policy: LoadPolicy) -> None:
        """Where nothing was held lately, hold what the nodes carry: after a start, and after leading again.

        So, too, after the clock was set back, when the age of what is held cannot be told. It fills the gaps of the
        first answers, and while there are none it is what /readyz can tell of.
        """
        now_seconds = self._clock.now()
        keep_seconds = collector.keep_seconds(policy.sync.period_seconds, policy.sync.stale_after_seconds)
        if 0 <= now_seconds - self._held_seconds < keep_seconds:
            return
        beat = node_annotations.last_heartbeat(self._kube, self._settings.namespace)
        texts = self._publisher.texts(fleet, now_seconds=now_seconds)
        carried = node_annotations.readings(texts, beat, now_seconds=now_seconds)
        metrics = load_metrics.names(policy.metrics_in_force)
        self._book = node_annotations.book(carried, metrics).aligned(fleet.names, metrics)
        self._uids = fleet.uids
        self._source.resume(fleet, policy.metrics_in_force, carried)

    def _publish(self, fleet: NodeSet, rules: Rulebook, now_seconds: float, lagging: Flags) -> node_publisher.Result:
        """Brings the values to the nodes, with the placements on them."""
        placed = self.pods.placed_since(now_seconds - max(hotspots.windows(rules.policy.hot_spots), default=0.0))
        hot = hot_counts.hot_counts(placed, rules.policy.hot_spots, now_seconds=now_seconds)
        worth, extent = self._worth, self._source.extent
        patching_seconds = math.inf if self._settings.once else PATCHING_RATIO * rules.policy.sync.period_seconds
        published = self._publisher.publish(
            write_plan.Publication(
                self._book, fleet, hot, worth, rules.content_hash, now_seconds, extent, lagging, patching_seconds
            )
        )
        if published.counted.get(write_plan.WRITTEN):
            self._telemetry.wakeups.inc(hot_counts.waiting(self.pods.unbound.values()))
        return published

    def _report(self, answers: Sequence[collector.MetricAnswer]) -> None:
        """Count and log what was not answered, refused or matched; a server that is down is one line, not six."""
        failed = {metric.name: _cause(error) for metric, _, error in answers if error is not None}
        for name in failed:
            self._telemetry.query_failures.labels(name).inc()
        first_error = next(iter(failed.values()), "")
        self._complaints.update("queries failed", first_error, metrics=", ".join(failed))
        unmatched: set[str] = set()
        for metric, answer, _ in answers:
            if answer is None:
                continue
            unmatched.update(answer.unmatched)
            for reason, count in answer.refused_by_reason.items():
                self._telemetry.invalid_samples.labels(reason).inc(count)
            refused = _few([f"{node}: {reason}" for node, reason in sorted(answer.refused.items())])
            self._complaints.update("values refused", refused, metric=metric.name, nodes=len(answer.refused))
        self._telemetry.unmatched_series.set(len(unmatched))
        first = _few(sorted(unmatched))
        self._complaints.update(
            "series match no node", first, label=self._settings.labels.node_label, series=len(unmatched)
        )


def _cause(error: collector.LoadError) -> str:
    """The failure itself, also while the circuit is open: one lasting trouble is one text, and so one log line."""
    return str(error.last if isinstance(error, errors.Paused) else error)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")


def _of_these_machines(book: LastGoodValues, uids: tuple[str, ...], fleet: NodeSet) -> LastGoodValues:
    """The book without what is held of namesakes: a new machine never goes on from their values."""
    if uids == fleet.uids:
        return book
    now = dict(zip(fleet.names, fleet.uids, strict=True))
    others = [name for name, uid in zip(book.nodes, uids, strict=True) if now.get(name) != uid]
    return book.without(others) if others else book


def _levels(book: LastGoodValues, metrics: Sequence[Metric], at_seconds: float) -> effectiveness.Levels | None:
    """The current averages of all nodes, by which placements are judged."""
    averages = {one.resource: one.name for one in reversed(metrics) if one.statistic == load_metrics.AVERAGE}
    cpu, memory = (book.column(averages.get(resource, "")) for resource in load_metrics.RESOURCES)
    return effectiveness.levels(at_seconds, cpu, memory)
