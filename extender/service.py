"""The extender's parts wired together: watches that feed the view, the policy that is polled, and what the probes
report.

`__main__` makes one in gunicorn's worker and starts it there; `once` is the same without watches, for `--once`.
Nothing is connected and no thread runs before `start`.
"""

import functools
import gc
import random
import threading
from typing import Final

import flask
import prometheus_client

from extender import deadline, metrics
from extender.http import app, fast_path, tls
from extender.state import cluster_view, digests, node_cache, placements
from extender.verbs import decision_log, explain, shadow_log
from kube import door, errors, kinds, objects, policy_events
from kube.cache import reflector, watch_status
from kube.http import client_metrics, undecodable
from kube.pods import compact, pod_view
from kube.pods.left_out import PodsLeftOut
from policy.contract import heartbeat, owner_usage
from policy.schema import load_policy
from runtime import clock, health, logs, loop, ops_server, reload_metrics, reloading

log = logs.get(__name__)

# Ended pods are never sent, so that their going is a deletion and a cluster full of finished Jobs costs nothing.
LIVING: Final = "status.phase!=Succeeded,status.phase!=Failed"
HEARTBEAT_ONLY: Final = f"metadata.name={heartbeat.CONFIG_MAP}"
USAGE_ONLY: Final = f"metadata.name={owner_usage.CONFIG_MAP}"
# A picture that may be old flags every decision made by it; readings and placements age as they do anyway.
STALE_WATCHES: Final = {"pods": "stale_pod_watch", "nodes": "stale_node_watch"}
STUCK_SECONDS: Final = 120.0  # over the 75 s for which an apiserver that trickles can hold the loop's Event

PolicyFile = reloading.Reloading[load_policy.LoadPolicy]


