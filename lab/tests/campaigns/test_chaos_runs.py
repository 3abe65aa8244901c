"""How many faults a run with defects injects: until each defect has shown, and not for ever; the calms between them."""

import pathlib
import random

import pytest

from lab.campaigns.chaos import __main__ as chaos
from lab.campaigns.chaos import faults


class Site:
    """A site whose defect shows after so many faults."""

    def __init__(self, shows_after: int, directory: pathlib.Path) -> None:
        self.rng = random.Random(1)
        self.ledger = directory / "none.sqlite"
        self.recovered_from: list[str] = []
        self.budgeted = ("shop-0",)
        self.calms_after: list[str] = []
        self._shows_after = shows_after

    def recovered(self, fault: str) -> None:
        """Counts the fault."""
        self.recovered_from.append(fault)

    def scale(self, workload: str, replicas: int) -> None:
        """Has no workloads."""

    def calm(self, after: str) -> None:
        """Notes it."""
        self.calms_after.append(after)

    def missed(self) -> list[str]:
        """A complaint until the defect shows."""
        return [] if len(self.recovered_from) >= self._shows_after else ["rested"]


@pytest.mark.parametrize(
    ("shows_after", "injected"),
    [
        pytest.param(0, 4, id="it shows at once"),
        pytest.param(7, 7, id="it shows late"),
        pytest.param(1000, 4 * chaos.MOST_FAULTS, id="it never shows"),
    ],
)
def test_faults_go_on_until_each_defect_shows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, shows_after: int, injected: int
) -> None:
    monkeypatch.setattr(faults, "FAULTS", {"nothing": lambda here: "none"})
    here = Site(shows_after, tmp_path)
    counts = chaos.inject(here, 4, ("nothing",), Site.calm)  # type: ignore[arg-type]
    assert counts == {"nothing": injected}
    assert here.calms_after[0] == "fault 4"


def test_calms_are_held_between_faults_and_after_the_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(faults, "FAULTS", {"nothing": lambda here: "none"})
    here = Site(0, tmp_path)
    chaos.inject(here, 45, ("nothing",), Site.calm)  # type: ignore[arg-type]
    assert here.calms_after == ["fault 20", "fault 40", "fault 45"]
