"""`evenload breaker`: what rests and until when, and closing by hand what a person means."""

import json
import pathlib
from collections.abc import Iterator

import pytest

from descheduler.ledger.rows import Run
from tests import commands
from tests.unit.cli import deschedulers
from tests.unit.descheduler.scenes import NOW, Scene


@pytest.fixture
def descheduler(tmp_path: pathlib.Path) -> Iterator[deschedulers.Descheduler]:
    """A descheduler of which evictions of `web` failed four times, of `db` once and of `old` eight times."""
    with deschedulers.serving(Scene().node("a"), tmp_path, mode="Enforce") as served:
        for name, failures in (("web", 4), ("db", 1), ("old", 8)):
            scene = Scene().node("hot", memory=0.9).node("cool").workload(name, on=["hot", "cool"])
            (eviction,) = scene.plan().evictions
            for number in range(failures):
                at_seconds = NOW - 100 + number
                run = Run("r", at_seconds, "Enforce", "h")
                row_id = served.world.ledger.intend(run, eviction, at_seconds=at_seconds).row_id
                served.world.ledger.decide(row_id, "failed", status=403, message="", at_seconds=NOW)
        yield served


def listed(descheduler: deschedulers.Descheduler) -> dict[str, str]:
    """State by workload."""
    answer = json.loads(descheduler.run("breaker", "list", "-o", "json", code=0).stdout)
    return {one["workload"]: one["state"] for one in answer["breakers"]}


def test_the_list_says_who_rests_and_until_when(descheduler: deschedulers.Descheduler) -> None:
    states = {"ReplicaSet/old": "open until reset", "ReplicaSet/web": "open", "ReplicaSet/db": "closed"}
    assert listed(descheduler) == states
    rows = [line.split() for line in descheduler.run("breaker", "list").stdout.splitlines()]
    assert rows[0] == ["NAMESPACE", "WORKLOAD", "FAILURES", "LAST", "STATE", "UNTIL"]
    assert rows[1][:4] == ["default", "ReplicaSet/old", "8", "2026-11-21T03:58:27Z"]
    assert rows[1][-1] == "-"


def test_after_the_back_off_one_trial_is_allowed(descheduler: deschedulers.Descheduler) -> None:
    descheduler.world.clock.advance(3600)
    assert listed(descheduler)["ReplicaSet/web"] == "trial"


@pytest.mark.parametrize("name", ["web", "ReplicaSet/web", "default/ReplicaSet/web", "uid-web"])
def test_a_workload_is_reset_by_any_of_its_names(descheduler: deschedulers.Descheduler, name: str) -> None:
    descheduler.run("breaker", "reset", name, code=0)
    assert set(listed(descheduler)) == {"ReplicaSet/old", "ReplicaSet/db"}


def test_everybody_is_reset_when_asked_for_only(descheduler: deschedulers.Descheduler) -> None:
    descheduler.run("breaker", "reset", code=2)
    assert len(listed(descheduler)) == 3
    descheduler.run("breaker", "reset", "--all", code=0)
    assert listed(descheduler) == {}
    assert "no evictions have failed" in descheduler.run("breaker", "list").stderr


def test_a_name_that_nobody_has_is_bad_input(descheduler: deschedulers.Descheduler) -> None:
    commands.assert_refused(descheduler.run("breaker", "reset", "wb"), 2, "'wb'")
    assert len(listed(descheduler)) == 3
