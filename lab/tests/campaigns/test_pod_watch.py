"""The watch by which runs with faults note pods that leave, over answers of an apiserver that are written here."""

import contextlib
from collections.abc import Iterator
from typing import Any

from lab.campaigns.chaos.judging import Departure, Recorded
from lab.campaigns.chaos.pod_watch import PodWatch
from lab.cluster import api
from tests.e2e import waiting


def pod(number: int, *, ready: bool = True, leaving: bool = False) -> dict[str, Any]:
    metadata = {"name": f"web-{number}", "uid": str(number), "labels": {"app": "web"}}
    spec = {"nodeName": f"node-{number}"}
    deletion = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaving else {}
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {"metadata": {**metadata, **deletion}, "spec": spec, "status": {"conditions": conditions}}


class ScriptedApi(api.Api):
    """Lists three Ready pods, then sends these events, then fails."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self._events = events

    def get(self, path: str, **query: str) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": "7"}, "items": [pod(number) for number in range(3)]}

    def watch(self, path: str, *, resource_version: str, seconds: float) -> Iterator[dict[str, Any]]:
        assert resource_version == "7"
        yield from self._events
        raise api.ApiError("gone", 0)


def watched(*events: tuple[str, dict[str, Any]], number: int) -> PodWatch:
    """A watch of these events, once it has noted so many departures."""
    watch = PodWatch(ScriptedApi([{"type": kind, "object": item} for kind, item in events]))
    watch.start()
    with contextlib.closing(contextlib.ExitStack()) as undo:
        undo.callback(watch.end)
        waiting.eventually(lambda: len(watch.departures) >= number, 30, "the departures")
    return watch


def departures(*events: tuple[str, dict[str, Any]], number: int) -> list[Departure]:
    """The departures that a watch notes of these events, without their times."""
    noted = watched(*events, number=number).departures
    return [one._replace(at_seconds=0.0) for one in noted[:number]]


def test_a_ready_pod_that_begins_to_leave_is_a_departure_once() -> None:
    found = departures(
        ("MODIFIED", pod(1, leaving=True)), ("DELETED", pod(1, leaving=True)), ("DELETED", pod(2)), number=2
    )
    assert found == [Departure("web", "web-1", "1", 2, 0.0), Departure("web", "web-2", "2", 1, 0.0)]


def test_a_pod_that_is_not_ready_neither_departs_nor_counts() -> None:
    found = departures(
        ("MODIFIED", pod(1, ready=False)), ("DELETED", pod(1, ready=False)), ("ADDED", pod(3, ready=False)),
        ("DELETED", pod(2)), number=1,
    )  # fmt: skip
    assert found == [Departure("web", "web-2", "2", 1, 0.0)]


def test_a_row_gets_the_workload_and_the_node_that_its_pod_had() -> None:
    watch = watched(("DELETED", pod(1)), number=1)
    row = Recorded(1, "r1", "1", "node-7", "evicted", 0.0, "shop", "api")
    assert watch.corrected(row) == row._replace(node="node-1", workload="web")
    unseen = row._replace(pod_uid="99")
    assert watch.corrected(unseen) == unseen
    assert watch.uids("web") == {"0", "1", "2"}
    assert watch.uids("api") == set()
