"""Every judge of runs with faults finds its defect: all defects at once, in a real control plane."""

import pytest

from tests.chaos import __main__ as chaos
from tests.chaos import sabotages
from tests.chaos.site import Terms

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]  # beside other control planes all takes longer
TERMS = Terms(defects=tuple(sabotages.SABOTAGES), ready_seconds=3.0)
MILD = ("lie_about_load", "reset_counters")  # a service that is started again has not grown
FAULTS = 9


@pytest.fixture(scope="module")
def broken() -> list[str]:
    """The sentences of the judges."""
    return chaos.play(FAULTS, 1, MILD, TERMS).broken


@pytest.mark.parametrize("complaint", TERMS.complaints())
def test_a_defect_is_found(broken: list[str], complaint: str) -> None:
    assert any(complaint in sentence for sentence in broken), broken
