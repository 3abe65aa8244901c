"""`--once` in Enforce: it needs a ledger by name and the Lease, else it observes, and says why."""

import dataclasses
import json
from typing import Any

import pytest

from descheduler import wiring
from tests.unit.descheduler.worlds import World
from tests.unit.kube.test_lease import Candidate, LeaseDoor


def once(
    here: World, candidate: Candidate | None, capsys: pytest.CaptureFixture[str], *, ledger_named: bool = True
) -> tuple[dict[str, Any], str]:
    """The plan and the line on standard error."""
    parts, election = here.service.parts, candidate.election if candidate is not None else None
    if election is not None:
        parts = dataclasses.replace(parts, leads=election.is_leader, holds_lease=election.holds)
    wiring.once(parts, election, ledger_named=ledger_named)
    printed = capsys.readouterr()
    plan: dict[str, Any] = json.loads(printed.out)
    return plan, printed.err


def test_without_a_ledger_by_name_it_observes(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    plan, line = once(world, None, capsys, ledger_named=False)
    assert (plan["mode"], world.door.evictions) == ("Observe", [])
    assert "--once in Enforce needs --ledger" in plan["mode_reason"]
    assert "--once in Enforce needs --ledger" in line


def test_while_another_renews_its_lease_it_observes(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    door = LeaseDoor()
    service, run = Candidate(door, "service"), Candidate(door, "once")
    service.attempt()
    run.clock.on_wait = lambda _seconds: service.election.attempt()
    plan, line = once(world, run, capsys)
    assert (plan["mode"], world.door.evictions) == ("Observe", [])
    assert "the Lease evenload-descheduler is held by service" in line
    assert door.spec["holderIdentity"] == "service"


def test_with_the_lease_it_evicts_and_gives_the_lease_back(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    door = LeaseDoor()
    Candidate(door, "killed").attempt()  # and never again: its Lease runs out
    plan, line = once(world, Candidate(door, "once"), capsys)
    assert (plan["mode"], line) == ("Enforce", "1 evicted: 1 over a cap\n")
    assert [name for name, _, _ in world.door.evictions] == ["default/web-0"]
    assert door.spec["holderIdentity"] == ""
