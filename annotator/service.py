"""The long-running annotator: caches, leadership, the sync loop, the figures and the plain routes, put together.

`annotator.__main__` makes one `Service` and calls `run`. Threads: one reader per reflector, the election, the policy's
poll, the ops server, and the sync loop on the main thread. Only the leader reads Prometheus, writes and judges
placements; the others keep their caches warm and answer their probes.
"""

import random
import threading
from collections.abc import Callable, Mapping

import flask
from prometheus_client import CollectorRegistry

from annotator import metrics, node_sync, usage_sync
from annotator.placements import effectiveness, hot_counts
from kube import kinds, policy_events
from kube.cache import reflector, watch_status
from kube.door import KubeDoor
from kube.http import client_metrics, undecodable
from kube.objects import Node
from kube.pods import compact
from kube.pods.left_out import PodsLeftOut
from kube.pods.pod_view import PodView
from policy.schema.load_policy import LoadPolicy
from runtime import clock, health, hosts, loop, ops_server, reload_metrics
from runtime.reloading import POLL_SECONDS, Reloading

IDLE_SECONDS = 1.0  # how often a follower, or a leader whose caches still fill, looks again
LATE_SECONDS = (
    300.0  # a sync may take this long (time limits of six queries and many patches) before the service counts as stuck
)


