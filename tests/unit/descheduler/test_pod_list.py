"""The list of pods that runs beside everything else: used once, while it is of this moment, and its failure is told."""

import pathlib
import subprocess
import sys
from typing import Any

import pytest

from descheduler.snapshot import cluster_reader, pod_list
from kube import errors, kinds
from kube.door import Listing
from promql.queries import identity
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW
from tests.unit.descheduler.worlds import World

EARLY = ("numpy", "pydantic", "requests", "prometheus_client", "structlog", "sqlite3", "yaml", "descheduler.wiring")


@pytest.fixture
def here(tmp_path: pathlib.Path) -> World:
    return World(scenes.hot_and_cool(), tmp_path)


def taken(here: World, reader: cluster_reader.Reader) -> set[str]:
    """The keys of the pods that a snapshot of NOW holds."""
    return {pod.key for pod in reader.take(here.policy.current, now_seconds=NOW).pods}


def reader_of(here: World, begun_at_seconds: float) -> cluster_reader.Reader:
    """One whose pods were asked for then, and have gone since."""
    begun = pod_list.Pods(here.door, begun_at_seconds=begun_at_seconds)
    begun.wait()
    here.door.objects[kinds.PODS.plural] = ()
    return cluster_reader.Reader(here.door, here.prometheus, identity.SeriesLabels(), begun)


def test_pods_that_were_asked_for_before_are_those_of_the_first_snapshot_only(here: World) -> None:
    known = {pod.key for pod in here.door.objects[kinds.PODS.plural]}
    reader = reader_of(here, NOW - 2)
    assert known
    assert taken(here, reader) == known
    assert taken(here, reader) == set()


@pytest.mark.parametrize("age_seconds", [pod_list.LONGEST_SECONDS + 1, -1], ids=["long ago", "by a clock set back"])
def test_pods_of_another_time_are_asked_for_again(here: World, age_seconds: float) -> None:
    assert taken(here, reader_of(here, NOW - age_seconds)) == set()


def test_a_list_that_failed_fails_the_snapshot_that_needs_it(here: World) -> None:
    here.door.unreachable = True
    begun = pod_list.Pods(here.door, begun_at_seconds=NOW)
    begun.wait()
    here.door.unreachable = False
    reader = cluster_reader.Reader(here.door, here.prometheus, identity.SeriesLabels(), begun)
    with pytest.raises(errors.Unreachable):
        taken(here, reader)
    assert taken(here, reader)


@pytest.mark.parametrize(
    "refusal",
    [errors.Unreachable("cut off"), errors.ServerError("GET", status=504, reason="Timeout", message="too slow")],
)
def test_an_answer_too_long_for_the_apiserver_is_asked_for_in_pages(
    here: World, monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    asked, whole = [], here.door.list

    def short(kind: kinds.Kind[Any], *, limit: int, **more: Any) -> Listing[Any]:
        asked.append(limit)
        if not limit:
            raise refusal
        return whole(kind, **more)

    monkeypatch.setattr(here.door, "list", short)
    found = pod_list.Pods(here.door, begun_at_seconds=NOW).items()
    assert found == here.door.objects[kinds.PODS.plural]
    assert asked == [0, pod_list.PODS_A_PAGE]


def test_the_first_list_waits_for_few_libraries() -> None:
    code = f"import sys, descheduler.__main__; print([name for name in {EARLY!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_where_a_list_takes_no_time_it_is_asked_for_when_it_is_needed(here: World) -> None:
    reader = cluster_reader.Reader(here.door, here.prometheus, identity.SeriesLabels(), listing=pod_list.Late)
    assert taken(here, reader) == {pod.key for pod in here.door.objects[kinds.PODS.plural]}
    here.door.objects[kinds.PODS.plural] = ()
    assert taken(here, reader) == set()
