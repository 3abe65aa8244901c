"""Every judge of runs with faults finds its defect in a real control plane, beside services that do nothing."""

import pytest

from lab.campaigns.chaos import __main__ as chaos
from lab.campaigns.chaos import sabotages
from lab.campaigns.chaos.site import Terms

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]  # beside other control planes all takes longer
BUSY = Terms(defects=tuple(one for one in sabotages.SABOTAGES if one not in sabotages.SILENT), ready_seconds=3.0)
SILENT = Terms(defects=tuple(sorted(sabotages.SILENT)), ready_seconds=3.0)
MILD = ("lie_about_load", "reset_counters")  # a service that is started again has not grown


@pytest.fixture(scope="module")
def broken() -> list[str]:
    """The sentences of the judges about services that do things wrongly."""
    return chaos.play(9, 1, MILD, BUSY).broken


@pytest.fixture(scope="module")
def silent() -> list[str]:
    """The sentences of the judges about services that do nothing."""
    return chaos.play(1, 1, MILD, SILENT).broken


@pytest.mark.parametrize("complaint", BUSY.complaints())
def test_a_defect_is_found(broken: list[str], complaint: str) -> None:
    assert any(complaint in sentence for sentence in broken), broken


@pytest.mark.parametrize("complaint", SILENT.complaints())
def test_a_service_that_does_nothing_is_found(silent: list[str], complaint: str) -> None:
    assert any(complaint in sentence for sentence in silent), silent