class Service:
    """Everything of a running annotator; `leads` says whether this replica publishes, `led_until` (Unix seconds) until
    when another did, or an earlier life of ours.
    """

    def __init__(
        self,
        annotator: node_sync.Annotator,
        door: KubeDoor,
        policy: Reloading[LoadPolicy],
        *,
        leads: Callable[[], bool],
        led_until: Callable[[], float | None] = lambda: None,
        clock: clock.Clock,
        rng: random.Random,
        news: policy_events.PolicyEventPublisher | None = None,
        circuit: Callable[[], str] | None = None,
        left_out: undecodable.UndecodableObjects | None = None,
    ) -> None:
        self._annotator = annotator
        self._news = news
        self._circuit = circuit
        self._policy = policy
        self._leads = leads
        self._led_until = led_until
        self._clock = clock
        self._rng = rng
        self._since_seconds = clock.now()
        self._heartbeat = health.Heartbeat()
        self.nodes = reflector.Reflector(door, kinds.NODES, clock=clock, rng=rng)
        self.pods = reflector.Reflector(door, compact.PODS, clock=clock, rng=rng, on_change=self.on_pod)
        self.watches = watch_status.Watches({"nodes": self.nodes, "pods": self.pods})
        self._left_out = left_out or undecodable.UndecodableObjects(clock)
        self.results = effectiveness.Results()
        self._pods_left_out = PodsLeftOut()
        self._shown_nodes: Mapping[str, Node] = {}
        self._nodes: tuple[Node, ...] = ()

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set."""
        self.nodes.start(stop)
        self.pods.start(stop)
        polling = loop.Loop("policy", self.poll, period_seconds=lambda: POLL_SECONDS, clock=self._clock, rng=self._rng)
        loop.start_thread("policy", polling.run, stop)
        syncing = loop.Loop(
            "sync",
            self.sync,
            period_seconds=lambda: self._policy.current.sync.period_seconds if self._ready() else IDLE_SECONDS,
            clock=self._clock,
            rng=self._rng,
            heartbeat=self._heartbeat,
        )
        syncing.run(stop)

    def sync(self) -> None:
        """One cycle, if this replica leads and has seen the whole cluster; then placements are judged by it."""
        if not self._ready():
            self.results.end()
            return
        since_seconds = self._led_until() or self._since_seconds
        pods = self.pods.snapshot
        self.results.begin(lambda: pods().values(), since_seconds=since_seconds, now_seconds=self._clock.now())
        world = node_sync.World(self._fleet(), pods())
        self._annotator.sync(world, node_sync.Rulebook(self._policy.current, self._policy.content_hash))
        self.results.settle(self._levels(), now_seconds=self._clock.now())
        self._look_back(world)

    def poll(self) -> None:
        """Take over a changed policy file; an invalid one is refused and the last good one stays. Then the Event."""
        self._policy.poll()
        if self._news is not None:
            self._news.tell()

    def on_pod(self, old: PodView | None, new: PodView | None) -> None:
        """Judge a scheduling result by what is known of the nodes at this moment.

        In a lapse of leadership it waits: the next sync judges it, or leaves it to the next leader.
        """
        self._pods_left_out.changed(old, new)
        placed = hot_counts.scheduling_result(old, new, since_seconds=self._since_seconds)
        if placed is not None:
            self.results.add(placed, self._levels() if self._leads() else None)

    def _fleet(self) -> tuple[Node, ...]:
        """The nodes as they are now; the same tuple while none of them changes."""
        nodes = self.nodes.snapshot()
        if nodes is not self._shown_nodes:
            self._shown_nodes, self._nodes = nodes, tuple(nodes.values())
        return self._nodes

    def _look_back(self, world: node_sync.World) -> None:
        """Once owners' usage was read, what every pod uses is known, too."""
        levels, usage_read = self._levels(), self._annotator.usage.read
        look = None
        if levels is not None and usage_read is not None:
            by_name = {node.metadata.name: node for node in world.nodes}
            look = effectiveness.Look(levels, usage_read, self._annotator.pods.by_uid, by_name)
        spacing_seconds = usage_sync.PERIODS * self._policy.current.sync.period_seconds
        looks_per_hour = effectiveness.SPAN_SECONDS / spacing_seconds
        self.results.look_back(look, now_seconds=self._clock.now(), looks_per_hour=looks_per_hour)

    def app(self, registry: CollectorRegistry) -> flask.Flask:
        """The application of the plain routes, with the service's own figures on /metrics."""
        registry.register(metrics.Figures(lambda: self.results.tally, lambda: self.results.stayed))
        registry.register(reload_metrics.ReloadCollector(self._policy))
        registry.register(client_metrics.DoorCollector(self._left_out, self.watches))
        registry.register(self._pods_left_out)
        app = flask.Flask("annotator")
        late = self._heartbeat.check(
            "sync loop", self._clock, limit_seconds=lambda: LATE_SECONDS + 3 * self._policy.current.sync.period_seconds
        )
        ready = [
            health.Check("policy", lambda: None, self._policy.line),
            health.Check("last sync", lambda: None, self._sync_state),
            health.Check("windows", lambda: None, lambda: self._annotator.shortage or "nothing wrong is known"),
            health.Check("freshness", lambda: None, self._freshness),
            *([health.Check("circuit to Prometheus", lambda: None, self._circuit)] if self._circuit else []),
            *self.watches.checks(),
            self._left_out.check(),
            self._pods_left_out.check(),
            health.Check("addresses", lambda: None, lambda: self._annotator.claims or "each of one node"),
            health.event_check("nodes listed", self.nodes.synced, "the first list of nodes is not complete"),
            health.event_check("pods listed", self.pods.synced, "the first list of pods is not complete"),
        ]
        app.before_request(hosts.check)
        app.register_blueprint(
            ops_server.ops_blueprint(livez=[late], readyz=ready, registry=registry, configz=self.configz)
        )
        return app

    def configz(self) -> dict[str, object]:
        """Returns the policy in force, its state, the last sync, leadership, and nodes without values, for /configz."""
        policy, last = self._policy, self._annotator.last
        return {
            "policy": policy.current.as_file(),
            "policyState": policy.state(),
            "leader": self._leads(),
            "lastSync": None if last is None else last.as_json(),
        }

    def _sync_state(self) -> str:
        """Never a reason to be unready: stale data means neutral answers and an alert, not an outage."""
        last = self._annotator.last
        if not self._leads():
            return "another replica leads"
        if last is None:
            return "none yet"
        values = f"{last.nodes - len(last.without_values)} of {last.nodes} nodes have values"
        return "; ".join(["nothing could be read" if last.read_nothing else values, *last.problems()])

    def _freshness(self) -> str:
        return self._annotator.freshness_line(self._policy.current) if self._leads() else "another replica leads"

    def _ready(self) -> bool:
        return self._leads() and self.nodes.synced.is_set() and self.pods.synced.is_set()

    def _levels(self) -> effectiveness.Levels | None:
        levels = self._annotator.levels
        stale_after_seconds = self._policy.current.sync.stale_after_seconds
        return levels if levels is not None and self._clock.now() - levels.at_seconds < stale_after_seconds else None