class Service:
    """One extender process: a view, the watches and the loop that keep it up to date, and the application over it."""

    def __init__(
        self,
        kube: door.KubeDoor,
        policy_file: PolicyFile,
        *,
        namespace: str,
        ticking: clock.Clock,
        rng: random.Random,
        security: tls.Security | None = None,
        news: policy_events.PolicyEventPublisher | None = None,
        deadline_seconds: float = deadline.DEFAULT_SECONDS,
        table: node_cache.NodeSourceFactory = node_cache.NodeTable,
        left_out: undecodable.UndecodableObjects | None = None,
    ) -> None:
        self._deadline_seconds = deadline_seconds
        self._clock = ticking
        self._news = news
        self._policy_file = policy_file
        policy_file.poll(at_start=True)  # a worker after SIGHUP or a crash is younger than what its master read
        self._security = security
        self._registry = prometheus_client.CollectorRegistry()
        self._metrics = metrics.Metrics(self._registry)
        self._shadow = shadow_log.ShadowLog(self._metrics)
        if security is not None:
            security.export(self._registry)
        self._registry.register(metrics.ReplicaStateCollector(self._standing))
        self._registry.register(reload_metrics.ReloadCollector(policy_file))
        self._pods_left_out = PodsLeftOut()
        self._registry.register(self._pods_left_out)
        self.view = cluster_view.ClusterView(policy_file.current, policy_file.content_hash, ticking.now(), table=table)
        reading = functools.partial(reflector.Reflector, kube, clock=ticking, rng=rng)
        many = functools.partial(reading, cached_start=True)
        self.nodes = many(kinds.NODES, on_change=self.view.nodes.node_changed)
        self.pods = many(compact.PODS, field_selector=LIVING, on_change=self._pod_changed)
        config_map = functools.partial(reading, kinds.CONFIG_MAPS, namespace=namespace)
        self._heartbeats = config_map(field_selector=HEARTBEAT_ONLY, on_change=self._heartbeat_changed)
        self._usage = config_map(field_selector=USAGE_ONLY, on_change=self._usage_changed)
        named = {"nodes": self.nodes, "pods": self.pods, "heartbeat": self._heartbeats, "usage": self._usage}
        self.watches = watch_status.Watches(named)
        self._left_out = left_out or undecodable.UndecodableObjects(ticking)
        self._registry.register(client_metrics.DoorCollector(self._left_out, self.watches))
        self._settled = False
        self._clocks_apart_seconds = ticking.now() - ticking.monotonic()
        self._fast_path: fast_path.FastPath | None = None
        self._beat = health.Heartbeat()
        self._polling = loop.Loop(
            "policy",
            self.poll_files,
            period_seconds=lambda: reloading.POLL_SECONDS,
            clock=ticking,
            rng=rng,
            heartbeat=self._beat,
            on_failure=lambda _error: self._metrics.loop_failures.inc(),
        )

    def app(self) -> flask.Flask:
        """The application over this service's view: the usual questions do not get as far as Flask, and what
        kube-scheduler waits for is answered in time.
        """
        plain_routes = ops_server.ops_blueprint(
            livez=[self._beat.check("policy loop", self._clock, limit_seconds=lambda: STUCK_SECONDS)],
            readyz=self._readiness(),
            registry=self._registry,
            configz=self._configz,
        )
        memory = decision_log.DecisionLog(f"{1000 * self._clock.now():.0f}")
        parts = app.Parts(self.view, self._clock, self._metrics, memory, self._shadow, self.pods.get)
        application = app.create_app(parts, plain_routes)
        self._fast_path = fast_path.FastPath(parts, application.wsgi_app)
        application.wsgi_app = deadline.DeadlineApplication(  # type: ignore[method-assign]
            self._fast_path, app.TIMED, limit_seconds=self._deadline_seconds, ticking=self._clock
        )
        return application

    def start(self, stop: threading.Event) -> None:
        """Start the watches, the policy loop and what looks ahead; they end when `stop` is set."""
        self.view.stale_watches = self._stale_watches
        for watch in (self.nodes, self.pods, self._heartbeats, self._usage):
            watch.start(stop)
        loop.start_thread("policy", self._polling.run, stop)
        loop.start_thread("score-table", self.look_ahead, stop)

    def dropped(self, reason: str) -> None:
        """Count a connection that was ended before its answer."""
        self._metrics.dropped.labels(reason).inc()

    def look_ahead(self, stop: threading.Event) -> None:
        """Make the score table of each second when it begins, so that no request waits for it; one in that very moment
        makes it, or waits.
        """
        while not self._clock.wait(stop, 1.0 - self._clock.now() % 1.0):
            if self._fast_path is not None and self._listed:
                loop.attempt("score table", self._fast_path.ahead, lambda _error: self._metrics.loop_failures.inc())

    def catch_up(self, *, pods: bool = True, others: bool = True) -> None:
        """One turn of every watch on the caller's thread instead of `start`, for a door whose watches end; without
        those that cannot have anything to tell, or that the caller speaks for.
        """
        if others:
            self.nodes.catch_up()
        if pods:
            self.pods.catch_up()
        if others:
            self._heartbeats.catch_up()
            self._usage.catch_up()

    def poll_files(self) -> None:
        """One turn of the loop: the certificate first, as a certificate that runs out stops everything."""
        self._settle()
        if self._security is not None:
            self._security.poll()
        self._follow_clock()
        self.poll_policy()

    def _follow_clock(self) -> None:
        """Count the placements again when the machine's clock was set: by the one before, pods placed lately were taken
        for long gone, or those of an hour ago for new.
        """
        before, apart_seconds = self._clocks_apart_seconds, self._clock.now() - self._clock.monotonic()
        self._clocks_apart_seconds = apart_seconds
        if abs(apart_seconds - before) > placements.SET_BACK_SECONDS:
            log.warning("clock was set, placements counted again", seconds=round(apart_seconds - before, 1))
            self._use_policy()

    def _settle(self) -> None:
        """Once the lists are in, leave what they filled memory with out of all later garbage collections: one of them
        would look at every node and pod while requests wait.
        """
        if not self._settled and self._listed:
            gc.collect()
            gc.freeze()
            self._settled = True

    def _stale_watches(self) -> tuple[str, ...]:
        return tuple([cause for name, cause in STALE_WATCHES.items() if self.watches.is_stale(name)])

    @property
    def _listed(self) -> bool:
        """Whether nodes and pods were listed."""
        return self.nodes.synced.is_set() and self.pods.synced.is_set()

    def poll_policy(self) -> None:
        """Take over a changed policy file; an invalid one is refused and the last good one stays. Then the Event."""
        if self._policy_file.poll():
            self._use_policy()
        if self._news is not None:
            self._news.tell()

    def _use_policy(self) -> None:
        current, content_hash = self._policy_file.current, self._policy_file.content_hash
        self.view.use_policy(current, content_hash, lambda: self.pods.snapshot().values(), self._clock.now())

    def _readiness(self) -> list[health.Check]:
        """Ready once nodes and pods were listed: before, every answer would be neutral. Stale readings do not matter
        here, nor does a refused edit of the policy: it only shows (`?verbose`).
        """
        checks = [
            health.event_check("nodes", self.nodes.synced, "not listed yet"),
            health.event_check("pods", self.pods.synced, "not listed yet"),
            health.Check("policy", lambda: None, self._policy_file.line),
            health.Check("view", lambda: None, lambda: digests.line(self.view, self._clock.now())),
            *self.watches.checks(),
            self._left_out.check(),
            self._pods_left_out.check(),
        ]
        if self._security is not None:
            checks.append(health.Check("certificate", lambda: None, self._security.line))
        return checks

    def _pod_changed(self, old: compact.Pod | None, new: compact.Pod | None) -> None:
        self._pods_left_out.changed(old, new)
        if old is None or new is None or not pod_view.counts_alike(old, new):
            self.view.pod_changed(old, new, self._clock.now())
            if self.view.in_force.shadow or self._shadow:  # the latter: pods of answers before the mode changed
                self._shadow.pod_changed(old, new, self._clock.now())

    def _heartbeat_changed(self, _old: objects.ConfigMap | None, new: objects.ConfigMap | None) -> None:
        self.view.nodes.heartbeat_changed(None if new is None else new.data, self._clock.now())

    def _usage_changed(self, _old: objects.ConfigMap | None, new: objects.ConfigMap | None) -> None:
        self.view.usage_changed(None if new is None else new.data, self._clock.now())

    def _standing(self) -> dict[str, int | dict[str, int]]:
        now_seconds = self._clock.now()
        return {
            "assumed_placements": self.view.placements.assumed(now_seconds),
            "awaited_pods": self.view.awaited(now_seconds),
            "nodes": explain.states(self.view, now_seconds),
            "node_thresholds": explain.thresholds(self.view),
            "owner_means": self.view.placements.estimates.owners(now_seconds),
            "heartbeat_matches": self.view.nodes.heartbeat_state().matches,
            "shadow_mode": self.view.in_force.shadow,
        }

    def _configz(self) -> object:
        return {"policy": self._policy_file.current.as_file(), "policyState": self._policy_file.state()}


def read_once(kube: door.KubeDoor, view: cluster_view.ClusterView, *, namespace: str, now_seconds: float) -> None:
    """Fill a view from one list of each kind, without watching; KubeError when the apiserver cannot be asked."""
    for node in kube.list(kinds.NODES).items:
        view.nodes.node_changed(None, node)
    for pod in kube.list(compact.PODS, field_selector=LIVING).items:
        view.pod_changed(None, pod, now_seconds)
    view.nodes.heartbeat_changed(_data(kube, heartbeat.CONFIG_MAP, namespace), now_seconds)
    view.usage_changed(_data(kube, owner_usage.CONFIG_MAP, namespace), now_seconds)


def _data(kube: door.KubeDoor, name: str, namespace: str) -> dict[str, str] | None:
    """A ConfigMap's data, None when there is no such ConfigMap."""
    try:
        return kube.get(kinds.CONFIG_MAPS, name, namespace=namespace).data
    except errors.NotFound:
        return None
