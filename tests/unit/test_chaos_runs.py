"""How many faults a run with defects injects: until each defect has shown, and not for ever."""

import pathlib
import random

import pytest

from tests.chaos import __main__ as chaos
from tests.chaos import faults


class Site:
    """A site whose defect shows after so many faults."""

    def __init__(self, shows_after: int, directory: pathlib.Path) -> None:
        self.rng = random.Random(1)
        self.ledger = directory / "none.sqlite"
        self.recovered_from: list[str] = []
        self._shows_after = shows_after

    def recovered(self, fault: str) -> None:
        """Counts the fault."""
        self.recovered_from.append(fault)

    def scale(self, workload: str, replicas: int) -> None:
        """Has no workloads."""

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
    counts = chaos.inject(Site(shows_after, tmp_path), 4, ("nothing",))  # type: ignore[arg-type]
    assert counts == {"nothing": injected}
