"""Brings last good values to the nodes: patches of those whose readings moved, and heartbeats that confirm the others.

`annotator.node_sync` calls `publish` in every sync, with values of the nodes as they are. `NodePublisher` is the one of
a cluster; a simulation hands the values over in another one (`simulator.world.handing`).
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from annotator import change_logger
from annotator.collect.last_good_values import NodeSet
from annotator.metrics import Telemetry
from annotator.publish import write_plan
from annotator.publish.node_annotations import NodeAnnotationCache
from annotator.publish.write_plan import Publication
from kube import errors
from kube.door import KubeWriter
from policy.contract import heartbeat
from runtime import clock as clocks


class Result(NamedTuple):
    """How many nodes were written, gone, failed or skipped, the first error, and that of the heartbeat."""

    counted: Mapping[str, int]
    error: errors.KubeError | None
    beat_error: errors.KubeError | None


class Publisher(Protocol):
    """Publishes values; used by one thread."""

    def texts(self, fleet: NodeSet, *, now_seconds: float) -> Mapping[str, str]:
        """Returns the raw annotations by node name, only of nodes that carry one."""
        ...

    def publish(self, publication: Publication) -> Result:
        """Publishes the values; errors of the apiserver are in the result."""
        ...


class NodePublisher:
    """Writes annotations and the heartbeat through the Kubernetes door, at most `writers` nodes at a time.

    The heartbeat goes first, without the nodes about to be patched, so that no quiet node waits for a slow write; and
    once more when the patches are done, with those that succeeded.
    """

    def __init__(
        self, kube: KubeWriter, telemetry: Telemetry, clock: clocks.Clock, *, namespace: str, writers: int
    ) -> None:
        self._kube = kube
        self._clock = clock
        self._telemetry = telemetry
        self._namespace = namespace
        self._writers = writers
        self._cooled = ""  # the node that the next sync writes again, see `write_plan.weigh`
        self._unwritten: Mapping[str, str] = {}  # results of the last sync, without those written
        self._standing = NodeAnnotationCache()
        self._complaints = change_logger.ChangeLogger()

    def texts(self, fleet: NodeSet, *, now_seconds: float) -> Mapping[str, str]:
        """See Publisher."""
        return self._standing.texts(fleet, now_seconds=now_seconds)

    def publish(self, publication: Publication) -> Result:
        """See Publisher."""
        fleet, now_seconds = publication.fleet, publication.now_seconds
        carried = self._standing.carried(fleet, publication.book.metrics, now_seconds=now_seconds)
        chosen = write_plan.weigh(publication, carried, again=self._cooled, unwritten=self._unwritten)
        patches, self._cooled = chosen.patches, chosen.cooled
        lagging = publication.lagging_names[: heartbeat.EXCLUDED_MOST]
        texts, excluded = write_plan.vouched(carried.texts, patches, {}, lagging)
        if patches and texts:
            self._beat(publication, lagging, texts, excluded)
        until_seconds = self._clock.monotonic() + publication.patching_seconds
        late = lambda: self._clock.monotonic() >= until_seconds  # noqa: E731
        results = write_plan.write(self._kube, patches, writers=self._writers, late=late)
        self._unwritten = {node: one.result for node, one in results.items() if one.result != write_plan.WRITTEN}
        for patch in patches:
            if results[patch.node].result == write_plan.WRITTEN:
                before = carried.texts.get(patch.node)
                self._standing.wrote(patch.node, patch.uid, patch.row, before, now_seconds=now_seconds)
        counted = Counter([written.result for written in results.values()])
        error = next((written.error for written in results.values() if written.error is not None), None)
        failed, skipped = counted[write_plan.FAILED], counted[write_plan.SKIPPED]
        self._complaints.update("node annotations not written", error, failed=failed, skipped=skipped)
        for result, count in counted.items():
            self._telemetry.patches.labels(result).inc(count)
        texts, excluded = write_plan.vouched(carried.texts, patches, results, lagging)
        return Result(counted, error, self._beat(publication, lagging, texts, excluded))

    def _beat(
        self, publication: Publication, lagging: Collection[str], texts: Mapping[str, str], excluded: Collection[str]
    ) -> errors.KubeError | None:
        """Both heartbeats of a sync have one time, or the second could be older and be ignored."""
        at_seconds = write_plan.confirmed_seconds(publication.book, lagging, now_seconds=publication.now_seconds)
        digest = heartbeat.digest(texts)
        data = heartbeat.encode(at_seconds, publication.content_hash, len(texts), digest, excluded=excluded)
        try:
            write_plan.beat(self._kube, self._namespace, data)
        except errors.KubeError as error:
            self._telemetry.heartbeats.labels("failed").inc()
            self._complaints.update("heartbeat not written", error, namespace=self._namespace)
            return error
        self._telemetry.heartbeats.labels("written").inc()
        self._complaints.update("heartbeat not written", None)
        return None
