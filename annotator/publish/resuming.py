"""Readings to start from in a process without values of its own: those on the nodes, as far as a heartbeat confirms
them.

After a restart or a change of leader `annotator.node_sync` takes over what stands on the nodes, each value as old as
its reading's effective time, by the rule the extender reads it with: the later of its own `at` and the last heartbeat
that matched. So a restart neither loses a value nor makes one look fresher, whatever the first answers lack.
"""

from collections.abc import Mapping, Sequence

from annotator.collect.last_good_values import GoodValue, LastGoodValues
from annotator.collect.node_windows import ConfirmedReading
from kube import errors, kinds
from kube.door import KubeReader
from policy.contract import freshness, heartbeat, load_annotation
from runtime import logs

log = logs.get(__name__)


def last_heartbeat(door: KubeReader, namespace: str) -> heartbeat.Heartbeat | None:
    """The heartbeat as it stands; None when there is none or it cannot be read, and then only young readings count."""
    try:
        return heartbeat.decode(door.get(kinds.CONFIG_MAPS, heartbeat.CONFIG_MAP, namespace=namespace).data)
    except errors.NotFound:
        return None
    except (errors.KubeError, heartbeat.HeartbeatError) as error:
        log.warning("last heartbeat unread, only young readings are taken over", error=str(error))
        return None


def carried(
    texts: Mapping[str, str], beat: heartbeat.Heartbeat | None, *, now_seconds: float
) -> dict[str, ConfirmedReading]:
    """The readings in the nodes' texts (raw by node name); what cannot be read or is from the future is left out."""
    times = heartbeat.EffectiveTimes()
    for node, text in texts.items():
        times.put(node, text)
    if beat is not None:
        times.accept(beat, now_seconds)
        times.settle()
    readings = {node: _carried(text, times.matched_seconds(node), now_seconds) for node, text in texts.items()}
    return {node: one for node, one in readings.items() if one is not None}


def book(carried: Mapping[str, ConfirmedReading], metrics: Sequence[str]) -> LastGoodValues:
    """The last good values in these readings."""
    held = {
        node: {name: GoodValue(ratio, one.confirmed_seconds) for name, ratio in one.reading.values.items()}
        for node, one in carried.items()
    }
    return LastGoodValues.of(held, metrics)


def _carried(text: str, matched_seconds: float, now_seconds: float) -> ConfirmedReading | None:
    try:
        reading = load_annotation.decode(text)
    except load_annotation.AnnotationError:
        return None
    confirmed_seconds = max(reading.at_seconds, matched_seconds)
    if confirmed_seconds > now_seconds + freshness.MAX_AHEAD_SECONDS:
        return None
    return ConfirmedReading(reading, min(confirmed_seconds, now_seconds))
